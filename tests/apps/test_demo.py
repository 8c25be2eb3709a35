"""The demo: three stories against their baselines, then a page; honest numbers, nothing beyond the small extras."""

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


def test_a_robust_loss_beats_squared_errors_and_averages():
    error = {row["model"]: row["mean absolute error"] for row in demo.ratings(1).comparison}
    assert error["PLQMF, Huber"] < error["PLQMF, squared"] < error["mean of the item"] < error["mean of all ratings"]


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
