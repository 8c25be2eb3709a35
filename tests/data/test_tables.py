"""Tables: merging old and new cells, and the way through a file."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from halfstep.core.cells import Observations
from halfstep.data import files as persistence
from halfstep.data.files import ModelFileError
from halfstep.data.ids import Index
from halfstep.data.table import CellsHere, from_saved, merge, to_arrays


def table(dense, users=None, items=None, item_labels=None, dtype=np.float32):
    cells = Observations.from_weights(sp.csr_array(np.asarray(dense, float)), dtype)
    n, m = cells.shape
    ids = (
        Index.range(n, "user") if users is None else Index(users, "user"),
        Index.range(m, "item") if items is None else Index(items, "item"),
    )
    return CellsHere(cells, ids, (None, None if item_labels is None else np.array(item_labels, object)))


def test_new_weights_replace_old_ones_and_new_ids_are_appended():
    old = table([[1, 2], [0, 3]], ["a", "b"], ["x", "y"])
    new = table([[7, 5], [4, 0]], ["c", "a"], ["y", "z"])
    merged = merge(old, new, np.float32)
    assert merged.ids[0].ids.tolist() == ["a", "b", "c"]
    assert merged.ids[1].ids.tolist() == ["x", "y", "z"]
    assert_array_equal(merged.cells.to_csr().toarray(), [[1, 4, 0], [0, 3, 0], [0, 7, 5]])


def test_merging_keeps_float64():
    value = 1 + 1e-12
    merged = merge(table([[value, 2]], dtype=np.float64), table([[0, value]], dtype=np.float64), np.float64)
    assert_array_equal(merged.cells.to_csr().toarray(), [[value, value]])


def test_row_numbers_continue():
    merged = merge(table([[1, 0], [0, 1]]), table([[0, 0, 1], [0, 0, 0], [2, 0, 0]]), np.float32)
    assert merged.ids[0].is_range
    assert_array_equal(merged.cells.to_csr().toarray(), [[1, 0, 1], [0, 1, 0], [2, 0, 0]])
    with pytest.raises(ValueError, match="X has 1 columns; without ids it needs at least the 2 of the fit"):
        merge(table([[1, 0], [0, 1]]), table([[1], [1]]), np.float32)


def test_old_titles_hold_and_new_items_bring_theirs():
    old = table([[1, 1]], ["a"], ["x", "y"], ["X!", "Y!"])
    new = table([[1, 1]], ["a"], ["y", "z"], ["other", "Z!"])
    assert merge(old, new, np.float32).labels[1].tolist() == ["X!", "Y!", "Z!"]
    assert merge(old, table([[1]], ["a"], ["w"]), np.float32).labels[1].tolist() == ["X!", "Y!", "w"]
    assert merge(table([[1]], ["a"], ["w"]), old, np.float32).labels[1].tolist() == ["w", "X!", "Y!"]
    assert merge(table([[1]]), table([[1]]), np.float32).labels[1] is None


@pytest.mark.parametrize("dense", [[[1, 2], [0, 3]], [[2, 0], [2, 2]], [[0, 1]]])
def test_a_table_comes_back_from_a_file(tmp_path, dense):
    before = table(dense, item_labels=["", "Ünïcode"], dtype=np.float64)
    save(tmp_path / "t.safetensors", before)
    after = from_saved(persistence.read(tmp_path / "t.safetensors"))
    assert_allclose(after.cells.to_csr().toarray(), dense)
    assert after.labels[1].tolist() == ["", "Ünïcode"]
    assert after.ids[0] == before.ids[0]
    assert after.labels[0] is None


def save(path, table, **changed):
    arrays = to_arrays(table, np.float64) | changed
    persistence.save(path, "WALS", {}, arrays, {}, {"user": table.ids[0], "item": table.ids[1]})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"indices": np.array([0, 1, 9], np.int32)}, "'indices' must hold places below the number of items, 2"),
        ({"indices": np.array([0, -1, 1], np.int32)}, "'indices' must hold places below the number of items, 2"),
        (
            {"indptr": np.array([0, 3, 2], np.int64)},
            "'indptr' must hold offsets that start at 0, never fall",
        ),
        ({"indptr": np.array([0, 3], np.int64)}, r"'indptr' has shape \(2,\), not \(users\+1\)"),
        ({"weights": np.ones(2)}, r"'weights' has shape \(2,\), not \(cells\|1\)"),
        ({"weights": np.array([1, np.nan, 1])}, "'weights' must hold finite numbers >= 0"),
        ({"weights": np.array([1, -1.0, 1])}, "'weights' must hold finite numbers >= 0"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, changed, message):
    save(tmp_path / "t.safetensors", table([[1, 2], [0, 3]]), **changed)
    with pytest.raises(ModelFileError, match=message):
        from_saved(persistence.read(tmp_path / "t.safetensors"))


def test_labels_that_do_not_fit_are_refused(tmp_path):
    labelled = table([[1, 2]], item_labels=["one"])
    save(tmp_path / "t.safetensors", labelled)
    with pytest.raises(ModelFileError, match=r"'item_label_offsets' has shape \(2,\), not \(labels\+1\)"):
        from_saved(persistence.read(tmp_path / "t.safetensors"))
