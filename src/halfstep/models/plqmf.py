"""PLQMF: ratings, classes or counts of (user, item) pairs, factorised under any loss. A name for a composition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from halfstep import _core
from halfstep.core import losses
from halfstep.core.cells import Observations
from halfstep.core.initial import seed_from
from halfstep.core.loop import Callback, Record, measure
from halfstep.data.files import Saved
from halfstep.data.frames import pairs_from
from halfstep.data.ids import encode
from halfstep.data.tables import Table, pattern_from_saved
from halfstep.engine import Outcome, Problem, Solver
from halfstep.engine.local import solve_rows, thread_count
from halfstep.errors import check_number
from halfstep.figures.shown import ShownRatings
from halfstep.models.answers import Ranking
from halfstep.models.factor import FactorModel
from halfstep.models.ratings import (
    FIRST_GAP,
    LAST_GAP,
    Layout,
    RatingStart,
    checked_weights,
    penalties,
    same_length,
)

if TYPE_CHECKING:
    from halfstep.models.distributed import DistributedModel

Floats = NDArray[np.float64]


class Folded(NamedTuple):
    """New users, each solved against the fitted items: ids (k,), factors (k, rank), bias (k,)."""

    ids: NDArray[Any]
    factors: NDArray[Any]
    bias: NDArray[Any]


def _is_logistic(model: PLQMF) -> bool:
    return isinstance(model._loss(), losses.Logistic)


class PLQMF(ShownRatings, FactorModel):
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

    _kind = "PLQMF"
    _tensors = ("user_rows", "item_rows")
    _saved_table = staticmethod(pattern_from_saved)

    def __init__(
        self,
        rank: int = 10,
        loss: Any = "squared",
        C: float | None = None,
        rho: float | None = None,
        *,
        reg_user: float | None = None,
        reg_item: float | None = None,
        biases: bool = True,
        nonnegative: bool = False,
        max_iter: int = 30,
        tol: float = 1e-4,
        row_tol: float | None = None,
        init_scale: float = 0.1,
        dtype: str = "float32",
        n_threads: int | None = None,
        random_state: Any = None,
        max_seconds: float | None = None,
        callbacks: Sequence[Callback] = (),
        engine: Any = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.loss = loss
        self.C = C
        self.rho = rho
        self.reg_user = reg_user
        self.reg_item = reg_item
        self.biases = biases
        self.nonnegative = nonnegative
        self.max_iter = max_iter
        self.tol = tol
        self.row_tol = row_tol
        self.init_scale = init_scale
        self.dtype = dtype
        self.n_threads = n_threads
        self.random_state = random_state
        self.max_seconds = max_seconds
        self.callbacks = callbacks
        self.engine = engine
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to pairs.

        X : (N, 2) array of (user, item) ids of any kind, or a frame with two such columns.
        y : (N,) what the pairs are worth: numbers or two classes, as the loss wants them.
        sample_weight : (N,) how much each pair counts, >= 0; None is 1 for all.
        """
        self._check_parameters()
        engine = self._where()
        if engine.distributed:
            return self._fit_on_cluster(engine, X, y, sample_weight)
        loss = self._loss()
        users, items = pairs_from(X)
        (self._users, rows), (self._items, columns) = encode(users, "user"), encode(items, "item")
        n, m = len(self._users), len(self._items)
        if not len(rows):
            raise ValueError("X has no rows; a fit needs at least one pair.")
        if min(n, m) < 2:
            raise ValueError(f"X has {n} distinct users and {m} distinct items; a factorisation needs two of each.")
        if self.rank > max(n, m):
            raise ValueError(
                f"rank={self.rank} is larger than both sides ({n} users, {m} items); choose a smaller rank."
            )
        targets, classes = loss.encode_targets(y)
        weights = checked_weights(sample_weight, len(rows))
        same_length("y", targets, len(rows))
        self.C_, self.rho_ = penalties(n, m, len(rows), self.C, self.rho, self.reg_user, self.reg_item)
        cells = Observations.from_cells(rows, columns, (n, m), targets, self.C_ * weights, dtype=self._number())
        start = self._start()
        factors = [start.rows(0, 0, n), start.rows(1, 0, m)]
        session = engine.open(self._problem(cells, n, m), factors, self._solver())
        outcome = self._solved(session, float(weights.sum()), classes)
        self._set_fitted(Table(cells, self._users, self._items), outcome, session.factors)
        return self

    def _fit_on_cluster(self, engine: Any, X: Any, y: Any, sample_weight: Any) -> Self:
        from halfstep.models.distributed import encode_column, read_frame

        loss = self._loss()
        X, classes = encode_column(X, y, loss)
        splits = loss.is_quadratic and not self.nonnegative  # other rows need their cells in one place
        weight = False if sample_weight is None else sample_weight
        table = read_frame(engine, X, weight=weight, target=y, duplicates="keep", splits=splits, dtype=self._number())
        n, m = table.observations.shape
        total = table.observations.total_weight
        self.C_, self.rho_ = penalties(n, m, table.n_rows, self.C, self.rho, self.reg_user, self.reg_item)
        table = table.weighted(self.C_)
        session = engine.open(self._problem(table.observations, n, m), self._start(), self._solver())
        outcome = self._solved(session, total, classes)
        self._set_on_cluster(engine, table, session, lambda cells: self._problem(cells, n, m))
        for side, role in enumerate(("user", "item")):
            setattr(self, f"{role}_factors_", self._layout().apart_frame(side, getattr(self, f"{role}_factors_")))
        self._set_outcome(outcome)
        self.n_features_in_ = 2
        return self

    def _solved(self, session: Any, total_weight: float, classes: NDArray[Any] | None) -> Outcome:
        """The loop; every record gets the mean of phi over pairs."""
        scale = self.C_ * total_weight

        def measured(sums: dict[str, float]) -> Record:
            record = measure(session, sums)
            return record | {"mean_loss": record["data"] / scale}

        outcome = self._alternate(session, measured)
        if classes is not None:
            self.classes_ = classes
        return outcome

    def collect(self) -> Self:
        """The model on this machine, after a fit by `SparkEngine`."""
        model = super().collect()
        model.C_, model.rho_ = self.C_, self.rho_
        if hasattr(self, "classes_"):
            model.classes_ = self.classes_
        return model

    def transform(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fold new users in: each is solved exactly against the fitted items, under the loss and penalty of the fit.

        X : (N, 2) pairs, whose users may have any ids and whose items must be known. y, sample_weight : as in `fit`.
        A user of the fit, given the same pairs again, gets the fitted row. After a fit by `SparkEngine` X is a Spark
        DataFrame, `y` and `sample_weight` name its columns, and the answer is a DataFrame (user, factors, bias).
        """
        check_is_fitted(self)
        if self._cluster is not None:
            return self._fold_in_on_cluster(self._cluster, X, y, sample_weight)
        loss = self._loss()
        users, items = pairs_from(X)
        index, rows = encode(users, "user")
        targets, _ = loss.encode_targets(y, getattr(self, "classes_", None))
        same_length("y", targets, len(rows))
        weights = self.C_ * checked_weights(sample_weight, len(rows))
        shape = (len(index), len(self._items))
        cells = Observations.from_cells(
            rows, self._items.positions(items), shape, targets, weights, dtype=self._number()
        )
        own = self._layout().rows(0, np.zeros((len(index), self.rank), self._number()))
        solve_rows(
            self._problem(cells, len(self._users), len(self._items)),
            0,
            own,
            np.ascontiguousarray(self._item_rows, self._number()),
            Solver(tolerance=self.row_tol or LAST_GAP),
            gram=None,
            n_threads=thread_count(self.n_threads),
        )
        factors, bias = self._layout().apart(0, own)
        return Folded(index.ids, factors, bias)

    def _fold_in_on_cluster(self, cluster: DistributedModel, X: Any, y: Any, sample_weight: Any) -> Any:
        from halfstep.models.distributed import encode_column

        X, _ = encode_column(X, y, self._loss(), getattr(self, "classes_", None))
        rows = cluster.fold_in(
            X,
            weight=False if sample_weight is None else sample_weight,
            target=y,
            scale=self.C_,
            start=replace(self._start(), scale=0.0),
            solver=Solver(tolerance=self.row_tol or LAST_GAP),
        )
        return self._layout().apart_frame(0, rows)

    # ------------------------------------------------------------------ answers

    def decision_function(self, X: Any) -> Any:
        """Scores p_u.q_i + a_u + b_i of pairs, (N,).

        An unseen user or item counts as an average one. With biases that is the mean bias of its side and no factors,
        so that the bias of the known side remains; without biases it is the mean of the factors of its side. After a
        fit by `SparkEngine` X is a Spark DataFrame, and the answer X with one more column, "score".
        """
        check_is_fitted(self)
        if self._cluster is not None:
            return self._cluster.scores(X, self._layout().average, np.asarray, "score", "double")
        users, items = pairs_from(X)
        left, rows = self._layout().with_average(self._user_rows, self._users.find(users))
        right, columns = self._layout().with_average(self._item_rows, self._items.find(items))
        scores = _core.pair_scores(left, right, rows, columns, n_threads=thread_count(self.n_threads))
        return np.asarray(scores, np.float64)

    def predict(self, X: Any) -> Any:
        """What the scores stand for, (N,): numbers, probabilities (Bernoulli), rates (Poisson) or classes.

        After a fit by `SparkEngine` X is a Spark DataFrame, and the answer X with one more column, "prediction".
        """
        check_is_fitted(self)
        decode = partial(self._loss().decode, classes=getattr(self, "classes_", None))
        if self._cluster is not None:
            kind = {"f": "double", "i": "long", "b": "boolean"}.get(decode(np.zeros(1)).dtype.kind, "string")
            return self._cluster.scores(X, self._layout().average, decode, "prediction", kind)
        return decode(self.decision_function(X))

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
        targets, _ = loss.encode_targets(y, getattr(self, "classes_", None))
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
        folded = self.transform(np.array([(0, item) for item in given], dtype=object), y)
        row = self._layout().rows(0, folded.factors, folded.bias)
        ranking = self._rank(row, None, n, exclude=given)
        return ranking.first()

    # ------------------------------------------------------------------ rows and files

    @property
    def _row_length(self) -> int:
        return self._layout().d

    def _set_rows(self, users: NDArray[Any], items: NDArray[Any]) -> None:
        self._user_rows, self._item_rows = users, items
        self.user_factors_, self.user_bias_ = self._layout().apart(0, users)
        self.item_factors_, self.item_bias_ = self._layout().apart(1, items)
        self.n_features_in_ = 2

    def _scoring_rows(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self._user_rows, self._item_rows

    def _cells_to_save(self) -> dict[str, NDArray[Any]]:
        return {"indptr": self._cells.indptr, "indices": self._cells.indices}

    def _meta(self) -> dict[str, Any]:
        classes = self.classes_.tolist() if hasattr(self, "classes_") else None
        return super()._meta() | {"penalty": [self.C_, self.rho_], "classes": classes}

    @classmethod
    def _from_saved(cls, saved: Saved) -> Self:
        model = super()._from_saved(saved)
        model.C_, model.rho_ = saved.meta["penalty"]
        if saved.meta["classes"] is not None:
            model.classes_ = np.asarray(saved.meta["classes"])
        return model

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

    def _layout(self) -> Layout:
        return Layout(self.rank, bool(self.biases))

    def _problem(self, cells: Any, n: int, m: int) -> Problem:
        bounded = bool(self.nonnegative)
        user = self._layout().side(0, self.rho_ / n, bounded)
        item = self._layout().side(1, (1 - self.rho_) / m, bounded)
        return Problem(cells, (user, item), self._loss())

    def _solver(self) -> Solver:
        return Solver(tolerance=FIRST_GAP, settled=LAST_GAP) if self.row_tol is None else Solver(tolerance=self.row_tol)

    def _start(self) -> RatingStart:
        seed = seed_from(self.random_state)
        return RatingStart(self._layout(), float(self.init_scale), seed, bool(self.nonnegative), np.dtype(self.dtype))
