"""What an estimator with users and items gains from `SparkEngine`. Loads nothing of Spark until it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from sklearn.utils.validation import check_is_fitted

from halfstep.engine import Outcome, Problem

if TYPE_CHECKING:
    from halfstep.models.distributed import DistributedModel


class Elsewhere:
    """Stands where a local model keeps its ids and cells; says what to do when somebody asks for them."""

    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError(
            "this model was fitted by SparkEngine and its factors are on the cluster; call collect() for a local "
            "model, or use recommend_for_all, transform, predict and write, which run there."
        )

    __getattr__ = __len__ = __iter__ = __getitem__ = _refuse


class OnCluster:
    """Methods of models that were fitted by `SparkEngine`. Their `user_factors_` and `item_factors_` are DataFrames."""

    _cluster: DistributedModel | None = None

    def recommend_for_all(self, n: int = 10, *, keep_seen: bool = False) -> Any:
        """Spark DataFrame (user, rank, item, score): the best `n` items of every user, those the user has left out."""
        return self._on_cluster("recommend_for_all", "recommend_to_file").recommend_for_all(n, keep_seen=keep_seen)

    def write(self, path: str) -> None:
        """Parquet folders user_factors and item_factors (id, factors), and model.json, into a new folder."""
        about = {"kind": type(self).__name__, "params": self._saved_params(), **self._meta()}  # type: ignore[attr-defined]
        self._on_cluster("write", "save").write(path, about)

    def collect(self) -> Self:
        """The model on this machine, with its ids, factors and interactions."""
        table, factors = self._on_cluster("collect", "the model itself").collect()
        this: Any = self
        model = type(self)(**(this.get_params(deep=False) | {"engine": None}))
        outcome = Outcome(this.history_, this.objective_, this.converged_, this.interrupted_)
        model._set_fitted(table, outcome, factors)  # type: ignore[attr-defined]
        return model

    def _on_cluster(self, method: str, instead: str) -> DistributedModel:
        check_is_fitted(self)
        if self._cluster is None:
            raise RuntimeError(
                f"{method} is for models fitted by SparkEngine; this one is on this machine: use {instead}."
            )
        return self._cluster

    def _read_frame(self, engine: Any, X: Any, columns: dict[str, Any]) -> Any:
        from halfstep.models.distributed import read_frame

        if engine.checkpoint is not None and getattr(self, "n_init", 1) > 1:
            raise ValueError(
                f"n_init={self.n_init} does not go with checkpoints: one folder holds the sweeps of one start. "  # type: ignore[attr-defined]
                "Use n_init=1, or an engine without checkpoint."
            )
        splits = self._loss().is_quadratic  # type: ignore[attr-defined]  # other losses need a row's cells in one place
        return read_frame(engine, X, splits=splits, **columns)

    def _set_on_cluster(self, engine: Any, table: Any, session: Any, problem_of: Callable[[Any], Problem]) -> None:
        from halfstep.models.distributed import DistributedModel

        this: Any = self
        self._cluster = DistributedModel(engine, table, session, problem_of)
        this.user_factors_, this.item_factors_ = self._cluster.frame(0), self._cluster.frame(1)
        this._cells = this._users = this._items = this.user_labels_ = this.item_labels_ = Elsewhere()
        this._gram = None
        this.n_features_in_ = table.observations.shape[1]
