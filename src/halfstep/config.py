"""What this build can do and which path it takes on this machine."""

from __future__ import annotations

import platform

import numpy as np
import scipy

from halfstep import _core
from halfstep._version import __version__
from halfstep.engine.local import thread_count


def config() -> dict[str, str]:
    """Library, Python and NumPy versions, CPU paths, threads."""
    return {
        "halfstep": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "machine": platform.machine(),
        "cpu path": _core.instruction_set(),
        "cpu paths available": ", ".join(_core.instruction_sets()),
        "threads": str(thread_count(None)),
    }


def show_config() -> None:
    """Print build, CPU path and threads."""
    for name, value in config().items():
        print(f"{name:>20}  {value}")
