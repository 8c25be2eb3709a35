"""Tables with a row for each instance and a column for each classifier, and labels joined to them by id.

Knows files and columns. Must not know how predictions are fused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape

from halfstep.apps.cli.sources import opened
from halfstep.apps.console import say
from halfstep.data.columns import detect
from halfstep.data.datasets._columns import is_missing
from halfstep.data.datasets.whole_tables import Columns, read_columns
from halfstep.data.plain_ids import objects
from halfstep.errors import one_of


@dataclass
class WidePredictions:
    """ids (n,), P (n, m) with NaN where missing, names of the m classifiers, y (n,) with None where unlabelled."""

    ids: NDArray[Any]
    P: NDArray[np.float64]
    names: list[str]
    y: NDArray[Any] | None

    def by_name(self) -> dict[str, NDArray[np.float64]]:
        """Columns (n,) by the names of the classifiers."""
        return dict(zip(self.names, self.P.T, strict=True))

    def typed(self, text: str | None) -> Any:
        """The label that somebody has typed, as it stands in y."""
        known = [] if self.y is None else [label for label in self.y.tolist() if not _is_none(label)]
        same = [label for label in known if str(label) == text or _is_number(label, text)]
        return same[0] if same else text


def _is_none(label: Any) -> bool:
    return label is None or label != label


def _is_number(label: Any, text: str | None) -> bool:
    try:
        return text is not None and float(label) == float(text)
    except (TypeError, ValueError):
        return False


def read_predictions(
    data: str,
    id: str | None = None,
    label: str | None = None,
    labels: Path | None = None,
    classifiers: list[str] | None = None,
    encoding: str | None = None,
) -> WidePredictions:
    """Predictions of one file, with labels from a column of it or from a second file with an id and a label column."""
    with opened(data) as path:
        table = read_columns(path, encoding)
        path = Path(path.name)
    key = _role(table, "id", id, path)
    own = None if labels is not None and label not in table else _role(table, "label", label, path)
    names = classifiers or [name for name in table if name not in (key, own)]
    for name in names:
        one_of("--classifiers", name, table, f"is not a column of {path}; the columns are")
    P = np.column_stack([_numbers(table[name], name, path) for name in names]) if names else np.empty((0, 0))
    if not names:
        raise ValueError(f"{path} has no column of predictions; its columns are {list(table)}")
    ids = np.arange(len(P)) if key is None else table[key]
    _check_ids(ids, path)
    say(f"took {escape(repr(key)) if key else 'row numbers'} as id, {len(names)} columns as classifiers")
    y = table[own] if own is not None else None
    if labels is not None:
        y = _joined(ids, key, labels, id, label, encoding)
    given = 0 if y is None else int((~is_missing(y)).sum())
    say(f"{escape(path.name)}: {len(P):,} instances, {len(names)} classifiers, {given:,} labels")
    return WidePredictions(ids, P, names, y)


def _role(table: Columns, role: str, wanted: str | None, path: Path) -> str | None:
    if wanted is None:
        found: str | None = detect(role, list(table))
        return found
    one_of(f"--{role}", wanted, table, f"is not a column of {path}; the columns are")
    return wanted


def _numbers(column: NDArray[Any], name: str, path: Path) -> NDArray[np.float64]:
    if column.dtype.kind in "iufb":
        return column.astype(np.float64)
    bad = [value for value in column.tolist() if value is not None][:1]
    if not bad:
        return np.full(len(column), np.nan)
    raise ValueError(
        f"{path}: column {name!r} holds {bad[0]!r}, not probabilities; name it with --id or --label, or list the "
        "columns to use with --classifiers"
    )


def _check_ids(ids: NDArray[Any], path: Path) -> None:
    values, counts = np.unique(ids.astype(str), return_counts=True)
    if (counts > 1).any():
        raise ValueError(
            f"{path}: the id {str(values[int(np.argmax(counts))])!r} comes {counts.max()} times; ids must differ"
        )


def _joined(
    ids: NDArray[Any], key: str | None, path: Path, id: str | None, label: str | None, encoding: str | None
) -> NDArray[Any]:
    """Labels of a second file in the order of `ids`, None where there is none."""
    table = read_columns(path, encoding)
    names = list(table)
    own = _role(table, "id", key if key in table else id, path) or names[0]
    value = _role(table, "label", label, path)
    if value is None:
        others = [name for name in names if name != own]
        if len(others) != 1:
            raise ValueError(f"{path}: which column is the label? The columns are {names}; say --label NAME")
        value = others[0]
    by_id = dict(zip((str(each) for each in table[own].tolist()), table[value].tolist(), strict=True))
    unknown = by_id.keys() - {str(each) for each in ids.tolist()}
    if unknown:
        raise ValueError(
            f"{path}: {len(unknown)} ids, such as {min(unknown)!r}, are not among the predictions; do both files name "
            "the same instances?"
        )
    return objects([by_id.get(str(each)) for each in ids.tolist()])
