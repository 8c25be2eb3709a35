"""What a fit of ratings leaves behind, and how a model file keeps it. Fits nothing and answers nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core import losses
from halfstep.core.loop import Outcome
from halfstep.core.losses import Loss
from halfstep.data.files import ModelFileError, Saved
from halfstep.data.table import CellsHere
from halfstep.data.tensors import FACTORS, Tensor, kept_classes
from halfstep.engine.here import RowsHere
from halfstep.errors import check_number
from halfstep.models.fitted import FactorFit
from halfstep.models.known import SIDES, from_file, need
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
            for name in ("level", "shift"):
                check_number(name, meta[name])
            bands.append(Band(meta["level"], meta["shift"], cls._from_meta(saved, meta, names, given, outcome, loss)))
        start, stop = found.columns.side(0, 1.0, False).columns(found.columns.d)
        return replace(found, bands=tuple(bands), known=from_file(saved, given.ids, stop - start))

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
        declared = {
            names[0]: Tensor("users columns", FACTORS),
            names[1]: Tensor("items columns", FACTORS, like=names[0]),
        }
        n, m = given.cells.shape
        users, items = saved.tensors(declared, users=n, items=m, columns=columns.d).values()
        classes = None if meta["classes"] is None else kept_classes(meta["classes"])
        loss = losses.get(meta["fitted_loss"]) if "fitted_loss" in meta else loss
        for name, value in asdict(penalty).items():
            check_number(name, value, at_least=0)
        for pin in columns.pins:
            check_number("pins", pin)
        said = loss.decode(np.array([-1.0, 0.0, 1.0]), classes)
        if said.shape != (3,) or (said.dtype.kind == "f" and not np.isfinite(said).all()):
            raise ModelFileError(f"{saved.path}: the classes {classes} do not fit its loss")
        return cls.here(given, (users, items), outcome, columns=columns, penalty=penalty, loss=loss, classes=classes)


def with_unseen(fit: RatingFit, told: Sequence[Any]) -> RowsHere:
    """The rows of a fit, and behind them those of ids that it has not seen, where their features say."""
    both, ids = list(fit.rows), list(fit.kept.ids)
    for side, given in enumerate(told):
        if given is None:
            continue
        known = need(fit.known[side], side, f"{SIDES[side]}_features")
        new = known.features.encode(given)
        if new.ids is None:
            raise ValueError(f"{SIDES[side]}_features must say whose they are: give a frame with ids, or a dict by id.")
        new = new.outside(ids[side])
        rows = fit.columns.rows(side, np.zeros((len(new), fit.columns.rank), both[side].dtype), fit.intercept)
        start, stop = fit.columns.side(side, 1.0, False).columns(fit.columns.d)
        rows[:, start:stop] = known.expected(new)
        both[side] = np.concatenate([both[side], rows])
        ids[side] = ids[side].extend(new.ids.ids) if new.ids is not None else ids[side]
    return RowsHere((both[0], both[1]), replace(fit.table, ids=(ids[0], ids[1])))


@dataclass(frozen=True, eq=False)
class Band:
    """A quantile: its level, what is added to its scores so that a share `level` of ratings lies below, its fit."""

    level: float
    shift: float
    fit: RatingFit
