"""Row solvers: every method, precision and instruction set against the oracle and scipy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from halfstep import _core, losses
from halfstep.core.oracle import row_objective, solve_row

from ..contract.rows import EXCESS, LOSSES, known_case, random_case

DTYPES = [np.float32, np.float64]
EXACT = ["exact", "cholesky", "dual", "cg", "subspace"]  # subspace is exact where the block holds all columns
METHODS = [(loss, method) for loss in LOSSES for method in (EXACT if loss.is_quadratic else ["exact"])]

cases = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "d": st.integers(1, 9) | st.sampled_from([16, 17, 31]),
        "weights": st.sampled_from(["ones", "mixed", "background", "below"]),
        "offsets": st.booleans(),
        "background": st.sampled_from(["none", "dense", "rotated"]),
        "prior": st.sampled_from(["none", "shared", "rows"]),
        "pinned": st.tuples(st.integers(0, 2), st.integers(0, 2)),
    }
)


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
@pytest.mark.parametrize(("loss", "method"), METHODS, ids=lambda value: str(value))
@settings(max_examples=25, deadline=None)
@given(arguments=cases)
def test_rows_are_optimal(loss, method, dtype, arguments):
    case = random_case(loss=loss, **arguments)
    solved, sums = case.solve(dtype, method)
    assert sums["failed"] == -1
    assert case.excess(solved).max() <= EXCESS[dtype]
    left, right = case.columns
    assert_allclose(solved[:, :left], case.own[:, :left].astype(dtype), rtol=0, atol=0)  # pinned columns stay
    assert_allclose(solved[:, right:], case.own[:, right:].astype(dtype), rtol=0, atol=0)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@settings(max_examples=10, deadline=None)
@given(arguments=cases)
def test_nothing_scipy_finds_is_better(loss, arguments):
    case = random_case(loss=loss, **(arguments | {"d": 3}))
    solved, _ = case.solve(np.float64)
    start, stop = case.columns
    for i in (1, 5):  # a row of one cell and a long one
        problem, b = case.row(i), solved[i, start:stop]
        found = minimize(row_objective, b + 0.1, args=(problem,), method="Powell", options={"ftol": 1e-14})
        value = row_objective(b, problem)
        assert value <= found.fun + 1e-10 * (1 + abs(found.fun))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@settings(max_examples=20, deadline=None)
@given(arguments=cases)
def test_the_sums_are_those_of_the_new_rows(loss, arguments):
    case = random_case(loss=loss, **arguments)
    solved, sums = case.solve(np.float64)
    row = np.repeat(np.arange(len(case.own)), np.diff(case.indptr))
    plain = np.einsum("ij,ij->i", solved[row], case.other[case.indices])
    z = plain if case.offsets is None else plain + case.offsets
    start, stop = case.columns
    assert_allclose(sums["data"], case.weights @ case.loss.value(z, case.targets), rtol=1e-9, atol=1e-9)
    assert_allclose(sums["squares"], np.sum((case.targets - z) ** 2), rtol=1e-9)
    assert_allclose(sums["scores"], plain @ plain, rtol=1e-9)
    assert_allclose(sums["change"], np.sum((solved - case.own)[:, start:stop] ** 2), rtol=1e-9)
    assert_allclose(sums["size"], np.sum(solved[:, start:stop] ** 2), rtol=1e-9)


@settings(max_examples=30, deadline=None)
@given(arguments=cases)
def test_primal_equals_dual(arguments):
    case = random_case(**(arguments | {"weights": "ones"}))
    assert_allclose(case.solve(np.float64, "dual")[0], case.solve(np.float64, "cholesky")[0], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@settings(max_examples=20, deadline=None)
@given(arguments=cases)
def test_integer_weights_equal_repeated_cells(loss, arguments):
    case = random_case(loss=loss, **(arguments | {"background": "none"}))
    times = np.random.default_rng(arguments["seed"]).integers(0, 4, len(case.indices))
    row = np.repeat(np.arange(len(case.own)), np.diff(case.indptr))
    counts = np.bincount(row, weights=times, minlength=len(case.own)).astype(np.int64)
    repeated = replace(
        case,
        indptr=np.concatenate([[0], np.cumsum(counts)]),
        indices=np.repeat(case.indices, times),
        targets=np.repeat(case.targets, times),
        offsets=None if case.offsets is None else np.repeat(case.offsets, times),
        weights=np.ones(times.sum()),
    )
    weighted = replace(case, weights=times.astype(float))  # zeros among them: weight zero equals absent
    assert_allclose(repeated.solve(np.float64)[0], weighted.solve(np.float64)[0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@settings(max_examples=20, deadline=None)
@given(arguments=cases)
def test_a_cell_of_weight_w0_and_target_zero_is_unobserved(loss, arguments):
    if not loss.is_quadratic:
        return
    case = random_case(loss=loss, **(arguments | {"background": "dense", "offsets": False}))
    cells = len(case.indices)
    unobserved = replace(case, weights=np.full(cells, case.w0), targets=np.zeros(cells))
    empty = np.zeros(0)
    absent = replace(
        case, indptr=np.zeros_like(case.indptr), indices=empty.astype(np.int32), weights=empty, targets=empty
    )
    assert_allclose(unobserved.solve(np.float64)[0], absent.solve(np.float64)[0], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
@pytest.mark.parametrize(("loss", "method"), METHODS, ids=lambda value: str(value))
@pytest.mark.parametrize("d", [1, 7, 33, 70])
def test_every_instruction_set_gives_the_same_rows(instruction_set, d, loss, method, dtype):
    for background in ("dense", "rotated"):
        case = known_case(d, d, loss=loss, background=background, prior="rows", pinned=(1, 2))
        assert case.excess(case.solve(dtype, method, block=128)[0]).max() <= EXCESS[dtype]


@pytest.mark.parametrize("method", ["cholesky", "dual", "cg"])
@pytest.mark.parametrize("d", [3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 80, 81, 97])
def test_every_edge_of_a_tile_group_and_panel(instruction_set, d, method):
    """Widths around whole tiles; rows around groups of cells (4, 8) and panels (128), longer ones after shorter."""
    case = known_case(d, d, background="rotated", lengths=(3, 4, 5, 7, 8, 9, 15, 0, 127, 128, 129, 2, 260))
    for dtype in DTYPES:
        assert case.excess(case.solve(dtype, method)[0]).max() <= EXCESS[dtype]


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
@pytest.mark.parametrize("background", ["none", "dense", "rotated"])
@pytest.mark.parametrize("prior", ["none", "rows"])
def test_subspace_passes_descend_to_the_optimum(background, prior, dtype):
    case = random_case(3, d=20, background=background, prior=prior, pinned=(1, 1), offsets=True)
    before = case.excess(case.own)
    for number in range(400):
        solved, sums = case.solve(dtype, "subspace", block=6)
        assert sums["failed"] == -1
        case = replace(case, own=solved.astype(np.float64))
        if number < 5:
            after = case.excess(solved)
            assert np.all(after <= before + EXCESS[dtype])
            before = after
    assert case.excess(solved).max() <= 10 * EXCESS[dtype]


def test_cg_stops_by_its_residual():
    case = random_case(0, d=24, background="dense")
    rough, fine = (case.solve(np.float64, "cg", tolerance=tolerance) for tolerance in (1e-2, 1e-10))
    assert 0 < rough[1]["steps"] < fine[1]["steps"]
    assert fine[1]["gap"] <= 1e-10 < rough[1]["gap"] <= 1e-2
    again = replace(case, own=fine[0]).solve(np.float64, "cg", tolerance=1e-9)
    assert again[1]["steps"] == 0  # a warm start at the optimum has nothing to do


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("background", ["none", "dense", "rotated"])
def test_a_long_row_is_split_and_exact(background, method, dtype):
    case = random_case(
        5, d=6, weights="mixed", background=background, offsets=True, prior="rows", pinned=(1, 0),
        lengths=[3, _core.long_row + 1, 0, 2 * _core.long_row + 77, 9],
    )  # fmt: skip
    solved, sums = case.solve(dtype, method)
    assert case.excess(solved).max() <= EXCESS[dtype]
    row = np.repeat(np.arange(len(case.own)), np.diff(case.indptr))
    z = np.einsum("ij,ij->i", solved.astype(float)[row], case.other[case.indices]) + case.offsets
    assert_allclose(sums["data"], case.weights @ (case.targets - z) ** 2, rtol=1e-5 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
@pytest.mark.parametrize(("loss", "method"), METHODS, ids=lambda value: str(value))
def test_any_number_of_threads_gives_the_same_bits(loss, method, dtype):
    lengths = [*np.random.default_rng(0).integers(0, 40, 600), _core.long_row + 500, 17, 3 * _core.chunk_cells + 1]
    case = random_case(7, d=8, loss=loss, background="dense", lengths=[int(n) for n in lengths])
    one, one_sums = case.solve(dtype, method, n_threads=1)
    for n_threads in (2, 3, 8):
        many, many_sums = case.solve(dtype, method, n_threads=n_threads)
        assert many.tobytes() == one.tobytes()
        assert many_sums == one_sums


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("cells", [1, 3, 12, _core.long_row + 1])
def test_a_rank_deficient_row_is_repaired_or_named(cells, method, dtype):
    case = random_case(1, d=8, weights="ones", lengths=[4, cells])
    flat = np.ones_like(case.other) * case.other[:, :1]  # all rows of the other side on one line
    case = replace(case, other=flat, lam=np.array([1.0, 0.0]))
    solved, sums = case.solve(dtype, method)
    assert np.isfinite(solved).all()
    if sums["failed"] >= 0:
        assert sums["failed"] == 1
        assert_allclose(solved[1], case.own[1].astype(dtype))  # the row stays as it was
    else:
        x, t = case.row(1).x, case.row(1).targets
        least = np.linalg.lstsq(x, t, rcond=None)[0]
        residual = np.sum((x @ solved[1] - t) ** 2)
        assert residual <= np.sum((x @ least - t) ** 2) * (1 + 1e-3) + 1e-3 * (t @ t) + 1e-9


def test_a_row_without_cells_and_penalty_is_named():
    case = replace(random_case(0, d=4, lengths=[3, 0, 5]), lam=np.array([1.0, 0.0, 1.0]))
    solved, sums = case.solve(np.float32)
    assert sums["failed"] in (-1, 1)
    assert np.isfinite(solved).all()


def test_infinite_weights_fail_and_name_the_row():
    case = random_case(0, d=4, lengths=[3, 6, 5])
    weights = case.weights.copy()
    weights[4] = np.inf
    for method in EXACT:
        solved, sums = replace(case, weights=weights).solve(np.float64, method)
        assert sums["failed"] == 1, method
        assert np.isfinite(solved).all()


def test_one_row_by_hand():
    """One cell, x = 2, w = 3, t = 1, lam = 4, w0 = 0.5: b = w t x / (lam + w x^2), the cell's background removed."""
    case = replace(
        random_case(0, d=1, lengths=[1], background="dense"),
        other=np.array([[2.0]]), indices=np.zeros(1, np.int32), targets=np.ones(1), weights=np.full(1, 3.0),
        lam=np.full(1, 4.0), w0=0.5,
    )  # fmt: skip
    for method in EXACT:
        assert case.solve(np.float64, method)[0][0, 0] == pytest.approx(6 / 16)


def test_the_oracle_solves_what_it_states():
    case = random_case(2, d=4, loss=losses.Squared(), background="dense", prior="rows", pinned=(1, 1), offsets=True)
    problem = case.row(4)
    found = minimize(row_objective, np.zeros(4), args=(problem,), method="BFGS", options={"gtol": 1e-9})
    assert_allclose(solve_row(problem), found.x, atol=1e-6)
