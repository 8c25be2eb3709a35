"""One version, in one place: what is installed, what is imported, and what is tagged."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import version

import halfstep

from .tree import ROOT


def test_the_installed_version_is_the_one_that_is_imported():
    assert version("halfstep") == halfstep.__version__


def test_a_tag_that_differs_from_the_version_is_refused(tmp_path):
    for name in ("tools/wheel.py", "src/halfstep/_version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "x"), ("tag", "v99.0")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    found = subprocess.run(
        [sys.executable, "tools/wheel.py", "build"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert found.returncode == 1
    assert re.search(r"this commit is tagged v99\.0, and .* says", found.stderr)
