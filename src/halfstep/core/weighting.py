"""How much an interaction counts: from the value x of a cell to its weight. Knows rows and columns, no models.

| weighting | name | weight of a cell |
| --- | --- | --- |
| `AsGiven()` | "none" | x |
| `Log(alpha, eps, plus)` | "log" | plus + alpha log(1 + x / eps); log(1 + x) by default |
| `Power(exponent)` | "power", "sqrt" | x^exponent; the root by default |
| `Binary()` | "binary" | 1 |
| `TfIdf()` | "tfidf" | x (1 + log((1 + N) / (1 + n_j))) |
| `BM25(k1, b)` | "bm25" | log(1 + (N - n_j + 1/2) / (n_j + 1/2)) (k1 + 1) x / (x + k1 (1 - b + b L_i / mean L)) |
| `CountPower(columns, rows)` | "popularity" | x (n_j / mean n_j)^columns (n_i / mean n_i)^rows |
| any function of an array of values | | what it returns |

N is the number of rows, n_j of rows with a cell in column j, n_i of cells in row i, L_i the sum of the values of row i.
What concerns columns, and the means, is that of the rows which were fitted: it is kept (`Margins`), so that a row that
comes later is weighed as it would have been among them.

A weighting of your own is a subclass of `Weighting` with a `weigh`; a line in `WEIGHTINGS` gives it a name, by which
files keep it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from halfstep.core.cells import Observations
from halfstep.errors import check_number, one_of

__all__ = [
    "BM25",
    "WEIGHTINGS",
    "AsGiven",
    "Binary",
    "CellFacts",
    "CountPower",
    "Custom",
    "InTurn",
    "Log",
    "Margins",
    "Power",
    "TfIdf",
    "Weighting",
    "get",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Margins:
    """What is kept of the fitted rows for rows to come.

    n_rows : how many there were. column_counts (columns,) : cells of each column. mean_count, mean_column_count,
    mean_sum : cells and sum of the values of a row, cells of a column, on average.
    """

    n_rows: int
    column_counts: NDArray[np.int64]
    mean_count: float
    mean_column_count: float
    mean_sum: float


@dataclass(frozen=True, eq=False)
class CellFacts:
    """What a weighting is told: an entry for each cell, and the margins of the fitted rows.

    values : x. row_counts, row_sums : cells and sum of the values of the cell's own row. column_counts : fitted rows
    that have a cell in its column.
    """

    values: Floats
    row_counts: NDArray[np.int64]
    row_sums: Floats
    column_counts: NDArray[np.int64]
    margins: Margins


class Weighting(ABC):
    """A rule for the weight of a cell. `weigh` is the formula; the rest follows."""

    needs_margins: bool = True
    """Whether the formula asks for anything but the values themselves."""
    identity: bool = False
    """Whether it leaves values as they are, so that nothing is copied."""

    @abstractmethod
    def weigh(self, cells: CellFacts) -> Floats:
        """The weights, one for each cell, finite and >= 0. A weight of zero makes a cell an unobserved one."""

    def apply(self, cells: Observations, margins: Margins | None = None, dtype: Any = np.float32) -> Observations:
        """The cells with their weights replaced. margins : of the fit, for new rows; None where these are the fit."""
        if self.identity:
            return cells
        weights = self.weights(cells.indptr, cells.indices, _each(cells), cells.shape[1], margins)
        table = csr_array((weights, cells.indices, cells.indptr), shape=cells.shape)
        return Observations.from_weights(table, dtype)

    def weights(
        self,
        indptr: NDArray[Any],
        indices: NDArray[Any],
        values: NDArray[Any],
        n_columns: int,
        margins: Margins | None = None,
    ) -> Floats:
        """`apply` for the arrays of a CSR matrix: the new values alone, checked."""
        values = np.asarray(values, np.float64)
        known = margins_of(indptr, indices, values, n_columns) if margins is None else margins
        counts, sums = _rows(indptr, values)
        own = np.repeat(np.arange(len(counts)), counts)
        facts = CellFacts(values, counts[own], sums[own], known.column_counts[indices], known)
        weights = np.asarray(self.weigh(facts), np.float64)
        if weights.shape != values.shape:
            raise ValueError(f"weighting={self!r} gave weights of shape {weights.shape} for {len(values)} cells.")
        bad = ~(np.isfinite(weights) & (weights >= 0))
        if bad.any():
            first = int(np.argmax(bad))
            raise ValueError(
                f"weighting={self!r} gave {weights[first]} for a cell of value {values[first]:g}; weights must be "
                "finite and >= 0. Choose other parameters, or mend the function."
            )
        return weights

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters; `get` turns it back into an equal weighting. Raises where it has no name."""
        name = next((name for name, kind in WEIGHTINGS.items() if kind is type(self)), None)
        if name is None:
            raise ValueError(
                f"weighting={self!r} has no name, so a model file cannot keep it; give its class one: "
                "halfstep.weighting.WEIGHTINGS['mine'] = ItsClass, also where the file is read."
            )
        return {"name": name, **{field.name: getattr(self, field.name) for field in fields(self)}}  # type: ignore[arg-type]


