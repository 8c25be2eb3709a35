"""BayesMF: ratings or two classes of (user, item) pairs, factorised by drawing rows from their posterior."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from halfstep.core import losses
from halfstep.core.arrays import Floats
from halfstep.core.cells import Observations
from halfstep.core.estimators import BaseEstimator
from halfstep.core.fitted import FromFit
from halfstep.core.initial import seed_from
from halfstep.core.loop import Record
from halfstep.data import files
from halfstep.data.files import Saved
from halfstep.data.frames import pairs_from
from halfstep.data.names import Names
from halfstep.data.pairs import read_pairs
from halfstep.data.table import CellsHere, pattern_from_saved
from halfstep.engine.here import tell_unknown
from halfstep.engine.local import thread_count
from halfstep.errors import check_number, one_of
from halfstep.models import recommend
from halfstep.models.answers import Ranking
from halfstep.models.drawn import DrawnFit, Pairs, quantile
from halfstep.models.factor import SIDES
from halfstep.models.memory import MemoryEstimate
from halfstep.models.ratings import RatingColumns
from halfstep.models.sampling import LIKELIHOODS, Plan, draw_new_users, sample

WORST_R_HAT = 1.1
STRATEGIES = ("mean", "thompson", "upper")


class DrawnUsers(NamedTuple):
    """New users, one draw for each kept draw of the rest: ids (n,), factors (K, n, rank), bias (K, n)."""

    ids: NDArray[Any]
    factors: NDArray[np.float32]
    bias: Floats


@dataclass(eq=False, repr=False)
class BayesMF(BaseEstimator):
    """Factorise the values of (user, item) pairs by drawing every row from its posterior, sweep after sweep.

        y_ui = mu + a_u + b_i + p_u.q_i + noise,   noise of user u with a precision of its own
        a_u, b_i ~ N(0, 1/lam),   p_uc ~ N(m_c, 1/lam_c),   q_ic ~ N(m'_c, 1/lam'_c)

    Means, precisions, noise and intercept are drawn too, so there is no penalty to choose. A prediction is a mean over
    draws; their spread is its uncertainty. docs/bayes.md has the conditionals, and says when to draw and when to solve.

    Parameters
    ----------
    rank : length of the factors; None is 8, or 16 where rows have fifty pairs and more on average, or 32 from 200 on.
    likelihood : "gaussian"; "student" for outliers, t with `nu` degrees of freedom; "probit" for two classes.
    n_sweeps : draws of everything; burn_in : the share of them that is thrown away.
    keep : at most so many of the others are kept, evenly spread, for predictions. Intercept and biases of predictions
        are means over all of them.
    nu : degrees of freedom: of "student", and of how far the noise of users differs in "gaussian".
    n_threads : None for all cores. The result has the same bits for any number.
    random_state : None, an int, a Generator or a RandomState.
    verbose : 1 shows the progress bar at once.

    Attributes
    ----------
    history_ : one dict for each sweep: alpha (noise precision), intercept, rmse of the draw, loss, seconds.
    diagnostics_ : effective_size and r_hat (split) of the trace of the loss after the burn-in; draws, their number.
    user_ids_, item_ids_ : ids in the order of the rows. classes_ : the two labels, for "probit".
    """

    rank: int | None = None
    likelihood: str = "gaussian"
    _: KW_ONLY
    n_sweeps: int = 200
    burn_in: float = 0.25
    keep: int = 30
    nu: float = 4.0
    n_threads: int | None = None
    random_state: Any = None
    verbose: int = 0

    user_ids_ = FromFit[NDArray[Any]]("users_index.ids")
    item_ids_ = FromFit[NDArray[Any]]("items_index.ids")
    history_ = FromFit[list[Record]]("history")
    diagnostics_ = FromFit[dict[str, float]]("diagnostics")
    n_iter_ = FromFit[int]("n_iter")
    n_features_in_ = FromFit[int]("n_features")

    @property
    def classes_(self) -> NDArray[Any]:
        """The two labels, for likelihood "probit"."""
        classes = self._fit().classes
        if classes is None:
            raise AttributeError(f"likelihood={self.likelihood!r} has no classes; 'probit' has.")
        return classes

    def _fit(self) -> DrawnFit:
        """What was fitted; raises where nothing was."""
        check_is_fitted(self, "fitted_")
        fit: DrawnFit = vars(self)["fitted_"]
        return fit

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Draw from the posterior of pairs.

        X : (N, 2) array of (user, item) ids of any kind, or a frame with two such columns.
        y : (N,) numbers, or two classes for "probit".
        sample_weight : (N,) how often each pair counts, >= 0, whole numbers for "probit"; None is 1 for all.
        """
        self._check_parameters()
        given = read_pairs(X, y, sample_weight, self._loss(), SIDES, dtype=np.float64)
        fit = sample(given, self._plan(given), self.verbose)
        r_hat = fit.diagnostics["r_hat"]
        if r_hat > WORST_R_HAT:
            warnings.warn(
                f"split R-hat of the loss is {r_hat:.2f} after {self.n_sweeps} sweeps, above {WORST_R_HAT}: the chain "
                f"still moves. Predictions are usable, their spread less so; raise n_sweeps={self.n_sweeps}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.fitted_ = fit
        return self

    def _check_parameters(self) -> None:
        one_of("likelihood", self.likelihood, LIKELIHOODS)
        if self.rank is not None:
            check_number("rank", self.rank, at_least=1, whole=True)
        check_number("n_sweeps", self.n_sweeps, at_least=4, whole=True)
        check_number("keep", self.keep, at_least=1, whole=True)
        check_number("burn_in", self.burn_in, at_least=0)
        if self.burn_in >= 1:
            raise ValueError(f"burn_in={self.burn_in!r} must be below 1: it is the share of sweeps thrown away.")
        check_number("nu", self.nu, above=2)
        thread_count(self.n_threads)

    def _loss(self) -> losses.Loss:
        """How y is read."""
        return losses.get("logistic" if self.likelihood == "probit" else "squared")

    def _plan(self, given: CellsHere) -> Plan:
        n, m = given.cells.shape
        if min(n, m) < 2:
            raise ValueError(f"X has {n} distinct users and {m} distinct items; a factorisation needs two of each.")
        mean = given.n_rows / (n + m)
        rank = min(8 if mean < 50 else 16 if mean < 200 else 32, n, m) if self.rank is None else int(self.rank)
        if rank > max(n, m):
            raise ValueError(f"rank={rank} is larger than both sides ({n} users, {m} items); choose a smaller rank.")
        sweeps = int(self.n_sweeps)
        burn, seed = min(int(self.burn_in * sweeps), sweeps - 1), seed_from(self.random_state)
        threads = thread_count(self.n_threads)
        return Plan(rank, sweeps, burn, int(self.keep), self.likelihood, float(self.nu), seed, threads)

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
            X, y, sample_weight, self._loss(), SIDES, dtype=np.float64, known=fit.ids[1], classes=fit.classes
        )
        threads = thread_count(self.n_threads)
        return pairs.ids[0].ids, draw_new_users(fit, pairs.cells, self.likelihood, float(self.nu), threads)

    # ------------------------------------------------------------------ answers

    def _pairs(self, X: Any, unknown: str) -> Pairs:
        fit = self._fit()
        found = [index.find(ids) for index, ids in zip(fit.ids, pairs_from(X), strict=True)]
        tell_unknown(found, fit.ids, unknown)
        return Pairs(*found)

    def _means(self, X: Any, unknown: str) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the scores of pairs, over draws."""
        fit, pairs = self._fit(), self._pairs(X, unknown)
        mean, std = np.empty(len(pairs.users)), np.empty(len(pairs.users))
        for block, scores in fit.in_blocks(pairs, thread_count(self.n_threads)):
            mean[block], std[block] = scores.z.mean(axis=0), scores.std
        return mean, std

    def predict(self, X: Any, return_std: bool = False, *, unknown: str = "average") -> Any:
        """Means over draws, (N,), within the range of y; the likelier class for "probit".

        return_std : also the standard deviation of the score over draws, noise left out. unknown : "average" answers
        unseen users and items by the mean of their prior and warns with their number; "error" refuses them.
        """
        fit = self._fit()
        mean, std = self._means(X, unknown)
        answer = fit.numbers(mean) if fit.classes is None else fit.classes[(mean > 0).astype(int)]
        return (answer, std * fit.unit[1]) if return_std else answer

    def predict_interval(self, X: Any, level: float = 0.9, *, unknown: str = "average") -> Floats:
        """(N, 2): bounds between which y lies with probability `level`, as the draws and their noise say."""
        check_number("level", level, above=0)
        if level >= 1:
            raise ValueError(f"level={level!r} must lie between 0 and 1, both excluded.")
        fit = self._fit()
        if fit.classes is not None:
            raise ValueError("likelihood='probit' has classes and no intervals; use predict_proba.")
        pairs, nu = self._pairs(X, unknown), float(self.nu) if self.likelihood == "student" else None
        bounds = np.empty((len(pairs.users), 2))
        for block, scores in fit.in_blocks(pairs, thread_count(self.n_threads)):
            for side, share in enumerate(((1 - level) / 2, (1 + level) / 2)):
                bounds[block, side] = quantile(scores, share, nu)
        return fit.numbers(bounds)

    def predict_proba(self, X: Any, *, unknown: str = "average") -> Floats:
        """Probabilities of the two `classes_`, (N, 2), means over draws; likelihood "probit" only."""
        fit = self._fit()
        if fit.classes is None:
            raise AttributeError(f"likelihood={self.likelihood!r} has no classes; 'probit' has.")
        pairs = self._pairs(X, unknown)
        second = np.empty(len(pairs.users))
        for block, scores in fit.in_blocks(pairs, thread_count(self.n_threads)):
            second[block] = ndtr(scores.z / np.sqrt(1 + scores.extra)).mean(axis=0)
        return np.stack([1 - second, second], axis=1)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R^2, or accuracy for "probit"."""
        from sklearn.metrics import accuracy_score, r2_score

        rule = r2_score if self._fit().classes is None else accuracy_score
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
        left = fit.users[:, rows]
        best = self._best(left, fit.shift[0][rows], seen, n, strategy, random_state)
        return best if many else best.first()

    def recommend_for(self, items: Iterable[Any], y: ArrayLike, n: int = 10, *, strategy: str = "mean") -> Ranking:
        """The best `n` other items for somebody new who gave `items` the values `y`."""
        given = list(items)
        _, rows = self._new_users(np.array([(0, item) for item in given], dtype=object), y, None)
        fit = self._fit()
        places = np.unique(fit.ids[1].positions(given)).astype(np.int32)
        shape = (1, len(fit.ids[1]))
        seen = Observations(shape, np.array([0, len(places)]), places)
        return self._best(rows, np.zeros(1), seen, n, strategy, None).first()

    def _best(self, left: NDArray[Any], shift: Floats, seen: Any, n: int, strategy: str, random_state: Any) -> Ranking:
        """The best items for draws (K, users, d) of rows."""
        check_number("n", n, at_least=1, whole=True)
        one_of("strategy", strategy, STRATEGIES)
        fit, rng = self._fit(), np.random.default_rng(seed_from(random_state))
        m = len(fit.ids[1])
        places, values = np.full((left.shape[1], n), -1), np.full((left.shape[1], n), np.nan)
        for u in range(left.shape[1]):
            z = np.einsum("kid,kd->ki", fit.items, left[:, u], dtype=np.float64) + fit.shift[1] + shift[u]
            value = z[rng.integers(len(z))] if strategy == "thompson" else z.mean(axis=0)
            value = value + z.std(axis=0) if strategy == "upper" else value
            allowed = np.ones(m, bool)
            if seen is not None:
                allowed[seen.indices[seen.indptr[u] : seen.indptr[u + 1]]] = False
            choice = np.flatnonzero(allowed)
            choice = choice[np.argsort(-value[choice], kind="stable")[:n]]
            places[u, : len(choice)] = choice
            values[u, : len(choice)] = fit.unit[0] + fit.unit[1] * value[choice]
        return Ranking(fit.ids[1].take(places), values)

    # ------------------------------------------------------------------ memory and files

    def estimate_memory(self, n_users: int, n_items: int, nnz: int) -> MemoryEstimate:
        """Bytes that a fit to `nnz` pairs holds at once beyond its input; the kept draws stay."""
        for name, value in (("n_users", n_users), ("n_items", n_items), ("nnz", nnz)):
            check_number(name, value, at_least=1, whole=True)
        d = RatingColumns(self.rank or 32, True, True).d
        rows, kept = n_users + n_items, min(int(self.keep), int(self.n_sweeps))
        held = {
            "kept draws": kept * (4 * rows * d + 4 * n_users),
            "rows of a sweep": 3 * 4 * rows * d,
            "cells in both orientations": nnz * (2 * 4 + 3 * 8),
            "targets, weights and scores of cells": nnz * 8 * 8,
        }
        # For a moment the draws are there twice: as they were kept, and stacked.
        return MemoryEstimate({"sweeps": held, "keeping": held | {"stacked draws": held["kept draws"]}})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the kept draws, ids and who has what as one safetensors file; `halfstep.load` reads it back."""
        fit = self._fit()
        params = {k: v for k, v in self.get_params(deep=False).items() if k != "random_state"}
        if isinstance(self.random_state, int | np.integer):
            params["random_state"] = int(self.random_state)
        arrays = {name: getattr(fit, name) for name in ("users", "items", "alphas", "noise", "hyper")}
        arrays |= {"user_shift": fit.shift[0], "item_shift": fit.shift[1]}
        arrays |= {"indptr": fit.cells.indptr, "indices": fit.cells.indices}
        meta = {
            "rank": fit.columns.rank,
            "unit": list(fit.unit),
            "bounds": None if fit.classes is not None else list(fit.bounds),
            "seed": fit.seed,
            "history": fit.history,
            "diagnostics": fit.diagnostics,
            "classes": None if fit.classes is None else fit.classes.tolist(),
        }
        files.save(path, "BayesMF", params, arrays, meta, {"user": fit.ids[0], "item": fit.ids[1]})

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """The model that a file holds; `halfstep.load` calls it."""
        model, table, meta = cls(**saved.params), pattern_from_saved(saved), saved.meta
        columns = RatingColumns(int(meta["rank"]), True, True)
        n, m, d, f = len(table.ids[0]), len(table.ids[1]), columns.d, columns.rank + 1
        users = saved.array("users", (None, n, d))
        k = len(users)
        model.fitted_ = DrawnFit(
            table.ids,
            table.cells,
            columns,
            users,
            saved.array("items", (k, m, d)),
            saved.array("alphas", (k,)),
            saved.array("noise", (k, n)),
            saved.array("hyper", (2, 2, k, f)),
            (saved.array("user_shift", (n,)), saved.array("item_shift", (m,))),
            (float(meta["unit"][0]), float(meta["unit"][1])),
            (-np.inf, np.inf) if meta["bounds"] is None else (float(meta["bounds"][0]), float(meta["bounds"][1])),
            int(meta["seed"]),
            meta["history"],
            meta["diagnostics"],
            None if meta["classes"] is None else np.asarray(meta["classes"]),
        )
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
