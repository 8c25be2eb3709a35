"""The demo: three stories against their baselines, then a page; honest numbers, nothing beyond the small extras."""

import re
import subprocess
import sys

import pytest

pytest.importorskip("typer")
pytest.importorskip("jinja2")

from halfstep.apps import demo

BLOCKED = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pandas", "polars", "pyarrow", "plotly", "optuna", "fastapi"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
from halfstep.apps.cli import main
sys.argv = ["halfstep", "demo", "--no-open", *sys.argv[1:]]
main()
"""


@pytest.mark.heavy
def test_the_whole_demo_needs_the_small_extras_only(tmp_path):
    page = tmp_path / "demo.html"
    done = subprocess.run([sys.executable, "-c", BLOCKED, "-o", str(page)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for words in ("Skills for a position", "ItemKNN", "PLQMF, Huber", "CFEnsemble", "LogisticStacking"):
        assert words in done.stdout
    assert f"report page: {page.resolve()}" in done.stdout
    text = page.read_text(encoding="utf-8")
    for title, _ in demo.STORIES.values():
        assert f">{title}" in text
    assert len(text) < 5_000_000


def test_recommenders_beat_popularity_and_answers_are_the_models():
    story = demo.skills(1)
    ndcg = {row["model"]: float(row["ndcg@10"].split()[0]) for row in story.comparison}
    assert ndcg["WALS"] > 2 * ndcg["Popularity"]
    for row in story.answer:
        parts = [float(part.rsplit(" ", 1)[1]) for part in row["because of"].split(", ")]
        assert sum(parts) == pytest.approx(row["score"], abs=0.011)  # each part is rounded to two digits


@pytest.fixture(scope="module")
def reviewed():
    return demo.ratings(1)


@pytest.mark.heavy
def test_no_factorisation_loses_to_constant_or_biases_by_its_own_error(reviewed):
    rmse = {row["model"]: row["RMSE"] for row in reviewed.comparison}
    mae = {row["model"]: row["MAE"] for row in reviewed.comparison}
    assert max(rmse[name] for name in ("PLQMF, squared", "BayesMF")) < rmse["mean + biases"] < rmse["constant"]
    assert max(mae[name] for name in ("PLQMF, absolute", "PLQMF, Huber")) < mae["mean + biases"] < mae["constant"]
    assert reviewed.comparison[-1]["RMSE below biases"] == "3 of 3"


@pytest.mark.heavy
def test_intervals_cover_and_slips_are_found_by_name(reviewed):
    covered = float(re.search(r"cover ([\d.]+)%", reviewed.caption)[1])
    assert 87 < covered < 93
    caught = float(re.search(r"(\d+)% are slips;", reviewed.question)[1])
    assert caught > 30
    assert all(row["film"].istitle() and row["who"].endswith(".") for row in reviewed.answer)


@pytest.mark.heavy
def test_the_page_has_the_numbers_of_the_terminal(reviewed, tmp_path):
    text = demo.Page("t", [reviewed.chapter()]).write(tmp_path / "p.html").read_text()
    for row in reviewed.comparison:
        assert f"{row['RMSE']:.4g}" in text
    assert reviewed.caption in text
    assert reviewed.answer[0]["film"] in text


def test_fusing_beats_its_rivals_and_the_page_shows_the_numbers_of_the_terminal(monkeypatch):
    """The story was told on data generated for it, and the page showed another draw than the terminal."""
    monkeypatch.setattr(demo, "DRAWS", 2)
    story = demo.fusion(1)
    area = {row["method"]: float(row["AUC"].split()[0]) for row in story.comparison}
    loss = {row["method"]: float(row["log loss"].split()[0]) for row in story.comparison}
    assert area.pop("CFEnsembleCV") >= max(area.values())
    assert loss.pop("CFEnsembleCV") <= min(loss.values())
    shown = demo.Page("t", [story.chapter()]).html()
    for row in story.comparison:
        assert row["log loss"] in shown


def test_without_a_writable_folder_the_page_goes_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "halfstep-demo.html").mkdir()  # a folder in the way, which no user id can write over
    path = demo._write(demo.Page("t", []), None)
    assert path.parent != tmp_path
    assert "<title>t</title>" in path.read_text()
