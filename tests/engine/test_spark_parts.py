"""The parts of the Spark engine that are plain arithmetic: layouts, blocks, pieces of long rows, merged lists."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfstep.core.cells import Observations
from halfstep.core.losses import Squared
from halfstep.core.problem import Problem, Side, Solver
from halfstep.engine.local import solve_rows
from halfstep.engine.spark import ranking, tasks
from halfstep.engine.spark.layout import Layout


def a_layout(n, blocks, long=(), pieces=()):
    even = Layout.even(n, blocks)
    return Layout(even.starts, np.array(long, np.int64), np.array(pieces, np.int64))


def some_cells(seed, n, m, count):
    rng = np.random.default_rng(seed)
    chosen = rng.choice(n * m, size=min(count, n * m), replace=False)
    return chosen // m, chosen % m, rng.random(len(chosen)) + 0.5, rng.normal(size=len(chosen))


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_every_cell_has_one_partition_and_pieces_share_no_other_row(n, blocks, seed):
    rng = np.random.default_rng(seed)
    long = np.unique(rng.integers(0, n, 2))
    own, other = a_layout(n, blocks, long, rng.integers(1, 5, len(long))), Layout.even(25, 5)
    rows, others = rng.integers(0, n, 200), rng.integers(0, 25, 200)
    parts = own.partition_of(rows, others, other)
    assert parts.min() >= 0
    assert parts.max() < own.partitions
    for partition in np.unique(parts):
        start, stop = own.range_of(int(partition))
        inside = rows[parts == partition]
        assert ((inside >= start) & (inside < stop)).all()
        assert (own.long_of(int(partition)) is not None) == bool(np.isin(inside, long).all())
    for row in long:
        owners = {(o, p) for o, p in zip(others[rows == row], parts[rows == row], strict=True)}
        assert len(owners) == len({o for o, _ in owners})


def test_blocks_without_rows_are_never_chosen():
    layout = Layout(np.array([0, 3, 3, 5]), np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert layout.block_of(np.arange(5)).tolist() == [0, 0, 0, 2, 2]


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3]), st.booleans())
@settings(max_examples=25, deadline=None)
def test_pieces_of_a_long_row_solve_to_the_row_itself(seed, background, pinned):
    """Quadratics of pieces, added up and solved, equal the core on the whole row."""
    d, m = 5, 30
    rows, columns, weights, targets = some_cells(seed, 1, m, 24)
    rng = np.random.default_rng(seed)
    items = rng.normal(size=(m, d))
    own = rng.normal(size=(1, d))
    spec = Side(0.7, (1, d) if pinned else None, rng.normal(size=(1, d - pinned)))
    gram = items.T @ items
    layout, other = a_layout(1, 1, [0], [3]), Layout.even(m, 6)
    step = tasks.Step(
        0,
        spec,
        layout,
        Squared(),
        background,
        Solver(),
        d,
        np.dtype(float),
        gram,
        None,
        [],
        own,
        np.zeros((0, d)),
        np.zeros(0, np.int64),
        False,
    )
    parts = layout.partition_of(rows, columns, other)
    total = np.zeros((d - pinned + 1, d - pinned))
    for partition in np.unique(parts):
        here = parts == partition
        cells = tasks.CellPart(0, rows[here], columns[here], weights[here], targets[here])
        block = tasks.build_block(int(partition), [cells], layout, other, "keep", np.float64)
        piece = tasks.solve(step, tasks.assemble([(int(partition), block)], step, items, None))
        assert piece.number == 0
        total += piece.quadratic
    got, sums = tasks.finish_long(step, spec, total[None])
    whole = Observations.from_cells(rows, columns, (1, m), targets, weights, dtype=np.float64)
    expected = own.copy()
    problem = Problem(whole, (spec, spec), Squared(), background)
    alone = solve_rows(problem, 0, expected, items, Solver("cholesky"), gram=gram)
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-9)
    for name in ("change", "size", "failed", "repaired"):
        assert sums[name] == pytest.approx(alone[name])


def a_long_step(items, own, dtype, long):
    """A step whose long rows are finished, without penalty or background."""
    d, layout = items.shape[1], a_layout(max(long) + 1, 1, long, [1] * len(long))
    nothing, none = np.zeros((0, d), dtype), np.zeros(0, np.int64)
    return tasks.Step(
        0, Side(0.0), layout, Squared(), 0.0, Solver(), d, np.dtype(dtype), None, None, [], own, nothing, none, False
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_long_row_without_penalty_is_repaired_as_on_one_machine(dtype):
    """All items on one line and lam = 0: the quadratic is singular, and NumPy's solve raised."""
    rng = np.random.default_rng(0)
    items = (rng.integers(1, 4, (30, 1)) * np.array([1, 2, -1, 0])).astype(dtype)
    cells = Observations.from_cells(np.zeros(30, int), np.arange(30), (1, 30), rng.normal(size=30), dtype=dtype)
    step = a_long_step(items, np.zeros((1, 4), dtype), dtype, [0])
    quadratic = tasks._quadratic(step, cells, items, 0)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.solve(quadratic[:-1] + np.tril(quadratic[:-1], -1).T, quadratic[-1])
    got, sums = tasks.finish_long(step, step.spec, quadratic[None])
    alone = np.zeros((1, 4), dtype)
    solve_rows(Problem(cells, (step.spec, step.spec)), 0, alone, items, Solver())
    assert sums["failed"] == -1
    np.testing.assert_allclose(items @ got[0], items @ alone[0], rtol=1e-3, atol=1e-4)


