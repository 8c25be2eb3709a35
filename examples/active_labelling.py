"""Which instances are worth a label? Ten at a time, chosen by the model, against ten at random.

The first labels are as good at random, since they say little yet about where the model errs; later its choice pays.
Run it: `python examples/active_labelling.py`. It writes labels.svg.
"""

from pathlib import Path

import numpy as np

import halfstep as hs
from halfstep.report import charts, write_picture

START, STEP, ROUNDS, DRAWS = 10, 10, 8, 4


def log_loss(model: hs.CFEnsembleCV, truth: np.ndarray) -> float:
    """Of all instances, labelled or not."""
    p = np.clip(model.predict_proba()[:, 1], 1e-6, 1 - 1e-6)
    return float(-np.mean(np.where(truth == 1, np.log(p), np.log(1 - p))))


def curve(P: np.ndarray, truth: np.ndarray, seed: int, asked: bool) -> list[float]:
    """The loss after each round of labels; `asked`: the model says whose label it wants."""
    random = np.random.default_rng(seed)
    first = np.concatenate([random.permutation(np.flatnonzero(truth == c))[: START // 2] for c in (0, 1)])
    y = np.full(len(truth), np.nan)
    y[first] = truth[first]
    model = hs.CFEnsembleCV(random_state=seed).fit(P, y)
    losses = [log_loss(model, truth)]
    for _ in range(ROUNDS):
        open_ = np.flatnonzero(np.isnan(y))
        chosen = np.asarray(model.query(STEP)) if asked else random.permutation(open_)[:STEP]
        y[chosen] = truth[chosen]  # here somebody would look at them
        model.partial_fit(y={int(k): float(truth[k]) for k in chosen})
        losses.append(log_loss(model, truth))
    return losses


def main(folder: Path = Path(".")) -> Path:
    P, _, truth = hs.datasets.make_predictions(1500, 20, missing=0.5, labels=0.0, random_state=1)
    labels = START + STEP * np.arange(ROUNDS + 1)
    found = {
        name: (labels, np.mean([curve(P, truth, seed, asked) for seed in range(DRAWS)], axis=0))
        for name, asked in (("chosen by the model", True), ("at random", False))
    }
    for name, (_, losses) in found.items():
        print(f"{name:22s}", "  ".join(f"{loss:.3f}" for loss in losses))
    figure = charts.lines(
        "Log loss by the number of labels",
        found,
        x_label="labels",
        y_label="log loss",
        caption=f"Generated predictions of 20 classifiers, half of them missing; the mean of {DRAWS} draws.",
    )
    return write_picture(figure, folder / "labels.svg")


if __name__ == "__main__":
    print(main())
