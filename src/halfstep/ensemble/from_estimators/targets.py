"""Labels of rows, some of which have none: classes as the user wrote them, and codes. Knows nothing of X."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from halfstep.core.arrays import Codes, Mask


@dataclass(frozen=True, eq=False)
class TargetCodes:
    """y (n,) numbers of `classes`, -1 where unlabelled; classes (k,) sorted, of the kind they were given in."""

    y: Codes
    classes: NDArray[Any]

    @property
    def labelled(self) -> Codes:
        """Rows that have a label."""
        return np.flatnonzero(self.y >= 0)


def given_labels(y: Any, unlabelled: Any) -> tuple[NDArray[Any], Mask]:
    """(n,) labels, and where they are labels: neither None, NaN nor NA, nor equal to `unlabelled`."""
    labels = np.asarray(y)
    if labels.dtype.kind in "US" and isinstance(y, list | tuple):
        labels = np.array(y, dtype=object)  # a list that mixes text and NaN would hold the text 'nan'
    labels = column_or_1d(labels, warn=True)
    return labels, ~_without_label(labels, unlabelled)


def _without_label(labels: NDArray[Any], unlabelled: Any) -> Mask:
    if labels.dtype.kind == "O":
        missing: Mask = np.frompyfunc(lambda label: _says_nothing(label, unlabelled), 1, 1)(labels).astype(bool)
        return missing
    nothing = np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(len(labels), dtype=bool)
    if unlabelled is not None and (labels.dtype.kind in "iuf") == isinstance(unlabelled, int | float | np.number):
        nothing = nothing | (labels == unlabelled)
    return nothing


def _says_nothing(label: object, unlabelled: Any) -> bool:
    # pandas.NA answers NA to every comparison, so it is known by its name alone.
    if label is None or type(label).__name__ == "NAType" or label != label:
        return True
    return unlabelled is not None and not isinstance(label, bool) and bool(label == unlabelled)


def read_targets(y: Any, n: int, unlabelled: Any, known: NDArray[Any] | None = None) -> TargetCodes:
    """Codes of y. known : classes that there are whether or not a row is labelled with them (of fitted estimators)."""
    labels, given = given_labels(y, unlabelled)
    check_consistent_length(np.empty(n), labels)
    found = _of_one_kind(labels[given])
    assert_all_finite(found, input_name="y")
    if len(found):
        check_classification_targets(found)
    classes = np.unique(found) if known is None else _union(found, known)
    if len(classes) < 2:
        have = f"one class only, {classes.tolist()[0]!r}" if len(classes) else "no labelled row"
        raise ValueError(
            f"y has {have}, where two classes are needed at least; "
            f"rows with {unlabelled!r}, None or NaN count as unlabelled (unlabelled={unlabelled!r}; None if that is a "
            "class of yours)"
        )
    codes = np.full(n, -1, dtype=np.int64)
    codes[given] = np.searchsorted(classes, found)
    return TargetCodes(codes, classes)


def _union(found: NDArray[Any], known: NDArray[Any]) -> NDArray[Any]:
    if len(found) and (found.dtype.kind in "US") != (known.dtype.kind in "US"):
        raise ValueError(
            f"the fitted estimators know the classes {known[:5].tolist()}, but y has {np.unique(found)[:5].tolist()}; "
            "write y as they were trained with"
        )
    return np.union1d(found, known) if len(found) else np.unique(known)


def _of_one_kind(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels of objects as text or numbers; text and numbers together mean nothing that can be sorted."""
    if labels.dtype.kind != "O" or not len(labels):
        return labels if labels.dtype.kind != "O" else labels.astype(np.int64)
    texts = {isinstance(label, str) for label in labels.tolist()}
    if len(texts) > 1:
        raise ValueError("y mixes text and other labels; write all of them in one kind")
    return np.array(labels.tolist())
