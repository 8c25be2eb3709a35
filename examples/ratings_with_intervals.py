"""How far can a predicted rating be trusted? Intervals that cover what they say, on ratings the model has not seen.

Run it: `python examples/ratings_with_intervals.py`. It writes intervals.svg.
"""

from pathlib import Path

import numpy as np

import halfstep as hs
from halfstep.evaluate import evaluate
from halfstep.report import charts, write_picture

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def main(folder: Path = Path(".")) -> Path:
    ratings = hs.datasets.make_reviews(300, 150, 8_000, random_state=0).ratings  # generated stars, with slips
    held = np.random.default_rng(0).random(len(ratings)) < 0.2
    known, hidden = ratings.take(~held), ratings.take(held)

    model = hs.BayesMF(random_state=0).fit(known.pairs, known.y)  # every row is drawn from its posterior: no penalty
    print(model.diagnostics_)
    mean, doubt = model.predict(hidden.pairs, return_std=True)
    for pair, value, std, star in list(zip(hidden.pairs, mean, doubt, hidden.y, strict=True))[:5]:
        low, high = model.predict_interval(pair[None], level=0.9)[0]
        print(
            f"{pair[0]} on {pair[1]}: {value:.2f} +- {std:.2f}, nine times of ten {low:.1f} to {high:.1f}; was {star:g}"
        )

    # Beside the simplest rivals, on the same split.
    print(evaluate(hs.BayesMF(random_state=0), ratings, metrics=["rmse", "mae", "coverage@0.9"], random_state=0))

    covered = []
    for level in LEVELS:
        low, high = model.predict_interval(hidden.pairs, level=level).T
        covered.append(float(((low <= hidden.y) & (hidden.y <= high)).mean()))
    figure = charts.lines(
        "Share of unseen ratings inside their interval",
        {"BayesMF": (LEVELS, covered)},
        x_label="what the interval says",
        y_label="what it covers",
        caption=f"{held.sum():,} ratings the model has not seen; on the dashed line intervals are honest.",
        unit_square=True,
    )
    return write_picture(figure, folder / "intervals.svg")


if __name__ == "__main__":
    print(main())
