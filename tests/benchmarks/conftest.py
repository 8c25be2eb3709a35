"""Makes the scripts of benchmarks/ importable, as they import each other when run."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
