"""PLQMF: ratings, classes or counts of (user, item) pairs, factorised under any loss. A name for a composition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from halfstep.core import losses
from halfstep.core.fitted import FromFit
from halfstep.core.initial import seed_from
from halfstep.core.loop import Callback, Record, Session, measure
from halfstep.data.files import Saved
from halfstep.data.pairs import checked_weights, same_length
from halfstep.data.table import CellsHere, pattern_from_saved
from halfstep.engine import Outcome, Problem, Solver
from halfstep.engine.protocol import Engine, KeptSide
from halfstep.errors import check_number
from halfstep.figures.shown import ShownRatings
from halfstep.models.answers import Ranking
from halfstep.models.factor import SIDES, FactorModel
from halfstep.models.fitted import FactorFit
from halfstep.models.ratings import FIRST_GAP, LAST_GAP, RatingColumns, RatingStart, penalties

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RatingFit(FactorFit):
    """Rows with biases in them, the penalty, and the two classes of losses that have them."""

    columns: RatingColumns
    C: float
    rho: float
    classes: NDArray[Any] | None = None

    def factors(self, side: int) -> Any:
        return self.kept.sides[side].factors(self.columns)

    def bias(self, side: int) -> NDArray[Any]:
        rows, column = self.rows[side], self.columns.bias(side)
        return np.zeros(len(rows), rows.dtype) if column is None else rows[:, column]

    @property
    def user_bias(self) -> NDArray[Any]:
        return self.bias(0)

    @property
    def item_bias(self) -> NDArray[Any]:
        return self.bias(1)

    @property
    def n_features(self) -> int:
        return 2


def _is_logistic(model: PLQMF) -> bool:
    return isinstance(model._loss(), losses.Logistic)


@dataclass(eq=False, repr=False)
class PLQMF(ShownRatings, FactorModel[RatingFit]):
    """Factorise the values of (user, item) pairs under a piecewise linear-quadratic or smooth loss.

    Minimises over factors p_u, q_i of length `rank` and biases a_u, b_i, for n users and m items,

        C sum_obs s_ui phi(p_u.q_i + a_u + b_i; y_ui)
            + rho/n sum_u (|p_u|^2 + a_u^2) + (1-rho)/m sum_i (|q_i|^2 + b_i^2)

    with sample weights s (1 unless given). Each half-step solves every row of its side to a relative duality gap, in
    parallel. A pair that occurs twice counts twice.

    Parameters
    ----------
    rank : length of the factors.
    loss : a name or object of `halfstep.losses`, such as "absolute" or Huber(0.5). Losses of two classes ("hinge",
        "squared_hinge", "smoothed_hinge", "logistic") take any two labels and make this a classifier.
    C, rho : the penalty as above. By default rho is 1/2, and C is 10 over the number of pairs (1e-4 for 100,000).
    reg_user, reg_item : the penalty in other words, relative to a pair of weight 1: reg_user = rho / (C n),
        reg_item = (1 - rho) / (C m).
    biases : whether a_u and b_i are fitted; they are zero otherwise.
    nonnegative : factors >= 0; biases stay free.
    max_iter, tol : at most so many sweeps, each users then items; stop when the objective falls by less than tol of
        itself. At the end users are solved once more, so that their rows are optimal for the fitted items.
    row_tol : relative duality gap at which a row counts as solved. None follows the fit: 1e-2 in the first sweep, then
        a fifth of what the last sweep gained, down to 1e-4. No row gets worse, whatever it is.
    init_scale : standard deviation of the random start of the factors; biases start at zero.
    dtype : "float32" or "float64".
    n_threads : None for all cores. The result has the same bits for any number.
    random_state, max_seconds, callbacks, verbose : as in `WALS`.
    engine : where half-steps run; None is this machine, `halfstep.engine.spark.SparkEngine` a cluster. There X is a
        Spark DataFrame, `y` and `sample_weight` name its columns, factors come as DataFrames (id, factors, bias), and
        `predict` and `transform` take and give DataFrames.

    Attributes
    ----------
    user_factors_, item_factors_ : (n, rank), (m, rank); user_bias_, item_bias_ : (n,), (m,).
    user_ids_, item_ids_ : ids in the order of the rows. classes_ : the two labels, for losses of two classes.
    history_ : one dict for each sweep: objective, data (C sum s phi), penalty, mean_loss (sum s phi / sum s), seconds,
        gap (the largest of any row), ...
    objective_, n_iter_, converged_, C_, rho_ : the last objective, sweeps made, whether `tol` was reached, the penalty.
    """

    rank: int = 10
    loss: Any = "squared"
    C: float | None = None
    rho: float | None = None
    _: KW_ONLY
    reg_user: float | None = None
    reg_item: float | None = None
    biases: bool = True
    nonnegative: bool = False
    max_iter: int = 30
    tol: float = 1e-4
    row_tol: float | None = None
    init_scale: float = 0.1
    dtype: str = "float32"
    n_threads: int | None = None
    random_state: Any = None
    max_seconds: float | None = None
    callbacks: Sequence[Callback] = ()
    engine: Engine | None = None
    verbose: int = 0

    user_bias_ = FromFit[NDArray[Any]]("user_bias")
    item_bias_ = FromFit[NDArray[Any]]("item_bias")
    C_ = FromFit[float]("C")
    rho_ = FromFit[float]("rho")
    _kind = "PLQMF"
    _tensors = ("user_rows", "item_rows")
    _saved_table = staticmethod(pattern_from_saved)

    @property
    def classes_(self) -> NDArray[Any]:
        """The two labels, for losses of two classes."""
        classes = self._fit().classes
        if classes is None:
            raise AttributeError(f"loss={self.loss!r} has no classes; losses of two classes have.")
        return classes

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to pairs.

        X : (N, 2) array of (user, item) ids of any kind, or a frame with two such columns.
        y : (N,) what the pairs are worth: numbers or two classes, as the loss wants them.
        sample_weight : (N,) how much each pair counts, >= 0; None is 1 for all.
        """
        self._check_parameters()
        engine, loss = self._where(), self._loss()
        given = engine.read_values(
            X,
            y,
            sample_weight,
            loss,
            lambda n, m, pairs: self._penalties(n, m, pairs)[0],
            SIDES,
            dtype=self._number(),
            splits=loss.is_quadratic and not self.nonnegative,  # other rows need their cells in one place
        )
        n, m = given.cells.shape
        C, rho = self._penalties(n, m, given.n_rows)
        solver = Solver(tolerance=self.row_tol) if self.row_tol else Solver(tolerance=FIRST_GAP, settled=LAST_GAP)
        seed = seed_from(self.random_state)
        session = engine.open(self._problem(given.cells, (n, m), rho), self._start(seed), solver)
        outcome = self._alternate(session, partial(_measured, session, C * given.total_weight))
        self.fitted_ = RatingFit(engine.keep(given, session), outcome, self._columns(), C, rho, given.classes)
        return self

    def transform(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fold new users in: each is solved exactly against the fitted items, under the loss and penalty of the fit.

        X : (N, 2) pairs, whose users may have any ids and whose items must be known. y, sample_weight : as in `fit`.
        A user of the fit, given the same pairs again, gets the fitted row. Returns ids, factors and biases. After a fit
        by `SparkEngine` X is a Spark DataFrame, `y` and `sample_weight` name its columns, and the answer is a DataFrame
        (user, factors, bias).
        """
        return self._folded(X, y, sample_weight).apart(self._fit().columns)

    def _folded(self, X: Any, y: Any, sample_weight: Any = None) -> KeptSide:
        fit = self._fit()
        given = fit.kept.read_values(
            X, y, sample_weight, self._loss(), lambda *_: fit.C, fit.classes, dtype=self._number()
        )
        problem = self._problem(given.cells, fit.kept.shape, fit.rho)
        solver = Solver(tolerance=self.row_tol or LAST_GAP)
        return fit.kept.fold_in(given, problem, replace(self._start(0), scale=0.0), solver, self.n_threads)

    # ------------------------------------------------------------------ answers

    def decision_function(self, X: Any) -> Any:
        """Scores p_u.q_i + a_u + b_i of pairs, (N,).

        An unseen user or item counts as an average one. With biases that is the mean bias of its side and no factors,
        so that the bias of the known side remains; without biases it is the mean of the factors of its side. After a
        fit by `SparkEngine` X is a Spark DataFrame, and the answer X with one more column, "score".
        """
        return self._scores(X, np.asarray, "score")

    def predict(self, X: Any) -> Any:
        """What the scores stand for, (N,): numbers, probabilities (Bernoulli), rates (Poisson) or classes.

        After a fit by `SparkEngine` X is a Spark DataFrame, and the answer X with one more column, "prediction".
        """
        return self._scores(X, partial(self._loss().decode, classes=self._fit().classes), "prediction")

    def _scores(self, X: Any, decode: Any, column: str) -> Any:
        fit = self._fit()
        return fit.kept.scores(X, fit.columns, decode, column, self.n_threads)

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the two `classes_`, (N, 2); loss "logistic" only."""
        from scipy.special import expit

        scores = self.decision_function(X)
        return np.stack([expit(-scores), expit(scores)], axis=1)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Larger is better. Two classes: accuracy. Squared loss: R^2. Any other: minus the mean of phi."""
        loss = self._loss()
        scores = self.decision_function(X)
        targets, _ = loss.encode_targets(y, self._fit().classes)
        same_length("y", targets, len(scores))
        weights = checked_weights(sample_weight, len(scores))
        if loss.form == "margin":
            return float(np.average((scores > 0) == (targets > 0), weights=weights))
        cost = float(np.average(loss.value(scores, targets), weights=weights))
        if not loss.is_quadratic:
            return -cost
        spread = float(np.average((targets - np.average(targets, weights=weights)) ** 2, weights=weights))
        return 1 - cost / spread if spread > 0 else float(cost == 0)

    def recommend_for(self, items: Iterable[Any], y: ArrayLike, n: int = 10) -> Ranking:
        """The best `n` other items for somebody new who gave `items` the values `y`."""
        given = list(items)
        row = self._folded(np.array([(0, item) for item in given], dtype=object), y).whole()
        return self._best(row, None, n, exclude=given).first()

    # ------------------------------------------------------------------ files

    @property
    def _row_length(self) -> int:
        return self._columns().d

    def _cells_to_save(self) -> dict[str, NDArray[Any]]:
        cells = self.fitted_.cells
        return {"indptr": cells.indptr, "indices": cells.indices}

    def _meta(self) -> dict[str, Any]:
        fit = self.fitted_
        classes = None if fit.classes is None else fit.classes.tolist()
        return super()._meta() | {"penalty": [fit.C, fit.rho], "classes": classes}

    def _saved_fit(self, saved: Saved, given: CellsHere, rows: tuple[Any, Any], outcome: Outcome) -> RatingFit:
        (C, rho), classes = saved.meta["penalty"], saved.meta["classes"]
        known = None if classes is None else np.asarray(classes)
        return RatingFit.here(given, rows, outcome, columns=self._columns(), C=C, rho=rho, classes=known)

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
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("init_scale", self.init_scale, above=0)
        if self.row_tol is not None:
            check_number("row_tol", self.row_tol, above=0)

    def _columns(self) -> RatingColumns:
        return RatingColumns(self.rank, bool(self.biases))

    def _penalties(self, n: int, m: int, n_pairs: int) -> tuple[float, float]:
        """C and rho for n users and m items."""
        if min(n, m) < 2:
            raise ValueError(f"X has {n} distinct users and {m} distinct items; a factorisation needs two of each.")
        if self.rank > max(n, m):
            raise ValueError(
                f"rank={self.rank} is larger than both sides ({n} users, {m} items); choose a smaller rank."
            )
        return penalties(n, m, n_pairs, self.C, self.rho, self.reg_user, self.reg_item)

    def _problem(self, cells: Any, shape: tuple[int, int], rho: float) -> Problem:
        """What is minimised over these cells, penalised as a fit of that shape is."""
        shares, bounded = (rho / shape[0], (1 - rho) / shape[1]), bool(self.nonnegative)
        users, items = (self._columns().side(side, share, bounded) for side, share in enumerate(shares))
        return Problem(cells, (users, items), self._loss())

    def _start(self, seed: int) -> RatingStart:
        return RatingStart(self._columns(), float(self.init_scale), seed, bool(self.nonnegative), np.dtype(self.dtype))


def _measured(session: Session, scale: float, sums: dict[str, float]) -> Record:
    record = measure(session, sums)
    return record | {"mean_loss": record["data"] / scale}
