"""From what people call y to the targets of a loss, or an error that says why not. Knows no losses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.errors import expect_plain

Floats = NDArray[np.float64]


def encode_numbers(y: ArrayLike, low: float, high: float, expected: str) -> Floats:
    """`y` (n,) as float64, finite and within [low, high]; `expected` says so in the error."""
    labels = _one_dimensional(y)
    try:
        expect_plain("y", y)  # which may have a mask
        expect_plain("y", labels)
        targets = labels.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y holds values that are not numbers ({error}); {expected}. "
            "Convert y, or use a loss for classes such as 'hinge'"
        ) from error
    _reject(~np.isfinite(targets), labels, f"{expected}. Leave cells without a target out")
    _reject((targets < low) | (targets > high), labels, f"{expected}. Rescale y or change the loss")
    return targets


def encode_classes(y: ArrayLike, classes: NDArray[Any] | None, expected: str) -> tuple[Floats, NDArray[Any]]:
    """-1 and +1 for the two labels of `y` (n,), and the labels (2,): `classes`, or those of `y`, sorted."""
    labels = _one_dimensional(y)
    missing = np.frompyfunc(_is_missing, 1, 1)(labels) if labels.dtype == object else labels != labels
    _reject(missing.astype(bool), labels, f"{expected}. Leave cells without a target out")
    known = _two_classes(labels, expected) if classes is None else np.asarray(classes)
    positive = labels == known[1]
    _reject(~(positive | (labels == known[0])), labels, f"the classes are {known[0]} and {known[1]}")
    return np.where(positive, 1.0, -1.0), known


def encode_levels(y: ArrayLike, classes: NDArray[Any] | None, most: int, expected: str) -> tuple[Floats, NDArray[Any]]:
    """0, 1, ... for the levels of `y` (n,), numbers in their order, and the levels: `classes`, or those of `y`."""
    numbers = encode_numbers(y, -np.inf, np.inf, expected)
    known = np.unique(numbers) if classes is None else np.asarray(classes, np.float64)
    if not 2 <= known.size <= most:
        shown = ", ".join(f"{value:g}" for value in known[:5]) + (", ..." if known.size > 5 else "")
        raise ValueError(f"y has {known.size} distinct values ({shown}); {expected}. Bin y first, or change the loss")
    places = np.minimum(np.searchsorted(known, numbers), known.size - 1)
    _reject(known[places] != numbers, np.asarray(y), f"the levels of the fit are {', '.join(f'{v:g}' for v in known)}")
    return places.astype(np.float64), known


def _two_classes(labels: NDArray[Any], expected: str) -> NDArray[Any]:
    if labels.size and labels.dtype.kind in "iuf":  # two of them are told without sorting all
        classes = np.array([labels.min(), labels.max()])
        if classes[0] != classes[1] and ((labels == classes[0]) | (labels == classes[1])).all():
            return classes
    try:
        classes = np.unique(labels)
    except TypeError as error:
        raise ValueError(f"y mixes types that cannot be compared ({error}); {expected}") from error
    if classes.size != 2:
        shown = ", ".join(map(str, classes[:5].tolist())) + (", ..." if classes.size > 5 else "")
        raise ValueError(
            f"y has {classes.size} distinct values ({shown}); {expected}. "
            "Threshold y first (for instance y >= 4), or use a loss for numbers such as 'absolute'"
        )
    return classes


def _one_dimensional(y: ArrayLike) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.size == 0:
        raise ValueError(f"y has shape {labels.shape}; expected a non-empty 1-D array, one target for each cell")
    return labels


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA has no truth value
        return True


def _reject(bad: NDArray[np.bool_], y: NDArray[Any], expected: str) -> None:
    """Raise if any entry is `bad`, showing the first of them."""
    if bad.any():
        first = int(np.argmax(bad))
        raise ValueError(f"y has {int(bad.sum())} invalid values, the first is y[{first}] = {y[first]}; {expected}")
