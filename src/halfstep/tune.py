"""Search for parameters: the public names of `apps.tune`."""

from halfstep.apps.tune import *
from halfstep.apps.tune import __all__ as __all__
