"""Commands that the documents and the Makefile name lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", [page for page in PAGES if page.exists()], ids=lambda page: page.name)
def test_benchmarks_that_a_page_names_exist(page):
    named = set(re.findall(r"(?:benchmarks|tools)/\w+(?:\.\w+)?", page.read_text(encoding="utf-8")))
    assert not [name for name in named if not (ROOT / name).exists()]


def test_benchmarks_of_the_makefile_exist():
    named = set(re.findall(r"benchmarks/\w+\.\w+", (ROOT / "Makefile").read_text(encoding="utf-8")))
    assert "benchmarks/bench.py" in named
    assert not [name for name in named if not (ROOT / name).exists()]
