"""Print the requirements of the named extras of pyproject.toml, for pip. Used by the Makefile only."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
for extra in sys.argv[1:]:
    print(*(need.replace(" ", "") for need in project["optional-dependencies"][extra]), sep="\n")
