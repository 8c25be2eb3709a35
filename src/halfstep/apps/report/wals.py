"""The chapter about a WALS model: its data, its quality, its map, and what it recommends and why."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.apps.report.charts import estimates, histogram, point_map
from halfstep.apps.report.page import Block, Facts, Note, Section, Table
from halfstep.core import losses
from halfstep.data.columns import a, plural
from halfstep.figures.plane import flat_map
from halfstep.figures.views import cell_counts, highest_and_lowest, mean_scores, titles

Counts = NDArray[np.int64]
LEAD = (
    "Every {user} and every {item} has a vector; a score is their dot product. Observed pairs pull scores towards 1 "
    "with their weight, all other pairs pull them towards 0 with the weight `background`."
)


def sections(model: Any, result: Any = None) -> list[Section]:
    """Sections about a fitted model; `result` is an evaluation of its parameters."""
    per_user, per_item = cell_counts(model.seen, (len(model.user_ids_), len(model.item_ids_)))
    called = nouns(model)
    judged = [] if result is None else [quality(result, _own_name(model, result), called)]
    data = data_section(per_user, per_item, called)
    return [*judged, examples(model, per_user), _map(model, per_item), data, _popularity(model, per_item)]


def nouns(model: Any) -> tuple[str, str]:
    """What one row and one column are called in the words of the data."""
    fit = model.fitted_
    return fit.users.name or "user", fit.items.name or "item"


def _own_name(model: Any, result: Any) -> str:
    names = [str(name) for name in result.models]
    return next((name for name in names if name.startswith(type(model).__name__)), names[-1])


def quality(result: Any, own: str, called: tuple[str, str] = ("user", "item")) -> Section:
    """Held-out metrics of all models, the model's own marked, with the verdicts of paired comparisons."""
    first = result.metrics[0]
    column = [result.table[name][first] for name in result.models]
    records = result.records(3)
    caption = f"{result.caption}.".replace("users", plural(called[0]))
    table = Table(list(records[0]), [list(r.values()) for r in records], caption, best=first)
    chart = estimates(
        f"{first} on held-out pairs",
        list(result.models),
        [e.mean for e in column],
        [np.nan if e.low is None else e.low for e in column],
        [np.nan if e.high is None else e.high for e in column],
        x_label=first,
        marked=own,
        caption="Full rankings, no sampled negatives.",
        wide=True,
    )
    return Section("How good it is", [*_verdicts(result, own, first, plural(called[0])), chart, table])


def _verdicts(result: Any, own: str, metric: str, users: str) -> list[Block]:
    notes: list[Block] = []
    for other in result.models:
        if other == own:
            continue
        compared = result.compare(own, other)
        gap, verdict = compared[metric], compared.verdict(metric)
        words = {"a": "better than", "b": "worse than", "undecided": "not clearly different from"}[verdict]
        level = {"a": "good", "b": "warning", "undecided": "info"}[verdict]
        between = f"{gap.mean:+.3f}, between {gap.low:+.3f} and {gap.high:+.3f}"
        notes.append(Note(f"{own} is {words} {other} in {metric}: {between} over the same {users}.", level))
    return notes


def pair_facts(
    per_user: Counts,
    per_item: Counts,
    pairs: str,
    of_user: str,
    of_item: str,
    called: tuple[str, str] = ("user", "item"),
) -> dict[str, Any]:
    """Sizes of a table of pairs; `pairs`, `of_user` and `of_item` are what its cells and counts are called."""

    def spread(counts: Counts) -> str:
        return f"{counts.min():,} to {counts.max():,}, median {np.median(counts):g}"

    users, items, n = len(per_user), len(per_item), int(per_user.sum())
    facts = {plural(called[0]): users, plural(called[1]): items, pairs: n, "density": f"{n / (users * items):.3%}"}
    return facts | {of_user: spread(per_user), of_item: spread(per_item)}


def data_section(per_user: Counts, per_item: Counts, called: tuple[str, str] = ("user", "item")) -> Section:
    """Sizes and spread of who has what, in the words of the data."""
    (user, item), (users, items) = called, map(plural, called)
    rare = float((per_item < 3).mean())
    blocks: list[Block] = [
        Facts(pair_facts(per_user, per_item, "pairs", f"{items} of {a(user)}", f"{users} of {a(item)}", called))
    ]
    if rare > 0.1:
        blocks.append(
            Note(f"{rare:.0%} of the {items} have fewer than three {users}; little can be learned about them.")
        )
    empty = int((per_user == 0).sum())
    if empty:
        blocks.append(Note(f"{empty:,} {users} have no pair at all; their vector is zero and their ranking arbitrary."))
    blocks += [
        histogram(f"{items.capitalize()} of {a(user)}", {users: per_user}, x_label=items),
        histogram(f"{users.capitalize()} of {a(item)}", {items: per_item}, x_label=users),
    ]
    return Section("The data", blocks, folded=True)


