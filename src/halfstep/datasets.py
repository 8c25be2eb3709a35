"""Data in: the public names of `data.datasets`."""

from halfstep.data.datasets import *
from halfstep.data.datasets import __all__ as __all__
