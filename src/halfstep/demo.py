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

from halfstep.cli.console import Records, table
from halfstep.report import Chapter, Page, chapter

LEAD = (
    "Fix one side of a matrix, solve the other. Each story fits one model to built-in data and compares it with the "
    "baselines that every new method must beat. The data are illustrative or generated; the numbers are measured here."
)


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
    from halfstep.datasets import load_sample_skills
    from halfstep.evaluate import evaluate
    from halfstep.wals import WALS

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
    comparison = [
        {"model": name, **{metric: _short(result.table[name][metric]) for metric in result.metrics}}
        for name in result.models
    ]
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


def _short(e: Any) -> str:
    return f"{e.mean:.3f}" if e.low is None else f"{e.mean:.3f} [{e.low:.3f}, {e.high:.3f}]"


STORIES: dict[str, tuple[str, Callable[[int], Story]]] = {
    "wals": ("Skills for a position", skills),
}


def run(output: Path | None, seed: int, console: Console) -> Path:
    """Tell every story on `console`, write the page and return its path.

    Without `output` the page is `halfstep-demo.html` here, or in a new folder where this one is not writable.
    """
    begun = time.perf_counter()
    chapters: list[Chapter] = []
    for number, (title, tell) in enumerate(STORIES.values(), 1):
        console.rule(f"[bold]{number} of {len(STORIES)}  {title}", align="left", style="dim")
        story = _told(tell, seed, title)
        console.print(table(story.comparison))
        console.print(escape(story.caption), style="dim")
        console.print(f"\n{escape(story.question)}")
        console.print(table(story.answer))
        console.print()
        with _status(console, "drawing its chapter"):
            chapters.append(story.chapter())
    page = Page("halfstep demo", chapters, LEAD)
    path = _write(page, output)
    console.print(f"[dim]{time.perf_counter() - begun:.1f} s in all[/]")
    return path


def _told(tell: Callable[[int], Story], seed: int, title: str) -> Story:
    with _status(Console(stderr=True), f"{title}: fitting and comparing"):
        return tell(seed)


def _status(console: Console, text: str) -> Any:
    return console.status(text)


def _write(page: Page, output: Path | None) -> Path:
    if output is not None:
        return page.write(output)
    try:
        return page.write("halfstep-demo.html")
    except OSError:
        return page.write(Path(tempfile.mkdtemp(prefix="halfstep-")) / "halfstep-demo.html")
