"""What one observed cell costs: the public names of `core.losses`."""

from halfstep.core.losses import *
from halfstep.core.losses import __all__ as __all__
