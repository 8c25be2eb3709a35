"""`python benchmarks/ensemble [pools | research | estimators | shift | single | classes | coverage]`; see --help."""

import importlib
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # this folder is the package `ensemble`, in worker processes too

# of the commands; without one, the grid is measured
MODULES = {
    "pools": "data",
    "research": "research",
    "estimators": "estimators",
    "shift": "shift",
    "single": "single",
    "classes": "class_run",
    "coverage": "coverage",
}

if __name__ == "__main__":
    asked = sys.argv[1:]
    module = MODULES.get(asked[0] if asked else "")
    importlib.import_module(f"ensemble.{module or 'run'}").main(asked[1:] if module else asked)
