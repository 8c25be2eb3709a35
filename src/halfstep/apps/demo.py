"""Short stories on built-in data, each method against its baselines, then one page about all of them.

Knows estimators, baselines and the report. Must not know how any of them work, and downloads nothing.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from halfstep.apps.console import table
from halfstep.apps.report import Chapter, Page, chapter
from halfstep.apps.written import Records

LEAD = (
    "Fix one side of a matrix, solve the other. Each story fits one model to built-in data and compares it with the "
    "baselines that every new method must beat. The numbers are measured here; generated data are called so."
)

REVIEWED = 3
"""Of the second story: draws of the data."""
DRAWS = 5
LABELS = 40
TRAINED = 169
SILENT = 0.5
"""Of the third story: draws of the labels and their number, rows that classifiers are trained on, the share of
instances of which a classifier says nothing."""


@dataclass
class Story:
    """What a story tells: a comparison with baselines, an answer to look at, and a chapter for the page."""

    comparison: Records
    caption: str
    answer: Records
    question: str
    chapter: Callable[[], Chapter]


def skills(seed: int) -> Story:
    """Which skills is a position missing? WALS against popularity and item-KNN."""
    from halfstep.data.datasets import load_sample_skills
    from halfstep.judge import evaluate
    from halfstep.models.wals import WALS

    data = load_sample_skills()
    model = WALS(random_state=seed)
    result = evaluate(
        model,
        data,
        "leave_k_out",
        ["ndcg", "truncated_recall", "coverage"],
        protocol_options={"k": 5},
        random_state=seed,
    )
    comparison = [{name: record[name] for name in ("model", *result.metrics)} for record in result.records(3)]
    model.fit(data)
    given = ["Python", "SQL"]
    ranking = model.recommend_for(given, 6)
    answer = []
    for item, score in zip(ranking.ids.tolist(), ranking.scores, strict=True):
        reason = model.explain(items=given, item=item)
        parts = zip(reason.ids.tolist(), reason.contributions, strict=True)
        answer.append(
            {"skill": item, "score": float(score), "because of": ", ".join(f"{i} {c:+.2f}" for i, c in parts)}
        )
    users, items = data.shape
    return Story(
        comparison,
        f"{users} occupations, {items} skills; 5 skills of each hidden, found again among all others",
        answer,
        f"A new position asks for {' and '.join(given)}. What else belongs there?",
        lambda: chapter(model, title="Skills for a position", result=result),
    )


def ratings(seed: int) -> Story:
    """How many stars, how sure, and which stars are slips? Constant, biases, solved and drawn factorisations."""
    import numpy as np

    from halfstep.data.datasets import make_reviews
    from halfstep.judge import random_ratings
    from halfstep.models.bayes import BayesMF
    from halfstep.models.plqmf import PLQMF
    from halfstep.models.rating_baselines import Biases, Constant

    found: dict[str, list[tuple[float, ...]]] = {}
    caught: list[float] = []
    for draw in range(REVIEWED):  # the data are generated anew: one draw may suit one model
        reviews = make_reviews(random_state=seed + draw)
        data = reviews.ratings
        split = random_ratings(data, share=0.2, seed=seed)
        pairs, y = split.test.pairs, split.test.y
        drawn = BayesMF(random_state=seed)
        models: dict[str, Any] = {
            "constant": Constant(),
            "mean + biases": Biases(),
            "PLQMF, squared": PLQMF(random_state=seed),
            "PLQMF, absolute": PLQMF(loss="absolute", random_state=seed),
            "PLQMF, Huber": PLQMF(loss="huber", random_state=seed),
            "BayesMF": drawn,
        }
        for name, model in models.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of chains that have not settled; the page says so
                missed = y - model.fit(split.train.pairs, split.train.y).predict(pairs)
            found.setdefault(name, []).append((float(np.sqrt((missed**2).mean())), float(np.abs(missed).mean())))
        low, high = drawn.predict_interval(pairs, 0.9).T
        found["BayesMF"][-1] += (float(np.mean((low <= y) & (y <= high))),)
        wrong = reviews.mistaken[np.random.default_rng(seed).random(len(data)) < 0.2]
        least = np.argsort(-np.abs(missed) / (high - low), kind="stable")[: int(wrong.sum())]
        caught.append(float(wrong[least].mean()))
    biases = found["mean + biases"]
    comparison: Records = [
        {
            "model": name,
            "RMSE": float(np.mean([each[0] for each in rows])),
            "MAE": float(np.mean([each[1] for each in rows])),
            "RMSE below biases": f"{sum(a[0] < b[0] for a, b in zip(rows, biases, strict=True))} of {REVIEWED}",
        }
        for name, rows in found.items()
    ]
    covered = float(np.mean([each[2] for each in found["BayesMF"]]))
    expected = drawn.predict(pairs)
    answer: Records = [
        {
            "who": str(pairs[k, 0]),
            "film": str(pairs[k, 1]),
            "given": float(y[k]),
            "expected": f"{expected[k]:.1f} [{low[k]:.1f}, {high[k]:.1f}]",
            "a slip": "yes" if wrong[k] else "no",
        }
        for k in least[:6]
    ]
    caption = (
        "12,000 generated reviews by 500 people of 250 films, heavy tails, 5% slips, no product of factors in them; "
        f"each model untouched; a fifth judged as given; means of {REVIEWED} draws of the data. 90% intervals of "
        f"BayesMF cover {covered:.1%}"
    )
    return Story(
        comparison,
        caption,
        answer,
        "Which stars does BayesMF not believe? Of the least believed, as many as there are slips, "
        f"{np.mean(caught):.0%} are slips; 5% would be by chance.",
        lambda: chapter(
            drawn, title="Ratings with slips", pairs=pairs, y=y, comparison=comparison, caption=f"{caption}."
        ),
    )


def fusion(seed: int) -> Story:
    """Twelve classifiers of real tumours, forty labels, one probability: CFEnsembleCV against averages and stacking."""
    import numpy as np

    from halfstep.apps.report.fusion import baselines_beside, scored
    from halfstep.ensemble import CFEnsemble, CFEnsembleCV

    P, y_true, names = _tumours(seed)
    random = np.random.default_rng(seed)
    losses: dict[str, list[float]] = {}
    areas: dict[str, list[float]] = {}
    for _ in range(DRAWS):  # which instances are labelled is luck, and with so few of them it matters
        y = np.full(len(P), np.nan)
        labelled = random.choice(len(P), LABELS, replace=False)
        y[labelled] = y_true[labelled]
        hidden = np.isnan(y)
        model = CFEnsembleCV(random_state=seed).fit(dict(zip(names, P.T, strict=True)), y)
        everyone = [
            *baselines_beside(P, np.where(hidden, -1, y)),
            ("CFEnsemble", CFEnsemble(random_state=seed).fit(P, y).predict_proba()[:, 1]),
            ("CFEnsembleCV", model.predict_proba()[:, 1]),
        ]
        for name, p in everyone:
            one = scored(name, p[hidden], y_true[hidden], n_bootstrap=1)
            losses.setdefault(name, []).append(one.log_loss)
            areas.setdefault(name, []).append(one.auc)
    comparison = [
        {
            "method": name,
            "log loss": f"{np.mean(found):.3f} [{min(found):.3f}, {max(found):.3f}]",
            "AUC": f"{np.mean(areas[name]):.3f} [{min(areas[name]):.3f}, {max(areas[name]):.3f}]",
        }
        for name, found in losses.items()
    ]
    wanted = model.query(5)
    answer = [
        {
            "instance": int(i),
            "probability": float(model.predict_proba()[i, 1]),
            "uncertainty": float(model.uncertainty_[i]),
        }
        for i in wanted
    ]
    caption = (
        f"{len(P)} tumours (Wisconsin, from scikit-learn), {len(names)} classifiers trained on {TRAINED} others, each "
        f"silent on {SILENT:.0%}; {LABELS} labels, judged on the rest; mean of {DRAWS} draws of the labels [smallest, "
        "largest]"
    )
    return Story(
        comparison,
        caption,
        answer,
        "Which labels would help most?",
        lambda: chapter(
            model, title="Twelve classifiers, forty labels", P=P, comparison=comparison, caption=f"{caption}."
        ),
    )


def _tumours(seed: int) -> tuple[Any, Any, list[str]]:
    """Predictions (n, 12) of classifiers that know few rows and few columns each, NaN where silent; labels; names."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.preprocessing import scale
    from sklearn.tree import DecisionTreeClassifier

    X, y = load_breast_cancer(return_X_y=True)
    X, random = scale(X), np.random.default_rng(seed)
    order = random.permutation(len(y))
    train, rest = order[:TRAINED], order[TRAINED:]
    kinds = {
        "logistic": lambda: LogisticRegression(C=0.1),
        "bayes": GaussianNB,
        "neighbours": lambda: KNeighborsClassifier(9),
        "tree": lambda: DecisionTreeClassifier(max_depth=3, random_state=seed),
    }
    P, names = [], []
    for number in range(1, 4):
        for name, make in kinds.items():
            columns = random.choice(X.shape[1], 4, replace=False)
            rows = random.choice(train, 60, replace=False)
            model = make().fit(X[np.ix_(rows, columns)], y[rows])
            told = model.predict_proba(X[np.ix_(rest, columns)])[:, 1]
            P.append(np.where(random.random(len(rest)) < SILENT, np.nan, told))
            names.append(f"{name} {number}")
    return np.column_stack(P), y[rest], names


