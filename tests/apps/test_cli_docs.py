"""The commands about ratings in docs/cli.md run as written."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from halfstep.data.datasets import make_reviews

from .command import run

pytest.importorskip("optuna")

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_commands_about_ratings_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = make_reviews(40, 30, 500, random_state=0).ratings
    rows = [f"{u},{i},{v:g},{k}" for k, ((u, i), v) in enumerate(zip(data.pairs.tolist(), data.y, strict=True))]
    Path("ratings.csv").write_text("user,item,rating,timestamp\n" + "\n".join(rows) + "\n")
    Path("pairs.csv").write_text("user,item\n" + "\n".join(f"{u},{i}" for u, i in data.pairs[:5].tolist()) + "\n")
    commands = re.search(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)[1].strip().splitlines()
    assert len(commands) == 7
    for command in commands:
        result = run(*shlex.split(command)[1:])
        assert result.exit_code == 0, f"{command}: {result.output}"
    assert np.loadtxt("predicted.csv", delimiter=",", skiprows=1, usecols=(2, 3, 4)).shape == (5, 3)