def test_a_long_row_without_solution_is_named_by_its_place():
    own = np.ones((2, 3))
    step = a_long_step(np.ones((1, 3)), own, np.float64, [4, 7])
    quadratics = np.stack([np.vstack([np.eye(3), np.ones(3)]), np.full((4, 3), np.nan)])
    got, sums = tasks.finish_long(step, step.spec, quadratics)
    assert sums["failed"] == 7
    np.testing.assert_allclose(got[0], 1, rtol=1e-9)
    assert got[1].tolist() == own[1].tolist()  # it stays as it was


def test_blocks_gather_what_they_need_and_long_rows_come_last():
    own, other = Layout.even(4, 2), a_layout(6, 2, [3], [2])
    cells = tasks.CellPart(0, np.array([2, 3, 3, 2]), np.array([3, 0, 5, 5]), np.array([1.0, 2.0, 3.0, 4.0]), None)
    block = tasks.build_block(1, [cells], own, other, "sum", np.float32)
    assert block.first == 2
    assert block.needed.tolist() == [0, 5]
    assert block.cells.to_csr().toarray().tolist() == [[0, 4, 1], [2, 3, 0]]


def test_repeated_cells_are_summed_or_kept():
    layout = Layout.even(1, 1)
    cells = tasks.CellPart(0, np.zeros(2, np.int64), np.zeros(2, np.int64), np.array([1.0, 2.0]), None)
    assert len(tasks.build_block(0, [cells], layout, layout, "sum", np.float32).cells) == 1
    assert len(tasks.build_block(0, [cells], layout, layout, "keep", np.float32).cells) == 2
    assert len(tasks.build_block(0, [], layout, layout, "sum", np.float32).cells) == 0


@pytest.mark.parametrize("whole", [True, False])
def test_rows_of_the_other_side_arrive_whole_or_as_messages(whole):
    """Either way a cell meets the row it names: those needed in order, long rows behind them."""
    own, other = Layout.even(4, 2), a_layout(6, 2, [3], [2])
    cells = tasks.CellPart(0, np.array([2, 3, 3, 2]), np.array([3, 0, 5, 5]), None, None)
    block = tasks.build_block(1, [cells], own, other, "sum", np.float32)
    items = np.arange(12, dtype=np.float32).reshape(6, 2)
    nothing = np.zeros((0, 2), np.float32)
    step = tasks.Step(
        0,
        Side(1.0),
        own,
        Squared(),
        0.0,
        Solver(),
        2,
        np.dtype(np.float32),
        None,
        None,
        [],
        nothing,
        items[3:4],
        other.long,
        False,
    )
    messages = [(1, tasks.Message(1, items[5:6])), (1, tasks.Message(0, items[:1]))]
    work = tasks.assemble([(1, block), *([] if whole else messages)], step, items if whole else None, np.ones((4, 2)))
    assert work.other[work.cells.indices].tolist() == items[[5, 3, 0, 5]].tolist()
    assert work.old.values.tolist() == [[1, 1], [1, 1]]


def test_sums_are_merged_with_the_first_failed_row():
    a = {"data": 1.0, "gap": 0.5, "failed": -1, "stalled": 4}
    b = {"data": 2.0, "gap": 0.1, "failed": 7, "stalled": 2}
    assert tasks.merged(a, b) == {"data": 3.0, "gap": 0.5, "failed": 7, "stalled": 2}
    assert tasks.merged({}, b) == b


@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
@settings(max_examples=30, deadline=None)
def test_lists_over_chunks_equal_the_list_over_everything(seed, k):
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(6, 3)), rng.normal(size=(11, 3))
    rows, others, *_ = some_cells(seed, 6, 11, 20)
    best = None
    for first, last in ((0, 4), (4, 5), (5, 11)):
        items = [(0, left), (0, ranking.Seen(rows, others)), *([(0, best)] if best is not None else [])]
        ((_, best),) = ranking._improved(iter(items), first, np.ascontiguousarray(right[first:last]), k)
    scores = left @ right.T
    scores[rows, others] = -np.inf
    expected = np.argsort(-scores, axis=1)[:, :k]
    for row in range(6):
        there = [j for j in expected[row] if np.isfinite(scores[row, j])]
        assert best.places[row][best.places[row] >= 0].tolist() == there


def test_penalty_of_a_block_leaves_long_rows_out():
    spec = Side(np.array([1.0, 10.0, 100.0]), prior=np.ones((3, 2)))
    values = np.zeros((3, 2))
    assert tasks._cost_without(spec, values, np.array([1])) == pytest.approx(2 * (1 + 100))
