"""What CFEnsembleCV's parameters mean, checked: no arithmetic of the fit."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from halfstep.core.blas import blas_threads
from halfstep.core.initial import seed_from
from halfstep.engine.local import thread_count
from halfstep.ensemble.family.views import LINKS
from halfstep.errors import check_number, one_of


class CVParametersMixin:
    """Reads the parameters of the estimator it is mixed into."""

    def _check_parameters(self: Any) -> None:
        if not len(self.ranks):
            raise ValueError(f"ranks={self.ranks!r} must name at least one number of latent factors, such as (1, 2, 4)")
        for rank in self.ranks:
            check_number("ranks", rank, at_least=1, whole=True)
        if isinstance(self.links, str) or not len(self.links):
            raise ValueError(f"links={self.links!r} must be a sequence with 'logit', 'identity' or both")
        for link in self.links:
            one_of("links", link, LINKS)
        names = [name for name, _ in self.estimators]
        if len(set(names)) < len(names):
            raise ValueError(f"estimators have the names {names}; each must have its own")
        if not self.temperature > 0:
            raise ValueError(f"temperature={self.temperature!r} must be positive; infinity is the plain average")
        check_number("folds", self.folds, at_least=2, whole=True)
        if not 0 < self.clip < 0.5:
            raise ValueError(f"clip={self.clip!r} must lie strictly between 0 and 0.5; 0.01 is the default")
        if self.max_seconds is not None:
            check_number("max_seconds", self.max_seconds, at_least=0)

    def _seed(self: Any) -> int:
        return seed_from(self.random_state)

    def _threads(self: Any) -> AbstractContextManager[Any]:
        if self.n_threads is None:
            return nullcontext()
        return blas_threads(thread_count(self.n_threads))
