"""How much an interaction counts: the public names of `core.weighting`."""

from halfstep.core.weighting import *
from halfstep.core.weighting import __all__ as __all__
