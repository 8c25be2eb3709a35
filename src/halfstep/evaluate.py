"""Compare rankers fairly: the public names of `judge`."""

from halfstep.judge import *
from halfstep.judge import __all__ as __all__
