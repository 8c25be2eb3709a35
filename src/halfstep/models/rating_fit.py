"""What a fit of ratings leaves behind, and how a model file keeps it. Fits nothing and answers nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core import losses
from halfstep.core.loop import Outcome
from halfstep.core.losses import Loss
from halfstep.data.files import Saved
from halfstep.data.table import CellsHere
from halfstep.models.fitted import FactorFit
from halfstep.models.rating_penalty import RatingPenalty
from halfstep.models.ratings import RatingColumns

TENSORS = ("user_rows", "item_rows")
"""What the rows of users and of items are called in a model file."""


@dataclass(frozen=True, eq=False)
class RatingFit(FactorFit):
    """Rows with intercept and biases in them, the penalty, the loss as it was fitted, and the classes it has."""

    columns: RatingColumns
    penalty: RatingPenalty
    loss: Loss
    classes: NDArray[Any] | None = None
    bands: tuple[Band, ...] = ()

    def factors(self, side: int) -> Any:
        return self.kept.sides[side].factors(self.columns)

    def bias(self, side: int) -> NDArray[Any]:
        rows, (column, times) = self.rows[side], self.columns.bias(side) or (0, 0.0)
        return np.asarray(rows[:, column] * rows.dtype.type(times))

    @property
    def user_bias(self) -> NDArray[Any]:
        return self.bias(0)

    @property
    def item_bias(self) -> NDArray[Any]:
        return self.bias(1)

    @property
    def intercept(self) -> float:
        return float(self.rows[1][0, self.columns.constant]) if self.columns.intercept else 0.0

    @property
    def C(self) -> float:
        return self.penalty.in_words(*self.kept.shape)[0]

    @property
    def rho(self) -> float:
        return self.penalty.in_words(*self.kept.shape)[1]

    @property
    def n_features(self) -> int:
        return 2

    # ------------------------------------------------------------------ in a model file

    def to_meta(self) -> dict[str, Any]:
        """All but rows and cells, in terms of JSON."""
        return {
            "penalty": asdict(self.penalty),
            "columns": asdict(self.columns),
            "classes": None if self.classes is None else self.classes.tolist(),
            "fitted_loss": self.loss.to_dict(),
            "bands": [{"level": b.level, "shift": b.shift, **b.fit.to_meta()} for b in self.bands],
        }

    def band_rows(self) -> dict[str, NDArray[Any]]:
        """Rows of the quantiles that stand beside this fit, as tensors."""
        return {
            f"{name}_{k}": rows
            for k, band in enumerate(self.bands)
            for name, rows in zip(TENSORS, band.fit.rows, strict=True)
        }

    @classmethod
    def from_saved(cls, saved: Saved, given: CellsHere, outcome: Outcome, loss: Loss) -> RatingFit:
        """What `to_meta` took apart, whichever version wrote it. loss : of the parameters, for files that keep none."""
        found = cls._from_meta(saved, saved.meta, TENSORS, given, outcome, loss)
        bands = []
        for k, meta in enumerate(saved.meta.get("bands", ())):
            names = f"{TENSORS[0]}_{k}", f"{TENSORS[1]}_{k}"
            bands.append(Band(meta["level"], meta["shift"], cls._from_meta(saved, meta, names, given, outcome, loss)))
        return replace(found, bands=tuple(bands))

    @classmethod
    def _from_meta(
        cls,
        saved: Saved,
        meta: dict[str, Any],
        names: tuple[str, str],
        given: CellsHere,
        outcome: Outcome,
        loss: Loss,
    ) -> RatingFit:
        if isinstance(meta["penalty"], list):  # C and rho, before biases had a penalty of their own
            (C, rho), (n, m) = meta["penalty"], (len(ids) for ids in given.ids)
            user, item = rho / (C * n), (1 - rho) / (C * m)
            penalty = RatingPenalty(user, item, user, item)
            columns = RatingColumns(int(saved.params["rank"]), bool(saved.params["biases"]))
        else:
            penalty, stored = RatingPenalty(**meta["penalty"]), meta["columns"]
            columns = RatingColumns(**(stored | {"pins": tuple(stored["pins"])}))
        both = zip(names, given.ids, strict=True)
        users, items = (saved.array(name, (len(ids), columns.d)) for name, ids in both)
        classes = None if meta["classes"] is None else np.asarray(meta["classes"])
        return cls.here(
            given,
            (users, items),
            outcome,
            columns=columns,
            penalty=penalty,
            loss=losses.get(meta["fitted_loss"]) if "fitted_loss" in meta else loss,
            classes=classes,
        )


@dataclass(frozen=True, eq=False)
class Band:
    """A quantile: its level, what is added to its scores so that a share `level` of ratings lies below, its fit."""

    level: float
    shift: float
    fit: RatingFit
