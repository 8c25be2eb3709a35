"""What every engine owes, wherever its half-steps run: the protocol of `engine/protocol.py`, method by method.

Inherit `SessionContract` (half-steps) and `KeptContract` (input, and rows after a fit), and write the adapters they
list. Knows two sides and the oracle; knows no estimator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from halfstep import losses
from halfstep.core import oracle
from halfstep.core.cells import Observations
from halfstep.core.initial import AtZero, OneSideAtRandom
from halfstep.core.loop import measure
from halfstep.engine import Problem, Side, Solver
from halfstep.engine.features import with_constant
from halfstep.engine.protocol import Engine
from halfstep.errors import UnknownIdError

from .rows import LOSSES, draw_targets

ROUNDING = {"float32": 2e-5, "float64": 1e-10}


def random_cells(loss: Any, rng: Any, shape: tuple[int, int] = (23, 17), share: float = 0.3) -> Observations:
    """Cells with targets and weights; one row and one column are empty, one row is full."""
    mask = rng.random(shape) < share
    mask[2], mask[5], mask[:, 3] = True, False, False
    rows, columns = np.nonzero(mask)
    weights = rng.choice([0.05, 0.5, 1.0, 2.0], len(rows))
    targets = draw_targets(loss, rng, len(rows))
    return Observations.from_cells(rows, columns, shape, targets, weights, dtype=np.float64)


def coordinates(cells: Observations) -> tuple[Any, Any, Any, Any]:
    """(rows, columns, targets, weights) as the oracle wants them."""
    rows = np.repeat(np.arange(cells.shape[0]), cells.counts)
    values = (np.broadcast_to(np.asarray(v, np.float64), len(cells)) for v in (cells.targets, cells.weights))
    return rows, cells.indices, *values


def random_problem(
    loss: Any, seed: int = 0, *, background: float = 0.1, per_row: bool = True, pinned: int = 0, d: int = 5
) -> tuple[Problem, list[Any]]:
    """A problem and factors to start from; `pinned` columns of ones on either side, as biases have."""
    rng = np.random.default_rng(seed)
    cells = random_cells(loss, rng)
    columns = d + 2 * pinned
    free = ((pinned, columns), (0, columns - pinned))
    sides = [
        Side(rng.uniform(0.1, 2, n) if per_row else 0.7, free=span if pinned else None)
        for n, span in zip(cells.shape, free, strict=True)
    ]
    factors = [rng.normal(size=(n, columns)) * 0.5 for n in cells.shape]
    factors[0][:, : free[0][0]] = 1.0
    factors[1][:, free[1][1] :] = 1.0
    return Problem(cells, (sides[0], sides[1]), loss, background), factors


def dense_objective(problem: Problem, factors: list[Any]) -> float:
    """The naive one: every cell touched, float64."""
    U, V = (np.asarray(f, np.float64) for f in factors)
    own, other = problem.sides
    return oracle.objective(
        U, V, *coordinates(problem.observations), problem.background, own.penalty, other.penalty, problem.loss,
        own.free, other.free,
    )  # fmt: skip


class SessionContract:
    """Half-steps. Give `open`; everything else follows."""

    losses = LOSSES
    dtypes = ("float32", "float64")
    threads = (1, 2, 5)
    whole_from = 0
    """The half-step from which records are whole: some engines know the penalty of a side once they have solved it."""

    def open(self, problem: Problem, factors: list[Any], solver: Solver, n_threads: int = 1) -> Any:
        raise NotImplementedError

    def factors(self, session: Any) -> list[Any]:
        """Both sides as arrays."""
        return list(session.factors)

    def settings(self, loss: Any) -> list[dict[str, Any]]:
        """Problems that differ in kind."""
        return [
            {"background": 0.1},
            {"background": 0.0, "per_row": False},
            {"background": 0.1, "pinned": 1},
            {"background": 0.0, "pinned": 2},
        ]

    def methods(self, loss: Any) -> list[str]:
        return ["exact", "cholesky", "dual", "cg", "subspace"] if loss.is_quadratic else ["exact"]

    def each(self) -> Any:
        """Every loss, problem, method and precision."""
        for loss in self.losses:
            for setting in self.settings(loss):
                for method in self.methods(loss):
                    for dtype in self.dtypes:
                        yield loss, setting, method, dtype

    def start(self, loss: Any, setting: dict[str, Any], method: str, dtype: str, n_threads: int = 1) -> Any:
        problem, factors = random_problem(loss, **setting)
        exact = ROUNDING[dtype] / 10
        solver = Solver(method, tolerance=exact, max_steps=5000, block=3 if method == "subspace" else 64)
        return problem, self.open(problem, [f.astype(dtype) for f in factors], solver, n_threads)

    def test_the_objective_never_rises_and_is_the_dense_one(self) -> None:
        for loss, setting, method, dtype in self.each():
            problem, session = self.start(loss, setting, method, dtype)
            before = dense_objective(problem, self.factors(session))
            for number in range(6):
                record = measure(session, session.half_step(number % 2, evaluate=True))
                case = f"{loss!r} {setting} {method} {dtype}, half-step {number}"
                dense = dense_objective(problem, self.factors(session))
                if number >= self.whole_from:
                    assert_allclose(record["objective"], dense, rtol=ROUNDING[dtype], err_msg=case)
                assert dense <= before * (1 + ROUNDING[dtype]), case
                before = dense

    def test_parts_of_the_record_are_what_they_say(self) -> None:
        for loss in self.losses:
            problem, session = self.start(loss, {"background": 0.1}, "exact", "float64")
            record = measure(session, session.half_step(0, evaluate=True))
            U, V = self.factors(session)
            rows, columns, targets, weights = coordinates(problem.observations)
            Z = U @ V.T
            z, hidden = Z[rows, columns], np.ones(Z.shape, bool)
            hidden[rows, columns] = False
            assert_allclose(record["data"], weights @ loss.value(z, targets))
            assert_allclose(record["background"], 0.1 * np.sum(Z[hidden] ** 2), rtol=1e-9)
            assert_allclose(record["penalty"], record["objective"] - record["data"] - record["background"])
            assert_allclose(record["rmse"], np.sqrt(np.mean((targets - z) ** 2)))
            everything = np.sum((targets - z) ** 2) + np.sum(Z[hidden] ** 2)
            assert_allclose(record["rmse_all"], np.sqrt(everything / Z.size))

    def test_half_steps_are_those_of_the_oracle(self) -> None:
        for loss, setting, method, dtype in self.each():
            if method == "subspace":  # one pass is a descent step, not the optimum
                continue
            problem, session = self.start(loss, setting, method, dtype)
            factors = [f.astype(np.float64) for f in self.factors(session)]
            U, V = factors
            cells = coordinates(problem.observations)
            own, other = problem.sides
            U = oracle.half_step(U, V, cells, problem.background, own.penalty, loss, own.free)
            V = oracle.half_step(
                V, U, (cells[1], cells[0], *cells[2:]), problem.background, other.penalty, loss, other.free
            )
            session.half_step(0)
            session.half_step(1)
            found = self.factors(session)
            tolerance = {"float32": 3e-3, "float64": 1e-7}[dtype]
            if not loss.is_quadratic:  # a gap g in the objective leaves about sqrt(g) in the rows
                tolerance = {"float32": 2e-2, "float64": 1e-4}[dtype]
            assert_allclose(found[0] @ found[1].T, U @ V.T, atol=tolerance, err_msg=f"{setting} {method} {dtype}")

    def test_any_number_of_threads_gives_the_same_bits(self) -> None:
        for loss, setting, method, dtype in self.each():
            ends = []
            for n_threads in self.threads:
                _, session = self.start(loss, setting, method, dtype, n_threads)
                sums = [session.half_step(side, evaluate=True) for side in (0, 1, 0)]
                ends.append((sums, [f.tobytes() for f in self.factors(session)]))
            assert all(end == ends[0] for end in ends), f"{loss!r} {setting} {method} {dtype}"

    def test_transposing_the_problem_swaps_the_sides(self) -> None:
        for loss in self.losses:
            problem, factors = random_problem(loss)
            transposed = Problem(problem.observations.T, problem.sides[::-1], loss, problem.background)
            one = self.open(problem, [f.copy() for f in factors], Solver())
            two = self.open(transposed, [f.copy() for f in factors[::-1]], Solver())
            for side in (0, 1, 0, 1):
                one.half_step(side)
                two.half_step(1 - side)
            (U, V), (V2, U2) = self.factors(one), self.factors(two)
            assert_allclose(U @ V.T, U2 @ V2.T, atol=1e-9)

    def test_repeated_cells_equal_integer_weights(self) -> None:
        rng = np.random.default_rng(4)
        for loss in self.losses:
            problem, factors = random_problem(loss, background=0.0)
            rows, columns, targets, _ = coordinates(problem.observations)
            times = rng.integers(0, 3, len(rows))  # weight zero equals absent
            shape = problem.observations.shape
            repeated = [np.repeat(v, times) for v in (rows, columns, targets)]
            ends = []
            for r, c, t, w in ((*repeated, 1.0), (rows, columns, targets, times.astype(np.float64))):
                cells = Observations.from_cells(r, c, shape, t, w, dtype=np.float64)
                session = self.open(Problem(cells, problem.sides, loss, 0.0), [f.copy() for f in factors], Solver())
                for side in (0, 1, 0):
                    session.half_step(side)
                U, V = self.factors(session)
                ends.append(U @ V.T)
            assert_allclose(ends[0], ends[1], atol=1e-8)

    def test_a_row_without_solution_is_named(self) -> None:
        from halfstep.errors import RowError

        problem, factors = random_problem(self.losses[0], background=0.0)
        sides = (Side(np.r_[np.ones(5), 0.0, np.ones(17)]), problem.sides[1])  # row 5 has no cells
        session = self.open(Problem(problem.observations, sides, problem.loss, 0.0), factors, Solver())
        with pytest.raises(RowError, match=r"row 5 of side 0 has no finite solution.*raise `reg`"):
            session.half_step(0)


ROLES = ("user", "item")


@dataclass(frozen=True)
class Whole:
    """Rows that have no bias: every column is a factor."""

    d: int

    @property
    def factors(self) -> slice:
        return slice(0, self.d)

    def bias(self, side: int) -> tuple[int, float] | None:
        return None

    def average(self, side: int, mean: Any) -> Any:
        return mean


@dataclass(frozen=True)
class WithBias(Whole):
    """The first column of either side taken for a bias that meets 1/2."""

    @property
    def factors(self) -> slice:
        return slice(1, self.d)

    def bias(self, side: int) -> tuple[int, float] | None:
        return 0, 0.5

    def average(self, side: int, mean: Any) -> Any:
        return np.where(np.arange(self.d) == 0, mean, 0.0)


def interactions(seed: int = 0) -> dict[str, Any]:
    """Columns of pairs with weights and values: string users, integer items, a repeated pair, a weight of zero."""
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((9, 7)) < 0.5)
    users, items = np.append(users, [users[0], 9]), np.append(items, [items[0], 3])
    weights = rng.integers(1, 4, len(users)).astype(float)
    weights[-1] = 0.0
    stars = rng.normal(size=len(users))
    named = np.array([f"u{k}" for k in users], object)
    return {
        "user": named,
        "item": items * 10,
        "weight": weights,
        "stars": stars,
        "liked": np.where(stars > 0, "y", "n"),
    }


class KeptContract:
    """Input into cells, and what rows answer after a fit. `table` is what `interactions` gives."""

    def engine(self) -> Engine:
        raise NotImplementedError

    def frame(self, table: dict[str, Any]) -> Any:
        """The input of `Engine.read`: all columns of a table as this engine likes them."""
        raise NotImplementedError

    def values(self, table: dict[str, Any], target: str, weight: str | None) -> tuple[Any, Any, Any]:
        """The input of `Engine.read_values`: pairs, targets and weights."""
        raise NotImplementedError

    def pairs(self, table: dict[str, Any]) -> Any:
        """The input of `KeptRows.scores`."""
        return self.frame({name: table[name] for name in ROLES})

    def more(self, table: dict[str, Any], known: Any) -> Any:
        """The input of `KeptRows.read`: rows of users with the items `known`."""
        raise NotImplementedError

    def here(self, kept: Any) -> Any:
        """Rows on this machine."""
        return kept

    def by_id(self, answer: Any, side: Any) -> dict[Any, Any]:
        """Rows of one side by id, from what `KeptSide.whole` gives."""
        raise NotImplementedError

    def apart(self, answer: Any) -> dict[Any, tuple[Any, float]]:
        """Factors and biases by id, from what `KeptSide.apart` gives."""
        raise NotImplementedError

    def listed(self, answer: Any, column: str) -> list[Any]:
        """Scores in the order of the pairs, from what `KeptRows.scores` gives."""
        raise NotImplementedError

    def read(self, table: dict[str, Any]) -> Any:
        columns = {"user": None, "item": None, "weight": "weight"}
        return self.engine().read(self.frame(table), columns, dtype=np.float64, splits=True)

    def fitted(self, table: dict[str, Any], background: float = 0.1) -> Any:
        """Two half-steps of squared loss, users last."""
        engine, given = self.engine(), self.read(table)
        problem = Problem(given.cells, (Side(0.5), Side(0.5)), losses.Squared(), background)
        ((start, order),) = engine.starts(given.cells, 3, "scaled", [0], np.float64)
        session = engine.open(problem, start, Solver("cholesky"))
        for side in (*order, 0):
            session.half_step(side)
        return engine.keep(given, session)

    def test_input_becomes_cells_and_ids_are_kept(self) -> None:
        table = interactions()
        given = self.read(table)
        assert given.cells.shape == (10, 7)
        assert given.cells.T.shape == (7, 10)
        kept = self.here(self.fitted(table))
        assert kept.ids[0].ids.tolist() == [f"u{k}" for k in range(10)]  # whoever weighs nothing is there too
        assert kept.ids[1].ids.tolist() == np.unique(table["item"]).tolist()
        dense = np.zeros((10, 7))
        places = [kept.ids[side].positions(table[role]) for side, role in enumerate(ROLES)]
        np.add.at(dense, tuple(places), table["weight"])
        assert_allclose(kept.cells.to_csr().toarray(), dense)

    def test_values_are_encoded_weighted_and_counted(self) -> None:
        table = interactions()
        total = table["weight"].sum()

        for target, loss, classes in (("stars", losses.Huber(), None), ("liked", losses.Hinge(), ["n", "y"])):
            X, y, weight = self.values(table, target, "weight")
            given = self.engine().read_values(X, y, weight, loss, ROLES, dtype=np.float64, splits=False)
            assert given.n_rows == len(table["user"])
            assert_allclose(given.total_weight, total)
            assert (None if given.classes is None else given.classes.tolist()) == classes
            problem = Problem(given.cells, (Side(1e9), Side(1e9)), loss)
            start = OneSideAtRandom(1, 2, 1e-12, 0, np.dtype(np.float64))
            session = self.engine().open(problem, start, Solver())
            sums = session.half_step(0, evaluate=True)  # rows stay near zero, so every cell costs what it costs there
            targets, _ = loss.encode_targets(table[target])
            cost = loss.value(np.zeros(len(targets)), targets)
            assert_allclose(sums["data"], np.sum(table["weight"] * cost), rtol=1e-6)
            assert len(given.sample(10**6)) == len(given.cells)
            assert 0 < len(given.sample(1)) <= len(given.cells)

    def test_rows_come_by_id_whole_and_apart(self) -> None:
        kept = self.fitted(interactions())
        here = self.here(kept)
        assert kept.shape == here.shape == (10, 7)
        for side in (0, 1):
            ids = here.ids[side].ids.tolist()
            rows = self.by_id(kept.sides[side].whole(), here.ids[side])
            assert_allclose(np.array([rows[id] for id in ids]), here.rows[side])
            split = self.apart(kept.sides[side].apart(WithBias(3)))
            assert_allclose(np.array([split[id][0] for id in ids]), here.rows[side][:, 1:])
            assert_allclose([split[id][1] for id in ids], 0.5 * here.rows[side][:, 0])
            assert not any(bias for _, bias in self.apart(kept.sides[side].apart(Whole(3))).values())

    @pytest.mark.filterwarnings("ignore::halfstep.errors.UnknownIdWarning")
    def test_scores_are_dot_products_and_unknown_ids_are_average(self) -> None:
        kept = self.fitted(interactions())
        here = self.here(kept)
        U, V = here.rows
        asked = {"user": np.array(["u3", "nobody", "u9"], object), "item": np.array([20, 40, -1])}
        for cut in (Whole(3), WithBias(3)):
            someone, something = cut.average(0, U.mean(axis=0)), cut.average(1, V.mean(axis=0))
            expected = [U[3] @ V[2], someone @ V[4], U[9] @ something]
            found = kept.scores(self.pairs(asked), cut, np.asarray, "score", "average", 1)
            assert_allclose(self.listed(found, "score"), expected, rtol=1e-9, atol=1e-12)
        named = kept.scores(
            self.pairs(asked), Whole(3), lambda z: np.where(z > 0, "up", "down"), "verdict", "average", 1
        )
        someone, something = U.mean(axis=0), V.mean(axis=0)
        signs = [U[3] @ V[2], someone @ V[4], U[9] @ something]
        assert list(self.listed(named, "verdict")) == ["up" if sign > 0 else "down" for sign in signs]

    def test_folding_a_fitted_row_in_returns_it(self) -> None:
        table = interactions()
        for background in (0.0, 0.1):
            kept = self.fitted(table, background)
            here = self.here(kept)
            some = {name: values[np.isin(table["user"], ["u2", "u5"])] for name, values in table.items()}
            given = kept.read(self.more(some, here.ids[1]), dtype=np.float64)
            problem = Problem(given.cells, (Side(0.5), Side(0.5)), losses.Squared(), background)
            folded = kept.fold_in(given, problem, AtZero(3, np.float64), Solver("exact"), 1)
            rows = list(self.by_id(folded.whole(), None).values())
            assert_allclose(rows, here.rows[0][[2, 5]], atol=1e-9)

    def test_rows_are_expected_where_their_features_say(self) -> None:
        """The objective with weights of features is the dense one and never rises; a fitted row folded in stays."""
        table = interactions()
        engine, given = self.engine(), self.read(table)
        told: Any = {f"u{k}": {"size": float(k * k % 5), "kind": "ab"[k % 2]} for k in range(8)} | {"-": {"kind": "c"}}
        features = engine.about(given, 0, told, "user")
        sides = features.expecting(Side(0.5), 0.3, 0.5), Side(0.5)
        problem = Problem(given.cells, sides, losses.Squared(), 0.1)
        ((start, order),) = engine.starts(given.cells, 3, "scaled", [0], np.float64)
        session: Any = engine.open(problem, start, Solver("exact"))
        values = [
            measure(session, session.half_step(side, evaluate=True))["objective"] for side in (*order, *order, 1, 0)
        ]
        assert (np.diff(values[1:]) <= 1e-9).all()
        kept = engine.keep(given, session)
        here, held = self.here(kept), session.problem.sides[0].features
        F = with_constant(kept.known(0, features.known).matrix)
        assert F.shape == (10, 5)
        assert np.flatnonzero(F[:, :4].sum(axis=1) == 0).tolist() == [8, 9]  # of whom nothing is known
        assert_allclose(held.eta, 0.3 * 0.5 * 0.5 * F.multiply(F).sum() / 10)
        (U, V), W, Y = here.rows, held.weights, here.cells.to_csr().toarray()
        cost = np.sum(Y * (1 - U @ V.T) ** 2) + 0.1 * np.sum((Y == 0) * (U @ V.T) ** 2) + 0.5 * np.sum(V**2)
        cost += 0.25 * np.sum((U - F @ W) ** 2 + U**2) + held.eta * np.sum(W**2)
        assert_allclose(values[-1], cost)
        some = {name: values[np.isin(table["user"], ["u2", "u5"])] for name, values in table.items()}
        more = kept.read(self.more(some, here.ids[1]), dtype=np.float64)
        new = more.ids[0].ids.tolist() if hasattr(more, "ids") else ["u2", "u5"]  # a matrix has no ids
        told = dict(zip(new, (told["u2"], told["u5"]), strict=True))
        means = kept.about(more, told, features.known, by_id=True).means(W, 0.5)
        alone = Problem(more.cells, (Side(0.5, prior=means), Side(0.5)), losses.Squared(), 0.1)
        folded = kept.fold_in(more, alone, None, Solver("exact"), 1)
        assert_allclose(list(self.by_id(folded.whole(), None).values()), U[[2, 5]], atol=1e-9)

    def test_new_rows_have_known_columns(self) -> None:
        kept = self.fitted(interactions())
        X, y, weight = self.values(
            {"user": np.array(["z"], object), "item": np.array([-5]), "stars": np.ones(1)}, "stars", None
        )
        with pytest.raises(UnknownIdError, match=r"-5"):
            kept.read_values(X, y, weight, losses.Squared(), None, dtype=np.float64)