@dataclass(frozen=True)
class AsGiven(Weighting):
    """The value itself."""

    needs_margins = False
    identity = True

    def weigh(self, cells: CellFacts) -> Floats:
        return cells.values


@dataclass(frozen=True)
class Log(Weighting):
    """plus + alpha log(1 + x / eps). `Log(alpha, eps, plus=1)` is the confidence of Hu, Koren and Volinsky."""

    alpha: float = 1.0
    eps: float = 1.0
    plus: float = 0.0
    needs_margins = False

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, above=0)
        check_number("eps", self.eps, above=0)
        check_number("plus", self.plus, at_least=0)

    def weigh(self, cells: CellFacts) -> Floats:
        return self.plus + self.alpha * np.log1p(cells.values / self.eps)


@dataclass(frozen=True)
class Power(Weighting):
    """x^exponent."""

    exponent: float = 0.5
    needs_margins = False

    def __post_init__(self) -> None:
        check_number("exponent", self.exponent)

    def weigh(self, cells: CellFacts) -> Floats:
        return np.asarray(cells.values**self.exponent)


@dataclass(frozen=True)
class Binary(Weighting):
    """1: a cell is there, whatever its value."""

    needs_margins = False

    def weigh(self, cells: CellFacts) -> Floats:
        return np.ones_like(cells.values)


@dataclass(frozen=True)
class TfIdf(Weighting):
    """x (1 + log((1 + N) / (1 + n_j))): a column that few rows have counts more. No length normalisation."""

    def weigh(self, cells: CellFacts) -> Floats:
        rarity = np.log((1.0 + cells.margins.n_rows) / (1.0 + cells.column_counts)) + 1.0
        return np.asarray(cells.values * rarity)


@dataclass(frozen=True)
class BM25(Weighting):
    """Rarity of the column, times a value that saturates, the sooner the longer the row.

    k1 : how far values go before they saturate. b : share of the row's length, from 0 (none) to 1.
    """

    k1: float = 1.2
    b: float = 0.75

    def __post_init__(self) -> None:
        check_number("k1", self.k1, above=0)
        check_number("b", self.b, at_least=0)
        if self.b > 1:
            raise ValueError(f"b={self.b!r} must be a number from 0 to 1.")

    def weigh(self, cells: CellFacts) -> Floats:
        known, n = cells.margins, cells.column_counts
        rarity = np.log1p((known.n_rows - n + 0.5) / (n + 0.5))
        saturation = self.k1 * (1 - self.b + self.b * cells.row_sums / known.mean_sum)
        return np.asarray(rarity * (self.k1 + 1) * cells.values / (cells.values + saturation))


@dataclass(frozen=True)
class CountPower(Weighting):
    """x (n_j / mean n_j)^columns (n_i / mean n_i)^rows: how popular the column is, how much the row has.

    With negative powers the popular count less. Relative to the mean, so that weights keep their size.
    """

    columns: float = -0.5
    rows: float = 0.0

    def __post_init__(self) -> None:
        check_number("columns", self.columns)
        check_number("rows", self.rows)

    def weigh(self, cells: CellFacts) -> Floats:
        known = cells.margins
        # a column nobody had in the fit counts as one that a single row has
        of_column = np.maximum(cells.column_counts, 1) / known.mean_column_count
        return np.asarray(cells.values * of_column**self.columns * (cells.row_counts / known.mean_count) ** self.rows)


