"""What a user hands over, turned into rows: one row for each instance with two classes, one for each class otherwise.

Knows shapes, labels and their weights. Must not know factors or losses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import Codes, Floats, reals
from halfstep.ensemble.predictions import check_predictions, check_probabilities, code_labels, read_labels

MAX_CLASSES = 1000


@dataclass(frozen=True, eq=False)
class InstanceRows:
    """P (N, m) float64, NaN where missing; y (n,) the class of each instance or -1; classes as the user wrote them.

    N = n * n_channels; row i * n_channels + k is about class k of instance i (about the second class where n_channels
    is 1).
    """

    P: Floats
    y: Codes
    classes: NDArray[Any]
    n_channels: int

    @property
    def n(self) -> int:
        return len(self.y)

    @property
    def channel(self) -> Codes:
        return np.tile(np.arange(self.n_channels), self.n)

    @property
    def row_labels(self) -> Codes:
        """(N,) 1 where the row's class is the label, 0 where it is another, -1 where the instance has none."""
        return expand_labels(self.y, self.n_channels)


def expand_labels(y: Codes, n_channels: int) -> Codes:
    if n_channels == 1:
        return y
    rows = (y[:, None] == np.arange(n_channels)).astype(np.int64)
    rows[y < 0] = -1
    return np.asarray(rows.ravel())


def read_rows(
    P: Any,
    y: ArrayLike | None,
    *,
    n_classifiers: int | None = None,
    n_channels: int | None = None,
    classes: NDArray[Any] | None = None,
) -> InstanceRows:
    """Check predictions (n, m), (n, m, classes), a list of m arrays, or (n, m * classes) as stacking makes them.

    n_classifiers and n_channels are those of a fitted model, if there is one. classes : of the last axis, if known.
    """
    if isinstance(P, list | tuple) and len(P) and np.ndim(P[0]) >= 1 and not np.isscalar(P[0]) and _is_arrays(P):
        P = stack_parts(P)
    if np.ndim(P) != 3:
        if n_channels is None:
            n_channels = _stacked_channels(P, y)
        if n_channels > 1:
            cells = reals("P", P)
            if cells.ndim != 2 or cells.shape[1] % n_channels:
                raise ValueError(
                    f"P has shape {cells.shape}, but the model has {n_channels} classes; pass (instances, classifiers, "
                    "classes), or (instances, classifiers * classes) with the classes of a classifier side by side"
                )
            P = cells.reshape(len(cells), -1, n_channels)
    if np.ndim(P) == 3:
        return _read_cube(reals("P", P), y, n_classifiers, n_channels, classes)
    data = check_predictions(P, y, n_classifiers=n_classifiers)
    return InstanceRows(data.P, data.y, data.classes, 1)


def _is_arrays(P: Any) -> bool:
    return all(isinstance(part, np.ndarray) or hasattr(part, "__array__") for part in P)


def stack_parts(P: Any) -> NDArray[np.float64]:
    """(n, m) or (n, m, classes) of a list with one array for each classifier."""
    parts = [reals("P", part) for part in P]
    shapes = [part.shape for part in parts]
    if len(set(shapes)) != 1 or parts[0].ndim not in (1, 2):
        raise ValueError(
            f"P is a list of arrays of shapes {shapes}; a list must hold one array for each classifier, all of shape "
            "(instances,) or (instances, classes)"
        )
    return np.stack(parts, axis=1)


def _stacked_channels(P: Any, y: ArrayLike | None) -> int:
    """Classes of a flat P whose columns are the classes of one classifier after another; 1 if it is not so."""
    if y is None or np.ndim(P) != 2:
        return 1
    n = len(np.asarray(y))
    k = len(read_labels(y, n, max_classes=MAX_CLASSES)[1])
    if k <= 2:
        return 1
    cells = reals("P", P)
    if len(cells) == n and cells.shape[1] % k == 0:
        sums = cells.reshape(n, -1, k).sum(axis=2)
        if np.allclose(sums[~np.isnan(sums)], 1, atol=1e-3):
            return k
    raise ValueError(
        f"y has {k} classes, but P of shape {cells.shape} holds one number for each classifier; with more than two "
        f"classes pass (instances, classifiers, {k}) probabilities, or (instances, classifiers * {k}) with the classes "
        "of a classifier side by side, each group summing to 1"
    )


def _read_cube(
    P: Floats,
    y: ArrayLike | None,
    n_classifiers: int | None,
    n_channels: int | None,
    known: NDArray[Any] | None,
) -> InstanceRows:
    n, m, k = P.shape
    if k < 2:
        raise ValueError(f"P has shape {P.shape}; its last axis holds the classes, of which there must be at least 2")
    check_probabilities(P, "predict_proba(X) of each classifier")
    if k == 2:
        data = check_predictions(P[:, :, 1], None, n_classifiers=n_classifiers)
        return InstanceRows(data.P, *_axis_labels(y, n, m, k, known), 1)
    if n_channels not in (None, k):
        raise ValueError(f"P has {k} classes on its last axis, but the model was fitted with {n_channels or 2}")
    partly = np.argwhere(np.isnan(P).any(axis=2) & ~np.isnan(P).all(axis=2))
    if len(partly):
        raise ValueError(
            f"P{partly[0].tolist()} is NaN for some of its {k} classes only (one of {len(partly)} such predictions); "
            "write 0 for a class that a classifier does not know, and NaN for all classes where it says nothing"
        )
    check_predictions(P[:, :, 0], None, n_classifiers=n_classifiers)
    codes, classes = _axis_labels(y, n, m, k, known)
    return InstanceRows(P.transpose(0, 2, 1).reshape(n * k, m), codes, classes, k)


