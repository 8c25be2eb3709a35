"""The fitted instances of an ensemble: votes, what is hard, what to label next, labels. Knows models, not HTTP."""

from __future__ import annotations

import copy
import threading
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from halfstep.apps.serve.curve import learning_curve
from halfstep.apps.serve.listed import DIGITS
from halfstep.apps.serve.problems import FieldError, Refusal, at_most
from halfstep.apps.serve.settings import Settings
from halfstep.figures.views import clustered_order

Order = Literal["difficulty", "uncertainty", "disagreement", "novelty", "number"]
Which = Literal["all", "labelled", "unlabelled"]


class InstanceAnswers:
    """Answers of an ensemble that keeps the instances it was fitted on, such as `CFEnsembleCV`.

    `votes` (n, m, k) is what each classifier said about each class, NaN where nothing.
    """

    def __init__(self, model: Any, settings: Settings) -> None:
        self.model = model
        self.settings = settings
        self.classes: list[Any] = model.classes_.tolist()
        self.proba: NDArray[np.float64] = model.predict_proba()
        self.votes = np.asarray(model.fitted_.opinions)
        self.codes: NDArray[np.int64] = model.fitted_.labels
        self.names = model.fitted_.naming.classifiers(self.votes.shape[1])
        self.ids: list[Any] = model.instance_ids_.tolist()
        self._fitting = threading.Lock()
        self._measuring = threading.Lock()
        self._curve: dict[str, Any] | None = None

    @property
    def sizes(self) -> dict[str, int]:
        n, m, k = self.votes.shape
        return {"instances": n, "classifiers": m, "classes": k, "labelled": int((self.codes >= 0).sum())}

    @property
    def can_label(self) -> bool:
        """Whether labels can be added; they are kept by one process, so only one may serve."""
        return hasattr(self.model, "query") and hasattr(self.model, "partial_fit") and self.settings.workers == 1

    def prepare(self) -> None:
        """Compute what is needed once, ahead of the first request."""
        _ = self._measures("difficulty")

    # ------------------------------------------------------------------ looking

    def page(self, order: Order, which: Which, offset: int, n: int) -> dict[str, Any]:
        """Fitted instances, hardest first or as `order` says."""
        at_most("n", n, self.settings.max_n)
        chosen = {
            "all": np.ones(len(self.codes), bool),
            "labelled": self.codes >= 0,
            "unlabelled": self.codes < 0,
        }[which]
        rows = np.flatnonzero(chosen)
        if order != "number":
            rows = rows[np.argsort(-self._measures(order)[rows], kind="stable")]
        return {"total": len(rows), "results": [self._describe(row) for row in rows[offset : offset + n].tolist()]}

    def one(self, number: int) -> dict[str, Any]:
        """One instance with the vote of every classifier."""
        self._check(number, "number")
        weights = self._weights
        votes = [
            {"classifier": j, "name": self.names[j]}
            | {"probabilities": None if np.isnan(vote).any() else np.round(vote, DIGITS).tolist()}
            | ({} if weights is None else {"weight": round(float(weights[j]), DIGITS)})
            for j, vote in enumerate(self.votes[number])
        ]
        return self._describe(number) | {"votes": votes}

    def classifiers(self) -> dict[str, Any]:
        """What each classifier counts, and how alike they are, the alike side by side."""
        similarity = np.asarray(self._diagnostics.classifier_similarity)
        order = clustered_order(similarity)
        weights = self._weights
        return {
            "names": [self.names[j] for j in order],
            "weights": None if weights is None else np.round(weights[order], DIGITS).tolist(),
            "similarity": np.round(similarity[np.ix_(order, order)], 3).tolist(),
        }

    def curve(self) -> dict[str, Any]:
        """What labels bring: measured once for these labels."""
        with self._measuring:
            if self._curve is None:
                self._curve = learning_curve(self.model, self.votes, self.codes)
            return self._curve

    def suggestions(self, n: int) -> dict[str, Any]:
        """The unlabelled instances whose labels would help most, best first."""
        self._need_labels()
        left = int((self.codes < 0).sum())
        index = self.model.fitted_.naming.index
        rows = index.positions(self.model.query(min(n, left))).tolist() if left else []
        return {"total": left, "results": [self._describe(row) for row in rows]}

    def labels(self) -> dict[str, Any]:
        """Every label the model knows, those given here included."""
        rows = np.flatnonzero(self.codes >= 0)
        return {
            "labels": [
                {"number": int(row), "id": self.ids[row], "label": self.classes[self.codes[row]]} for row in rows
            ]
        }

    def relabelled(self, labels: list[tuple[int, Any]]) -> tuple[Any, dict[str, Any]]:
        """A refitted copy of the model with more labels, and what changed. The model in service stays as it is."""
        self._need_labels()
        at_most("labels", len(labels), self.settings.max_list, "entries are")
        fresh = np.full(len(self.codes), None, object)
        for place, (number, label) in enumerate(labels):
            self._check(number, "labels")
            if label not in self.classes:
                raise FieldError(f"labels[{place}].label", f"{label!r} is none of the classes {self.classes}")
            fresh[number] = label
        if not self._fitting.acquire(blocking=False):
            raise Refusal(409, "a refit is under way; send these labels when it is done")
        try:
            model = copy.deepcopy(self.model).partial_fit(y=fresh)
        finally:
            self._fitting.release()
        changed = int((model.predict_proba().argmax(axis=1) != self.proba.argmax(axis=1)).sum())
        labelled = int((model.fitted_.labels >= 0).sum())
        return model, {"labelled": labelled, "changed": changed, "sweeps": int(getattr(model, "n_iter_", 0))}

    # ------------------------------------------------------------------ small things

    def _check(self, number: int, field: str) -> None:
        if not 0 <= number < len(self.codes):
            raise Refusal(404, f"unknown instance {number}; there are 0 to {len(self.codes) - 1}", field=field)

    def _need_labels(self) -> None:
        if not (hasattr(self.model, "query") and hasattr(self.model, "partial_fit")):
            raise Refusal(404, f"a {type(self.model).__name__} cannot take more labels")
        if self.settings.workers > 1:
            raise Refusal(409, "labels are kept by one process; start the server with one worker to label")

    def _describe(self, row: int) -> dict[str, Any]:
        p = self.proba[row]
        votes = self.votes[row]
        there = ~np.isnan(votes).any(axis=1)
        tops = [int(vote.argmax()) if known else None for vote, known in zip(votes, there, strict=True)]
        sure = [round(float(vote.max()), 3) if known else None for vote, known in zip(votes, there, strict=True)]
        return {
            "number": row,
            "id": self.ids[row],
            "answer": self.classes[int(p.argmax())],
            "probabilities": np.round(p, DIGITS).tolist(),
            "label": self.classes[self.codes[row]] if self.codes[row] >= 0 else None,
            "difficulty": round(float(self._measures("difficulty")[row]), DIGITS),
            "novelty": round(float(self._measures("novelty")[row]), DIGITS),
            "top_votes": tops,
            "vote_strengths": sure,
        }

    def _measures(self, name: str) -> NDArray[np.float64]:
        if name == "uncertainty":
            return np.asarray(1 - self.proba.max(axis=1))
        if name == "disagreement":
            return np.asarray(np.nan_to_num(np.nanvar(self.votes, axis=1).mean(axis=1)))
        return np.asarray(getattr(self._diagnostics, name), np.float64)

    @cached_property
    def _diagnostics(self) -> Any:
        return self.model.diagnostics_

    @cached_property
    def _weights(self) -> NDArray[np.float64] | None:
        weights = self._diagnostics.classifier_weights
        return None if weights is None or np.shape(weights) != (self.votes.shape[1],) else np.asarray(weights)
