"""WALS: recommendations from implicit feedback, by weighted alternating least squares. A name for a composition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from halfstep.core import weighting as schemes
from halfstep.core.fitted import FromFit
from halfstep.core.initial import INITS, AtZero, seed_from
from halfstep.core.loop import Callback, Record, Session, measure
from halfstep.core.problem import METHODS
from halfstep.data.files import Saved
from halfstep.data.ids import Index
from halfstep.data.table import CellsHere, from_saved, merge, read_table, to_arrays
from halfstep.engine import LocalEngine, Outcome, Solver
from halfstep.engine.protocol import Engine, KeptSide
from halfstep.errors import check_number, one_of
from halfstep.figures.shown import ShownRecommender
from halfstep.metrics import ndcg_at_k
from halfstep.models.answers import Explanation, Ranking
from halfstep.models.factor import FactorModel
from halfstep.models.fold_in import average_of, explained, somebody_with
from halfstep.models.held_out import keep_some
from halfstep.models.memory import estimate_memory
from halfstep.models.more import grown, solve_touched, touched
from halfstep.models.recommend import top_k
from halfstep.models.stopping import SweepJudge
from halfstep.models.strength import ImplicitFit, Strength

__all__ = ["WALS", "Explanation", "Ranking"]


@dataclass(eq=False, repr=False)
class WALS(ShownRecommender, FactorModel[ImplicitFit]):
    """Weighted alternating least squares for implicit feedback; users x items.

    Minimises, over user factors u_i and item factors v_j of length `rank`,

        sum_obs w_ij (1 - u_i.v_j)^2  +  background * sum_unobserved (u_i.v_j)^2
            +  sum_i lam_i |u_i|^2  +  sum_j lam_j |v_j|^2

    where w_ij is the weight given for an observed cell (1 for plain pairs), or what `weighting` makes of it. Every
    half-step solves its side exactly.

    Parameters
    ----------
    rank : length of the factors; None is 128, and at most half of the smaller side.
    background : weight of every unobserved cell, >= 0; None is 0.02.
    reg, reg_scaling : lam of a row is reg ("constant"), reg * n_i ("count"), or reg * (n_i + background * N)^nu for a
        number nu; n_i is the row's number of observed cells and N the size of the other side. None for reg is 0.4 over
        the mean number of cells of a user, held between 0.003 and 0.05; docs/wals.md has the table behind these rules.
    loss : what an observed cell costs in place of (1 - z)^2: a name or object of `halfstep.losses`, for a target of 1.
    weighting : what becomes of the weights that were given: "none", "log", "sqrt", "binary", "tfidf", "bm25",
        "popularity", a function of an array of values, or an object of `halfstep.weighting`, which has the formulas.
        New users are weighed by the counts of the fit.
    max_iter, tol : at most so many sweeps; stop when the objective falls by less than tol of itself.
    solver : "exact" (the cheaper of primal and dual, row by row), "cholesky", "dual", "cg" (stopped by residual) or
        "subspace" (blocks of columns in turn, for ranks of 256 and more).
    init : "scaled" N(0, 0.1/sqrt(rank)), "normal" N(0, 0.1), or "svd".
    n_init : restarts from other random starts; the fit with the lowest objective is kept.
    warm_start : continue from the present factors when `fit` is called again with the same users and items.
    dtype : "float32" or "float64".
    n_threads : None for all cores. The result has the same bits for any number.
    random_state : seed of the start.
    max_seconds : no sweep is begun after that long.
    callbacks : called with the record of every sweep; a true answer stops the fit.
    engine : where half-steps run; None is this machine, `halfstep.engine.spark.SparkEngine` a cluster.
    verbose : 0 quiet (a bar appears on long fits at a terminal), 1 bar, 2 a line for each sweep.

    Attributes
    ----------
    user_factors_, item_factors_ : (users, rank), (items, rank).
    user_ids_, item_ids_ : ids in the order of the factor rows; row numbers where the input had none.
    history_ : one dict for each sweep: objective, data, background, penalty, rmse, rmse_all,
        error_reduction (1 - rmse: predicting 0 everywhere has an rmse of 1 over observed cells), seconds, ...
    objective_, n_iter_, converged_ : the last objective, sweeps made, whether `tol` was reached.
    rank_, background_, reg_ : what was given, or followed from the data.
    """

    rank: int | None = None
    background: float | None = None
    reg: float | None = None
    reg_scaling: str | float = 1.0
    _: KW_ONLY
    loss: Any = "squared"
    weighting: Any = "none"
    max_iter: int = 15
    tol: float = 1e-4
    solver: str = "exact"
    init: str = "scaled"
    n_init: int = 1
    warm_start: bool = False
    dtype: str = "float32"
    n_threads: int | None = None
    random_state: Any = None
    max_seconds: float | None = None
    callbacks: Sequence[Callback] = ()
    engine: Engine | None = None
    verbose: int = 0

    rank_ = FromFit[int]("chosen.rank")
    background_ = FromFit[float]("chosen.background")
    reg_ = FromFit[float]("chosen.reg")
    _kind = "WALS"
    _tensors = ("user_factors", "item_factors")
    _saved_table = staticmethod(from_saved)

    # ------------------------------------------------------------------ fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        user: str | None = None,
        item: str | None = None,
        weight: str | None = None,
        validation: Any = None,
        metric: str = "ndcg@10",
        patience: int = 2,
        keep_on_interrupt: bool = False,
    ) -> Self:
        """Fit to interactions.

        X : scipy sparse matrix or 2-D array of weights (users x items, 0 is unobserved), `Interactions`, or a frame
            (pandas, polars, pyarrow; with `SparkEngine` a Spark DataFrame) with a row for each pair. `user`, `item`,
            `weight` name its columns; they are detected from common names when left out, and weights are 1 without
            such a column.
        y : ignored, for scikit-learn.
        validation : cells kept from X, over the same users and items (matrix, array or `Interactions`), or a frame of
            them by id. After every sweep up to 1,000 of their users are ranked for; the fit ends when `metric` has not
            risen for `patience` sweeps, and keeps the sweep at which it was best. `history_` has the metric.
        keep_on_interrupt : Ctrl-C (an interrupted cell of a notebook) ends the fit with the last finished half-step
            instead of an error, once there is a finished sweep; `interrupted_` says so.

        Repeated cells are summed; weights of zero count as unobserved.
        """
        self._check_parameters()
        engine, dtype = self._where(), self._number()
        columns = {"user": user, "item": item, "weight": weight}
        given = engine.read(X, columns, dtype=dtype, splits=self._loss().is_quadratic)
        weighed = given.weighed(self._scheme(), None, dtype)
        chosen = self._chosen(weighed.cells.shape, len(weighed.cells))
        problem = chosen.problem(weighed.cells, self._loss())
        judge = None
        if validation is not None:
            single = partial(chosen.single, loss=self._loss())
            seed = seed_from(self.random_state)
            judge = SweepJudge.of(given, weighed, validation, metric, patience, single, seed, self.n_threads)
        best: tuple[Outcome, Session] | None = None
        for start, order in self._starts(engine, weighed, chosen.rank):
            session = engine.open(problem, start, Solver(self.solver))
            stops: tuple[Callback, ...] = ()
            measured = partial(_measured, session)
            if judge is not None:
                watch = judge.watch(session)
                stops, measured = (watch.stop,), partial(watch.measured, measured)
            outcome = self._alternate(session, measured, also=stops, order=order, keep_on_interrupt=keep_on_interrupt)
            if judge is not None:
                session, outcome = watch.best_sweep(engine, Solver(self.solver), outcome, _measured)
            if best is None or outcome.objective < best[0].objective:
                best = outcome, session
            if outcome.interrupted:
                break
        assert best is not None
        self.fitted_ = ImplicitFit(engine.keep(given, best[1]), best[0], chosen)
        return self

    def partial_fit(
        self, X: Any, y: Any = None, *, user: str | None = None, item: str | None = None, weight: str | None = None
    ) -> Self:
        """Take in new interactions, new users and new items without a whole refit.

        The cells of X join those already known; a cell known before gets the new weight. Then the rows of the users and
        items that occur in X are solved exactly against everything else, twice, users last. All other rows stay as they
        are. New ids are appended, so old positions keep their meaning. For an input without ids (a sparse matrix), rows
        and columns continue the old numbering and X must be at least as large as what was fitted.
        """
        if not hasattr(self, "fitted_"):
            return self.fit(X, user=user, item=item, weight=weight)
        self._check_parameters()
        fit, dtype = self.fitted_, self._number()
        new = read_table(X, user=user, item=item, weight=weight, dtype=dtype)
        table = merge(fit.table, new, dtype)
        rows = grown(fit.rows, table.cells.shape, AtZero(fit.chosen.rank, dtype))
        problem = fit.chosen.problem(self._scheme().apply(table.cells, None, dtype), self._loss())
        solve_touched(problem, rows, touched(table, new), Solver("exact"), self.n_threads)
        session = LocalEngine(self.n_threads).open(problem, rows, Solver("exact"))
        objective = measure(session, session.evaluate())["objective"]
        outcome = Outcome(self.history_, objective, self.converged_)
        self.fitted_ = ImplicitFit.here(table, (rows[0], rows[1]), outcome, chosen=fit.chosen)
        return self

    # ------------------------------------------------------------------ somebody new

    def transform(self, X: Any) -> Any:
        """Factors of new users from their interactions, (rows, rank): the exact row problem against the fitted items.

        X : sparse matrix or array of weights over the fitted items, in their order. After a fit by `SparkEngine`: a
            Spark DataFrame like that of the fit; the answer is a DataFrame (user, factors).
        """
        fit = self._fit()
        return self._folded(self._weighed(fit.kept.read(X, dtype=self._number()))).whole()

    def recommend_for(
        self,
        items: Iterable[Any],
        n: int = 10,
        *,
        weights: Sequence[float] | None = None,
        how: str = "fold_in",
        candidates: Iterable[Any] | None = None,
        exclude: Iterable[Any] = (),
        diversity: float = 0.0,
    ) -> Ranking:
        """The best `n` items for somebody new who has `items` (ids, or labels where the model has them).

        how : "fold_in" solves the row problem exactly; "average" scores by the mean of the item vectors.
        """
        fit = self._fit()
        one_of("how", how, ("fold_in", "average"))
        given = somebody_with(fit, items, weights, self._number())
        weighed = self._weighed(given)
        average = how == "average"
        row = average_of(fit, weighed.cells, self._number()) if average else self._folded(weighed).whole()
        seen = given.cells.to_csr()
        return self._best(row, seen, n, candidates=candidates, exclude=exclude, diversity=diversity).first()

    def explain(self, user: Any = None, item: Any = None, *, items: Iterable[Any] | None = None) -> Explanation:
        """What each item the user has contributes to the score of `item`, largest first; the parts sum to the score.

        For somebody new give `items` instead of `user`. With A the row's matrix, item k contributes
        w_k v_item' A^-1 v_k, since the user's vector is A^-1 sum_k w_k v_k. Squared loss only.
        """
        fit = self._fit()
        if not self._loss().is_quadratic:
            raise ValueError(f"explain needs loss='squared'; this model has loss={self.loss!r}.")
        if item is None or (user is None) == (items is None):
            raise ValueError("explain needs `item` and either `user` (an id) or `items` (what somebody new has).")
        given = (
            CellsHere(fit.cells.take(self.user_positions([user])), (Index.range(1), fit.items))
            if items is None
            else somebody_with(fit, items, None, self._number())
        )
        cells = self._weighed(given).cells
        penalty = float(np.ravel(fit.chosen.side(cells).penalty)[0])
        return explained(fit, cells, int(self.item_positions([item])[0]), penalty, fit.chosen.background)

    def score_rows(self, seen: Any, rows: NDArray[Any] | None = None) -> NDArray[Any]:
        """(len, n_items) scores of all items; seen items are not masked. Dense: pass a block of rows at a time.

        rows : training rows whose fitted factors are used; None folds the rows of `seen` in.
        """
        fit = self._fit()
        left = self.transform(seen) if rows is None else fit.rows[0][rows]
        return np.asarray(left @ fit.rows[1].T)

    def rank_items(self, seen: Any, n: int, rows: NDArray[Any] | None = None) -> NDArray[np.int32]:
        """Item positions (len, n), best first, padded with -1, cells of `seen` left out.

        rows : training rows whose fitted factors are used; None folds the rows of `seen` in.
        """
        fit = self._fit()
        left = self.transform(seen) if rows is None else fit.rows[0][rows]
        places, _ = top_k(left, fit.rows[1], min(n, len(fit.items)), seen, self.n_threads)
        return np.pad(places, ((0, 0), (0, n - places.shape[1])), constant_values=-1)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean NDCG@10 of what users have beyond what the model knows of them.

        X : held-out cells of the fitted users (as many rows as the fit, none of its cells), ranked among what the users
            do not have; or rows of new users over the same items, as scikit-learn's cross-validation gives them: four
            fifths of each row with three cells or more are folded in, and the rest is ranked.
        """
        fit = self._fit()
        given = fit.kept.read(X, dtype=self._number()).cells.to_csr()
        if not given.nnz:
            raise ValueError("X holds no cell; score needs at least one that was held out.")
        ours = given.shape[0] == len(fit.users) and not given.multiply(fit.cells.to_csr() > 0).nnz
        known, held_out = (None, given) if ours else keep_some(given, 0)
        rows = np.flatnonzero(np.diff(held_out.indptr))
        if not len(rows):
            raise ValueError("no row of X has three cells; new users need some to be known by and some to be found.")
        ranked = self.rank_items(self.seen(rows), 10, rows) if known is None else self.rank_items(known[rows], 10)
        return float(np.mean(ndcg_at_k(ranked, held_out[rows], 10)))

    estimate_memory = staticmethod(estimate_memory)

    # ------------------------------------------------------------------ the composition

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("n_init", self.n_init, at_least=1, whole=True)
        for name in ("background", "reg"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), at_least=0)
        if not isinstance(self.reg_scaling, str):
            check_number("reg_scaling", self.reg_scaling)
        one_of("solver", self.solver, METHODS)
        one_of("init", self.init, INITS)
        self._scheme()

    def _scheme(self) -> schemes.Weighting:
        return schemes.get(self.weighting)

    def _weighed(self, given: Any) -> Any:
        """Cells of rows that come after the fit, weighed as they would have been in it."""
        scheme = self._scheme()
        return given.weighed(scheme, self._fit().margins if scheme.needs_margins else None, self._number())

    def _chosen(self, shape: tuple[int, int], n_cells: int) -> Strength:
        """What was given, the rest from sizes and counts."""
        return Strength.given(shape, n_cells, self.rank, self.background, self.reg, self.reg_scaling)

    def _starts(self, engine: Engine, given: Any, rank: int) -> Iterator[tuple[Any, tuple[int, int]]]:
        """Where factors start and the order of half-steps, for each of `n_init` fits."""
        dtype = self._number()
        if self.warm_start:
            fit: ImplicitFit | None = getattr(self, "fitted_", None)
            warm = engine.warm(None if fit is None else fit.kept, dtype)
            if fit is not None and warm is not None:
                if fit.kept.ids != given.ids or warm[0].shape[1] != rank:
                    raise ValueError(
                        "warm_start=True needs the users, items and rank of the previous fit; use partial_fit."
                    )
                yield from ((engine.warm(fit.kept, dtype), (1, 0)) for _ in range(self.n_init))
                return
        seed = seed_from(self.random_state)
        yield from engine.starts(given.cells, rank, self.init, range(seed, seed + self.n_init), dtype)

    def _folded(self, given: Any) -> KeptSide:
        """New users, solved against the fitted items."""
        fit = self._fit()
        start = AtZero(fit.chosen.rank, self._number())
        problem = fit.chosen.single(given.cells, self._loss())
        return fit.kept.fold_in(given, problem, start, Solver("exact"), self.n_threads)

    # ------------------------------------------------------------------ files

    def _kept_objects(self) -> dict[str, Any]:
        named = isinstance(self.weighting, str)
        return super()._kept_objects() | {"weighting": self.weighting if named else self._scheme()}

    def _cells_to_save(self) -> dict[str, NDArray[Any]]:
        return to_arrays(self.fitted_.table, self._number())

    def _meta(self) -> dict[str, Any]:
        return super()._meta() | {"chosen": asdict(self.fitted_.chosen)}

    def _saved_fit(self, saved: Saved, given: CellsHere, outcome: Outcome) -> ImplicitFit:
        cells = given.cells
        kept = saved.meta.get("chosen")  # files of the first edition say it among the parameters
        chosen = Strength(**kept) if kept else self._chosen(cells.shape, len(cells))
        return ImplicitFit.here(given, self._saved_rows(saved, given, chosen.rank), outcome, chosen=chosen)


def _measured(session: Session, sums: dict[str, float]) -> Record:
    record = measure(session, sums)
    return record | {"error_reduction": 1.0 - record["rmse"]}
