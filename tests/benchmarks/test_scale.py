"""The file that benchmarks/scale.py makes: no pair twice in any of its row groups, the same from the same seed."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from halfstep.data.table import read_table

pytest.importorskip("pyarrow")
FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def scale():
    before = list(sys.path)
    yield runpy.run_path(str(FOLDER / "scale.py"), run_name="scale")
    sys.path[:] = before


def test_no_two_groups_share_a_pair_and_a_seed_says_which(scale):
    made = [scale["pairs_of_group"](group, 4, 300, 90, 1000, seed=1) for group in range(4)]
    keys = np.concatenate([users * 90 + items for users, items in made])
    assert len(np.unique(keys)) == 4000
    assert all(users.min() >= 0 and users.max() < 300 and items.max() < 90 for users, items in made)
    again = scale["pairs_of_group"](2, 4, 300, 90, 1000, seed=1)
    assert all(np.array_equal(one, other) for one, other in zip(again, made[2], strict=True))


@pytest.mark.parametrize(("ids", "weights"), [("int", False), ("text", True)])
def test_the_file_has_as_many_cells_as_asked_for(scale, tmp_path, monkeypatch, ids, weights):
    monkeypatch.setitem(scale["write"].__globals__, "GROUP", 800)
    scale["write"](tmp_path / "a.parquet", (300, 90, 2000), ids, weights)
    given = read_table(tmp_path / "a.parquet")
    assert len(given.cells) == 2000
    assert isinstance(given.cells.weights, np.ndarray) is weights
    assert given.ids[0].kind == {"int": "int", "text": "str"}[ids]
