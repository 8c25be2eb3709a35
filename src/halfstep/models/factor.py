"""What WALS and PLQMF share: parameters of the loop, what people ask of a fit, the model file.

Knows users, items, losses and files. Not what is minimised, nor what lies in a row: the estimators say that.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from halfstep.core import losses, weighting
from halfstep.core.fitted import FromFit
from halfstep.core.loop import Callback, LoopFile, Record, Session, timeless
from halfstep.data import files as persistence
from halfstep.data.files import ModelState, Saved
from halfstep.data.sweeps import SweepFile, digest_of
from halfstep.data.table import CellsHere
from halfstep.data.tensors import FACTORS, Tensor
from halfstep.engine import LocalEngine, Outcome, alternate
from halfstep.engine.local import thread_count
from halfstep.engine.protocol import Engine
from halfstep.errors import check_number, one_of
from halfstep.models import recommend
from halfstep.models.answers import Ranking
from halfstep.models.fitted import FactorFit
from halfstep.models.item_index import ItemIndex, Vectors, exported
from halfstep.models.known import collected, to_file
from halfstep.models.lists import Recommender
from halfstep.models.recommend import FactorScorer, Scorer

SIDES = ("user", "item")
"""What the two sides are called wherever input is read."""


_UNMARKED = ("callbacks", "engine", "verbose", "n_threads", "checkpoint", "every", "resume", "loss", "weighting")
"""Parameters that do not say which fit it is, or that its cells say."""

Fit = TypeVar("Fit", bound=FactorFit)


class FactorModel(Recommender[Fit], Generic[Fit]):
    """Users and items as rows that half-steps have solved in turn; a score is the dot product of two rows."""

    rank: Any
    loss: Any
    max_iter: int
    tol: float
    dtype: str
    n_threads: int | None
    random_state: Any
    max_seconds: float | None
    callbacks: Sequence[Callback]
    checkpoint: str | os.PathLike[str] | None
    every: int | str
    resume: bool
    engine: Engine | None
    verbose: int

    fitted_: Fit
    user_factors_ = FromFit[Any]("user_factors")
    item_factors_ = FromFit[Any]("item_factors")
    user_ids_ = FromFit[NDArray[Any]]("users.ids")
    item_ids_ = FromFit[NDArray[Any]]("items.ids")
    user_labels_ = FromFit["NDArray[Any] | None"]("user_labels")
    item_labels_ = FromFit["NDArray[Any] | None"]("item_labels")
    history_ = FromFit[list[Record]]("outcome.history")
    objective_ = FromFit[float]("outcome.objective")
    converged_ = FromFit[bool]("outcome.converged")
    interrupted_ = FromFit[bool]("outcome.interrupted")
    n_iter_ = FromFit[int]("n_iter")
    n_features_in_ = FromFit[int]("n_features")

    _kind: ClassVar[str]
    """Under which name of `kinds.ESTIMATORS` the model is saved."""
    _tensors: ClassVar[tuple[str, str]]
    """What the rows of users and of items are called in a model file."""
    _since: ClassVar[dict[str, Any]] = {}
    """Parameters that old model files lack, as they were then."""

    @abstractmethod
    def _cells_to_save(self) -> dict[str, NDArray[Any]]:
        """Who has what, as tensors."""

    @staticmethod
    @abstractmethod
    def _saved_table(saved: Saved) -> CellsHere:
        """The cells and ids of a model file, every length checked."""

    @abstractmethod
    def _saved_fit(self, saved: Saved, given: CellsHere, outcome: Outcome) -> Fit:
        """What was fitted, from what a model file holds."""

    def _saved_rows(self, saved: Saved, given: CellsHere, d: int) -> tuple[Any, Any]:
        """Rows (users, d) and (items, d) of a model file."""
        users, items = self._tensors
        declared = {users: Tensor("users columns", FACTORS), items: Tensor("items columns", FACTORS, like=users)}
        n, m = given.cells.shape
        found = saved.tensors(declared, users=n, items=m, columns=d)
        return found[users], found[items]

    # ------------------------------------------------------------------ fitting

    def _check_parameters(self) -> None:
        for name in ("rank", "max_iter"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), at_least=1, whole=True)
        check_number("tol", self.tol, at_least=0)
        if self.max_seconds is not None:
            check_number("max_seconds", self.max_seconds, at_least=0)
        one_of("dtype", self.dtype, ("float32", "float64"))
        self._loss()
        thread_count(self.n_threads)

    def _number(self) -> Any:
        return np.dtype(self.dtype).type

    def _loss(self) -> losses.Loss:
        return losses.get(self.loss)

    def _where(self) -> Engine:
        """The engine that runs half-steps."""
        return self.engine or LocalEngine(self.n_threads)

    def _alternate(
        self,
        session: Session,
        measured: Callable[[dict[str, float]], Record],
        also: Sequence[Callback] = (),
        file: LoopFile | None = None,
        **options: Any,
    ) -> Outcome:
        """The loop, users solved last. also : callbacks beside those of the parameter. file : where it keeps itself."""
        return alternate(
            session,
            max_iter=self.max_iter,
            tol=self.tol,
            last=0,
            max_seconds=self.max_seconds,
            callbacks=(*self.callbacks, *also),
            measured=measured,
            verbose=self.verbose,
            label=self._kind,
            file=file,
            **options,
        )

    def _sweep_file(self) -> SweepFile | None:
        """Where the fit keeps itself; None where it does not."""
        told = {k: v for k, v in self.get_params(deep=False).items() if k not in _UNMARKED}
        mark = {"parameters": digest_of(told | {"loss": self._loss().to_dict()})}
        return SweepFile.of(self.checkpoint, self.every, self.resume, self.random_state, mark)

    def _kept_loop(
        self, file: SweepFile | None, number: int, session: Session, *others: Any, **mark: str
    ) -> LoopFile | None:
        """Part `number` of a fit in its file. others : what remembers sweeps beside the session. mark : which part."""
        if file is None:
            return None
        return self._where().kept_loop(file.beside(number).marked(**mark), session, others)

    # ------------------------------------------------------------------ lists

    def _scorer(self, rows: NDArray[Any]) -> Scorer:
        return self._scored(self._fit().rows[0][rows])

    def _scored(self, left: NDArray[Any]) -> FactorScorer:
        """What scores items for rows of users."""
        fit = self._fit()
        return FactorScorer(left, fit.rows[1], fit.item_factors, self.n_threads)

    def vectors(self, measure: str = "inner") -> Vectors:
        """Vectors of users and items for a search outside; their products order items exactly as the model does.

        measure : "inner", products are the scores (biases included), or "cosine": an item x becomes
            (x, sqrt(M^2 - |x|^2)) / M with M the length of the longest, a user q becomes (q, 0), so that an index that
            knows cosines or distances alone orders alike.
        """
        fit = self._fit()
        return exported(*fit.rows, (fit.users.ids, fit.items.ids), measure)

    def item_index(self, connectivity: int = 16, effort: int = 256) -> ItemIndex:
        """An index for `recommend(..., index=)`, for catalogues of millions. Needs the extra `index` (usearch).

        connectivity : neighbours of an item in the graph. effort : nodes kept in sight while it is made and searched;
            more finds more of the best items and takes longer. `ItemIndex.recall` says what is found.
        """
        return ItemIndex.of(self._fit().rows[1], connectivity, effort, self.n_threads)

    def similar_items(self, item: Any, n: int = 10) -> Ranking:
        """The `n` items with the largest cosine similarity of factors; `item` itself is left out."""
        return recommend.similar_rows(self._fit(), 1, item, n, self.n_threads)

    def similar_users(self, user: Any, n: int = 10) -> Ranking:
        """The `n` users with the largest cosine similarity of factors; `user` itself is left out."""
        return recommend.similar_rows(self._fit(), 0, user, n, self.n_threads)

    def recommend_for_all(self, n: int = 10, *, keep_seen: bool = False) -> Any:
        """Spark DataFrame (user, rank, item, score): the best `n` items of every user, those the user has left out."""
        return self._fit().kept.rank_all(n, keep_seen)

    # ------------------------------------------------------------------ files, and models on a cluster

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, its ids and who has what as one safetensors file; `halfstep.load` reads it back."""
        self._check_parameters()
        fit, kept = self._fit(), self.to_state()
        arrays = dict(kept.arrays) | self._cells_to_save()
        persistence.save(path, self._kind, kept.params, arrays, kept.meta, {"user": fit.users, "item": fit.items})

    def to_state(self) -> ModelState:
        """What a file keeps of the model besides ids and cells."""
        params = self._saved_params() | self._kept_objects()
        kept, arrays = to_file(self._fit().known)
        meta = self._meta() | ({"features": kept} if kept else {})
        return ModelState(params, dict(zip(self._tensors, self._fit().rows, strict=True)) | arrays, meta)

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """The model that a file holds; `halfstep.load` calls this of the right class."""
        model: Self = saved.made(cls, **(cls._since | saved.params))
        model._check_parameters()
        given = cls._saved_table(saved)
        history, objective = list(saved.meta["history"]), float(saved.meta["objective"])
        outcome = Outcome(history, objective, bool(saved.meta["converged"]))
        model.fitted_ = model._saved_fit(saved, given, outcome)
        return model

    def write(self, path: str) -> None:
        """Parquet folders user_factors and item_factors (id, factors), and model.json, into a new folder.

        Where a side has features, also user_feature_weights or item_feature_weights (feature, weights).
        For models fitted by `SparkEngine`.
        """
        fit, about = self._fit(), {"kind": self._kind, "params": self._saved_params(), **self._meta()}
        weights = {k: (known.called, known.weights) for k, known in enumerate(fit.known) if known is not None}
        fit.kept.write(path, about, weights)

    def collect(self) -> Self:
        """The model on this machine, with its ids, factors and interactions, after a fit by `SparkEngine`."""
        fit = self._fit()
        model = type(self)(**(self.get_params(deep=False) | {"engine": None}))
        model.fitted_ = replace(fit, kept=fit.kept.collect(), known=collected(fit.known, fit.kept))
        return model

    def _kept_objects(self) -> dict[str, Any]:
        """Parameters that a file keeps by name and values, as objects."""
        return {"loss": self._loss()}

    def _saved_params(self) -> dict[str, Any]:
        """Parameters that a file can keep, objects as plain values."""
        left_out = ("callbacks", "engine", "random_state", "checkpoint", "every", "resume")
        params = {k: v for k, v in self.get_params(deep=False).items() if k not in left_out}
        if isinstance(self.random_state, int | np.integer):
            params["random_state"] = int(self.random_state)
        return params | {name: x if isinstance(x, str) else x.to_dict() for name, x in self._kept_objects().items()}

    def _meta(self) -> dict[str, Any]:
        """What else a file keeps, in terms of JSON."""
        return {"history": timeless(self.history_), "objective": self.objective_, "converged": self.converged_}


def _stored_loss(loss: losses.Loss) -> dict[str, Any]:
    stored = loss.to_dict()
    if losses.get(stored) != loss:
        raise ValueError(
            f"loss={loss!r} is not a loss of halfstep.losses, so a model file cannot keep it; `losses.PLQ` composes "
            "any piecewise linear-quadratic loss."
        )
    return stored


persistence.register_codec(losses.Loss, "loss", _stored_loss, losses.get)
persistence.register_codec(weighting.Weighting, "weighting", weighting.Weighting.to_dict, weighting.get)
