"""What the parameters of CFEnsembleCV may be, checked when they are put together. No arithmetic of the fit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from halfstep.engine.local import thread_count
from halfstep.ensemble.family.views import LINKS
from halfstep.errors import check_number, one_of


@dataclass(frozen=True, eq=False)
class FamilySettings:
    """The parameters of `CFEnsembleCV`, where they are described."""

    ranks: Sequence[int]
    links: Sequence[str]
    estimators: Sequence[tuple[str, Any]]
    temperature: float
    folds: int
    calibrate: bool
    clip: float
    max_seconds: float | None
    n_threads: int | None
    random_state: Any
    verbose: int
    positive: Any = None
    classes: Sequence[Any] | None = None
    votes: bool | None = None
    engine: Any = None
    checkpoint: str | os.PathLike[str] | None = None
    every: int | str = 1
    resume: bool = False

    def __post_init__(self) -> None:
        if not len(self.ranks):
            raise ValueError(f"ranks={self.ranks!r} must name at least one number of latent factors, such as (1, 2, 4)")
        for rank in self.ranks:
            check_number("ranks", rank, at_least=1, whole=True)
        if isinstance(self.links, str) or not len(self.links):
            raise ValueError(f"links={self.links!r} must be a sequence with 'logit', 'identity' or both")
        for link in self.links:
            one_of("links", link, LINKS)
        if self.votes not in (None, True, False):
            raise ValueError(f"votes={self.votes!r} must be True, False, or None to be found by the kind of P")
        names = [name for name, _ in self.estimators]
        if len(set(names)) < len(names):
            raise ValueError(f"estimators have the names {names}; each must have its own")
        if not self.temperature > 0:
            raise ValueError(f"temperature={self.temperature!r} must be positive; infinity is the plain average")
        check_number("folds", self.folds, at_least=2, whole=True)
        if not 0 < self.clip < 0.5:
            raise ValueError(f"clip={self.clip!r} must lie strictly between 0 and 0.5; 0.01 is the default")
        thread_count(self.n_threads)
        if self.max_seconds is not None:
            check_number("max_seconds", self.max_seconds, at_least=0)
