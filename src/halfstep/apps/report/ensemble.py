"""The chapter about a fused ensemble: its classifiers, its instances, how far to trust it, what to label next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.apps.report.charts import counted, estimates, heat_map, histogram, lines, point_map
from halfstep.apps.report.fusion import Scores, baselines_beside, scored, weight_spread
from halfstep.apps.report.page import Block, Facts, Note, Section, Table, sort_key
from halfstep.apps.written import Records
from halfstep.core.arrays import Floats
from halfstep.figures.plane import flat_map
from halfstep.figures.shown import instance_vectors
from halfstep.figures.views import classifier_names, clustered_order
from halfstep.metrics import CalibrationBins, calibration_bins

LEAD = (
    "Instances and classifiers have vectors whose products reconstruct the predictions; labels of a few instances say "
    "which classifiers to believe. Labelled and unlabelled instances are factorised together."
)


@dataclass(frozen=True)
class Words:
    """What differs between one factorisation and an average of them.

    judged, difficulty, routing, novelty : what is said of calibration, difficulty, routed instances and novelty.
    spread : standard errors (m,) of the weights of what is known, or None.
    """

    judged: str
    difficulty: str
    routing: str
    novelty: str
    spread: Callable[[Any], Floats | None]


ONE_FACTORISATION = Words(
    "labelled instances, whose labels the aggregator has seen",
    "Length of the vector: long means unusual.",
    "No instance was routed elsewhere; `route='auto'` sends novel ones to shrunken stacking.",
    "distance from what was fitted, one half: as usual",
    lambda known: None if known.P is None else weight_spread(known.model, known.P, known.y),
)
SHOWN = 200
"""Rows of the tables of instances; a page with all of them could not be read."""


def sections(
    model: Any,
    P: ArrayLike | None = None,
    y_true: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    ids: Sequence[Any] | None = None,
    comparison: Records | None = None,
    caption: str = "",
    words: Words = ONE_FACTORISATION,
) -> list[Section]:
    """Sections about a fitted ensemble.

    P : the predictions it was fitted to, for baselines and intervals. y_true : true labels of all instances, to judge
    it on those it had no label for. names : of the classifiers. ids : of the instances. Both are known to a model that
    was fitted with them. comparison : rows of a table that was made elsewhere, with its caption.
    """
    facts = _Known(model, P, y_true, names, ids, words)
    shown = [_data(facts)]
    scores = facts.scores
    if comparison:
        shown.append(_compared(comparison, caption))
    if scores:
        shown.append(_quality(scores))
    return [
        *shown,
        _query(facts),
        *_classifiers(facts),
        _calibration(facts, scores),
        _instances(facts),
        _novelty(facts),
    ]


class _Known:
    """The model and what is known beside it, under short names."""

    def __init__(self, model: Any, P: Any, y_true: Any, names: Any, ids: Any, words: Words) -> None:
        self.model = model
        self.words = words
        self.y = np.asarray(self.model.fitted_.labels)
        self.labelled = self.y >= 0
        self.n = len(self.y)
        opinions = None if P is None else np.asarray(model.fitted_.opinions)  # about the classes, whatever P is about
        self.P = opinions if opinions is None or opinions.shape[2] > 2 else opinions[:, :, 1]
        self.y_true = None if y_true is None else np.searchsorted(self.model.classes_, np.asarray(y_true))
        self.about = self.model.diagnostics_
        self.m = len(self.about.classifier_weights)
        self.names = model.fitted_.naming.classifiers(self.m) if names is None else classifier_names(names, self.m)
        self.ids = [str(id) for id in (model.instance_ids_.tolist() if ids is None else ids)]
        self.held = getattr(model.fitted_, "held", None)
        self.proba = np.asarray(model.predict_proba())
        self.two = self.proba.shape[1] == 2
        self.answer = self.proba.argmax(axis=1)

    @property
    def classes(self) -> list[str]:
        return [str(c) for c in self.model.classes_]

    @property
    def scores(self) -> list[Scores]:
        """The model and its baselines, judged on the instances it had no label for."""
        if self.y_true is None or not self.two or self.labelled.all():
            return []
        hidden = ~self.labelled
        fitted = [] if self.P is None else baselines_beside(self.P, self.y)
        everyone = [*fitted, (type(self.model).__name__, self.proba[:, 1])]
        return [scored(name, p[hidden], self.y_true[hidden]) for name, p in everyone]


def _data(known: _Known) -> Section:
    about = known.about
    counts = {f"labelled {c}": int((known.y == k).sum()) for k, c in enumerate(known.classes)}
    facts: dict[str, Any] = {
        "instances": known.n,
        "classifiers": known.m,
        **counts,
        "unlabelled": int((~known.labelled).sum()),
    }
    if known.P is not None and known.P.ndim == 2:
        facts["predictions missing"] = f"{np.isnan(known.P).mean():.1%}"
    facts |= {"RMSE, labelled": about.rmse_labelled, "RMSE, unlabelled": about.rmse_unlabelled}
    blocks: list[Block] = [Facts(facts)]
    few = {name: n for name, n in counts.items() if n < 10}
    if few:
        told = ", ".join(f"{n} {name}" for name, n in few.items())
        blocks.append(Note(f"There are only {told}; weights and calibration rest on few labels."))
    if about.rmse_labelled and about.rmse_unlabelled and about.rmse_labelled < 0.7 * about.rmse_unlabelled:
        blocks.append(
            Note(
                f"Labelled instances are reconstructed much better ({about.rmse_labelled:.3f}) than unlabelled ones "
                f"({about.rmse_unlabelled:.3f}): a sign of overfitting. A larger `reg` or `rho` helps."
            )
        )
    return Section("The data", blocks, folded=True)


def _compared(comparison: Records, caption: str) -> Section:
    """Rows of a table made elsewhere: a method, then a number that is better the smaller it is, then others."""
    columns, rows = list(comparison[0]), [list(row.values()) for row in comparison]
    values = [float(sort_key(row[1])) for row in rows]
    best, second = (int(k) for k in np.argsort(values, kind="stable")[:2])
    words = f"Smallest {columns[1]}: {rows[best][0]}, {values[best]:.3f}; next {rows[second][0]}, {values[second]:.3f}."
    chart = estimates(
        f"{columns[1]}, smaller is better",
        [str(row[0]) for row in rows],
        values,
        x_label=columns[1],
        marked=str(rows[best][0]),
    )
    return Section("How good it is", [Note(words, "good"), chart, Table(columns, rows, caption)])


def _quality(scores: list[Scores]) -> Section:
    own = scores[-1]
    best = min(scores, key=lambda s: s.log_loss)
    rows = [[s.name, f"{s.log_loss:.4f} [{s.low:.4f}, {s.high:.4f}]", s.auc, s.accuracy, s.brier] for s in scores]
    words = (
        f"{own.name} has the smallest log loss."
        if best is own
        else f"{best.name} has a smaller log loss ({best.log_loss:.4f}) than {own.name} ({own.log_loss:.4f})."
    )
    chart = estimates(
        "Log loss on instances without a label, smaller is better",
        [s.name for s in scores],
        [s.log_loss for s in scores],
        [s.low for s in scores],
        [s.high for s in scores],
        x_label="log loss",
        marked=own.name,
        wide=True,
    )
    columns = ["method", "log loss", "AUC", "accuracy", "Brier score"]
    table = Table(columns, rows, f"{own.n:,} instances without a label. Mean [95% interval over instances].")
    return Section("How good it is", [Note(words, "good" if best is own else "info"), chart, table])


def _classifiers(known: _Known) -> list[Section]:
    about, order = known.about, np.argsort(-known.about.classifier_weights, kind="stable")
    spread = known.words.spread(known)
    weights = about.classifier_weights[order]
    error = np.full(known.m, np.nan) if spread is None else 1.96 * spread[order]
    shown = slice(None) if known.m <= 40 else np.r_[0:20, known.m - 20 : known.m]
    blocks: list[Block] = [
        estimates(
            "Weights of the classifiers",
            [known.names[j] for j in order[shown]],
            weights[shown],
            (weights - error)[shown],
            (weights + error)[shown],
            x_label="what one log odds of the classifier counts",
            reference=1 / known.m,
            caption="The dashed line is the plain mean."
            + ("" if spread is None else " Intervals: refits on random halves of the labels."),
        )
    ]
    leaves = clustered_order(about.classifier_similarity)
    if known.m <= 150:
        blocks.append(
            heat_map(
                "Similarity of the classifiers",
                about.classifier_similarity[np.ix_(leaves, leaves)],
                [known.names[j] for j in leaves],
                value="cosine",
                caption="Alike classifiers stand side by side; they bring little news beyond each other.",
            )
        )
    place, method = flat_map(known.model.fitted_.classifier_vectors, "PCA")
    labels = [f"{n}\nweight {w:.3f}" for n, w in zip(known.names, about.classifier_weights, strict=True)]
    seen = point_map(
        "Map of the classifiers",
        place[:, 0],
        place[:, 1],
        labels,
        amount=about.classifier_weights,
        amount_name="weight",
        important=about.classifier_weights,
        wide=known.m > 30,
        caption=f"Directions of their vectors, by {method}.",
        alt=f"{known.m} classifiers by {method}; the largest weight is that of {known.names[int(order[0])]}.",
    )
    return [Section("Classifiers", blocks), Section("Map of the classifiers", [seen], folded=True)]


def _calibration(known: _Known, scores: list[Scores]) -> Section:
    own = type(known.model).__name__
    if not known.two:
        curves = {own: CalibrationBins(**known.about.calibration, place=np.empty(0, int))}
        where = "labelled instances and classes"
    elif scores:
        curves = {s.name: _tenths(s.p, s.y) for s in scores[-1:] + scores[:2]}
        where = "instances without a label"
    else:
        answers = known.proba[known.labelled] if known.held is None else known.held
        curves = {own: _tenths(answers[:, 1], known.y[known.labelled])}
        where = known.words.judged
    error = curves[own].error
    figure = lines(
        "Calibration",
        {name: (bins.predicted, bins.observed) for name, bins in curves.items()},
        x_label="predicted probability",
        y_label="share of positives",
        unit_square=True,
        caption=f"Judged on {where}. On the dashed line, 70% means 70%.",
    )
    spread = histogram(
        "Fused probabilities", {"instances": known.proba.max(axis=1)}, x_label="probability of the answer"
    )
    blocks: list[Block] = [Facts({"expected calibration error": error, "judged on": where}), figure, spread]
    return Section("Calibration", blocks, folded=True)


def _tenths(p: NDArray[Any], y: NDArray[Any]) -> CalibrationBins:
    """Ten bins of as many instances, fewer where that would leave fewer than five in each."""
    return calibration_bins(p, y, min(10, max(len(p) // 5, 1)), equal="count")


def _instances(known: _Known) -> Section:
    about = known.about
    place, method = flat_map(instance_vectors(known.model))
    kinds = np.where(known.labelled, known.y, len(known.classes) + known.answer)
    names = [*(f"labelled {c}" for c in known.classes), *(f"answered {c}" for c in known.classes)]
    top = known.proba.max(axis=1)
    labels = [
        f"{id}\n{known.classes[a]} with {p:.2f}\ndifficulty {d:.2f}"
        for id, a, p, d in zip(known.ids, known.answer, top, about.difficulty, strict=True)
    ]
    common: dict[str, Any] = {"most_labels": 0, "search": "Find an instance"}
    by_label = point_map(
        "Instances by label",
        place[:, 0],
        place[:, 1],
        labels,
        kinds=kinds,
        kind_names=names,
        caption=f"Directions of their vectors, by {method}.",
        alt=f"{known.n:,} instances by {method}: {counted(kinds, names)}.",
        **common,
    )
    by_difficulty = point_map(
        "Instances by difficulty",
        place[:, 0],
        place[:, 1],
        labels,
        amount=about.difficulty,
        amount_name="difficulty",
        caption=known.words.difficulty,
        alt=f"{known.n:,} instances; difficulty from {about.difficulty.min():.2f} to {about.difficulty.max():.2f}.",
        **common,
    )
    return Section("Instances", [by_label, by_difficulty], folded=True)


def _rows(known: _Known, which: NDArray[Any]) -> list[list[Any]]:
    top = known.proba.max(axis=1)
    return [
        [
            known.ids[i],
            known.classes[known.answer[i]],
            float(top[i]),
            float(known.about.novelty[i]),
            float(known.about.difficulty[i]),
            known.classes[known.y[i]] if known.labelled[i] else "",
        ]
        for i in which
    ]


COLUMNS = ["instance", "answer", "probability", "novelty", "difficulty", "label"]


def _query(known: _Known, n: int = 6) -> Section:
    free = int((~known.labelled).sum())
    if not free:
        return Section("What to label next", [Note("Every instance has a label.", "info")])
    wanted = known.model.fitted_.naming.index.positions(known.model.query(min(n, free)))
    table = Table(COLUMNS, _rows(known, wanted), "The unlabelled instances whose labels would help most, best first")
    return Section("What to label next", [table])


def _novelty(known: _Known) -> Section:
    novelty = known.about.novelty
    order = np.argsort(-novelty, kind="stable")[:SHOWN]
    routed = int(np.sum(getattr(known.model, "routed_", np.zeros(known.n))))
    words = (
        f"{routed:,} instances were answered by shrunken stacking instead, because the factors do not describe them."
        if routed
        else known.words.routing
    )
    blocks: list[Block] = [
        Note(words, "info"),
        histogram("Novelty", {"instances": novelty}, x_label=known.words.novelty),
        Table(COLUMNS, _rows(known, order), f"The {len(order)} most novel instances", search=True),
    ]
    words = "An answer rests on the factors; where they miss, so may it."
    return Section("Where not to trust it", blocks, words, folded=True)
