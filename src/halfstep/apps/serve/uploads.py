"""A table that somebody brings to the page: predictions of new instances, or labels of fitted ones. Nothing is stored.

Knows columns and models, not HTTP. What it reads is bounded by the size of a request.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.apps.serve.fusion import FusionAnswers
from halfstep.apps.serve.given_ratings import judged
from halfstep.apps.serve.instances import InstanceAnswers
from halfstep.apps.serve.listed import DIGITS
from halfstep.apps.serve.problems import FieldError
from halfstep.apps.serve.rating import RatingAnswers
from halfstep.data.columns import detect
from halfstep.data.datasets._columns import Coded, is_missing, numbers_of
from halfstep.data.datasets._delimited import Delimited
from halfstep.data.datasets.ratings import Ratings

FIELD = "body"
MOST_COLUMNS = 10_000
USUAL = 0.95
"""An instance is novel where it is farther from what was fitted than this share of the fitted ones."""


def answer(fusion: FusionAnswers, instances: InstanceAnswers | None, data: bytes) -> dict[str, Any]:
    """What a table asks for: labels of fitted instances where it has ids and labels alone, else fused answers."""
    table = read_table(data)
    roles = {detect(role, list(table)) for role in ("id", "label")}
    if instances is not None and roles == set(table):
        return labels_of(instances, table)
    return fuse_table(fusion, table)


def rated(rating: RatingAnswers, data: bytes) -> dict[str, Any]:
    """A table of ratings beside what is expected of them."""
    table = read_table(data)
    roles = {role: detect("weight" if role == "rating" else role, list(table)) for role in ("user", "item", "rating")}
    lacking = [role for role, column in roles.items() if column is None]
    if lacking:
        raise FieldError(FIELD, f"no column looks like {' or '.join(lacking)}; it has {list(table)}")
    users, items, values = (table[str(column)] for column in roles.values())
    y = _numbers(values, str(roles["rating"]))
    there = ~np.isnan(y)
    if not there.any():
        raise FieldError(FIELD, "there is no rating in it")
    pairs = np.column_stack([side.expand() for side in (users, items)]).astype(object)
    return judged(rating, Ratings(pairs[there], y[there]))


def read_table(data: bytes) -> dict[str, Coded]:
    """The columns of a CSV, TSV or semicolon-separated text with a header line."""
    first = data[:65536].partition(b"\n")[0]
    try:
        text = Delimited(data, "the table", delimiter=max(",\t;", key=lambda mark: first.count(mark.encode())))
        if len(text.names) > MOST_COLUMNS:
            raise ValueError(f"the table has {len(text.names):,} columns; at most {MOST_COLUMNS:,} are read")
        table = text.read(dict.fromkeys(text.names))
    except (ValueError, UnicodeDecodeError) as error:
        raise FieldError(FIELD, str(error)) from error
    if not table.rows:
        raise FieldError(FIELD, "the table has no row below its header")
    if table.broken:
        raise FieldError(FIELD, f"{table.broken} of {table.rows} rows have another number of fields than the header")
    return {name: table[name] for name in text.names}


def fuse_table(fusion: FusionAnswers, table: dict[str, Coded]) -> dict[str, Any]:
    """Fused answers for new instances, a row each: a column for each classifier, and an id and a label if there are.

    novel : the share of rows that are farther from the fit than 95% of the fitted ones, where the model can tell.
    """
    model, k = fusion.model, len(fusion.classes)
    if k != 2:
        raise FieldError(FIELD, f"a table holds one number for each classifier, and this model has {k} classes")
    key, truth = detect("id", list(table)), detect("label", list(table))
    given = {name: _numbers(column, name) for name, column in table.items() if name not in (key, truth)}
    named = getattr(model, "feature_names_in_", None)
    P: Any = given if named is not None else np.column_stack(list(given.values()))
    answer = fusion.answer(P)
    proba = np.asarray(answer["probabilities"])
    ids = list(range(1, len(proba) + 1)) if key is None else [_plain(v) for v in table[key].expand().tolist()]
    found = answer | {"ids": ids, "novel": None, "chance": None, "judged": None}
    if hasattr(model, "novelty"):
        from scipy.stats import binom  # takes a second: when somebody asks

        strange = np.asarray(model.novelty(P)) > USUAL
        found["novel"] = round(float(strange.mean()), DIGITS)
        found["chance"] = round(float(binom.sf(strange.sum() - 1, len(strange), 1 - USUAL)), DIGITS)
    if truth is not None:
        found["judged"] = _judged(table[truth], fusion.classes, proba, given)
    return found


def labels_of(instances: InstanceAnswers, table: dict[str, Coded]) -> dict[str, Any]:
    """Labels of fitted instances by their ids, ready for `POST /labels`."""
    key, truth = detect("id", list(table)), detect("label", list(table))
    if key is None or truth is None:
        raise FieldError(FIELD, f"a table of labels needs an id and a label column; it has {list(table)}")
    ids, labels = table[key].with_whole_numbers().expand(), table[truth].expand()
    known = {str(id): row for row, id in enumerate(instances.ids)}
    classes = {str(name): name for name in instances.classes}
    found = []
    for id, label in zip(ids.tolist(), labels.tolist(), strict=True):
        if label is None or label == "":
            continue
        if str(id) not in known:
            raise FieldError(FIELD, f"there is no fitted instance {id!r}")
        if str(label) not in classes:
            raise FieldError(FIELD, f"label {label!r} of instance {id!r} is none of the classes {instances.classes}")
        found.append({"number": known[str(id)], "id": instances.ids[known[str(id)]], "label": classes[str(label)]})
    return {"labels": found}


def _numbers(column: Coded, name: str) -> NDArray[np.float64]:
    numbers, text = np.asarray(numbers_of(column), np.float64), column.expand()
    wrong = np.isnan(numbers) & ~is_missing(text)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise FieldError(FIELD, f"column {name!r} has {text[row]!r} in row {row + 1}, which is no number")
    return numbers


def _judged(truth: Coded, classes: list[Any], proba: NDArray[Any], given: dict[str, Any]) -> dict[str, Any] | None:
    """Log loss of fused answers and of the plain mean on rows with a label."""
    named = {str(name): code for code, name in enumerate(classes)}
    codes = np.array([named.get(str(label), -1) for label in truth.expand().tolist()])
    known = codes >= 0
    if not known.any():
        return None
    with np.errstate(invalid="ignore"):
        mean = np.nan_to_num(np.nanmean(np.column_stack(list(given.values())), axis=1), nan=0.5)
    beside = {"fused": proba[:, 1], "mean": mean}
    from sklearn.metrics import log_loss  # takes a second: when somebody uploads

    losses = {f"{name}_log_loss": log_loss(codes[known], p[known], labels=[0, 1]) for name, p in beside.items()}
    return {"labelled": int(known.sum()), **{name: round(float(loss), DIGITS) for name, loss in losses.items()}}


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int)) else str(value)