def examples(model: Any, counts: Counts, people: int = 2, n: int = 6) -> Section:
    """What a few typical users get, and what of theirs speaks for it."""
    middle = np.argsort(np.abs(counts - np.median(counts)), kind="stable")
    # spread over the table, so that neighbours in an alphabetical list do not crowd the examples
    some = middle[np.linspace(0, min(len(middle), 50) - 1, min(people, len(middle))).astype(int)]
    names, ids = titles(model.user_ids_, model.user_labels_), model.user_ids_
    user, item_noun = nouns(model)
    blocks: list[Block] = []
    for row in np.unique(some):
        ranking = model.recommend(ids[row], n)
        best = _named(model, ranking.ids)
        rows = [
            [k, item, float(score), why]
            for k, item, score, why in zip(
                range(1, n + 1), best, ranking.scores, _reasons(model, ids[row], ranking.ids), strict=False
            )
        ]
        caption = f"For {names[row]}, with {counts[row]} {plural(item_noun)} that are left out"
        blocks.append(Table(["#", item_noun, "score", "because of"], rows, caption))
    return Section(
        "What it recommends",
        blocks,
        f"`because of` names the {plural(item_noun)} of the {user} that contribute most to the score.",
    )


def _named(model: Any, ids: Any) -> list[str]:
    names = titles(model.item_ids_, model.item_labels_)
    return [names[p] for p in model.item_positions(list(ids))]


def _reasons(model: Any, user: Any, items: Any) -> list[str]:
    if not losses.get(
        getattr(model, "loss", "squared")
    ).is_quadratic:  # contributions only add up under the squared loss
        return ["–"] * len(items)
    out = []
    for item in items:
        reason = model.explain(user, item)
        given = reason.ids if reason.labels is None else reason.labels
        parts = zip(given[:3].tolist(), reason.contributions[:3], strict=True)
        out.append(", ".join(f"{name} ({value:+.2f})" for name, value in parts))
    return out


def _map(model: Any, counts: Counts) -> Section:
    place, method = flat_map(model.item_factors_)
    users, items = map(plural, nouns(model))
    names = titles(model.item_ids_, model.item_labels_)
    labels = [f"{name}\n{count:,} {users}" for name, count in zip(names, counts, strict=True)]
    popular = [names[k] for k in np.argsort(-counts, kind="stable")[:5]]
    figure = point_map(
        f"Map of {items}",
        place[:, 0],
        place[:, 1],
        labels,
        amount=np.maximum(counts, 1),
        amount_name=users,
        log_amount=True,
        important=counts,
        search=f"Find {a(nouns(model)[1])}",
        caption=f"Directions of vectors, laid out by {method}. What is near is recommended to the same {users}.",
        alt=f"{len(names):,} {items} laid out by {method}; the most popular are {', '.join(popular)}.",
    )
    return Section(f"Map of {items}", [figure])


def _popularity(model: Any, counts: Counts) -> Section:
    score = mean_scores(model.user_factors_, model.item_factors_)
    names = titles(model.item_ids_, model.item_labels_)
    (_, item), (users, items) = nouns(model), map(plural, nouns(model))
    labels = [f"{n}\n{c:,} {users}, mean score {s:.3f}" for n, c, s in zip(names, counts, score, strict=True)]
    strength = float(np.corrcoef(np.log1p(counts), score)[0, 1]) if len(np.unique(counts)) > 1 else float("nan")
    figure = point_map(
        "Popularity against score",
        np.maximum(counts, 1),
        score,
        labels,
        axes=True,
        log_x=True,
        x_label=f"{users} who have the {item} (log scale)",
        y_label=f"mean score over all {users}",
        important=score,
        most_labels=14,
        search=f"Find {a(item)}",
        caption=f"{a(item).capitalize()} far above the others at its popularity is pushed by the model, not by counts.",
        alt=f"Mean score of {len(names):,} {items} against popularity; correlation with log counts {strength:.2f}.",
    )
    shown, which = highest_and_lowest(score)
    rows = [[names[k], int(counts[k]), float(score[k])] for k in shown]
    table = Table([item, users, "mean score"], rows, f"{items.capitalize()} by mean score: {which}", search=True)
    return Section("Popularity and score", [figure, table], folded=True)
