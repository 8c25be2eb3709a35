"""PLQMF: ratings, classes or counts of (user, item) pairs, factorised under any loss. A name for a composition."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import count
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from halfstep.core import losses
from halfstep.core.fitted import FromFit
from halfstep.core.initial import seed_from
from halfstep.core.loop import Callback, Record, Session, measure
from halfstep.core.losses.coarse import on_grid
from halfstep.core.losses.constant import best_constant
from halfstep.core.problem import scaled_penalty
from halfstep.data.files import Saved
from halfstep.data.pairs import (
    merge_pairs,
    pairs_from_saved,
    pairs_to_arrays,
    read_pairs,
)
from halfstep.data.sweeps import SweepFile, digest_of
from halfstep.data.table import CellsHere
from halfstep.engine import LocalEngine, Outcome, Problem, Solver
from halfstep.engine.here import RowsHere
from halfstep.engine.protocol import Engine, KeptSide, OpenSession
from halfstep.errors import check_number
from halfstep.models.factor import SIDES
from halfstep.models.feature_strength import OF_RATINGS, both_strengths
from halfstep.models.known import (
    BothFeatures,
    Sides,
    digests,
    expected_new,
    expecting,
    grown_known,
    held,
    known_of,
    read_both,
)
from halfstep.models.more import grown, solve_touched, touched
from halfstep.models.rating_answers import RatingModel
from halfstep.models.rating_fit import TENSORS, RatingFit
from halfstep.models.rating_penalty import RatingPenalty, bias_penalties, given_penalty, learn_penalty
from halfstep.models.rating_quantiles import fit_bands
from halfstep.models.ratings import FIRST_GAP, LAST_GAP, RatingColumns, RatingStart

Floats = NDArray[np.float64]

LEAPING = Solver("auto", tolerance=FIRST_GAP, settled=LAST_GAP, exact_after=0)
"""Sweeps begin where the ones before them point; in none of them rows are coarse."""

SAMPLE = 4_000_000
"""Pairs that a cluster sends here to learn the penalty from; on one machine all are looked at."""


@dataclass(eq=False, repr=False)
class PLQMF(RatingModel):
    """Factorise the values of (user, item) pairs under a piecewise linear-quadratic or smooth loss.

    Minimises over factors p_u, q_i of length `rank`, biases a_u, b_i and an intercept mu, for n users and m items,

        C [ sum_obs s_ui phi(mu + a_u + b_i + p_u.q_i; y_ui)
            + reg_user sum_u |p_u|^2 + reg_item sum_i |q_i|^2 + reg_bias (sum_u a_u^2 + sum_i b_i^2) ]

    and, where `fit` is given features f_u of users, over weights W too, |(p_u, a_u) - W'f_u|^2 standing for |p_u|^2
    and a_u^2 and eta |W|^2 being added, with eta = feature_reg times the mean over users of their penalty and |f_u|^2;
    items likewise. Every row has a constant 1 among its features. Here s are sample weights (1 unless given) and
    C = 1 / (n reg_user + m reg_item) is a scale that changes no answer. Each
    half-step solves every row of its side to a relative duality gap, in parallel; the intercept, which nothing holds,
    is solved exactly in every sweep. A pair that occurs twice counts twice.

    Untouched, the penalties follow from the data (`halfstep.models.rating_penalty` derives them): biases are held by
    the ratio of noise to their own spread, factors by what a matrix of pure noise in the same cells would reach. So
    `fit(pairs, a * y + b)` predicts `a * p + b` for every loss that allows it.

    Parameters
    ----------
    rank : length of the factors; None is 16, or 32 where rows have a hundred pairs and more on average.
    loss : a name or object of `halfstep.losses`, such as "absolute" or Huber(0.5). Losses of two classes ("hinge",
        "squared_hinge", "smoothed_hinge", "logistic") take any two labels and make this a classifier. "ordinal" takes
        levels in their order; its thresholds stand in for the intercept and are solved in every sweep.
    reg_user, reg_item : the penalties of factors, relative to a pair of weight 1; None learns them from the data.
    C, rho : the same in other words: reg_user = rho / (C n), reg_item = (1 - rho) / (C m).
    reg_bias : the penalty of biases, one number or two (users, items); None is learned where the penalty of factors is,
        and is theirs where that is given.
    reg_scaling : the penalty of a row is times 1 ("constant"), its number of pairs n_i ("count"), or n_i^nu for a
        number nu, biases included. Learned penalties are divided by the mean of it.
    feature_reg : how strongly weights of features are held, > 0, relative to what holds rows: one number, or two
        (users, items); None is a hundredth of the number of users, or of items. Large, and features count for nothing.
    coarse : whether targets on a grid, such as whole stars, stand for the interval around them under an absolute or
        quantile loss, which is then averaged over it (`losses.Coarse`), and predictions are on the grid. None: where
        the penalty is learned.
    intercept : whether mu is fitted; it is zero otherwise.
    biases : whether a_u and b_i are fitted; they are zero otherwise.
    nonnegative : factors >= 0; biases stay free.
    max_iter, tol : at most so many sweeps, each users then items; stop when the objective falls by less than tol of
        itself. At the end users are solved once more, so that their rows are optimal for the fitted items. Sweeps begin
        where the ones before them point, unless that would raise the objective, as those of `WALS` do (docs/wals.md);
        not where factors are bounded, rows have features, the loss learns, or the engine is a cluster.
    row_tol : relative duality gap at which a row counts as solved. None follows the fit: 1e-2 in the first sweep, then
        a fifth of what the last sweep gained, down to 1e-4. No row gets worse, whatever it is.
    init_scale : standard deviation of the random start of the factors, in roots of the spread of y; biases start at
        zero and the intercept at the best constant.
    n_init : restarts from other random starts; the fit with the lowest objective is kept.
    dtype : "float32" or "float64".
    n_threads : None for all cores. The result has the same bits for any number.
    random_state, max_seconds, callbacks, verbose : as in `WALS`.
    checkpoint, every, resume : a file that the fit writes itself to every so many sweeps, or seconds ("60s"); one that
        was lost goes on with resume=True, to the bits of one that was not. Needs an int as `random_state`; further
        parts, such as restarts, are kept beside it. docs/checkpoints.md.
    engine : where half-steps run; None is this machine, `halfstep.engine.spark.SparkEngine` a cluster. There X is a
        Spark DataFrame, `y` and `sample_weight` name its columns, factors come as DataFrames (id, factors, bias), and
        `predict` and `transform` take and give DataFrames.

    Attributes
    ----------
    user_factors_, item_factors_ : (n, rank), (m, rank); user_bias_, item_bias_ : (n,), (m,); intercept_ : mu.
    user_ids_, item_ids_ : ids in the order of the rows. classes_ : the two labels, or the
        levels of loss "ordinal"; loss_ : the loss as it was fitted, with its thresholds where it has any.
    history_ : one dict for each sweep: objective, data (C sum s phi), penalty, mean_loss (sum s phi / sum s), seconds,
        gap (the largest of any row), leapt (1 where the sweep began beyond where the last one ended), ...
    objective_, n_iter_, converged_ : the last objective, sweeps made, whether `tol` was reached.
    C_, rho_, penalty_ : the penalty in both wordings.
    """

    rank: int | None = None
    loss: Any = "squared"
    C: float | None = None
    rho: float | None = None
    _: KW_ONLY
    reg_user: float | None = None
    reg_item: float | None = None
    reg_bias: float | Sequence[float] | None = None
    reg_scaling: str | float = "constant"
    feature_reg: float | tuple[float, float] | None = None
    coarse: bool | None = None
    intercept: bool = True
    biases: bool = True
    nonnegative: bool = False
    max_iter: int = 30
    tol: float = 1e-4
    row_tol: float | None = None
    init_scale: float = 0.1
    n_init: int = 1
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

    user_bias_ = FromFit[NDArray[Any]]("user_bias")
    item_bias_ = FromFit[NDArray[Any]]("item_bias")
    intercept_ = FromFit[float]("intercept")
    loss_ = FromFit[losses.Loss]("loss")
    penalty_ = FromFit[RatingPenalty]("penalty")
    C_ = FromFit[float]("C")
    rho_ = FromFit[float]("rho")
    _kind = "PLQMF"
    _since = {"intercept": False}  # noqa: RUF012
    _tensors = TENSORS
    _saved_table = staticmethod(pairs_from_saved)

    # ------------------------------------------------------------------ fitting

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, user_features: Any = None, item_features: Any = None
    ) -> Self:
        """Fit to pairs.

        X : (N, 2) array of (user, item) ids of any kind, or a frame with two such columns.
        y : (N,) what the pairs are worth: numbers or two classes, as the loss wants them.
        sample_weight : (N,) how much each pair counts, >= 0; None is 1 for all.
        user_features, item_features : what is known of users and items beside their ratings: whatever
            `halfstep.Features.of` takes, such as a frame with an id column; with `SparkEngine` also a Spark DataFrame.
        """
        self._check_parameters()
        engine, loss = self._where(), self._loss()
        given = engine.read_values(
            X,
            y,
            sample_weight,
            loss,
            SIDES,
            dtype=self._number(),
            splits=loss.is_quadratic and not self.nonnegative,  # other rows need their cells in one place
        )
        seed = seed_from(self.random_state)
        features = read_both(engine, given, user_features, item_features)
        if loss.beside and features != (None, None):
            raise ValueError("features do not go with losses.Quantiles yet; fit each level by losses.Quantile.")
        one = partial(self._fitted, engine, seed, self._sweep_file(), count(), features=features)
        self.fitted_ = replace(one(given, loss), bands=fit_bands(given, loss.beside, one, seed))
        return self

    def _fitted(
        self,
        engine: Engine,
        seed: int,
        file: SweepFile | None,
        numbers: Iterator[int],
        given: Any,
        loss: losses.Loss,
        features: BothFeatures = (None, None),
    ) -> RatingFit:
        """The factorisation of these cells under one loss. numbers : of the parts that are kept in files."""
        penalty, constant, loss = self._learned(given, loss, seed)
        columns = RatingColumns(
            self._rank(given), bool(self.biases), bool(self.intercept), penalty.pins if self.biases else (1.0, 1.0)
        )
        C, _ = penalty.in_words(*given.cells.shape)
        problem = self._problem(given.cells, columns, penalty, loss)
        solver = LEAPING if not self.row_tol else replace(LEAPING, tolerance=self.row_tol, settled=None)
        scale = float(self.init_scale) * penalty.spread**0.5
        starting = partial(RatingStart, columns, scale, constant)
        bounded, dtype = bool(self.nonnegative), np.dtype(self.dtype)
        mark = {} if file is None else digests(features)
        usual = tuple(OF_RATINGS * n for n in given.cells.shape)
        strengths = both_strengths(usual if self.feature_reg is None else self.feature_reg)
        problem = expecting(problem, features, strengths, 1.0)
        best: tuple[Outcome, OpenSession] | None = None
        for restart in range(self.n_init):
            session = engine.open(problem, starting(seed + restart, bounded, dtype), solver)
            part = digest_of(loss.to_dict(), seed + restart)
            kept = self._kept_loop(file, next(numbers), session, part=part, **mark)
            outcome = self._alternate(session, partial(_measured, session, C, given.total_weight), file=kept)
            if best is None or outcome.objective < best[0].objective:
                best = outcome, session
        assert best is not None
        outcome, session = best
        known, loss = known_of(features, session, dtype), session.problem.loss
        return RatingFit(engine.keep(given, session), outcome, columns, penalty, loss, given.classes, known=known)

    def _learned(self, given: Any, loss: losses.Loss, seed: int) -> tuple[RatingPenalty, float, losses.Loss]:
        """The penalty, given or learned, the constant that the intercept starts from, and the loss as it is fitted."""
        n, m = given.cells.shape
        if min(n, m) < 2:
            raise ValueError(f"X has {n} distinct users and {m} distinct items; a factorisation needs two of each.")
        penalty = given_penalty(
            n, m, C=self.C, rho=self.rho, reg_user=self.reg_user, reg_item=self.reg_item, reg_bias=self.reg_bias
        )
        coarse = penalty is None if self.coarse is None else bool(self.coarse)
        if penalty is not None and not (self.intercept or coarse or loss.learns):
            return penalty, 0.0, loss
        cells = given.sample(SAMPLE)
        z = np.zeros(len(cells))
        t, w = (np.broadcast_to(np.asarray(values, np.float64), len(z)) for values in (cells.targets, cells.weights))
        loss = (on_grid(loss, t) if coarse else loss).learned(z, t, w)
        constant = best_constant(loss, z, t, w) if self.intercept and not loss.learns else 0.0
        if penalty is None:
            penalty = learn_penalty(cells, loss, seed)
            both = bias_penalties(self.reg_bias)
            if both is not None:
                penalty = replace(penalty, user_bias=both[0], item_bias=both[1])
            if self.reg_scaling != "constant":
                means = [float(np.mean(self._scaled(1.0, side))) for side in (cells, cells.T)]
                penalty = penalty.divided(*means)
        return penalty, constant, loss

    def _rank(self, given: Any) -> int:
        n, m = given.cells.shape
        if self.rank is None:
            return int(min(16 if given.n_rows / (n + m) < 100 else 32, n, m))
        if self.rank > max(n, m):
            raise ValueError(
                f"rank={self.rank} is larger than both sides ({n} users, {m} items); choose a smaller rank."
            )
        return int(self.rank)

    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, user_features: Any = None, item_features: Any = None
    ) -> Self:
        """Take in new pairs, new users and new items without a whole refit; the first call is `fit`.

        X, y, sample_weight : as in `fit`. What was known of a pair of X gives way to what X says of it; a pair that
        occurs twice in X counts twice. Then the rows of the users and items that occur in X are solved exactly against
        everything else, twice, users last. All other rows stay as they are, and so do the intercept, the penalties, the
        classes and whatever else the fit has learned: a new class is refused. New ids are appended, so old positions
        keep their meaning. For models on this machine; `collect()` brings one from a cluster.
        user_features, item_features : of new users and items; for models that were fitted with them.
        """
        told = {"user_features": user_features, "item_features": item_features}
        if not hasattr(self, "fitted_"):
            return self.fit(X, y, sample_weight, **told)
        self._check_parameters()
        fit, dtype = self._fit(), self._number()
        new = read_pairs(X, y, sample_weight, fit.loss, SIDES, dtype=dtype, classes=fit.classes)
        known = merge_pairs(fit.table, new, dtype)
        about = grown_known(fit.known, tuple(told.values()), known.ids)
        more = partial(self._with_more, known=known, places=touched(known, new), about=about)
        bands = tuple(replace(band, fit=more(band.fit)) for band in fit.bands)
        self.fitted_ = replace(more(fit), bands=bands)
        return self

    def _with_more(
        self, fit: RatingFit, known: CellsHere, places: Sequence[NDArray[np.int64]], about: Sides
    ) -> RatingFit:
        """A fit whose rows at these places were solved for all cells that are known now."""
        start, dtype = self._at_zero(fit.columns, fit.intercept), self._number()
        rows = grown([each.astype(dtype) for each in fit.rows], known.cells.shape, start)
        problem = held(self._problem(known.cells, fit.columns, fit.penalty, fit.loss), about)
        solver = Solver(tolerance=self.row_tol or LAST_GAP)
        solve_touched(problem, rows, places, solver, self.n_threads)
        session = LocalEngine(self.n_threads).open(problem, rows, solver)
        C, _ = fit.penalty.in_words(*known.cells.shape)
        objective = _measured(session, C, known.total_weight, session.evaluate())["objective"]
        outcome = Outcome(fit.outcome.history, objective, fit.outcome.converged)
        return replace(fit, kept=RowsHere((rows[0], rows[1]), known), outcome=outcome, known=about)

    def transform(self, X: Any, y: Any, sample_weight: Any = None, *, user_features: Any = None) -> Any:
        """Fold new users in: each is solved exactly against the fitted items, under the loss and penalty of the fit.

        X : (N, 2) pairs, whose users may have any ids and whose items must be known. y, sample_weight : as in `fit`.
        A user of the fit, given the same pairs again, gets the fitted row. Returns ids, factors and biases. After a fit
        by `SparkEngine` X is a Spark DataFrame, `y` and `sample_weight` name its columns, and the answer is a DataFrame
        (user, factors, bias).
        user_features : of new users, by id, for models that were fitted with such features.
        """
        return self._folded(X, y, sample_weight, user_features).apart(self._fit().columns)

    def _folded(self, X: Any, y: Any, sample_weight: Any = None, features: Any = None) -> KeptSide:
        fit: RatingFit = self._fit()
        given = fit.kept.read_values(X, y, sample_weight, fit.loss, fit.classes, dtype=self._number())
        problem = self._problem(given.cells, fit.columns, fit.penalty, fit.loss)
        means = expected_new(fit.kept, given, fit.known[0], features, "user_features", by_id=True)
        if means is not None:
            problem = replace(problem, sides=(replace(problem.sides[0], prior=means), problem.sides[1]))
        start = self._at_zero(fit.columns)
        return fit.kept.fold_in(given, problem, start, Solver(tolerance=self.row_tol or LAST_GAP), self.n_threads)

    # ------------------------------------------------------------------ files

    def _cells_to_save(self) -> dict[str, NDArray[Any]]:
        fit: RatingFit = self._fit()
        return pairs_to_arrays(fit.cells, self._number()) | fit.band_rows()

    def _meta(self) -> dict[str, Any]:
        fit: RatingFit = self._fit()
        return super()._meta() | fit.to_meta()

    def _saved_fit(self, saved: Saved, given: CellsHere, outcome: Outcome) -> RatingFit:
        return RatingFit.from_saved(saved, given, outcome, self._loss())

    # ------------------------------------------------------------------ the composition

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags

        tags = super().__sklearn_tags__()
        two_classes = self._loss().form == "margin"
        tags.estimator_type = "classifier" if two_classes else "regressor"
        tags.classifier_tags = ClassifierTags(multi_class=False) if two_classes else None
        tags.regressor_tags = None if two_classes else RegressorTags()
        tags.target_tags.required = True
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.input_tags.sparse = tags.input_tags.positive_only = False  # X are pairs of ids
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("init_scale", self.init_scale, above=0)
        check_number("n_init", self.n_init, at_least=1, whole=True)
        if self.feature_reg is not None:
            both_strengths(self.feature_reg)
        if not isinstance(self.reg_scaling, str):
            check_number("reg_scaling", self.reg_scaling)
        if self.row_tol is not None:
            check_number("row_tol", self.row_tol, above=0)

    def _scaled(self, penalty: float, cells: Any) -> Any:
        """lam of the rows that have these cells."""
        rule = partial(scaled_penalty, penalty, self.reg_scaling, background=0.0, n_other=cells.shape[1])
        return cells.per_row(rule)

    def _at_zero(self, columns: RatingColumns, constant: float = 0.0) -> RatingStart:
        """Rows that have neither factors nor biases yet."""
        return RatingStart(columns, 0.0, constant, 0, bool(self.nonnegative), np.dtype(self.dtype))

    def _problem(self, cells: Any, columns: RatingColumns, penalty: RatingPenalty, loss: losses.Loss) -> Problem:
        """What is minimised over these cells."""
        bounded = bool(self.nonnegative)
        users = columns.side(0, self._scaled(penalty.user, cells), bounded)
        items = columns.side(1, self._scaled(penalty.item, cells.T), bounded)
        return Problem(cells, (users, items), loss, constant=columns.constant)


def _measured(session: Session, C: float, total_weight: float, sums: dict[str, float]) -> Record:
    record = measure(session, sums)
    scaled = {name: C * record[name] for name in ("objective", "data", "background", "penalty")}
    return record | scaled | {"mean_loss": record["data"] / total_weight}
