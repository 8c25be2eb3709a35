"""Report pages: the public names of `apps.report`."""

from halfstep.apps.report import *
from halfstep.apps.report import __all__ as __all__