@dataclass(frozen=True)
class InTurn(Weighting):
    """One weighting after another, both told the same counts."""

    first: Weighting
    second: Weighting

    def weigh(self, cells: CellFacts) -> Floats:
        return self.second.weigh(replace(cells, values=self.first.weigh(cells)))


@dataclass(frozen=True)
class Signed(Weighting):
    """Values below 0 are dislikes: the target of such a cell is 0, and it weighs what |x| weighs under `by`."""

    by: Weighting

    @property
    def needs_margins(self) -> bool:  # type: ignore[override]
        return self.by.needs_margins

    def weigh(self, cells: CellFacts) -> Floats:
        return self.by.weigh(replace(cells, values=np.abs(cells.values)))

    def apply(self, cells: Observations, margins: Margins | None = None, dtype: Any = np.float32) -> Observations:
        values = _each(cells)
        weights = self.weights(cells.indptr, cells.indices, np.abs(values), cells.shape[1], margins)
        table = csr_array((np.copysign(weights, values), cells.indices, cells.indptr), shape=cells.shape)
        signed = Observations.from_weights(table, dtype)
        return replace(signed, targets=_liked(signed.weights, dtype), weights=_size(signed.weights))


def _liked(weights: Any, dtype: Any) -> Any:
    return (weights > 0).astype(dtype) if isinstance(weights, np.ndarray) else float(weights > 0)


def _size(weights: Any) -> Any:
    return np.abs(weights) if isinstance(weights, np.ndarray) else abs(weights)


@dataclass(frozen=True)
class Custom(Weighting):
    """Any function of an array of values (float64) that returns an array as long."""

    function: Callable[[Floats], Floats]
    needs_margins = False

    def weigh(self, cells: CellFacts) -> Floats:
        return self.function(cells.values)


WEIGHTINGS: dict[str, type[Weighting]] = {
    "none": AsGiven,
    "log": Log,
    "power": Power,
    "sqrt": Power,
    "binary": Binary,
    "tfidf": TfIdf,
    "bm25": BM25,
    "popularity": CountPower,
    "given": AsGiven,
}
"""What the parameter `weighting` may be called. "given" is what tuning called "none" first."""


def get(weighting: Any) -> Weighting:
    """A weighting from its name, from name and parameters ({"name": "bm25", "b": 0.5}), a function, or itself."""
    if isinstance(weighting, Weighting):
        return weighting
    if callable(weighting):
        return Custom(weighting)
    parameters = dict(weighting) if isinstance(weighting, Mapping) else {"name": weighting}
    name = parameters.pop("name", None)
    one_of("weighting", name, WEIGHTINGS)
    kind = WEIGHTINGS[name]
    for parameter in parameters:
        one_of(f"parameter of weighting {name!r}", parameter, [field.name for field in fields(kind)])  # type: ignore[arg-type]
    return kind(**parameters)


def margins(cells: Observations) -> Margins:
    """What has to be kept of fitted cells to weigh rows that come later."""
    return margins_of(cells.indptr, cells.indices, _each(cells), cells.shape[1])


def margins_of(indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], n_columns: int) -> Margins:
    """The margins of the rows of a CSR matrix."""
    counts, sums = _rows(indptr, values)
    of_column = np.bincount(indices, minlength=n_columns)
    n_rows = len(counts)
    return Margins(
        n_rows,
        of_column,
        len(indices) / max(n_rows, 1),
        len(indices) / max(n_columns, 1),
        float(sums.mean()) if n_rows else 0.0,
    )


def _rows(indptr: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[np.int64], Floats]:
    """Cells and sum of the values of each row."""
    counts = np.diff(indptr).astype(np.int64)
    own = np.repeat(np.arange(len(counts)), counts)
    return counts, np.bincount(own, weights=values, minlength=len(counts)).astype(np.float64)


def _each(cells: Observations) -> Floats:
    return np.broadcast_to(np.asarray(cells.weights, np.float64), (len(cells),))
