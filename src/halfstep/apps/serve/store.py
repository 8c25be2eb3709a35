"""The model in service and how a newer one takes its place. Knows files and answers, not HTTP.

A request takes `store.current` once and works with it to its end, so a reload never changes a model under a request.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from halfstep.apps.serve.drawn import DrawnLists
from halfstep.apps.serve.fusion import FusionAnswers
from halfstep.apps.serve.instances import InstanceAnswers
from halfstep.apps.serve.observe import log
from halfstep.apps.serve.problems import Refusal
from halfstep.apps.serve.ranking import RankingAnswers
from halfstep.apps.serve.rating import RatingAnswers
from halfstep.apps.serve.settings import Settings
from halfstep.data.datasets.whole_tables import rows_by_id
from halfstep.kinds import load


@dataclass(frozen=True)
class Served:
    """One loaded model and everything it can answer; never changed after it is made."""

    model: Any
    kind: str
    ranking: RankingAnswers | None = None
    rating: RatingAnswers | None = None
    fusion: FusionAnswers | None = None
    instances: InstanceAnswers | None = None
    lists: RankingAnswers | DrawnLists | None = None
    loaded_at: float = field(default_factory=time.time)

    @classmethod
    def of(cls, model: Any, settings: Settings, path: Path | None = None) -> Served:
        """What a model can answer, found from what it offers rather than from its name. path : of its file."""
        kind = type(model).__name__
        # A file of a CFEnsembleCV from before it kept its predictions has none of them.
        there = hasattr(model, "frame_columns_")  # its instances are on a cluster
        kept = hasattr(model, "query") and not there and getattr(model.fitted_, "rows", True) is not None
        if hasattr(model, "predict") and not hasattr(model, "similar_items") and hasattr(model, "user_ids_"):
            rated = RatingAnswers.of(model, settings)
            return cls(model, kind, rating=rated, lists=DrawnLists(rated) if hasattr(model, "recommend") else None)
        if hasattr(model, "recommend"):
            ranking = RankingAnswers(model, settings, path)
            values = hasattr(model, "predict")
            rating = RatingAnswers(model, ranking.users, ranking.items, settings) if values else None
            return cls(model, kind, ranking, rating, lists=ranking)
        fusion = FusionAnswers(model, settings) if hasattr(model, "predict_proba") else None
        return cls(model, kind, fusion=fusion, instances=InstanceAnswers(model, settings) if kept else None)

    @property
    def answers(self) -> list[str]:
        """The endpoints that this model serves."""
        paths: list[str] = []
        paths += ["/recommend", "/recommend_for"] if self.lists else []
        if self.ranking:
            paths += ["/similar", "/profile", "/complete"]
            paths += ["/map"] if self.ranking.has_factors else []
            paths += ["/explain"] if self.ranking.can_explain else []
            paths += ["/features"] if self.ranking.told else []
            paths += ["/compare"] if self.ranking.has_factors and self.ranking.folds_items else []
        if self.rating:
            paths += ["/predict", "/table"] + ([] if self.ranking else ["/complete"])
            paths += ["/rate_next"] if self.rating.taste else []
            paths += ["/misfits"] if self.rating.folds else []
        paths += ["/fuse", "/table"] if self.fusion else []
        if self.instances:
            paths += ["/instances", "/instance", "/classifiers", "/labels", "/curve"]
            paths += ["/suggestions"] if self.instances.can_label else []
        return paths

    @property
    def example(self) -> dict[str, Any] | None:
        """A known user worth a first look."""
        sides = self.ranking or self.rating
        return sides.example if sides else None

    @property
    def languages(self) -> list[str]:
        """Languages that names can come in, where there is more than one."""
        return self.ranking.facets.languages if self.ranking else []

    @property
    def nouns(self) -> dict[str, str]:
        """What one row and one column are called."""
        sides = self.ranking or self.rating
        return {"user": sides.users.noun, "item": sides.items.noun} if sides else {"user": "user", "item": "item"}

    @property
    def sizes(self) -> dict[str, int]:
        """How large the model is, by what it has."""
        if self.ranking:
            names = {"users": len(self.ranking.users), "items": len(self.ranking.items)}
            rank = {"rank": int(self.model.item_factors_.shape[1])} if self.ranking.has_factors else {}
            return names | rank
        if self.rating:
            return {"users": len(self.rating.users), "items": len(self.rating.items)}
        return self.instances.sizes if self.instances else {}

    def need(self, part: str, path: str) -> Any:
        """The answers of one family, or a 404 that says what this model does serve."""
        found = getattr(self, part)
        if found is None or path not in self.answers:
            raise Refusal(404, f"a {self.kind} does not answer {path}; it answers {', '.join(self.answers)}")
        return found

    def prepare(self) -> None:
        for part in (self.ranking, self.rating, self.instances):
            if part is not None:
                part.prepare()


class Store:
    """Loads the model file, and loads it again when it has changed."""

    def __init__(self, path: str | os.PathLike[str], settings: Settings) -> None:
        self.path = Path(path)
        self.settings = settings
        self._lock = threading.Lock()
        self._seen = self._signature()
        self.current = self._load()

    def refresh(self, force: bool = False) -> bool | None:
        """Load the file if it has changed since it was last tried: True for a new model, None if nothing changed.

        False if the new file cannot be used; the reason is logged and the old model stays in service.
        """
        with self._lock:
            signature = self._signature()
            if signature == self._seen and not force:
                return None
            self._seen = signature
            try:
                self.current = self._load()
            except Exception as error:  # whatever is wrong with the file, the old model still works
                log.error("reload failed", extra={"facts": {"path": str(self.path), "reason": str(error)}})
                return False
            log.info("model reloaded", extra={"facts": {"path": str(self.path), "kind": self.current.kind}})
            return True

    def replace(self, model: Any) -> Served:
        """Put a model made in this process into service, until the file changes."""
        with self._lock:
            self.current = Served.of(model, self.settings)
            return self.current

    def _load(self) -> Served:
        # One process reads the file and checks every byte. Several map it, to hold it in memory once.
        model = load(self.path, mmap=self.settings.workers > 1)
        if "n_threads" in model.get_params(deep=False):
            model.set_params(n_threads=self.settings.threads)
        if self.settings.item_features is not None:
            _with_items(model, Path(self.settings.item_features))
        served = Served.of(model, self.settings, self.path)
        served.prepare()
        return served

    def _signature(self) -> tuple[int, ...] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def _with_items(model: Any, path: Path) -> None:
    """The items of a table enter the rankings, but for those that the model knows by now."""
    if not hasattr(model, "add_items"):
        raise ValueError(f"item_features: a {type(model).__name__} knows no features; `halfstep fit wals` does")
    known = set(model.item_ids_.tolist())
    new = {id: row for id, row in rows_by_id(path, "item")[1].items() if id not in known}
    if new:
        model.add_items(new)
    log.info("new items", extra={"facts": {"path": str(path), "new": len(new)}})
