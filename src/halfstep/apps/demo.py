"""Short stories on built-in data, each method against its baselines, then one page about all of them.

Knows estimators, baselines and the report. Must not know how any of them work, and downloads nothing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from halfstep.apps.console import Records, table
from halfstep.apps.report import Chapter, Page, chapter

LEAD = (
    "Fix one side of a matrix, solve the other. Each story fits one model to built-in data and compares it with the "
    "baselines that every new method must beat. The numbers are measured here; generated data are called so."
)

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
    # Chosen by a small search on other splits of the same table.
    model = WALS(rank=32, background=0.3, reg=0.05, max_iter=30, random_state=seed)
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
    """What would people have said without the mistakes? Robust losses against squared errors and averages."""
    import numpy as np

    from halfstep.core.losses import Huber
    from halfstep.data.datasets import make_ratings
    from halfstep.models.plqmf import PLQMF

    pairs, y, clean = make_ratings(1_000, 500, 40_000, outliers=0.05, random_state=seed)
    learn, judge, test = np.split(np.arange(40_000), [28_000, 32_000])
    train = np.concatenate([learn, judge])
    counts = np.maximum(np.bincount(pairs[train, 1], minlength=500), 1)
    guesses = {
        "mean of all ratings": np.full(len(test), y[train].mean()),
        "mean of the item": (np.bincount(pairs[train, 1], y[train], 500) / counts)[pairs[test, 1]],
    }
    losses = {"PLQMF, squared": "squared", "PLQMF, absolute": "absolute", "PLQMF, Huber": Huber(0.5)}
    models, errors = {}, {}
    for name, loss in losses.items():
        # The strength of the penalty is chosen on ratings as observed, mistakes included; the truth is not known then.
        tried = {}
        for strength in (3, 5, 8, 12, 20):
            model = PLQMF(rank=6, loss=loss, C=strength / len(learn), random_state=seed).fit(pairs[learn], y[learn])
            tried[strength] = float(np.abs(y[judge] - model.predict(pairs[judge])).mean())
        best = min(tried, key=tried.__getitem__)
        errors[name] = tried[best]
        models[name] = PLQMF(rank=6, loss=loss, C=best / len(train), random_state=seed).fit(pairs[train], y[train])
    guesses |= {name: model.predict(pairs[test]) for name, model in models.items()}
    comparison = [
        {
            "model": name,
            "mean absolute error": float(np.abs(clean[test] - guess).mean()),
            "root mean square error": float(np.sqrt(((clean[test] - guess) ** 2).mean())),
        }
        for name, guess in guesses.items()
    ]
    model = models[min(errors, key=errors.__getitem__)]
    some = test[np.abs(y[test] - clean[test]) > 2][:5]
    answer = [
        {"user": u, "item": i, "given": float(given), "truly": float(truth), "predicted": float(guess)}
        for (u, i), given, truth, guess in zip(
            pairs[some].tolist(), y[some], clean[some], model.predict(pairs[some]), strict=True
        )
    ]
    caption = (
        "1,000 users, 500 items, 40,000 generated ratings, 5% of them turned upside down; errors against the truth"
    )
    return Story(
        comparison,
        caption,
        answer,
        "Held-out ratings that are mistakes. Does the model believe them?",
        lambda: chapter(
            model, title="Ratings with outliers", pairs=pairs[test], y=y[test], comparison=comparison, caption=caption
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
    "plq": ("Ratings with outliers", ratings),
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
