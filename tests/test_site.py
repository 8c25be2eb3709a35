"""The site of the docs: built without a warning, every page in it, nothing fetched from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.heavy
def test_the_site_is_built_without_a_warning_and_fetches_nothing():
    pytest.importorskip("mkdocstrings", reason="`make docs` brings it")
    built = subprocess.run(
        [sys.executable, ROOT / "tools/docs.py"], capture_output=True, text=True, timeout=300, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    page = (ROOT / "build/site/index.html").read_text()
    assert not re.findall(r'<(?:script|link)[^>]*(?:src|href)="https?://', page)
    assert all((ROOT / "build/site" / f"{each.stem}.html").exists() for each in (ROOT / "docs").glob("*.md"))
    assert "Weighted alternating least squares" in (ROOT / "build/site/api/recommenders.html").read_text()