STORIES: dict[str, tuple[str, Callable[[int], Story]]] = {
    "wals": ("Skills for a position", skills),
    "plq": ("Ratings with slips", ratings),
    "ensemble": ("Twelve classifiers, forty labels", fusion),
}


def run(output: Path | None, seed: int, console: Console) -> Path:
    """Tell every story on `console`, write the page and return its path.

    Without `output` the page is `halfstep-demo.html` here, or in a new folder where this one is not writable.
    """
    begun = time.perf_counter()
    chapters: list[Chapter] = []
    for number, (title, tell) in enumerate(STORIES.values(), 1):
        console.rule(f"[bold]{number} of {len(STORIES)}  {title}", align="left", style="dim")
        with Console(stderr=True).status(f"{title}: fitting and comparing"):
            story = tell(seed)
        console.print(table(story.comparison))
        console.print(escape(story.caption), style="dim")
        console.print(f"\n{escape(story.question)}")
        console.print(table(story.answer))
        console.print()
        with console.status("drawing its chapter"):
            chapters.append(story.chapter())
    page = Page("halfstep demo", chapters, LEAD)
    path = _write(page, output)
    console.print(f"[dim]{time.perf_counter() - begun:.1f} s in all[/]")
    return path


def _write(page: Page, output: Path | None) -> Path:
    if output is not None:
        return page.write(output)
    try:
        return page.write("halfstep-demo.html")
    except OSError:
        return page.write(Path(tempfile.mkdtemp(prefix="halfstep-")) / "halfstep-demo.html")
