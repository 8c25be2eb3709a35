"""BayesMF: ratings or classes of (user, item) pairs, factorised by drawing rows from their posterior."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core import losses
from halfstep.core.arrays import Floats
from halfstep.core.cells import Observations
from halfstep.core.drawn_features import FACTORED
from halfstep.core.estimators import available_if
from halfstep.core.fitted import FromFit, fit_of
from halfstep.core.initial import seed_from
from halfstep.core.loop import Record
from halfstep.data import files
from halfstep.data.files import Saved
from halfstep.data.frames import pairs_from
from halfstep.data.names import Names
from halfstep.data.pairs import read_pairs
from halfstep.data.sweeps import SweepFile
from halfstep.engine.drawing import CellsToDraw
from halfstep.engine.here import LocalEngine, tell_unknown
from halfstep.engine.local import thread_count
from halfstep.engine.protocol import Engine
from halfstep.errors import check_number, one_of, warn_of_convergence
from halfstep.figures.shown import Shown
from halfstep.figures.tables import FactTable
from halfstep.models import drawn_answers, recommend
from halfstep.models.answers import Ranking
from halfstep.models.drawn import DrawnFit, Pairs
from halfstep.models.factor import SIDES
from halfstep.models.keeping import Watched
from halfstep.models.known import read_here
from halfstep.models.memory import MemoryEstimate
from halfstep.models.ratings import RatingColumns
from halfstep.models.sampling import CLASSES, LIKELIHOODS, Plan, draw_new_users, sample

WORST_R_HAT, WORST_DRIFT = 1.1, 0.05


class DrawnUsers(NamedTuple):
    """New users, one draw for each kept draw of the rest: ids (n,), factors (K, n, rank), bias (K, n)."""

    ids: NDArray[Any]
    factors: NDArray[np.float32]
    bias: Floats


def _no_classes(likelihood: str) -> AttributeError:
    return AttributeError(f"likelihood={likelihood!r} has no classes; 'probit' and 'ordinal' have.")


def _has_classes(model: BayesMF) -> bool:
    if model.likelihood not in CLASSES:
        raise _no_classes(model.likelihood)
    return True


@dataclass(eq=False, repr=False)
class BayesMF(Shown):
    """Factorise the values of (user, item) pairs by drawing every row from its posterior, sweep after sweep.

        y_ui = mu + a_u + b_i + p_u.q_i + noise,   noise of user u with a precision of its own
        a_u, b_i ~ N(0, 1/lam),   p_uc ~ N(m_c, 1/lam_c),   q_ic ~ N(m'_c, 1/lam'_c)

    Where `fit` is given features f_u of users, (p_u, a_u) has the mean (m, 0) + W'(f_u - mean of f) and W is drawn,
    w_c ~ N(0, 1/(eta_c lam_c)) for column c, as is eta_c, by which features that say nothing die out; items likewise.
    Means, precisions, noise and intercept are drawn too, so there is no penalty to choose. A prediction is a mean over
    draws; their spread is its uncertainty. docs/bayes.md has the conditionals, and says when to draw and when to solve.

    Parameters
    ----------
    rank : length of the factors; None is 8, or 16 where users and items together have 20 pairs each, or 32 from 60 on.
    likelihood : "gaussian"; "student" for outliers, t with `nu` degrees of freedom; "ordinal" for a few values whose
        order counts and whose distances do not, cut out of a normal score; "probit" for two classes.
    n_sweeps : draws of everything; burn_in : the share of them that is thrown away.
    keep : at most so many of the others are kept, evenly spread, for predictions. Intercept and biases of predictions
        are means over all of them.
    nu : degrees of freedom: of "student", and of how far the noise of users differs in "gaussian" (few: far). None
        draws them with the rest; a number above 2 holds them.
    checkpoint : a file that everything is written to every `every` sweeps, or seconds ("60s"); None is no checkpoints.
        Needs an int as `random_state`. resume : go on from it after a fit that was lost, with the bits of one that
        was not.
    n_threads : None for all cores. The result has the same bits for any number.
    random_state : None, an int, a Generator or a RandomState.
    engine : where rows are drawn; None is this machine, `halfstep.engine.spark.SparkEngine` a cluster, for "gaussian".
        There X is a Spark DataFrame, and `y` and `sample_weight` name its columns. Cells stay in the executors; rows
        of both sides and the kept draws come to the driver, where the model answers as one fitted here.
    verbose : 1 shows the progress bar at once.

    Attributes
    ----------
    history_ : one dict for each sweep: alpha (noise precision), nu, intercept, rmse of the draw, loss (its square in
        units of the sampler; minus the mean log probability for classes), validation_rmse or validation_log_loss,
        seconds.
    diagnostics_ : after the burn-in: draws, their number; effective_size (median) and split r_hat (90% quantile) of the
        scores of 200 pairs; loss_effective_size, loss_r_hat and loss_drift, by how much the loss of the two halves
        differs. A warning comes where r_hat is above 1.1 or the drift above 5%.
    user_ids_, item_ids_ : ids in the order of the rows. classes_ : the labels, for "probit" and "ordinal".
    """

    rank: int | None = None
    likelihood: str = "gaussian"
    _: KW_ONLY
    n_sweeps: int = 300
    burn_in: float = 0.25
    keep: int = 100
    nu: float | None = None
    checkpoint: str | os.PathLike[str] | None = None
    every: int | str = 50
    resume: bool = False
    n_threads: int | None = None
    random_state: Any = None
    engine: Engine | None = None
    verbose: int = 0

    user_ids_ = FromFit[NDArray[Any]]("users_index.ids")
    item_ids_ = FromFit[NDArray[Any]]("items_index.ids")
    history_ = FromFit[list[Record]]("history")
    n_iter_ = FromFit[int]("n_iter")
    n_features_in_ = FromFit[int]("n_features")

    @property
    def diagnostics_(self) -> FactTable:
        """How the chain went; prints as a table."""
        return FactTable(self._fit().diagnostics)

    def _facts(self) -> dict[str, str]:
        told = {"users": f"{len(self.user_ids_):,}", "items": f"{len(self.item_ids_):,}", "sweeps": f"{self.n_iter_:,}"}
        return told | {name: f"{value:.4g}" for name, value in self.diagnostics_.items()}

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, for likelihoods "probit" and "ordinal"."""
        classes = self._fit().classes
        if classes is None:
            raise _no_classes(self.likelihood)
        return classes

    def _fit(self) -> DrawnFit:
        """What was fitted; raises where nothing was."""
        fit: DrawnFit = fit_of(self)
        return fit

    # ------------------------------------------------------------------ fitting

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        validation: tuple[Any, Any] | None = None,
        user_features: Any = None,
        item_features: Any = None,
    ) -> Self:
        """Draw from the posterior of pairs.

        X : (N, 2) array of (user, item) ids of any kind, or a frame with two such columns.
        y : (N,) numbers, or two classes for "probit".
        sample_weight : (N,) how often each pair counts, >= 0, whole numbers for classes; None is 1 for all.
        validation : pairs and values held out, (X, y); the bar and `history_` then have the error of the mean so far.
        user_features, item_features : what is known of users and items beside their values: whatever
            `halfstep.Features.of` takes, such as a frame with an id column. The driver holds them on a cluster.
        """
        self._check_parameters()
        engine = LocalEngine(self.n_threads) if self.engine is None else self.engine
        read = engine.read_values(X, y, sample_weight, self._loss(), SIDES, dtype=np.float64, splits=False)
        given = engine.to_draw(read)
        try:
            features = read_here(given.ids, user_features, item_features)
            plan = self._plan(given)
            mark = plan.mark(given, features)
            file = SweepFile.of(self.checkpoint, self.every, self.resume, self.random_state, mark)
            watched = None
            if validation is not None:
                watched = Watched.of(validation, given, self._loss(), self.likelihood)
            fit = sample(given, plan, self.verbose, watched, file, features)
        finally:
            given.let_go()
        self._tell_mixing(fit.diagnostics)
        self.fitted_ = fit
        return self

    def _tell_mixing(self, found: dict[str, float]) -> None:
        """Warn of a chain that still moves."""
        r_hat, drift = found["r_hat"], found["loss_drift"]
        if r_hat > WORST_R_HAT or drift > WORST_DRIFT:
            warn_of_convergence(
                f"after {self.n_sweeps} sweeps the chain still moves: split R-hat of scores is {r_hat:.2f} (above "
                f"{WORST_R_HAT} is bad), and the loss of its halves differs by {drift:.1%} (above {WORST_DRIFT:.0%} is "
                f"bad). Predictions are usable, their spread less so; raise n_sweeps={self.n_sweeps}.",
            )

    def _check_parameters(self) -> None:
        one_of("likelihood", self.likelihood, LIKELIHOODS)
        if self.rank is not None:
            check_number("rank", self.rank, at_least=1, whole=True)
        check_number("n_sweeps", self.n_sweeps, at_least=4, whole=True)
        check_number("keep", self.keep, at_least=1, whole=True)
        check_number("burn_in", self.burn_in, at_least=0)
        if self.burn_in >= 1:
            raise ValueError(f"burn_in={self.burn_in!r} must be below 1: it is the share of sweeps thrown away.")
        if self.nu is not None:
            check_number("nu", self.nu, above=2)
        thread_count(self.n_threads)

    def _loss(self) -> losses.Loss:
        """How y is read."""
        return losses.get("logistic" if self.likelihood == "probit" else "squared")

    @staticmethod
    def default_rank(n_users: int, n_items: int, nnz: int) -> int:
        """The rank that `rank=None` stands for."""
        mean = nnz / (n_users + n_items)
        return min(8 if mean < 20 else 16 if mean < 60 else 32, n_users, n_items)

    def _plan(self, given: CellsToDraw) -> Plan:
        n, m = given.shape
        if min(n, m) < 2:
            raise ValueError(f"X has {n} distinct users and {m} distinct items; a factorisation needs two of each.")
        rank = self.default_rank(n, m, given.n_rows) if self.rank is None else int(self.rank)
        if rank > max(n, m):
            raise ValueError(f"rank={rank} is larger than both sides ({n} users, {m} items); choose a smaller rank.")
        sweeps = int(self.n_sweeps)
        burn, seed = min(int(self.burn_in * sweeps), sweeps - 1), seed_from(self.random_state)
        threads, nu = thread_count(self.n_threads), None if self.nu is None else float(self.nu)
        return Plan(rank, sweeps, burn, int(self.keep), self.likelihood, nu, seed, threads)

    def transform(self, X: Any, y: Any, sample_weight: Any = None) -> DrawnUsers:
        """Draw new users against the kept draws of items.

        X : (N, 2) pairs, whose users may have any ids and whose items must be known. y, sample_weight : as in `fit`.
        Factors of one draw mean something beside the items of that draw only.
        """
        ids, rows = self._new_users(X, y, sample_weight)
        columns = self._fit().columns
        return DrawnUsers(ids, rows[:, :, columns.factors], rows[:, :, -1] * self._fit().unit[1])

    def _new_users(self, X: Any, y: Any, sample_weight: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        fit = self._fit()
        pairs = read_pairs(
            X,
            y,
            sample_weight,
            self._loss(),
            SIDES,
            dtype=np.float64,
            known=fit.ids[1],
            classes=fit.classes if fit.likelihood == "probit" else None,
        )
        threads = thread_count(self.n_threads)
        return pairs.ids[0].ids, draw_new_users(fit, pairs.cells, threads)

    # ------------------------------------------------------------------ answers

    @staticmethod
    def _pairs(fit: DrawnFit, X: Any, unknown: str) -> Pairs:
        found = [index.find(ids) for index, ids in zip(fit.ids, pairs_from(X), strict=True)]
        tell_unknown(found, fit.ids, unknown)
        return Pairs(*found)

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        *,
        unknown: str = "average",
        user_features: Any = None,
        item_features: Any = None,
    ) -> Any:
        """Means over draws, (N,), within the range of y: expected values of "ordinal", the likelier class of "probit".

        return_std : also the standard deviation over draws, noise left out: of the score, or of the expected value of
        "ordinal". unknown : "average" answers unseen users and items by the mean of their prior and warns with their
        number; "error" refuses them.
        user_features, item_features : of users and items that the fit has not seen, by id, for models that were fitted
        with features: their prior is where their features say, and they are not unknown.
        """
        fit = self._fit().with_unseen((user_features, item_features))
        mean, std = drawn_answers.expected(fit, self._pairs(fit, X, unknown), thread_count(self.n_threads))
        answer: Any = self.classes_[(mean > 0).astype(int)] if fit.likelihood == "probit" else fit.numbers(mean)
        return (answer, std * fit.unit[1]) if return_std else answer

    def predict_interval(
        self,
        X: Any,
        level: float = 0.9,
        *,
        unknown: str = "average",
        user_features: Any = None,
        item_features: Any = None,
    ) -> Floats:
        """(N, 2): bounds between which y lies with probability `level`, as the draws and their noise say.

        Of "ordinal" they are values of y, and what lies between them, both included, has at least that probability.
        user_features, item_features : as in `predict`.
        """
        check_number("level", level, above=0)
        if level >= 1:
            raise ValueError(f"level={level!r} must lie between 0 and 1, both excluded.")
        fit = self._fit().with_unseen((user_features, item_features))
        if fit.likelihood == "probit":
            raise ValueError("likelihood='probit' has classes and no intervals; use predict_proba.")
        return drawn_answers.intervals(fit, self._pairs(fit, X, unknown), float(level), thread_count(self.n_threads))

    @available_if(_has_classes)
    def predict_proba(
        self, X: Any, *, unknown: str = "average", user_features: Any = None, item_features: Any = None
    ) -> Floats:
        """Probabilities of the `classes_`, (N, C), means over draws; likelihoods "probit" and "ordinal" only.

        user_features, item_features : as in `predict`.
        """
        fit, _ = self._fit().with_unseen((user_features, item_features)), self.classes_
        return drawn_answers.probabilities(fit, self._pairs(fit, X, unknown), thread_count(self.n_threads))

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R^2, or accuracy for "probit"."""
        from sklearn.metrics import accuracy_score, r2_score

        rule = accuracy_score if self._fit().likelihood == "probit" else r2_score
        return float(rule(y, self.predict(X), sample_weight=sample_weight))

    def recommend(
        self,
        users: Any,
        n: int = 10,
        *,
        strategy: str = "mean",
        keep_seen: bool = False,
        random_state: Any = None,
    ) -> Ranking:
        """The best `n` items of one user (1-D arrays) or of several (2-D arrays, one row for each).

        strategy : "mean" ranks by the mean over draws; "upper" by mean plus standard deviation, so that little-known
            items are tried; "thompson" by one draw, chosen anew for each user by `random_state`.
        keep_seen : also recommend what the user already has. Scores are in the units of y and may leave its range.
        """
        fit, many = self._fit(), recommend.is_many(users)
        rows = Names(fit.ids[0], None).positions(users if many else [users])
        seen = None if keep_seen else fit.cells.take(rows)
        best = drawn_answers.best_items(fit, fit.users[:, rows], fit.shift[0][rows], seen, n, strategy, random_state)
        return best.padded(n) if many else best.first()

    def recommend_for(self, items: Iterable[Any], y: ArrayLike, n: int = 10, *, strategy: str = "mean") -> Ranking:
        """The best `n` other items for somebody new who gave `items` the values `y`."""
        given = list(items)
        _, rows = self._new_users(np.array([(0, item) for item in given], dtype=object), y, None)
        fit = self._fit()
        places = np.unique(fit.ids[1].positions(given)).astype(np.int32)
        seen = Observations((1, len(fit.ids[1])), np.array([0, len(places)]), places)
        return drawn_answers.best_items(fit, rows, np.zeros(1), seen, n, strategy, None).first()

    # ------------------------------------------------------------------ memory and files

    def estimate_memory(
        self,
        n_users: int,
        n_items: int,
        nnz: int,
        *,
        user_features: tuple[int, int] | None = None,
        item_features: tuple[int, int] | None = None,
    ) -> MemoryEstimate:
        """Bytes that a fit to `nnz` pairs holds at once beyond its input; the kept draws stay.

        user_features, item_features : columns and stored values of features, where there are any.
        """
        for name, value in (("n_users", n_users), ("n_items", n_items), ("nnz", nnz)):
            check_number(name, value, at_least=1, whole=True)
        d = RatingColumns(self.rank or self.default_rank(n_users, n_items, nnz), True, True).d
        rows, kept = n_users + n_items, min(int(self.keep), int(self.n_sweeps))
        held = {
            "kept draws": kept * (4 * rows * d + 4 * n_users),
            "rows of a sweep": 3 * 4 * rows * d,
            "cells in both orientations": nnz * (2 * 4 + 3 * 8),
            "targets, weights and scores of cells": nnz * 8 * 8,
        }
        for side, n, told in (("users", n_users, user_features), ("items", n_items, item_features)):
            if told is not None:
                p, stored = told
                held[f"kept weights of features of {side}"] = kept * 4 * p * d
                small = 8 * (2 * p**2 if p <= FACTORED else 5 * p * d)
                held[f"features of {side} and their weights"] = 12 * stored + 8 * (n + 2 * p * d + 3 * n * d) + small
        return MemoryEstimate({"sweeps": held})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the kept draws, ids and who has what as one safetensors file; `halfstep.load` reads it back."""
        self._check_parameters()
        fit = self._fit()
        params = {
            k: v
            for k, v in self.get_params(deep=False).items()
            if k not in ("random_state", "checkpoint", "resume", "engine")
        }
        if isinstance(self.random_state, int | np.integer):
            params["random_state"] = int(self.random_state)
        arrays, meta = fit.parts()
        files.save(path, "BayesMF", params, arrays, meta, {"user": fit.ids[0], "item": fit.ids[1]})

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """The model that a file holds; `halfstep.load` calls it."""
        model: Self = saved.made(cls)
        model._check_parameters()
        model.fitted_ = DrawnFit.from_parts(saved)
        return model

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags

        tags = super().__sklearn_tags__()
        classes = self.likelihood == "probit"
        tags.estimator_type = "classifier" if classes else "regressor"
        tags.classifier_tags = ClassifierTags(multi_class=False) if classes else None
        tags.regressor_tags = None if classes else RegressorTags()
        tags.target_tags.required = True
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags
