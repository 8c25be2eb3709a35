"""Rankings judged: full lists for held-out cells, with popularity and neighbours beside them.

Knows rankers by their contract, splits of matrices and ranking metrics. Must not know any estimator but the baselines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import clone

from halfstep import metrics as metric
from halfstep.errors import expect_sound, one_of
from halfstep.judge.features import FeaturesOf
from halfstep.judge.result import Measured
from halfstep.judge.splits import Split, cold_items, cold_users, few, leave_k_out, strong_generalisation, time_split
from halfstep.metrics import Floats, Ints, checked_k
from halfstep.models.baselines import ItemKNN, Popularity
from halfstep.models.feature_baselines import FactorRidge, FeatureKNN, FeatureRidge, GroupPopularity

PROTOCOLS: dict[str, Callable[..., Split]] = {
    "strong_generalisation": strong_generalisation,
    "leave_k_out": leave_k_out,
    "time_split": time_split,
    "few": few,
    "cold_users": cold_users,
    "cold_items": cold_items,
}
BY_FEATURES = (GroupPopularity, FeatureKNN, FeatureRidge, FactorRidge)
BASELINES: dict[str, tuple[type[Any], ...]] = {"cold_users": (Popularity, *BY_FEATURES), "cold_items": BY_FEATURES}
"""Who stands in the tables of a protocol; `Popularity` and `ItemKNN` in all others."""


@runtime_checkable
class Ranker(Protocol):
    """What a model must offer to be evaluated."""

    def fit(self, matrix: Any) -> Self:
        """Learn from a CSR matrix, users x items."""

    def rank_items(self, seen: Any, n: int, rows: npt.NDArray[np.intp] | None = None) -> npt.NDArray[np.int32]:
        """(len, n) item positions, best first, padded with -1, never a stored cell of `seen`.

        `seen` is CSR, rows to rank for x items. `rows` are positions of training rows whose fitted state is
        to be used; None means that the rows are new and `seen` is to be folded in.
        """


@runtime_checkable
class FeatureRanker(Ranker, Protocol):
    """A ranker that knows features: its `fit` takes `user_features` and `item_features` too."""

    def rank_new(
        self,
        seen: Any,
        n: int,
        rows: npt.NDArray[np.intp] | None = None,
        *,
        user_features: Any = None,
        item_features: Any = None,
    ) -> npt.NDArray[np.int32]:
        """As `rank_items`, for what was not there when the model was fitted.

        user_features : of the rows of `seen`, which are new (`rows` is None) and may have cells or none.
        item_features : of new items, in place of the known ones: positions and `seen` are over them.
        """


class Judgement(NamedTuple):
    """All a metric may look at. `relevant` has a cell in every row, so no user is left out here."""

    ranked: Ints
    relevant: Any
    item_counts: npt.NDArray[Any]
    n_train_users: int


def _per_user(function: Callable[..., Floats], **options: Any) -> Callable[[Judgement, int], Floats]:
    return lambda seen, k: function(seen.ranked, seen.relevant, k, **options)


METRICS: dict[str, Callable[[Judgement, int], Floats | float]] = {
    "precision": _per_user(metric.precision_at_k),
    "recall": _per_user(metric.recall_at_k),
    "truncated_recall": _per_user(metric.truncated_recall_at_k),
    "ndcg": _per_user(metric.ndcg_at_k),
    "graded_ndcg": _per_user(metric.ndcg_at_k, graded=True),
    "map": _per_user(metric.average_precision_at_k),
    "mrr": _per_user(metric.reciprocal_rank),
    "hit_rate": _per_user(metric.hit_rate_at_k),
    "novelty": lambda seen, k: metric.novelty(seen.ranked, seen.item_counts, seen.n_train_users, k),
    "popularity_bias": lambda seen, k: metric.popularity_bias(seen.ranked, seen.relevant, seen.item_counts, k),
    "coverage": lambda seen, k: metric.coverage(seen.ranked, len(seen.item_counts), k),
}
DEFAULT_METRICS = ("ndcg", "truncated_recall", "precision", "coverage")


class RankingJudge:
    """Rankings of held-out cells. See `judge.run.Judge`."""

    contract, offers = Ranker, "fit(matrix) and rank_items(seen, n, rows=None)"
    answering = "rank"

    def __init__(
        self,
        data: Any,
        protocol: str | None,
        options: Mapping[str, Any],
        metrics: Iterable[str] | None,
        k: int | Iterable[int] | None,
        n_splits: int,
        random: Any,
        user_features: Any = None,
        item_features: Any = None,
    ) -> None:
        if isinstance(data, Split) and (user_features is not None or item_features is not None):
            raise ValueError(
                "user_features and item_features go with the matrix that is split; data is a Split already."
            )
        self._features = FeaturesOf.of(data, protocol, user_features, item_features)
        self._wanted = _wanted_metrics(DEFAULT_METRICS if metrics is None else metrics, 10 if k is None else k)
        self._depth = max(depth for _, depth in self._wanted.values())
        self.splits = [_split(data, protocol, dict(options), random) for _ in range(n_splits)]
        if n_splits > 1 and self.splits[0].protocol == "time_split":
            raise ValueError(f"n_splits={n_splits}, but there is one past and one future; 'time_split' takes 1.")
        if n_splits > 1 and isinstance(data, Split):
            raise ValueError(f"n_splits={n_splits} cannot apply: data is a Split already. Leave it out.")
        n_items = self.splits[0].relevant.shape[1]
        if self._depth > n_items:
            raise ValueError(
                f"k={self._depth} but the catalogue has only {n_items} items; judge at most {n_items} of them."
            )

    def baselines(self, models: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the protocol, unless the models hold one of them already."""
        present = {type(model) for model in models.values()}
        kinds = BASELINES.get(self.splits[0].protocol, (Popularity, ItemKNN))
        return {kind.__name__: kind() for kind in kinds if kind not in present}

    def prepare(self, models: Mapping[str, Any]) -> None:
        """New items can only be ranked by models that know features."""
        for name, model in models.items():
            if self.splits[0].items is not None and not isinstance(model, FeatureRanker):
                raise TypeError(
                    f"models: {name!r} is a {type(model).__name__}, which cannot rank items it has never seen; "
                    "protocol='cold_items' needs rank_new(seen, n, rows, item_features=...)."
                )

    def measure(self, name: str, model: Any, split: Split) -> Measured:
        """Fit a clone, rank once, compute every metric."""
        return _measure(name, model, split, self._features, self._wanted, self._depth)

    def check(self, measured: Mapping[str, Measured]) -> None:
        """Every ranker answers every metric."""

    def facts(self, measured: Measured) -> dict[str, Any]:
        """What the result says of the data."""
        n_users = len(self.splits[0].users) if measured.users is None else len(measured.users)
        return {"protocol": self.splits[0].protocol, "n_users": n_users, "left_out": self.splits[0].left_out}


def _measure(
    name: str, model: Any, split: Split, features: FeaturesOf, wanted: dict[str, tuple[str, int]], n: int
) -> Measured:
    """Fit a clone, rank once, compute every metric."""
    takes = isinstance(model, FeatureRanker)
    new = features.to_rank(split) if takes else {}
    started = time.perf_counter()
    fitted = clone(model, safe=False).fit(split.train, **(features.to_fit(split) if takes else {}))
    fit_done = time.perf_counter()
    rank = fitted.rank_new if new else fitted.rank_items
    ranked = rank(split.seen, n, rows=split.rows, **new)
    rank_done = time.perf_counter()
    _check_ranking(name, ranked, split.seen, n)
    ranked_items = split.relevant.shape[1]
    counts = np.bincount(split.train.indices, minlength=ranked_items) if split.items is None else np.zeros(ranked_items)
    judgement = Judgement(np.asarray(ranked), split.relevant, counts, split.train.shape[0])
    values = {label: METRICS[key](judgement, depth) for label, (key, depth) in wanted.items()}
    return Measured(
        per_user={label: value for label, value in values.items() if isinstance(value, np.ndarray)},
        overall={label: value for label, value in values.items() if not isinstance(value, np.ndarray)},
        fit_seconds=fit_done - started,
        rank_seconds=rank_done - fit_done,
        users=split.users,
    )


def _check_ranking(name: str, ranked: Any, seen: Any, n: int) -> None:
    """A model that breaks the contract would get a wrong number, so it gets an error that names it."""
    shape = np.shape(ranked)
    if shape != (seen.shape[0], n):
        raise ValueError(
            f"model {name!r}: rank_items returned shape {shape}; expected {(seen.shape[0], n)}, "
            "short lists padded with -1."
        )
    try:
        ranking = metric.checked_ranking(ranked, seen.shape[1])
    except ValueError as error:
        raise ValueError(f"model {name!r}: {error}") from error
    stored = sparse.csr_matrix((np.ones(seen.nnz), seen.indices, seen.indptr), shape=seen.shape)
    has_any = np.flatnonzero(np.diff(seen.indptr))
    if len(has_any) and metric.hit_rate_at_k(ranking, stored).any():
        row = int(has_any[np.argmax(metric.hit_rate_at_k(ranking, stored))])
        raise ValueError(
            f"model {name!r}: rank_items recommended an item that is stored in seen (row {row}); "
            "a ranker must leave seen items out."
        )


def _split(data: Any, protocol: str | None, options: dict[str, Any], random: Any) -> Split:
    if isinstance(data, Split):
        if protocol is not None or options:
            raise ValueError(
                f"protocol={protocol!r} with protocol_options={options} cannot apply: data is a Split "
                "already. Leave both out."
            )
        return data
    protocol = "strong_generalisation" if protocol is None else protocol
    one_of("protocol", protocol, PROTOCOLS)
    matrix = data if sparse.issparse(data) else getattr(data, "matrix", None)
    if matrix is None:
        raise TypeError(
            f"data is a {type(data).__name__}; expected a scipy sparse matrix users x items, an "
            "Interactions, or a Split."
        )
    expect_sound("data", matrix)
    if protocol == "time_split":
        options.setdefault("timestamps", getattr(data, "timestamps", None))
        if options["timestamps"] is None:
            raise ValueError(
                "protocol='time_split' needs timestamps and data has none; pass "
                "protocol_options={'timestamps': ...}, one for each stored cell."
            )
    else:
        options.setdefault("random_state", random)
    return PROTOCOLS[protocol](matrix, **options)


def _wanted_metrics(metrics: Iterable[str], k: int | Iterable[int]) -> dict[str, tuple[str, int]]:
    """Labels such as "ndcg@10" to the name in `METRICS` and the depth."""
    depths = [checked_k(each) for each in (k if isinstance(k, Iterable) else [k])]
    wanted: dict[str, tuple[str, int]] = {}
    for name in [metrics] if isinstance(metrics, str) else metrics:
        key, at, depth = name.partition("@")
        one_of("metrics", key, METRICS)
        if at and not depth.isdecimal():
            raise ValueError(f"metrics={name!r} has no whole number after the @; write for example '{key}@10'.")
        for each in [checked_k(int(depth))] if at else depths:
            wanted[f"{key}@{each}"] = (key, each)
    if not wanted:
        raise ValueError(f"metrics and k name nothing to compute; choose among {list(METRICS)}, with k=10.")
    return wanted
