"""CFEnsembleCV against everything else that fuses many classes, on real data: `python benchmarks/ensemble classes`.

    python benchmarks/ensemble classes                        # data sets that no choice was made on, one seed
    python benchmarks/ensemble classes --development          # those on which choices were made
    python benchmarks/ensemble classes --votes                # hard votes of 70 classifiers, 60 labels
    python benchmarks/ensemble classes --speed                # large fits, timed

20 classifiers of a pool of 70, 60 and 200 labels drawn at random (so that classes may have none), 0, 50% and 80% of the
predictions missing. Log loss and accuracy are those of the unlabelled instances; every rival has a temperature.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

import halfstep
from ensemble.class_data import CLASS_SETS, ClassCase, class_halves, soft_cases, vote_cases
from ensemble.class_rivals import soft_rivals, vote_rivals
from halfstep.core.softmax import softmax_loss

OURS = "CFEnsembleCV"
Floats = NDArray[np.float64]
Cell = tuple[str, ...]


def answer(case: ClassCase) -> Floats:
    """Log probabilities of CFEnsembleCV."""
    votes = case.P.ndim == 2
    model = halfstep.CFEnsembleCV(classes=range(case.n_classes), votes=votes, n_threads=1).fit(case.P, case.y)
    return np.log(np.maximum(model.predict_proba(), 1e-12))


def measure(
    cases: Iterator[ClassCase], rivals: Callable[[ClassCase], Iterator[tuple[str, Floats]]]
) -> dict[Cell, list[tuple[str, float, float]]]:
    """(method, log loss, accuracy) by (data set, labels, missing, seed), a line for each case."""
    found: dict[Cell, list[tuple[str, float, float]]] = {}
    for case in cases:
        begun = time.process_time()
        answers = [(OURS, answer(case)), *rivals(case)]
        truth = case.y_true[case.test]
        rows = [
            (
                name,
                float(softmax_loss(scores[case.test], truth).mean()),
                float((scores[case.test].argmax(axis=1) == truth).mean()),
            )
            for name, scores in answers
        ]
        found[(case.dataset, str(case.labels), f"{case.missing:.0%}", str(case.seed))] = rows
        told = "  ".join(f"{name} {loss:.3f}/{right:.3f}" for name, loss, right in rows)
        spent = time.process_time() - begun
        print(f"{case.dataset:16s} {case.labels:4d} {case.missing:4.0%} {case.seed}  {told}  {spent:.1f} s", flush=True)
    return found


def report(found: dict[Cell, list[tuple[str, float, float]]]) -> str:
    """Means over data sets and seeds, a line for each (labels, missing): log loss / accuracy in percent."""
    names = [name for name, _, _ in next(iter(found.values()))]
    lines = ["| labels | missing | " + " | ".join(names) + " |", "| --- " * (len(names) + 2) + "|"]
    for labels, missing in sorted({cell[1:3] for cell in found}, key=lambda c: (float(c[1][:-1]), int(c[0]))):
        rows = np.array([[row[1:] for row in v] for cell, v in found.items() if cell[1:3] == (labels, missing)])
        loss, right = rows.mean(axis=0).T
        cells = [f"{a:.3f} / {100 * b:.1f}" for a, b in zip(loss, right, strict=True)]
        lines.append(f"| {labels} | {missing} | " + " | ".join(cells) + " |")
    ahead = np.array([row[0][1] <= min(each[1] for each in row[1:]) for row in found.values()])
    level = np.array([row[0][2] >= max(each[2] for each in row[1:]) - 0.01 for row in found.values()])
    lines.append(
        f"\n{len(found)} cases: lowest log loss in {ahead.sum()}, accuracy within a point of the best in {level.sum()}"
    )
    return "\n".join(lines)


def speed() -> None:
    """Seconds of fits on made-up predictions, and the peak of the process by then."""
    for n, m, K, missing in (
        (100_000, 50, 2, 0.0),
        (3000, 21, 10, 0.8),
        (10_000, 20, 100, 0.0),
        (10_000, 20, 100, 0.5),
    ):
        rng = np.random.default_rng(0)
        truth = rng.integers(K, size=n)
        P = np.exp(np.eye(K)[truth][:, None, :] * rng.uniform(0.5, 3, (1, m, 1)) + rng.normal(size=(n, m, K)))
        P /= P.sum(axis=2, keepdims=True)
        P[rng.random((n, m)) < missing] = np.nan
        P, classes = (P[:, :, 1], {}) if K == 2 else (P, {"classes": range(K)})
        wall, processor = time.perf_counter(), time.process_time()
        halfstep.CFEnsembleCV(**classes).fit(P, np.where(np.arange(n) < 200, truth, np.nan if K == 2 else -1))
        spent = f"{time.perf_counter() - wall:.1f} s, {time.process_time() - processor:.1f} s of processor time"
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        case = f"{n} instances, {m} classifiers, {K} classes, {missing:.0%} missing"
        print(f"{case}: {spent}, peak {peak:.0f} MB", flush=True)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Fusion of many classes: CFEnsembleCV against its rivals.")
    parser.add_argument("--development", action="store_true", help="data sets on which choices were made")
    parser.add_argument("--datasets", nargs="*", choices=list(CLASS_SETS), help="names; they replace the half")
    parser.add_argument("--votes", action="store_true", help="hard votes in place of probabilities")
    parser.add_argument("--labels", type=int, nargs="*")
    parser.add_argument("--missing", type=float, nargs="*", default=[0.0, 0.5, 0.8])
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--speed", action="store_true", help="time large fits and nothing else")
    asked = parser.parse_args(arguments)
    if asked.speed:
        speed()
        return
    names = asked.datasets or class_halves()["development" if asked.development else "held_out"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes without labels, instances without votes: part of the task
        if asked.votes:
            found = measure(vote_cases(names, asked.labels or (60,), range(asked.seeds)), vote_rivals)
        else:
            labels = asked.labels or (60, 200)
            found = measure(soft_cases(names, labels, asked.missing, range(asked.seeds)), soft_rivals)
    print(report(found))
