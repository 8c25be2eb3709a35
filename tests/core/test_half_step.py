"""The half-step of the core as a bound class: what it refuses, what it keeps, rows finished from their quadratics."""

import gc
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from halfstep import _core
from halfstep.core.losses import Huber, Squared

from ..contract.rows import random_case

DTYPES = [np.float32, np.float64]
INDPTR, INDICES = np.array([0, 2], np.int64), np.array([0, 1], np.int32)


def one_row(dtype=np.float64):
    return _core.half_step(np.zeros((1, 2), dtype), np.ones((4, 2), dtype))


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (lambda rows: rows.cells(INDPTR, np.array([0, 99], np.int32), 1.0, 1.0), "indices must be rows of other"),
        (lambda rows: rows.cells(INDPTR, np.array([0, -1], np.int32), 1.0, 1.0), "indices must be rows of other"),
        (lambda rows: rows.cells(np.array([0, 3]), INDICES, 1.0, 1.0), "indptr must hold rising offsets"),
        (lambda rows: rows.cells(np.array([0, 1, 2]), INDICES, 1.0, 1.0), "indptr must hold rising offsets"),
        (lambda rows: rows.cells(INDPTR, INDICES, 1.0, np.ones(1)), "weights must have one value for each cell"),
        (lambda rows: rows.cells(INDPTR, INDICES, 1.0, 1.0, np.ones(3)), "offsets must have one value for each cell"),
        (lambda rows: rows.prior(np.ones((2, 2))), "mu must have one row, or one for each row of own"),
        (lambda rows: rows.penalty(np.ones(3)), "lam must have one value for each row"),
        (lambda rows: rows.columns(0, 5), "free must be a range of columns"),
        (lambda rows: (rows.prior(np.ones((1, 2))), rows.columns(0, 1)), "come before what is said about them"),
        (lambda rows: rows.nonnegative(1, 3), "a range within the free columns"),
        (lambda rows: rows.background(0.1, np.eye(3)), "gram must be d x d"),
        (lambda rows: rows.background(-0.1), "must not be negative"),
        (lambda rows: rows.duals(np.ones(2)), "duals must have one value for each cell"),
        (lambda rows: rows.label(np.ones(2), np.ones(2), np.ones(1)), "one value for each row"),
        (lambda rows: rows.loss(_core.LossKind.plq, _core.LossForm.margin), "comes with its pieces"),
        (lambda rows: rows.method(_core.Method.subspace, 1e-4, 10, 0), "block must be positive"),
        (lambda rows: rows.solve(False, 1), "there are no cells"),
        (lambda rows: rows.finish(np.zeros((1, 2, 2)), 1), r"quadratics must be \(rows of own, f \+ 1, f\)"),
        (lambda rows: (Huber().bind(rows), rows.finish(np.zeros((1, 3, 2)), 1)), "only the squared loss"),
        (lambda rows: (rows.background(0.1), rows.finish(np.zeros((1, 3, 2)), 1)), "gram must be d x d where w0 > 0"),
    ],
)
def test_the_core_checks_what_it_is_given(fill, message):
    with pytest.raises(ValueError, match=message):
        fill(one_row())


def test_what_was_refused_is_not_there():
    rows = one_row()
    rows.penalty(1.0)
    with pytest.raises(ValueError, match="indptr must hold rising offsets"):
        rows.cells(np.array([0, 3]), INDICES, 1.0, 1.0)
    with pytest.raises(ValueError, match="there are no cells"):
        rows.solve(False, 1)
    rows.cells(INDPTR, INDICES, 1.0, 1.0)
    assert rows.solve(False, 1)["failed"] == -1


def test_sides_must_agree():
    with pytest.raises(ValueError, match="the same number of columns"):
        _core.half_step(np.zeros((1, 2)), np.ones((4, 3)))
    with pytest.raises(ValueError, match="must have columns"):
        _core.half_step(np.zeros((1, 0)), np.ones((4, 0)))
    with pytest.raises(ValueError, match="at most 32768 columns"):
        _core.half_step(np.zeros((0, 2**31)), np.zeros((0, 2**31)))


