"""What WALS and PLQMF share: parameters of the loop, what a fit leaves behind, the model file.

Knows users, items, losses and files. Not what is minimised, nor what lies in a row: the estimators say that.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from halfstep.core import losses
from halfstep.core.estimators import BaseEstimator
from halfstep.core.loop import Callback, Record, Session
from halfstep.data import files as persistence
from halfstep.data.files import Saved
from halfstep.data.tables import Table
from halfstep.engine import LocalEngine, Outcome, alternate
from halfstep.engine.local import thread_count
from halfstep.errors import check_number, one_of
from halfstep.models.cluster import OnCluster
from halfstep.models.recommend import Recommender


class FactorModel(Recommender, OnCluster, BaseEstimator, ABC):
    """Users and items as rows that half-steps have solved in turn; a score is the dot product of two rows."""

    rank: int
    loss: Any
    max_iter: int
    tol: float
    dtype: str
    random_state: Any
    max_seconds: float | None
    callbacks: Sequence[Callback]
    engine: Any
    verbose: int

    history_: list[Record]
    objective_: float
    converged_: bool

    _kind: ClassVar[str]
    """Under which name of `kinds.ESTIMATORS` the model is saved."""
    _tensors: ClassVar[tuple[str, str]]
    """What the rows of users and of items are called in a model file."""

    @property
    @abstractmethod
    def _row_length(self) -> int:
        """Columns of a row: the factors, and biases where there are any."""

    @abstractmethod
    def _set_rows(self, users: NDArray[Any], items: NDArray[Any]) -> None:
        """Take in solved rows (users, d) and (items, d)."""

    @abstractmethod
    def _cells_to_save(self) -> dict[str, NDArray[Any]]:
        """Who has what, as tensors."""

    @staticmethod
    @abstractmethod
    def _saved_table(saved: Saved) -> Table:
        """The cells and ids of a model file, every length checked."""

    # ------------------------------------------------------------------ fitting

    def _check_parameters(self) -> None:
        for name in ("rank", "max_iter"):
            check_number(name, getattr(self, name), at_least=1, whole=True)
        check_number("tol", self.tol, at_least=0)
        if self.max_seconds is not None:
            check_number("max_seconds", self.max_seconds, at_least=0)
        one_of("dtype", self.dtype, ("float32", "float64"))
        thread_count(self.n_threads)

    def _number(self) -> Any:
        return np.dtype(self.dtype).type

    def _loss(self) -> losses.Loss:
        return losses.get(self.loss)

    def _where(self) -> Any:
        """The engine that runs half-steps."""
        return self.engine or LocalEngine(self.n_threads)

    def _alternate(self, session: Session, measured: Callable[[dict[str, float]], Record], **options: Any) -> Outcome:
        """The loop, users solved last."""
        return alternate(
            session,
            max_iter=self.max_iter,
            tol=self.tol,
            last=0,
            max_seconds=self.max_seconds,
            callbacks=self.callbacks,
            measured=measured,
            verbose=self.verbose,
            label=self._kind,
            **options,
        )

    def _set_fitted(self, table: Table, outcome: Outcome, rows: Sequence[NDArray[Any]]) -> None:
        self._cluster = None
        self._cells, self._users, self._items = table.observations, table.users, table.items
        self.user_labels_, self.item_labels_ = table.user_labels, table.item_labels
        self._set_rows(*rows)
        self._set_outcome(outcome)

    def _set_outcome(self, outcome: Outcome) -> None:
        self.history_ = outcome.history
        self.objective_ = outcome.objective
        self.n_iter_ = len(outcome.history)
        self.converged_ = outcome.converged
        self.interrupted_ = outcome.interrupted

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, its ids and who has what as one safetensors file; `halfstep.load` reads it back."""
        check_is_fitted(self)
        params = self._saved_params() | {"loss": self._loss()}
        arrays = dict(zip(self._tensors, self._scoring_rows(), strict=True)) | self._cells_to_save()
        persistence.save(path, self._kind, params, arrays, self._meta(), {"user": self._users, "item": self._items})

    @classmethod
    def _from_saved(cls, saved: Saved) -> Self:
        model = cls(**saved.params)
        table = cls._saved_table(saved)
        rows = [
            saved.array(name, (len(index), model._row_length))
            for name, index in zip(cls._tensors, (table.users, table.items), strict=True)
        ]
        outcome = Outcome(saved.meta["history"], saved.meta["objective"], saved.meta["converged"])
        model._set_fitted(table, outcome, rows)
        return model

    def _saved_params(self) -> dict[str, Any]:
        """Parameters that a file can keep, the loss as plain values."""
        left_out = ("callbacks", "engine", "random_state")
        params = {k: v for k, v in self.get_params(deep=False).items() if k not in left_out}
        if isinstance(self.random_state, int | np.integer):
            params["random_state"] = int(self.random_state)
        return params | {"loss": self._loss().to_dict()}

    def _meta(self) -> dict[str, Any]:
        """What else a file keeps, in terms of JSON."""
        return {"history": self.history_, "objective": self.objective_, "converged": self.converged_}


def _stored_loss(loss: losses.Loss) -> dict[str, Any]:
    stored = loss.to_dict()
    if losses.get(stored) != loss:
        raise ValueError(
            f"loss={loss!r} is not a loss of halfstep.losses, so a model file cannot keep it; `losses.PLQ` composes "
            "any piecewise linear-quadratic loss."
        )
    return stored


persistence.register_codec(losses.Loss, "loss", _stored_loss, losses.get)
