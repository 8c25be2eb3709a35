"""Tables of the fusion benchmark from its stored results. Knows rows of results; must not know how they were made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensemble.stats import compare, diagram, summary, text_table, write_diagram

OURS = "CFEnsembleCV"
HIGHER = {"pr_auc": True, "roc_auc": True, "log_loss": False, "brier": False}
NAMES = {"pr_auc": "PR-AUC", "roc_auc": "ROC-AUC", "log_loss": "log loss", "brier": "Brier score"}
USUAL = ("Mean", "ShrunkenStacking (column mean)", "GreedySelection")
LEVEL = 0.05

Row = dict[str, Any]
Task = tuple[str, int, str]


class Results:
    """Scores by task (data set, labels, missing) and method, seeds averaged; only seeds that every method has."""

    def __init__(self, rows: Sequence[Row]) -> None:
        cells: dict[tuple[Task, int], dict[str, Row]] = defaultdict(dict)
        for row in rows:
            task = (row["dataset"], row["labels"], str(row["missing"]))
            cells[task, row["seed"]][row["method"]] = row
        self._cells = cells
        everywhere = set.intersection(*(set(found) for found in cells.values()))
        self.methods = [name for name in dict.fromkeys(row["method"] for row in rows) if name in everywhere]
        self.partial = [name for name in dict.fromkeys(row["method"] for row in rows) if name not in everywhere]
        self.tasks = list(dict.fromkeys(task for task, _ in cells))

    def table(
        self, metric: str, labels: int | None = None, missing: str | None = None, methods: Sequence[str] | None = None
    ) -> NDArray[np.float64]:
        """(tasks, methods), of all tasks or those with so many labels and so much missing."""
        methods = self.methods if methods is None else methods
        sums: dict[Task, list[list[float]]] = defaultdict(list)
        for (task, _), found in self._cells.items():
            fits = labels in (None, task[1]) and missing in (None, task[2])
            if fits and all(name in found for name in methods):
                sums[task].append([found[name][metric] for name in methods])
        return np.array([np.mean(scores, axis=0) for scores in sums.values()])

    @property
    def grid(self) -> list[tuple[int, str]]:
        """The (labels, missing) cells in order."""
        order = ["0", "0.5", "0.8", "structured"]
        cells = {(task[1], task[2]) for task in self.tasks}
        return sorted(cells, key=lambda cell: (order.index(cell[1]) if cell[1] in order else 9, cell[0]))

    def seconds(self) -> dict[str, float]:
        """Mean seconds of a fit, by method."""
        spent: dict[str, list[float]] = defaultdict(list)
        for found in self._cells.values():
            for name, row in found.items():
                spent[name].append(row["seconds"])
        return {name: float(np.mean(values)) for name, values in spent.items()}


def cell_table(results: Results, metric: str) -> str:
    """The mean of each method in each (labels, missing) cell; PR-AUC in points."""
    points = 100 if metric == "pr_auc" else 1
    columns = [results.table(metric, *cell) for cell in results.grid]
    header = ["method", *(f"{_share(missing)}, {labels}" for labels, missing in results.grid)]
    rows: list[list[object]] = [
        [name, *(float(points * column[:, k].mean()) for column in columns)] for k, name in enumerate(results.methods)
    ]
    return text_table(header, rows, digits=1 if points == 100 else 3)


def _share(missing: str) -> str:
    return missing if missing == "structured" else f"{float(missing):.0%}"


def margins(results: Results) -> str:
    """Points of PR-AUC of CFEnsembleCV above rivals, averaged over the tasks of each cell."""
    header = [
        "missing",
        "labels",
        "tasks",
        "above the best usual",
        "above bias-adjusted",
        "above the best rival",
        "who",
    ]
    rows: list[list[object]] = []
    by_missing: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
    for labels, missing in results.grid:
        table = results.table("pr_auc", labels, missing)
        by_missing[missing].append(table)
        rows.append([_share(missing), str(labels), len(table), *_margins(results.methods, table)])
    for missing, tables in by_missing.items():
        whole = np.concatenate(tables)
        rows.append([_share(missing), "all", len(whole), *_margins(results.methods, whole)])
    return text_table(header, rows, digits=2)


def _margins(methods: Sequence[str], table: NDArray[np.float64]) -> list[object]:
    means = {name: float(100 * table[:, k].mean()) for k, name in enumerate(methods)}
    ours = means.pop(OURS)
    best = max(means, key=means.__getitem__)
    usual = max((means[name] for name in USUAL if name in means), default=np.nan)
    adjusted = means.get("ShrunkenStacking (bias-adjusted)", np.nan)
    return [ours - usual, ours - adjusted, ours - means[best], best]


def significantly_worse(results: Results) -> str:
    """Where CFEnsembleCV loses to a rival at 5%, two-sided Wilcoxon with Holm over the rivals of a cell."""
    lines = []
    for metric, higher in HIGHER.items():
        for labels, missing in results.grid:
            table = results.table(metric, labels, missing)
            for pair in compare(table, results.methods, higher, against=OURS):
                if pair.p_holm < LEVEL and pair.losses > pair.wins:
                    cell = f"{_share(missing)} missing, {labels} labels"
                    score = f"{pair.wins}/{pair.ties}/{pair.losses}, p {pair.p_holm:.2g}"
                    lines.append(f"  {NAMES[metric]}: {cell}: {pair.second} ({score})")
    return "\n".join(lines) if lines else "  nowhere"


def complete_section(results: Results) -> str:
    """Methods that need complete predictions, beside the others where they answered."""
    methods = [*results.methods, *results.partial]
    parts = []
    for metric in ("pr_auc", "log_loss"):
        table = results.table(metric, None, "0", methods)
        if len(table):
            parts.append(
                f"{NAMES[metric]}, complete predictions only, with {', '.join(results.partial)}\n"
                + summary(table, methods, HIGHER[metric])
            )
    return "\n\n".join(parts)


def report(rows: Sequence[Row], diagrams: str | None = None) -> str:
    """Everything as text; diagrams go to a folder, where one is given."""
    results = Results(rows)
    parts = [f"{len(results.tasks)} tasks (data set, labels, missing), {len(results.methods)} methods"]
    for metric, higher in HIGHER.items():
        table = results.table(metric)
        parts.append(f"{NAMES[metric]} over all tasks\n{summary(table, results.methods, higher)}")
        if diagrams:
            folder = Path(diagrams)
            folder.mkdir(parents=True, exist_ok=True)
            title = f"mean rank by {NAMES[metric]}"
            write_diagram(folder / f"{metric}.svg", diagram(table, results.methods, higher, title=title))
    for metric in ("pr_auc", "log_loss"):
        parts.append(f"{NAMES[metric]} by cell: missing, labels\n{cell_table(results, metric)}")
    if OURS in results.methods and len(results.methods) > 1:
        parts.append(f"points of PR-AUC of {OURS}\n{margins(results)}")
        parts.append(f"{OURS} is significantly worse\n{significantly_worse(results)}")
    if results.partial:
        parts.append(complete_section(results))
    seconds = sorted(results.seconds().items(), key=lambda item: item[1])
    parts.append("mean seconds of a fit: " + ", ".join(f"{name} {value:.2f}" for name, value in seconds))
    return "\n\n".join(part for part in parts if part)
