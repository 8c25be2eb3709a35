"""How much a prediction counts: the public names of `ensemble.confidence`."""

from halfstep.ensemble.confidence import *
from halfstep.ensemble.confidence import __all__ as __all__
