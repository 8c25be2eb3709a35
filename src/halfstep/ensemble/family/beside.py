"""What is known beside predictions: features of instances, groups of classifiers. Knows names and numbers; no model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import Codes
from halfstep.ensemble.inputs import SideFeatures, more_features, read_features, read_groups


@dataclass(frozen=True, eq=False)
class Beside:
    """features : of the fitted instances, or None. groups (m,) : names, or None. voted : whether P holds votes."""

    features: SideFeatures | None = None
    groups: NDArray[Any] | None = None
    voted: bool = False

    @classmethod
    def read(cls, features: ArrayLike | None, groups: ArrayLike | None, n: int, m: int, voted: bool = False) -> Beside:
        """Of n instances and m classifiers, checked."""
        read_groups(groups, m)
        return cls(SideFeatures.of(read_features(features, n)), None if groups is None else np.asarray(groups), voted)

    @property
    def codes(self) -> Codes | None:
        """(m,) group numbers."""
        return None if self.groups is None else np.unique(self.groups, return_inverse=True)[1].astype(np.int64)

    @property
    def n_features(self) -> int:
        return 0 if self.features is None else len(self.features.mean)

    def of(self, features: ArrayLike | None, n: int) -> SideFeatures | None:
        """Features of n further instances, standardised as the fitted ones."""
        return more_features(self.features, features, n)

    def with_instances(self, features: ArrayLike | None, n: int) -> Beside:
        """With n more instances; all are standardised again, as one fit on all of them would."""
        table = read_features(features, n, self.n_features)
        if self.features is None or table is None:
            return self
        return replace(self, features=SideFeatures.of(np.concatenate([self.features.raw, table])))

    def with_classifiers(self, groups: ArrayLike | None, k: int) -> Beside:
        """With k more classifiers."""
        if self.groups is None:
            if groups is not None:
                raise ValueError("groups names those of more classifiers, but the model was fitted without groups")
            return self
        if groups is None:
            raise ValueError(f"the model was fitted with groups; pass groups= with one name for each of the {k} more")
        read_groups(groups, k)
        return replace(self, groups=np.concatenate([self.groups, np.asarray(groups)]))

    def check(self, n: int, m: int) -> None:
        """Raise unless these are features of n instances and groups of m classifiers."""
        if self.features is not None and len(self.features.values) != n:
            raise ValueError(f"features of {len(self.features.values)} instances where there are {n}")
        if self.groups is not None and self.groups.shape != (m,):
            raise ValueError(f"groups of shape {self.groups.shape} for {m} classifiers")

    def to_file(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arrays and everything else."""
        arrays = {} if self.features is None else {f"features.{k}": v for k, v in vars(self.features).items()}
        return arrays, {"groups": None if self.groups is None else self.groups.tolist(), "votes": self.voted}

    @classmethod
    def from_file(cls, arrays: dict[str, Any], meta: dict[str, Any]) -> Beside:
        found = {
            name: arrays[f"features.{name}"] for name in ("values", "mean", "scale") if f"features.{name}" in arrays
        }
        groups = meta.get("groups")
        side = SideFeatures(**found) if found else None
        return cls(side, None if groups is None else np.asarray(groups), bool(meta.get("votes", False)))


NOTHING = Beside()
