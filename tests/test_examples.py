"""The scripts under examples/ run as they stand, and each ends with a picture."""

import importlib.util
from pathlib import Path
from xml.etree import ElementTree

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_runs_and_draws(script, tmp_path):
    spec = importlib.util.spec_from_file_location(script.stem, script)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    picture = example.main(tmp_path)
    assert picture.parent == tmp_path
    drawn = ElementTree.parse(picture).getroot()
    assert drawn.get("aria-label")
    assert picture.stat().st_size < 100_000
    assert len(list(drawn.iter())) > 20


def test_every_example_is_told_in_the_docs():
    page = (Path(__file__).parents[1] / "docs" / "examples.md").read_text()
    assert SCRIPTS
    for script in SCRIPTS:
        assert script.name in page