@pytest.mark.parametrize(
    "fill",
    [
        lambda rows: rows.penalty(np.ones(1, np.float32)),
        lambda rows: rows.prior(np.ones((1, 2), np.float32)),
        lambda rows: rows.prior(np.ones((2, 1)).T[:, ::-1]),
        lambda rows: rows.cells(INDPTR.astype(np.int32), INDICES, 1.0, 1.0),
        lambda rows: rows.cells(INDPTR, INDICES, np.ones(2, np.float32), 1.0),
        lambda rows: rows.finish(np.zeros((1, 3, 2), np.float32), 1),
        lambda rows: rows.duals([0.0, 0.0]),
        lambda rows: rows.method(0, 1e-4, 10, 64),
    ],
)
def test_nothing_is_converted_silently(fill):
    with pytest.raises(TypeError):
        fill(one_row())


def test_a_side_that_cannot_be_written_or_has_another_precision_is_refused():
    fixed = np.zeros((1, 2))
    fixed.flags.writeable = False
    for own in (fixed, np.zeros((1, 2), np.float32), np.zeros((2, 1)).T[:, ::-1]):
        with pytest.raises(TypeError):
            _core.half_step(own, np.ones((4, 2)))


def test_arrays_live_as_long_as_the_half_step():
    own, other, weights = np.zeros((1, 2)), np.random.default_rng(0).normal(size=(4, 2)), np.array([1.0, 2.0])
    expected = np.linalg.solve(np.eye(2) + (other[:2].T * weights) @ other[:2], other[:2].T @ weights)
    before = sys.getrefcount(own)
    rows = _core.half_step(own, other.copy())
    rows.cells(INDPTR.copy(), INDICES.copy(), np.ones(2), weights.copy())
    rows.penalty(np.ones(1))
    gc.collect()
    rubbish = [np.full(n, np.nan) for n in (1, 2, 4, 8) for _ in range(50)]  # would take the place of what was freed
    rows.solve(False, 1)
    assert_allclose(own[0], expected)
    del rows, rubbish
    gc.collect()
    assert sys.getrefcount(own) == before


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("background", ["none", "dense", "rotated"])
def test_rows_finished_from_their_quadratics_are_those_solved_from_their_cells(instruction_set, background, dtype):
    lengths = [0, 1, 5, 40, 200, _core.long_row + 3]
    case = random_case(3, d=9, background=background, prior="rows", pinned=(1, 2), lengths=lengths)
    solved, sums = case.solve(dtype, "cholesky")
    own, rows = case.bind(dtype)
    found = rows.finish(rows.quadratics(2), 2)
    close = 2e-4 if dtype == np.float32 else 1e-10
    assert_allclose(own, solved, rtol=close, atol=close)
    for name in ("change", "size", "failed", "repaired"):
        assert_allclose(found[name], sums[name], rtol=close)


def test_rows_finished_have_the_same_bits_for_any_number_of_threads():
    case = random_case(3, d=9, background="dense", lengths=[7] * 100)
    quadratics = case.bind(np.float32)[1].quadratics(1)
    ends = []
    for n_threads in (1, 2, 5):
        own, rows = case.bind(np.float32)
        ends.append((rows.finish(quadratics, n_threads), own.tobytes()))
    assert ends[0] == ends[1] == ends[2]


def test_a_finish_that_is_not_definite_is_repaired_or_named():
    """The first row is on a line and held by next to nothing, the second has no finite solution."""
    line = np.vstack([np.ones((2, 2)), np.ones(2)])
    own = np.full((2, 2), 7, np.float32)
    rows = _core.half_step(own, np.zeros((0, 2), np.float32))
    Squared().bind(rows)
    rows.penalty(1e-12)
    sums = rows.finish(np.stack([line, np.full((3, 2), np.inf)]), 1)
    assert (sums["repaired"], sums["failed"]) == (2, 1)
    assert_allclose(own[0].sum(), 1, rtol=1e-3)
    assert_array_equal(own[1], 7)
