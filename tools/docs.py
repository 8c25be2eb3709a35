"""Build the site of the docs: gather the pages, write those of the API, run mkdocs. Used by `make docs` only.

Pages lie where the repository shows them best; mkdocs wants one folder. This makes that folder, build/pages, with
links that lead inside it. Nothing is fetched; a warning is an error.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAGED = ROOT / "build" / "pages"
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
API = {
    "Recommenders": [
        "halfstep.models.wals.WALS",
        "halfstep.models.item_graph.ItemGraph",
        "halfstep.models.ease.EASE",
        "halfstep.models.blend.Blend",
        "halfstep.models.baselines",
        "halfstep.models.answers",
    ],
    "Ratings": [
        "halfstep.models.plqmf.PLQMF",
        "halfstep.models.bayes.BayesMF",
        "halfstep.models.rating_baselines.Biases",
        "halfstep.models.rating_baselines.Constant",
        "halfstep.core.losses",
    ],
    "Ensembles": [
        "halfstep.ensemble.family.estimator.CFEnsembleCV",
        "halfstep.ensemble.estimator.CFEnsemble",
        "halfstep.ensemble.from_estimators.estimator.FusionClassifier",
        "halfstep.ensemble.from_estimators.named.out_of_fold",
        "halfstep.ensemble.shift.estimator.Shift",
        "halfstep.ensemble.confidence",
        "halfstep.judge.fusion.cross_validate",
    ],
    "Judging and tuning": [
        "halfstep.judge.run.evaluate",
        "halfstep.judge.result.Result",
        "halfstep.apps.tune.tune",
        "halfstep.apps.tune.find_recommender",
        "halfstep.apps.tune.result.Tuning",
    ],
    "Data": [
        "halfstep.data.datasets.read.read_interactions",
        "halfstep.data.datasets.ratings.read_ratings",
        "halfstep.data.datasets.interactions.Interactions",
        "halfstep.data.datasets.ratings.Ratings",
        "halfstep.data.datasets.esco.load_esco",
        "halfstep.data.datasets.onet.load_onet",
        "halfstep.data.datasets.movielens.load_movielens",
    ],
    "Files, pages, servers": [
        "halfstep.kinds.load",
        "halfstep.apps.report.build.write_report",
        "halfstep.apps.report.picture.write_picture",
        "halfstep.apps.serve.process.run",
        "halfstep.engine.spark.engine.SparkEngine",
    ],
}
"""Chapters of the API and what stands in each."""


def gather() -> None:
    """All pages in one folder; links to files that are no pages show their text instead."""
    shutil.rmtree(STAGED, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGED)
    for source, name in PAGES.items():
        shutil.copy(ROOT / source, STAGED / name)
    (STAGED / "examples").mkdir()
    for script in sorted((ROOT / "examples").glob("*.py")):
        text = script.read_text(encoding="utf-8")
        page = STAGED / "examples" / f"{script.stem}.md"
        page.write_text(f"# {script.name}\n\n```python\n{text}```\n", encoding="utf-8")
    for page in STAGED.rglob("*.md"):
        page.write_text(inside(page.read_text(encoding="utf-8")), encoding="utf-8")


def inside(text: str) -> str:
    """Links of the repository as links of the site."""
    for source, name in PAGES.items():
        text = re.sub(rf"\]\((?:\.\./)?{re.escape(source)}", f"]({name}", text)
    text = re.sub(r"\]\(docs/", "](", text)
    text = re.sub(r"\]\((?:\.\./)?examples/(\w+)\.py\)", r"](examples/\1.md)", text)
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"`\1`", text)


def write_api() -> None:
    """A page for each chapter."""
    folder = STAGED / "api"
    folder.mkdir()
    for title, names in API.items():
        body = "\n\n".join(f"::: {name}" for name in names)
        slug = re.sub(r"\W+", "_", title.lower()).strip("_")
        (folder / f"{slug}.md").write_text(f"# {title}\n\n{body}\n", encoding="utf-8")


def menu() -> str:
    """mkdocs.yml, whose last part is the menu, with the pages that it does not name under one heading at its end."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    others = [page.name for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in text]
    return text + ("  - More:\n" + "".join(f"      - {name}\n" for name in others) if others else "")


if __name__ == "__main__":
    gather()
    write_api()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", "-"]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    found = subprocess.run(command, input=menu(), text=True, check=False, cwd=ROOT, env=quiet)
    if found.returncode == 0:
        print(f"docs: {ROOT / 'build' / 'site' / 'index.html'}")
    sys.exit(found.returncode)
