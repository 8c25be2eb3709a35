"""What the cells of P mean: whose they are, which instance and which class they are about. The one place for it.

Names come from frames, dicts and `ids=`, and go out with the answers. Knows frames and labels; must not know factors.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import Codes, Floats
from halfstep.data.files import ModelFileError, Saved
from halfstep.data.ids import Index
from halfstep.ensemble.frames import class_columns, column_names, frame_index, frame_numbers
from halfstep.ensemble.inputs import InstanceRows, read_rows, stack_parts
from halfstep.ensemble.predictions import PredictionWarning, code_labels
from halfstep.ensemble.votes import are_text, are_votes, cast_votes, vote_classes
from halfstep.errors import close_matches, did_you_mean, one_of, require

CONTRADICTED = 3.0
"""Standard errors by which the mean must rank the labels upside down before it is called a contradiction."""
INSTANCE = "instance"


@dataclass(frozen=True, eq=False)
class NamedPredictions:
    """P (n, m) or (n, m, classes) as numbers; names of its columns or classifiers, its classes, ids of its rows.

    What was not named is None. Classes are sorted, and so is the last axis of P then.
    """

    P: Any
    names: list[str] | None = None
    classes: NDArray[Any] | None = None
    ids: Any = None


@dataclass(frozen=True, eq=False)
class Naming:
    """What a fit remembers of the names it was given.

    names : of the columns of P (of the classifiers, where P has a class axis), or None. index : ids of the fitted
    instances. classes : those that P named itself, or None. turned : whether P is about the first class, so that 1 - P
    is what the model sees. voted : the classes of votes, where P held votes.
    """

    index: Index = field(default_factory=lambda: Index.range(0, INSTANCE))
    names: list[str] | None = None
    classes: NDArray[Any] | None = None
    turned: bool = False
    voted: NDArray[Any] | None = None

    def classifiers(self, m: int) -> list[str]:
        """What to call the m classifiers."""
        return self.names if self.names is not None and len(self.names) == m else [f"classifier {j}" for j in range(m)]

    @property
    def feature_names(self) -> NDArray[Any]:
        if self.names is None:
            raise AttributeError("P had no names of columns, so there is no feature_names_in_; pass a frame or a dict")
        return np.array(self.names, dtype=object)

    def rows(self, P: Any, n_classifiers: int, n_channels: int, ids: Any = None) -> tuple[InstanceRows, Index]:
        """Further instances: columns in the order of the fit, and what they are called."""
        given = self._aligned(self._named(P, ids))
        rows = read_rows(given.P, None, n_classifiers=n_classifiers, n_channels=n_channels)
        return self._turn(rows), _index(given.ids, rows.n)

    def called(self, P: Any, ids: Any = None) -> Index:
        """What further instances are called."""
        return row_index(self._named(P, ids))

    def more(self, P: Any, n_channels: int) -> tuple[InstanceRows, list[str] | None]:
        """Further classifiers of the fitted instances, and what they are called."""
        given = self._named(P, None)
        if given.ids is not None and not self.index.is_range and not np.array_equal(given.ids, self.index.ids):
            raise ValueError(
                "the ids of P_extra are not those of the fitted instances in their order; reorder its rows"
            )
        taken = set(self.names or ()) & set(given.names or ())
        if taken:
            raise ValueError(f"P_extra has the classifier {sorted(taken)[0]!r}, which the model has; rename it")
        rows = self._turn(read_rows(given.P, None, n_channels=n_channels))
        return rows, given.names

    def extended(self, more: Index, n: int) -> Naming:
        """With further instances; row numbers go on where both have no ids."""
        if self.index.is_range and more.is_range:
            return replace(self, index=Index.range(len(self.index) + n, INSTANCE))
        known = self.index.find(more.ids)
        if (known >= 0).any():
            again = more.ids[known >= 0].tolist()[0]
            raise ValueError(
                f"the instance {again!r} was fitted already; give new instances ids of their own (ids=), or its label "
                "by partial_fit(y={id: label})"
            )
        return replace(self, index=self.index.extend(more.ids))

    def with_classifiers(self, m: int, extra: list[str] | None, k: int) -> Naming:
        if self.names is None and extra is None:
            return self
        return replace(self, names=[*self.classifiers(m), *(extra or (f"classifier {m + j}" for j in range(k)))])

    def to_meta(self) -> dict[str, Any]:
        """What a file keeps beside the ids."""
        return {"names": self.names, "named_classes": self.classes, "turned": self.turned, "voted": self.voted}

    @classmethod
    def from_saved(cls, saved: Saved, n: int) -> Naming:
        """Of a file; one that was written before there were names has n instances called by their numbers."""
        index = saved.indexes.get(INSTANCE, Index.range(n, INSTANCE))
        meta = saved.meta
        if len(index) != n:
            raise ModelFileError(f"{saved.path}: it has {len(index)} ids for {n} instances")
        return cls(
            index, meta.get("names"), meta.get("named_classes"), bool(meta.get("turned", False)), meta.get("voted")
        )

    def _named(self, P: Any, ids: Any) -> NamedPredictions:
        return name_predictions(P, ids) if self.voted is None else name_votes(P, ids, self.voted)

    def _turn(self, rows: InstanceRows) -> InstanceRows:
        return replace(rows, P=1 - rows.P) if self.turned else rows

    def _aligned(self, given: NamedPredictions) -> NamedPredictions:
        if self.classes is not None and given.classes is not None and list(self.classes) != list(given.classes):
            raise ValueError(f"P has the classes {given.classes.tolist()}, the model {self.classes.tolist()}")
        if self.names is None or given.names is None or self.names == given.names:
            return given
        for name in given.names:
            if name not in self.names:
                raise ValueError(
                    f"P has the column {name!r}, which the model was not fitted with; drop or rename it."
                    f"{did_you_mean(close_matches(name, self.names, 1))}"
                )
        place = {name: j for j, name in enumerate(given.names)}
        absent = [name for name in self.names if name not in place]
        if absent:
            shown = ", ".join(map(repr, absent[:5])) + (", ..." if len(absent) > 5 else "")
            warnings.warn(f"P has no column {shown}; its predictions count as missing", PredictionWarning, stacklevel=5)
        P = np.full((len(given.P), len(self.names), *given.P.shape[2:]), np.nan)
        there = [j for j, name in enumerate(self.names) if name in place]
        P[:, there] = given.P[:, [place[self.names[j]] for j in there]]
        return replace(given, P=P, names=self.names)


# ---------------------------------------------------------------------- reading


def read_named(
    P: Any,
    y: Any,
    ids: Any = None,
    positive: Any = None,
    depth: int = 4,
    classes: Sequence[Any] | None = None,
    votes: bool | None = False,
) -> tuple[InstanceRows, Naming]:
    """Rows about the second class (or each class), and the names that came with them.

    positive : the class whose probability P is. Text labels of two classes need it, unless P has names or an axis of
    classes. Numbers and booleans have the larger one: 1, True. depth : calls up to whoever called `fit`.
    classes : of the last axis of P in its order, where P does not name them itself, or those that votes may be for.
    votes : whether P holds labels, not probabilities; None: whether it can only be so.
    """
    known = None if classes is None else np.asarray(classes)
    told = votes or (votes is None and are_votes(P, y, classes))
    if not told and are_text(P):
        raise ValueError("P holds text: votes, where probabilities are needed; CFEnsembleCV() takes votes")
    if told and known is None:
        known = vote_classes(P, y)
    given = name_votes(P, ids, known) if told and known is not None else name_predictions(P, ids)
    index = row_index(given)
    y = labels_in_order(y, index, getattr(P, "index", None))
    rows = read_rows(given.P, y, classes=known if given.classes is None else given.classes)
    naming = Naming(index, given.names, given.classes, _turned(rows, given, positive), known if told else None)
    rows = naming._turn(rows)
    if rows.n_channels == 1:
        _warn_contradiction(rows, depth)
    return rows, naming


def name_predictions(P: Any, ids: Any) -> NamedPredictions:
    """The numbers of P and the names that it has.

    A frame has a column for each classifier; columns of two levels are (classifier, class). A dict has an entry for
    each classifier, and so has a list: an array (n,) or (n, classes), or a frame with a column for each class.
    """
    if isinstance(P, Mapping):
        return _of_parts([str(name) for name in P], list(P.values()), ids)
    if isinstance(P, list | tuple) and len(P) and all(column_names(part) is not None for part in P):
        return _of_parts(None, list(P), ids)
    levels = class_columns(P)
    if levels is not None:
        names = list(dict.fromkeys(str(name) for name, _ in levels))
        classes = np.unique([label for _, label in levels])
        cube = np.full((len(P), len(names), len(classes)), np.nan)
        numbers = frame_numbers(P)
        for j, (name, label) in enumerate(levels):
            cube[:, names.index(str(name)), np.searchsorted(classes, label)] = numbers[:, j]
        return NamedPredictions(cube, names, classes, frame_index(P) if ids is None else ids)
    columns = column_names(P)
    if columns is None:
        return NamedPredictions(P, ids=ids)
    repeated = sorted({str(name) for name in columns if columns.count(name) > 1})
    if repeated:
        raise ValueError(f"P has several columns called {repeated[0]!r}; each classifier needs a name of its own")
    texts = all(isinstance(name, str) for name in columns)
    return NamedPredictions(frame_numbers(P), columns if texts else None, ids=frame_index(P) if ids is None else ids)


def name_votes(P: Any, ids: Any, classes: NDArray[Any]) -> NamedPredictions:
    """Votes for these classes as an axis of zeros and ones, with the names that P has."""
    cube, names = cast_votes(P, classes)
    return NamedPredictions(cube, names, ids=frame_index(P) if ids is None else ids)


def _of_parts(names: list[str] | None, parts: list[Any], ids: Any) -> NamedPredictions:
    if not parts:
        raise ValueError("P is empty; it needs the predictions of at least one classifier")
    columns = [column_names(part) for part in parts]
    ids = frame_index(parts[0]) if ids is None else ids
    classes = None
    if columns[0] is not None:
        classes = np.unique(columns[0])
        for number, found in enumerate(columns):
            if found is None or sorted(map(str, found)) != sorted(map(str, classes.tolist())):
                raise ValueError(f"classifier {number} of P has the classes {found}, others have {classes.tolist()}")
            parts[number] = frame_numbers(parts[number])[:, [found.index(label) for label in classes.tolist()]]
    return NamedPredictions(stack_parts(parts), names, classes, ids)


def labels_in_order(y: Any, index: Index, rows: Any = None) -> Any:
    """Labels in the order of the instances: of a mapping {id: label} as they are asked for, of the rest as they are.

    rows : the index of a frame of predictions, by which a Series of labels in another order is found.
    """
    if isinstance(y, Mapping):
        found: NDArray[Any] = np.full(len(index), None, dtype=object)
        for place, label in zip(index.positions(list(y)), y.values(), strict=True):
            found[place] = label
        return found
    own = getattr(y, "index", None)
    if own is None or rows is None or not (hasattr(own, "equals") and hasattr(rows, "equals")):
        return y
    if not own.equals(rows) and set(own) == set(rows):
        raise ValueError("y has the index of P in another order; pass y.loc[P.index], or y.to_numpy() if it is right")
    if len(own) < len(rows) and set(own) <= set(rows):
        raise ValueError(
            f"y has labels for {len(own)} of the {len(rows)} instances of P; labels by id are a dict: pass y.to_dict()"
        )
    return y


def codes_of(classes: NDArray[Any], y: Any, index: Index) -> Codes:
    """(n,) indices into the classes of a fit, -1 where unlabelled."""
    return code_labels(labels_in_order(y, index), len(index), classes)


def labelled_accuracy(answers: NDArray[Any], classes: NDArray[Any], y: Any, weights: Any = None) -> float:
    """The share of labelled instances that are answered rightly; unlabelled ones are left out."""
    codes = codes_of(classes, y, Index.range(len(answers), INSTANCE))
    known = codes >= 0
    if not known.any():
        raise ValueError("y has no label to judge by; NaN, None and -1 mean unlabelled")
    right = answers[known] == classes[codes[known]]
    return float(np.average(right, weights=None if weights is None else np.asarray(weights)[known]))


def _length(P: Any) -> int:
    lists = isinstance(P, list | tuple) and len(P) and all(isinstance(part, np.ndarray) for part in P)
    return len(P[0]) if lists else len(P) if hasattr(P, "__len__") else 0


def row_index(given: NamedPredictions) -> Index:
    """What instances are called."""
    return _index(given.ids, _length(given.P))


def instance_index(P: Any) -> Index:
    """What the instances of P are called, whatever it holds of them."""
    parts = list(P.values()) if isinstance(P, Mapping) else P if isinstance(P, list | tuple) else [P]
    first = parts[0] if len(parts) and (hasattr(parts[0], "__array__") or hasattr(parts[0], "columns")) else P
    return _index(frame_index(first), len(first))


def _index(ids: Any, n: int) -> Index:
    if ids is None:
        return Index.range(n, INSTANCE)
    found = Index(ids, INSTANCE)
    if len(found) != n:
        raise ValueError(f"ids has {len(found)} entries, but P has {n} instances (rows)")
    return found


# ---------------------------------------------------------------------- which class


def _turned(rows: InstanceRows, given: NamedPredictions, positive: Any) -> bool:
    """Whether P is about the first of two classes; classes stay sorted, as everybody expects them."""
    classes = rows.classes.tolist()
    if rows.n_channels > 1:
        if positive is not None:
            raise ValueError(f"positive={positive!r} is for two classes; P has {len(classes)}: {classes[:5]}")
        return False
    if positive is not None:
        one_of("positive", positive, classes, "is not a class of y; the classes are")
        return bool(given.classes is None and positive == classes[0])
    text = all(isinstance(label, str) for label in classes)
    if text and given.classes is None and not _has_class_axis(given.P):
        raise ValueError(
            f"y has the labels {classes[0]!r} and {classes[1]!r}, and P has one probability for each classifier: of "
            f"which of the two? Say so: positive={classes[0]!r} or positive={classes[1]!r} (--positive on the command "
            "line)"
        )
    return False


def _has_class_axis(P: Any) -> bool:
    return np.ndim(P[0] if isinstance(P, list) else P) == (2 if isinstance(P, list) else 3)


def _warn_contradiction(rows: InstanceRows, depth: int) -> None:
    """Labels that the mean of the predictions ranks upside down, beyond chance."""
    labelled = (rows.y >= 0) & ~np.isnan(rows.P).all(axis=1)
    truth = rows.y[labelled] == 1
    ones, zeros = int(truth.sum()), int((~truth).sum())
    if min(ones, zeros) < 2:
        return
    area = auc(np.nanmean(rows.P[labelled], axis=1), truth)
    spread = np.sqrt((ones + zeros + 1) / (12 * ones * zeros))  # of the area where P says nothing of y
    if area < 0.5 - CONTRADICTED * spread:
        first, second = rows.classes.tolist()
        warnings.warn(
            f"the labels contradict the predictions: the mean of P ranks {second!r} below {first!r} (area under the "
            f"ROC curve {area:.2f} on {len(truth)} labels). P must be the probability of {second!r}; if it is that of "
            f"{first!r}, pass positive={first!r}",
            PredictionWarning,
            stacklevel=depth + 1,
        )


def auc(score: Floats, truth: ArrayLike) -> float:
    """Area under the ROC curve, ties counted half."""
    from scipy.stats import rankdata

    truth = np.asarray(truth, bool)
    ones, zeros = int(truth.sum()), int((~truth).sum())
    return float((rankdata(score)[truth].sum() - ones * (ones + 1) / 2) / (ones * zeros))


# ---------------------------------------------------------------------- out again


def answer_frame(
    ids: Sequence[Any] | NDArray[Any], classes: NDArray[Any], probabilities: Floats, further: Mapping[str, Any]
) -> Any:
    """A pandas DataFrame with a row for each instance: p_<class>, the answer, and further columns; ids as index."""
    pandas = require("pandas", "frames")
    columns: dict[str, Any] = {f"p_{label}": probabilities[:, k] for k, label in enumerate(classes.tolist())}
    columns["answer"] = classes[probabilities.argmax(axis=1)]
    return pandas.DataFrame(columns | dict(further), index=pandas.Index(ids, name=INSTANCE))
