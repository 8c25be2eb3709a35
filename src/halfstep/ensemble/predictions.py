"""The one door for predictions of many classifiers: checked, with missing cells marked and labels coded.

Knows probabilities and labels. Must not know what is done with them: no estimator, no weight, no loss.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from halfstep.core.arrays import Codes, Floats, Mask, reals

__all__ = ["CLIP", "PredictionWarning", "Predictions", "check_predictions", "expit", "logit", "read_labels"]

CLIP = 0.01
"""Probabilities are held inside [CLIP, 1 - CLIP] before a logit is taken: trees say 0 and 1 too easily."""


class PredictionWarning(UserWarning):
    """Predictions that can be used but say nothing about some instance or classifier."""


@dataclass(frozen=True)
class Predictions:
    """Checked predictions of m classifiers on n instances.

    `P` (n, m) float64 with NaN where missing; `observed` (n, m) bool; `y` (n,) int64, the index
    into `classes` or -1 where unlabelled; `classes` (k,) the labels as the user wrote them, sorted.
    """

    P: Floats
    observed: Mask
    y: Codes
    classes: NDArray[Any]

    @property
    def labelled(self) -> Mask:
        """(n,) bool: which instances have a label."""
        labelled: Mask = self.y >= 0
        return labelled

    @property
    def empty_rows(self) -> NDArray[np.intp]:
        """Instances without any prediction."""
        return np.flatnonzero(~self.observed.any(axis=1))

    @property
    def empty_columns(self) -> NDArray[np.intp]:
        """Classifiers without any prediction."""
        return np.flatnonzero(~self.observed.any(axis=0))

    def logits(self, clip: float = CLIP) -> Floats:
        """(n, m) logits of `P`, 0 where missing."""
        scores = np.zeros_like(self.P)
        scores[self.observed] = logit(self.P[self.observed], clip)
        return scores

    def require_labels(self, method: str) -> None:
        """Raise unless every class has a labelled instance."""
        counts = np.bincount(self.y[self.labelled], minlength=len(self.classes))
        if counts.min() == 0:
            have = ", ".join(f"{label!r}: {count}" for label, count in zip(self.classes.tolist(), counts, strict=True))
            raise ValueError(
                f"{method} learns from labels of every class, but y has labelled instances {{{have}}}; "
                "label at least one instance of each class, or use Mean, BiasAdjustedMean, "
                "SpectralMetaLearner or DawidSkene, which need no labels"
            )


def logit(p: ArrayLike, clip: float = CLIP) -> Floats:
    """log(p / (1 - p)) after holding p inside [clip, 1 - clip]. Same shape as `p`."""
    if not 0 < clip < 0.5:
        raise ValueError(f"clip={clip!r} must lie strictly between 0 and 0.5; 0.01 is the default")
    held = np.clip(np.asarray(p, dtype=np.float64), clip, 1 - clip)
    return np.log(held) - np.log1p(-held)


def check_predictions(
    P: ArrayLike,
    y: ArrayLike | None = None,
    *,
    n_classifiers: int | None = None,
    max_classes: int = 2,
    classes: NDArray[Any] | None = None,
) -> Predictions:
    """Validate predictions and labels.

    Parameters
    ----------
    P : (n instances, m classifiers), probabilities of the second class in [0, 1], NaN where missing.
    y : (n,) labels of any kind; NaN, None or -1 where unlabelled. None: nothing is labelled.
    n_classifiers : m that a fitted model expects, if there is one.
    max_classes : raise when y has more classes than this.
    classes : the classes, where they are known beside y.

    Warns with `PredictionWarning` when an instance or, in a fit, a classifier has no prediction at all.
    """
    cells = _cells(P)
    n, m = cells.shape
    if n_classifiers is not None and m != n_classifiers:
        hint = " It looks transposed: pass P.T." if n == n_classifiers else ""
        raise ValueError(f"P has {m} classifiers (columns), but the model was fitted with {n_classifiers}.{hint}")
    observed: Mask = ~np.isnan(cells)
    if classes is None:
        codes, classes = read_labels(y, n, m, max_classes=max_classes)
    else:
        codes = np.full(n, -1, dtype=np.int64) if y is None else code_labels(y, n, classes)
    data = Predictions(cells, observed, codes, classes)
    warn_empty("instance (row)", data.empty_rows, n)
    if n_classifiers is None:  # of few new instances a fitted classifier may well have none
        warn_empty("classifier (column)", data.empty_columns, m)
    return data


def _cells(P: ArrayLike) -> Floats:
    try:
        cells = reals("P", P).copy()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"P must be numbers, instances x classifiers, with NaN where a prediction is missing; "
            f"got {type(P).__name__} that cannot be read as such ({error})"
        ) from error
    if cells.ndim != 2 or 0 in cells.shape:
        raise ValueError(
            f"P has shape {cells.shape}; it must be two-dimensional, (instances, classifiers), and not empty"
        )
    check_probabilities(cells, "predict_proba(X)[:, 1] of each classifier, expit of its decision values")
    return cells


def check_probabilities(P: Floats, instead: str) -> None:
    """Raise unless every cell is NaN or lies in [0, 1]; `instead` is what to pass."""
    bad = np.argwhere(~(np.isnan(P) | ((P >= 0) & (P <= 1))))
    if len(bad):
        raise ValueError(
            f"P{bad[0].tolist()} = {P[tuple(bad[0])]:g} is not a probability in [0, 1] (one of {len(bad)} such cells); "
            f"pass {instead}, or NaN for none"
        )


def read_labels(
    y: ArrayLike | None, n: int, m: int | None = None, *, max_classes: int = 2
) -> tuple[Codes, NDArray[Any]]:
    """(n,) codes of labels, -1 where there is none, and the sorted classes; y as in `check_predictions`.

    m : the classifiers, by whose number a transposed P is told apart.
    """
    if y is None:
        return np.full(n, -1, dtype=np.int64), np.array([0, 1])
    # A list that mixes text and NaN would turn NaN into the text 'nan', so lists keep their objects.
    labels = np.array(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}; it must be one-dimensional, one label for each of {n} instances")
    if len(labels) != n:
        hint = " It matches the columns: P looks transposed, pass P.T." if len(labels) == m else ""
        of = "" if m is None else f" and {m} classifiers (columns)"
        raise ValueError(f"y has {len(labels)} labels, but P has {n} instances (rows){of}.{hint}")
    given = is_given(labels)
    known = labels[given]
    if known.dtype.kind == "O":
        known = np.array(known.tolist()) if len(known) else known.astype(np.int64)
    if known.dtype.kind == "f" and np.all(known == np.round(known)):
        known = known.astype(np.int64)
    classes, inverse = np.unique(known, return_inverse=True)
    if known.dtype.kind in "iub" and set(classes.tolist()) <= {0, 1}:
        # 0 and 1 are the two classes even where only one of them, or none, is labelled yet.
        classes, inverse = np.array([0, 1], dtype=known.dtype), known.astype(np.intp)
    if len(classes) < 2:
        raise ValueError(
            f"y has only the class {classes.tolist()} among its labels; two are needed. NaN, None and -1 "
            "mean unlabelled: where -1 is a class of yours, write 0 and 1 instead"
        )
    if len(classes) > max_classes:
        raise ValueError(
            f"y has {len(classes)} classes, {classes[:5].tolist()}{' ...' if len(classes) > 5 else ''}; "
            f"at most {max_classes} are supported. Fuse each class against the rest"
        )
    codes = np.full(n, -1, dtype=np.int64)
    codes[given] = inverse
    return codes, classes


def code_labels(y: Any, n: int, classes: NDArray[Any]) -> Codes:
    """(n,) indices into known classes, -1 where unlabelled."""
    labels: list[Any] = list(y) if np.ndim(y) == 1 else []
    if len(labels) != n:
        raise ValueError(f"y has shape {np.shape(y)}; it must have one label for each of {n} instances")
    known = classes.tolist()
    # With the known classes behind them the labels are read as those of a fit are.
    codes, found = read_labels([*labels, *known], n + len(known), max_classes=n + len(known))
    if len(found) != len(known):
        strange = [label for label in found.tolist() if label not in known]
        raise ValueError(f"y has the label {strange[0]!r}, but the classes are {known}")
    return codes[:n]


def is_given(labels: NDArray[Any]) -> Mask:
    """bool, of the same shape: where a label is neither NaN, None nor -1."""
    if labels.dtype.kind == "O":
        missing: Mask = np.frompyfunc(_is_missing, 1, 1)(labels).astype(bool)
        return ~missing
    if labels.dtype.kind in "fi":
        given: Mask = ~np.isnan(labels) & (labels != -1)
        return given
    return np.ones(labels.shape, dtype=bool)


def _is_missing(label: object) -> bool:
    # pandas.NA answers NA to every comparison, so it is known by its name alone.
    return label is None or type(label).__name__ == "NAType" or label != label or label == -1


def warn_empty(what: str, empty: NDArray[np.intp], total: int) -> None:
    if len(empty):
        shown = ", ".join(map(str, empty[:5])) + (", ..." if len(empty) > 5 else "")
        warnings.warn(
            f"{len(empty)} of {total}: no prediction at all for {what} {shown}; "
            "nothing can be said there beyond the average",
            PredictionWarning,
            stacklevel=3,
        )