def _axis_labels(y: ArrayLike | None, n: int, m: int, k: int, known: NDArray[Any] | None) -> tuple[Codes, NDArray[Any]]:
    """(n,) codes of labels and the k classes of the last axis of P, in its order.

    Not every class needs a label where they are known, or where the labels are numbers from 0 to k - 1 and 0 is one.
    """
    if known is None and y is not None:
        codes, known = read_labels(y, n, m, max_classes=MAX_CLASSES)
        if len(known) == k:
            return codes, known
        numbers = known.dtype.kind in "iu" and known[0] == 0 and known[-1] < k
        if not numbers:
            raise ValueError(
                f"y has {len(known)} classes, {known[:5].tolist()}, but P has {k} on its last axis; pass classes= with "
                f"the {k} classes in the order of that axis"
            )
        known = np.arange(k)
    elif known is None:
        known = np.arange(k)
    if len(known) != k or len(np.unique(known)) != k:
        raise ValueError(
            f"classes has {len(np.unique(known))} different classes, {known[:5].tolist()}, but P has {k} on its last "
            "axis; name each of them once, in the order of that axis"
        )
    order = np.argsort(known)
    codes = np.full(n, -1, dtype=np.int64) if y is None else code_labels(y, n, known[order])
    return np.where(codes >= 0, order[codes], -1), known


def class_weights(y: Codes, classes: NDArray[Any], class_weight: Any) -> Floats:
    """(n labelled,) weights with mean 1: n / (k n_class) ("balanced"), those of a dict {label: weight}, or 1 (None)."""
    k = len(classes)
    if class_weight is None:
        return np.ones(len(y))
    if isinstance(class_weight, str) and class_weight == "balanced":
        by_class = len(y) / (k * np.maximum(np.bincount(y, minlength=k), 1))
    elif isinstance(class_weight, dict):
        unknown = set(class_weight) - set(classes.tolist())
        if unknown:
            raise ValueError(f"class_weight names {sorted(map(str, unknown))}, but the classes are {classes.tolist()}")
        by_class = np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])
        if not (np.isfinite(by_class).all() and by_class.min() > 0):
            raise ValueError(f"class_weight={class_weight!r} must hold positive finite numbers")
    else:
        raise ValueError(f"class_weight={class_weight!r} must be 'balanced', None or a dict {{label: weight}}")
    weights: Floats = by_class[y] / by_class[y].mean()
    return weights


def make_folds(y: Codes, n_classes: int, n_folds: int, seed: int) -> Codes | None:
    """(n,) stratified folds of labelled instances; None where a class has fewer than two of them."""
    counts = np.bincount(y, minlength=n_classes)
    n_folds = min(n_folds, int(counts.min()))
    return None if n_folds < 2 else deal_folds(y, n_folds, seed)


def deal_folds(y: Codes, n_folds: int, seed: int) -> Codes:
    """(n,) folds over which each class is dealt out at random.

    scikit-learn's StratifiedKFold deals out each class from the first fold on, so the first folds are the larger ones;
    here a class goes on where the one before it ended. Its folds are others, and fits with them would be too.
    """
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    folds = np.empty(len(y), np.int64)
    folds[order] = np.arange(len(y)) % n_folds
    return folds


def read_features(features: ArrayLike | None, n: int, width: int | None = None) -> Floats | None:
    """(n, q) finite features of the instances."""
    if features is None:
        if width:
            raise ValueError(f"the model was fitted with {width} features of each instance; pass features=(n, {width})")
        return None
    table = reals("features", features)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != n or (width is not None and table.shape[1] != width):
        expected = f"({n}, {width if width is not None else 'number of features'})"
        raise ValueError(f"features has shape {np.shape(features)}; it must be {expected}")
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        raise ValueError(f"features[{bad[0][0]}, {bad[0][1]}] is not finite; fill or drop missing features first")
    return table


@dataclass(frozen=True, eq=False)
class SideFeatures:
    """Features (n, q) of instances, with mean 0 and deviation 1 where it is not constant; `mean` and `scale` (q,)."""

    values: Floats
    mean: Floats
    scale: Floats

    @classmethod
    def of(cls, features: Floats | None, moments: tuple[Floats, Floats] | None = None) -> SideFeatures | None:
        """moments : means and deviations (q,) where these are not all the instances."""
        if features is None:
            return None
        mean, spread = (features.mean(axis=0), features.std(axis=0)) if moments is None else moments
        scale = np.where(spread > 0, spread, 1.0)
        return cls((features - mean) / scale, mean, scale)

    @property
    def raw(self) -> Floats:
        """(n, q) as they were given, but for rounding."""
        return self.values * self.scale + self.mean

    def by_row(self, n_channels: int) -> Floats:
        return np.repeat(self.values, n_channels, axis=0)


def more_features(known: SideFeatures | None, features: ArrayLike | None, n: int) -> SideFeatures | None:
    """Features of n further instances, standardised as those of the fit."""
    table = read_features(features, n, 0 if known is None else len(known.mean))
    if known is None or table is None:
        return None
    return SideFeatures((table - known.mean) / known.scale, known.mean, known.scale)


def read_tasks(tasks: ArrayLike | None, n: int) -> NDArray[Any] | None:
    """(n,) names of label sets."""
    if tasks is None:
        return None
    names = np.asarray(tasks)
    if names.shape != (n,):
        raise ValueError(f"tasks has shape {names.shape}; it must name the label set of each of the {n} instances")
    return names


def read_groups(groups: ArrayLike | None, m: int) -> Codes | None:
    """(m,) group numbers of the classifiers."""
    if groups is None:
        return None
    names = np.asarray(groups)
    if names.shape != (m,):
        raise ValueError(f"groups has shape {names.shape}; it must name the group of each of the {m} classifiers")
    return np.unique(names, return_inverse=True)[1].astype(np.int64)
