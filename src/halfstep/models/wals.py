"""WALS: recommendations from implicit feedback, by weighted alternating least squares. A name for a composition."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from functools import partial
from typing import Any, Self

from numpy.typing import NDArray

from halfstep.core import weighting as schemes
from halfstep.core.fitted import FromFit
from halfstep.core.initial import INITS, AtZero, seed_from, widened
from halfstep.core.loop import Callback, Record, Session, measure
from halfstep.core.problem import METHODS
from halfstep.data.files import Saved
from halfstep.data.table import CellsHere, from_saved, merge, read_table, to_arrays
from halfstep.engine import LocalEngine, Outcome, Solver
from halfstep.engine.local import thread_count
from halfstep.engine.protocol import Engine, OpenSession
from halfstep.errors import check_number, one_of
from halfstep.models.added_strength import learned_kindred, learned_words, rehearsals
from halfstep.models.answers import Explanation, Ranking
from halfstep.models.common_words import CommonWords
from halfstep.models.feature_strength import COLUMNS, both_strengths, learned_strengths
from halfstep.models.implicit_answers import ImplicitModel
from halfstep.models.known import BothFeatures, digests, from_file, grown_known, held, known_of, read_both
from halfstep.models.memory import estimate_memory
from halfstep.models.more import grown, solve_touched, touched
from halfstep.models.stopping import SweepJudge
from halfstep.models.strength import ImplicitFit, Strength, powers_of

EXACT_SWEEPS = 2
"""The last ones of a fit under "auto", at least."""

__all__ = ["WALS", "Explanation", "Ranking"]

SAMPLE = 4_000_000
"""Cells that a cluster sends here to learn `feature_reg` from; on one machine all are looked at."""


@dataclass(eq=False, repr=False)
class WALS(ImplicitModel):
    """Weighted alternating least squares for implicit feedback; users x items.

    Minimises, over user factors u_i and item factors v_j of length `rank`,

        sum_obs w_ij (1 - u_i.v_j)^2  +  background * sum_unobserved a_i c_j (u_i.v_j)^2
            +  sum_i lam_i |u_i|^2  +  sum_j lam_j |v_j|^2

    and, where `fit` is given features f_i of users, over weights W too, (|u_i - W'f_i|^2 + |u_i|^2) / 2 standing for
    |u_i|^2 and eta |W|^2 being added, with eta = feature_reg * mean_i lam_i |f_i|^2 / 2; items likewise. Every row has
    a constant 1 among its features. Here w_ij is the weight given for an observed cell (1 for plain pairs), or what
    `weighting` and `weight_power` make of it; a_i and c_j are 1 unless `background_power` says otherwise. Every
    half-step solves its side exactly, and weights of features are solved before it.

    Parameters
    ----------
    rank : length of the factors; None is 1.5 times the root of the number of cells in steps of 32, from 128 to 512
        (less where a sweep would take more than 4e11 products), and at most the smaller side.
    background : weight of every unobserved cell, >= 0; None is 0.03 of the mean weight of observed cells.
    reg, reg_scaling : lam of a row is reg ("constant"), reg * n_i ("count"), or reg * (n_i + background * N)^nu for a
        number nu; n_i is the row's number of observed cells and N the size of the other side (unless both reg and
        background are given, N counts background over the mean weight). None for reg is the mean weight times
        4500 / (cells * mean cells of a user), held between 0.0015 and 0.05. So a fit does not depend on the unit of
        weights; docs/wals.md has the tables behind these rules.
    loss : what an observed cell costs in place of (1 - z)^2: a name or object of `halfstep.losses`, for a target of 1.
    weighting : what becomes of the weights that were given: "none", "log", "sqrt", "binary", "tfidf", "bm25",
        "popularity", a function of an array of values, or an object of `halfstep.weighting`, which has the formulas.
        New users are weighed by the counts of the fit.
    dislikes : whether weights may be below 0: such a cell has the target 0 and weighs |w|, so it says more than an
        unobserved one. It counts as seen, and what cancels out in a sum is unobserved.
    background_power, weight_power : a number p, the power of item counts, or a pair (of user counts, of item counts):
        c_j = (n_j / mean n_j)^p, a_i likewise; observed weights times the same with `weight_power`. A background that
        grows with an item's count keeps popular items back, a weight that falls with it lets rare ones in.
    feature_reg : how strongly weights of features are held, > 0, relative to what holds rows: one number, or two
        (users, items). Large, and features count for nothing. None learns it from the data: of seven values between
        0.03 and 30 the one under which rows that are left out, and put where their features say, rank best.
    common_words : what words that texts of the user and of the item share (cosine of tf-idf) add to a score, >= 0;
        less for users with many interactions, and nothing of it is in the objective. None learns it from rows that are
        left out, as `feature_reg`; 0 leaves it out, and is all there is with SparkEngine. docs/features.md.
    kindred : what the rows most like it by features have beyond their factors adds to the scores of a user, or of an
        item, without interactions, >= 0: one number, or two (for users, for items). None, 0: as `common_words`.
    max_iter, tol : at most so many sweeps; stop when the objective falls by less than tol of itself.
    solver : "auto": sweeps begin where the ones before them point, unless that would raise the objective, and in
        coarse ones a row takes two steps of "cg" where that is cheaper than "exact"; the last two are exact, and all
        that follow one that gained less than 10 tol. Others solve all sweeps alike, each from where the last one
        ended: "exact" (the cheaper of primal and dual, row by row), "cholesky", "dual", "cg" (stopped by residual) or
        "subspace" (blocks of columns in turn, for ranks of 256 and more). On a cluster "auto" is "exact".
    init : "scaled" N(0, 0.1/sqrt(rank)), "normal" N(0, 0.1), "svd", or "power": where one step of conjugate gradients
        on both sides leads from "scaled", columns then made more alike, which saves about three sweeps. Without a
        background it is "scaled".
    n_init : restarts from other random starts; the fit with the lowest objective is kept.
    warm_start : continue from the present factors when `fit` is called again with the same users and items; a larger
        rank adds columns at random.
    dtype : "float32" or "float64".
    n_threads : None for all cores. The result has the same bits for any number.
    random_state : seed of the start.
    max_seconds : no sweep is begun after that long.
    callbacks : called with the record of every sweep; a true answer stops the fit.
    checkpoint, every, resume : a file that the fit writes itself to every so many sweeps, or seconds ("60s"); one that
        was lost goes on with resume=True, to the bits of one that was not. Needs an int as `random_state`; further
        parts, such as restarts, are kept beside it. docs/checkpoints.md.
    engine : where half-steps run; None is this machine, `halfstep.engine.spark.SparkEngine` a cluster.
    verbose : 0 quiet (a bar appears on long fits at a terminal), 1 bar, 2 a line for each sweep.

    Attributes
    ----------
    user_factors_, item_factors_ : (users, rank), (items, rank).
    user_ids_, item_ids_ : ids in the order of the factor rows; row numbers where the input had none.
    history_ : one dict for each sweep: objective, data, background, penalty, rmse, rmse_all,
        error_reduction (1 - rmse: predicting 0 everywhere has an rmse of 1 over observed cells), seconds, ...
        `leapt` is 1 where the sweep began beyond where the last one ended, `coarse` counts the rows of its second half
        that took steps of "cg" under "auto".
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
    dislikes: bool = False
    background_power: float | tuple[float, float] = 0.0
    weight_power: float | tuple[float, float] = 0.0
    feature_reg: float | tuple[float, float] | None = None
    common_words: float | None = None
    kindred: float | tuple[float, float] | None = None
    max_iter: int = 4
    tol: float = 1e-4
    solver: str = "auto"
    init: str = "power"
    n_init: int = 1
    warm_start: bool = False
    dtype: str = "float32"
    n_threads: int | None = None
    random_state: Any = None
    max_seconds: float | None = None
    callbacks: Sequence[Callback] = ()
    checkpoint: str | os.PathLike[str] | None = None
    every: int | str = 1
    resume: bool = False
    engine: Engine | None = None
    verbose: int = 0

    rank_ = FromFit[int]("chosen.rank")
    background_ = FromFit[float]("chosen.background")
    reg_ = FromFit[float]("chosen.reg")
    _kind = "WALS"
    _tensors = ("user_factors", "item_factors")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        return tags

    # ------------------------------------------------------------------ fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        user: str | None = None,
        item: str | None = None,
        weight: str | None = None,
        user_features: Any = None,
        item_features: Any = None,
        validation: Any = None,
        metric: str = "ndcg@10",
        patience: int = 2,
        keep_on_interrupt: bool = False,
    ) -> Self:
        """Fit to interactions.

        X : scipy sparse matrix or 2-D array of weights (users x items, 0 is unobserved), `Interactions`, or a frame
            (pandas, polars, pyarrow; with `SparkEngine` a Spark DataFrame) with a row for each pair. `user`, `item`,
            `weight` name its columns; they are detected from common names when left out, and weights are 1 without
            such a column. The path of a Parquet file, or of a folder of some, is read a row group at a time and gives
            the bits of its frame; that of an .npz file of scipy is mapped.
        y : ignored, for scikit-learn.
        user_features, item_features : what is known of users and items beside their interactions: whatever
            `halfstep.data.features.Features.of` takes, such as a frame with an id column. Ids without a row are known
            by their interactions alone; rows of other ids are not used. A Spark DataFrame with an
            id column as well, with `SparkEngine`.
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
        given = engine.read(X, columns, dtype=dtype, splits=self._loss().is_quadratic, signed=self.dislikes)
        for name in ("common_words", "kindred"):
            if getattr(self, name) not in (None, 0, (0, 0)) and not isinstance(given, CellsHere):
                raise ValueError(f"{name} needs a fit on this machine; leave it at None or 0 with SparkEngine.")
        weighed = given.weighed(self._scheme(), None, dtype)
        chosen = self._chosen(weighed.cells)
        counts = schemes.margins(given.cells) if chosen.counts_matter and isinstance(given, CellsHere) else None
        features = read_both(engine, given, user_features, item_features)
        if any(each is not None for each in features):
            chosen = replace(chosen, feature_reg=self._feature_reg(weighed, chosen, counts, features))
        problem = chosen.problem(weighed.cells, self._loss(), counts, features)
        judge = None
        if validation is not None:
            single = partial(chosen.single, loss=self._loss(), margins=counts)
            seed = seed_from(self.random_state)
            judge = SweepJudge.of(given, weighed, validation, metric, patience, single, seed, self.n_threads)
        best: tuple[Outcome, OpenSession] | None = None
        file = self._sweep_file()
        mark = {} if judge is None else {"validation": judge.digest()}
        mark |= {} if file is None else digests(features)
        for number, (start, order, led) in enumerate(self._starts(engine, weighed, chosen.rank)):
            session = engine.open(problem, start, self._solver())
            stops: tuple[Callback, ...] = ()
            measured, watched = partial(_measured, session), []
            if judge is not None:
                watch = judge.watch(session, order[-1])
                stops, measured, watched = (watch.stop,), partial(watch.measured, measured), [watch]
            outcome = self._alternate(
                session,
                measured,
                also=stops,
                file=self._kept_loop(file, number, session, *watched, **mark),
                order=order,
                first=partial(session.lead, order) if led and problem.background > 0 else None,
                keep_on_interrupt=keep_on_interrupt,
            )
            if judge is not None:
                session, outcome = watch.best_sweep(engine, self._solver().exactly(), outcome, _measured)
            if best is None or outcome.objective < best[0].objective:
                best = outcome, session
            if outcome.interrupted:
                break
        assert best is not None
        outcome, session = best
        known = known_of(features, session, dtype)
        fit = ImplicitFit(engine.keep(given, session), outcome, chosen, known=known)
        if isinstance(given, CellsHere):
            fit = replace(fit, chosen=self._with_added(fit, session.problem))
        self.fitted_ = fit
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        user: str | None = None,
        item: str | None = None,
        weight: str | None = None,
        user_features: Any = None,
        item_features: Any = None,
    ) -> Self:
        """Take in new interactions, new users and new items without a whole refit.

        The cells of X join those already known; a cell known before gets the new weight. Then the rows of the users and
        items that occur in X are solved exactly against everything else, twice, users last. All other rows stay as they
        are. New ids are appended, so old positions keep their meaning. For an input without ids (a sparse matrix), rows
        and columns continue the old numbering and X must be at least as large as what was fitted.

        user_features, item_features : of new users and items, or other ones of those that are known; for models that
            were fitted with them. Their weights stay as they are.
        """
        told = {"user_features": user_features, "item_features": item_features}
        if not hasattr(self, "fitted_"):
            return self.fit(X, user=user, item=item, weight=weight, **told)
        self._check_parameters()
        fit, dtype = self._fit(), self._number()
        new = read_table(X, user=user, item=item, weight=weight, dtype=dtype, signed=self.dislikes)
        table = merge(fit.table, new, dtype)
        rows = grown(fit.rows, table.cells.shape, AtZero(fit.chosen.rank, dtype))
        counts = schemes.margins(table.cells) if fit.chosen.counts_matter else None
        known = grown_known(fit.known, tuple(told.values()), table.ids)
        problem = held(fit.chosen.problem(self._scheme().apply(table.cells, None, dtype), self._loss(), counts), known)
        solve_touched(problem, rows, touched(table, new), Solver("exact"), self.n_threads)
        session = LocalEngine(self.n_threads).open(problem, rows, Solver("exact"))
        objective = measure(session, session.evaluate())["objective"]
        outcome = Outcome(self.history_, objective, self.converged_)
        self.fitted_ = ImplicitFit.here(table, (rows[0], rows[1]), outcome, chosen=fit.chosen, known=known)
        return self

    estimate_memory = staticmethod(estimate_memory)

    # ------------------------------------------------------------------ the composition

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("n_init", self.n_init, at_least=1, whole=True)
        if self.feature_reg is not None:
            both_strengths(self.feature_reg)
        if self.kindred is not None:
            both_strengths(self.kindred, "kindred", none=True)
        for name in ("background", "reg", "common_words"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), at_least=0)
        if not isinstance(self.reg_scaling, str):
            check_number("reg_scaling", self.reg_scaling)
        for name in ("background_power", "weight_power"):
            powers_of(name, getattr(self, name))
        one_of("solver", self.solver, METHODS)
        one_of("init", self.init, INITS)
        if self.dislikes and not self._loss().is_quadratic:
            raise ValueError(f"dislikes=True needs loss='squared'; this model has loss={self.loss!r}.")
        self._scheme()

    def _solver(self) -> Solver:
        return Solver(self.solver, exact_after=self.max_iter - EXACT_SWEEPS, exact_below=10 * self.tol)

    def _scheme(self) -> schemes.Weighting:
        users, items = powers_of("weight_power", self.weight_power)
        scheme = schemes.get(self.weighting)
        scheme = schemes.InTurn(scheme, schemes.CountPower(items, users)) if users or items else scheme
        return schemes.Signed(scheme) if self.dislikes else scheme

    def _chosen(self, cells: Any) -> Strength:
        """What was given, the rest from sizes, counts and the mean weight."""
        size = (cells.shape, len(cells), cells.total_weight)
        powers = powers_of("background_power", self.background_power)
        return Strength.given(*size, self.rank, self.background, self.reg, self.reg_scaling, powers)

    def _feature_reg(self, given: Any, chosen: Strength, counts: Any, features: BothFeatures) -> tuple[float, float]:
        """How strongly weights of features are held on both sides: as given, or learned, here, from `SAMPLE` cells."""
        if self.feature_reg is not None:
            return both_strengths(self.feature_reg)
        engine, cells = LocalEngine(self.n_threads), given.sample(SAMPLE)
        told = [None if each is None else each.here(cells, side) for side, each in enumerate(features)]
        plain = chosen.problem(cells, self._loss(), counts)
        (start, order), *_ = engine.starts(cells, min(chosen.rank, COLUMNS), "scaled", [0], self._number())
        return learned_strengths(engine, plain, start, order, told)

    def _with_added(self, fit: ImplicitFit, problem: Any) -> Strength:
        """How much counts what is added to scores of factors: as given, or learned where features are known."""
        (users, items), threads = fit.known, thread_count(self.n_threads)
        words = self.common_words if users is not None and items is not None else 0.0
        kindred = (0.0, 0.0) if users is None and items is None else self.kindred
        tried = list(rehearsals(problem, fit.rows, fit.known, threads)) if words is None or kindred is None else []
        if words is None and users is not None and items is not None:
            said = CommonWords(1.0, users.features, items.features, fit.margins.column_counts)
            words = learned_words(said, tried)
        chosen = replace(fit.chosen, common_words=float(words or 0))
        if kindred is None:
            kindred = learned_kindred(replace(fit, chosen=chosen).words, tried, threads)
        return replace(chosen, kindred=both_strengths(kindred, "kindred", none=True))

    def _starts(self, engine: Engine, given: Any, rank: int) -> Iterator[tuple[Any, tuple[int, int], bool]]:
        """Where factors start, the order of half-steps, and whether rows are led from there: for each of `n_init`."""
        dtype, seed = self._number(), seed_from(self.random_state)
        if self.warm_start and self.checkpoint is not None:
            raise ValueError("warm_start=True does not go with checkpoint: a resumed fit has no fit before it.")
        if self.warm_start:
            fit: ImplicitFit | None = getattr(self, "fitted_", None)
            warm = engine.warm(None if fit is None else fit.kept, dtype)
            if fit is not None and warm is not None:
                if fit.kept.ids != given.ids or warm[0].shape[1] > rank:
                    raise ValueError(
                        "warm_start=True needs the users, items and rank of the previous fit, or a larger rank; "
                        "use partial_fit."
                    )
                for number in range(self.n_init):
                    rows = [widened(one.copy(), rank, side, seed + number) for side, one in enumerate(warm)]
                    yield rows, (1, 0), False
                return
        for start, order in engine.starts(given.cells, rank, self.init, range(seed, seed + self.n_init), dtype):
            yield start, order, self.init == "power"

    # ------------------------------------------------------------------ files

    def _kept_objects(self) -> dict[str, Any]:
        named = isinstance(self.weighting, str)
        return super()._kept_objects() | {"weighting": self.weighting if named else schemes.get(self.weighting)}

    @staticmethod
    def _saved_table(saved: Saved) -> CellsHere:
        return from_saved(saved, signed=bool(saved.params.get("dislikes")))

    def _cells_to_save(self) -> dict[str, NDArray[Any]]:
        return to_arrays(self._fit().table, self._number())

    def _meta(self) -> dict[str, Any]:
        return super()._meta() | {"chosen": asdict(self._fit().chosen)}

    def _saved_fit(self, saved: Saved, given: CellsHere, outcome: Outcome) -> ImplicitFit:
        cells = given.cells
        kept = saved.meta.get("chosen")  # files of the first edition say it among the parameters
        chosen = Strength.kept(kept) if kept else self._chosen(cells)
        rows, known = self._saved_rows(saved, given, chosen.rank), from_file(saved, given.ids, chosen.rank)
        return ImplicitFit.here(given, rows, outcome, chosen=chosen, known=known)


def _measured(session: Session, sums: dict[str, float]) -> Record:
    record = measure(session, sums)
    return record | {"error_reduction": 1.0 - record["rmse"]}
