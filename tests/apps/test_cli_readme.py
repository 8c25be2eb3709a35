"""The commands of the README run as written, on small files with the names it uses."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from halfstep.data.datasets import make_predictions, make_reviews

from .command import run

README = Path(__file__).parents[2] / "README.md"


def commands() -> list[list[str]]:
    """Those of the chapter about the command line; what is only listed there is no command."""
    chapter = README.read_text(encoding="utf-8").split("## From the command line")[1]
    block = re.search(r"```\n(.*?)```", chapter, re.DOTALL)[1]
    lines = [part.strip() for line in block.splitlines() for part in line.split(";") if "/" not in line]
    return [shlex.split(line)[1:] for line in lines if line and line != "halfstep demo"]


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::halfstep.ensemble.predictions.PredictionWarning")
def test_commands_of_the_readme_run(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    clicks = {
        "user_id": np.arange(600) % 60,
        "item_id": random.integers(30, size=600),
        "clicks": random.poisson(2, 600) + 1,
    }
    pytest.importorskip("pyarrow.parquet").write_table(pa.table(clicks), "data.parquet")
    ratings = make_reviews(40, 30, 500, random_state=0).ratings
    rows = [f"{u},{i},{v:g}" for (u, i), v in zip(ratings.pairs.tolist(), ratings.y, strict=True)]
    Path("ratings.csv").write_text("user,item,rating\n" + "\n".join(rows) + "\n")
    Path("pairs.csv").write_text("user,item\n" + "\n".join(row.rsplit(",", 1)[0] for row in rows[:5]) + "\n")
    P, _, truth = make_predictions(60, 4, missing=0.0, labels=0.0, random_state=0)
    table = ["id,a,b,c,d", *(",".join([f"x{k}", *map(str, row)]) for k, row in enumerate(P))]
    for name in ("predictions.csv", "tomorrow.csv"):
        Path(name).write_text("\n".join(table) + "\n")
    Path("labels.csv").write_text("id,label\n" + "".join(f"x{k},{truth[k]}\n" for k in range(40)))
    found = commands()
    assert len(found) >= 7
    for words in found:
        result = run(*words)
        assert result.exit_code == 0, f"{words}: {result.output}"
