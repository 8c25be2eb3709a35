"""Questions to a fitted recommender: `recommend`, `similar`, `explain`. Knows ids, titles and rankings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from halfstep.apps.cli.sources import ModelFile, find_id, load_model
from halfstep.apps.console import JsonFlag, OutputFile, Records, emit, guarded, listed, say, working

RECOMMENDERS = ("WALS", "ItemGraph", "EASE", "ItemKNN", "Popularity", "Blend")

Users = Annotated[list[str] | None, typer.Option("--user", "-u", help="Id or title of a user; repeat for several.")]
OneUser = Annotated[str | None, typer.Option("--user", "-u", help="Id or title of a user.")]
Having = Annotated[
    str | None, typer.Option("--items", "-i", help="What somebody new has: ids or titles, separated by commas.")
]
HowMany = Annotated[int, typer.Option("-n", help="How many.", min=1)]


@guarded
def recommend(
    model: ModelFile,
    user: Users = None,
    items: Having = None,
    n: HowMany = 10,
    everybody: Annotated[bool, typer.Option("--all", help="For every user, to an --output .parquet file.")] = False,
    why: Annotated[bool, typer.Option("--why", help="Name what contributes most to each score.")] = False,
    how: Annotated[
        str, typer.Option(help="For --items: fold_in (exact) or average (mean of item vectors).")
    ] = "fold_in",
    diversity: Annotated[float, typer.Option(help="0 ranks by score; up to 1 prefers unlike items.")] = 0.0,
    exclude: Annotated[str | None, typer.Option(help="Items never to recommend, separated by commas.")] = None,
    candidates: Annotated[str | None, typer.Option(help="Recommend only these, separated by commas.")] = None,
    as_json: JsonFlag = False,
    output: OutputFile = None,
) -> None:
    """The best items for a user, or for somebody new from what they have.

    Examples:

      halfstep recommend skills.safetensors --user "Data scientist"

      halfstep recommend skills.safetensors --items "Python, SQL" --why

      halfstep recommend clicks.safetensors --all -o best.parquet
    """
    asked = sum([bool(user), items is not None, everybody])
    if asked != 1:
        raise typer.BadParameter("give one of --user, --items and --all")
    fitted = load_model(model, *RECOMMENDERS)
    if everybody:
        _to_file(fitted, output, n)
        return
    options: dict[str, Any] = {"diversity": diversity, "exclude": _items(fitted, exclude)}
    if candidates is not None:
        options["candidates"] = _items(fitted, candidates)
    records: Records = []
    if items is not None:
        having = _items(fitted, items)
        if how != "fold_in":
            options["how"] = how
        ranking = fitted.recommend_for(having, n, **options)
        records = _ranked(fitted, ranking, {"items": having} if why and how == "fold_in" else None)
    for each in user or []:
        id, title = find_id(fitted, "user", each)
        ranking = fitted.recommend(id, n, **options)
        ranked = _ranked(fitted, ranking, {"user": id} if why else None)
        records += [{"user": title} | r for r in ranked] if len(user or []) > 1 else ranked
    emit(records, title="Recommended", as_json=as_json, output=output)


@guarded
def similar(
    model: ModelFile,
    item: Annotated[str | None, typer.Option("--item", help="Id or title of an item.")] = None,
    user: OneUser = None,
    n: HowMany = 10,
    as_json: JsonFlag = False,
    output: OutputFile = None,
) -> None:
    """Items like an item, or users like a user, by the cosine of their factors.

    Example:

      halfstep similar skills.safetensors --item Python
    """
    if (item is None) == (user is None):
        raise typer.BadParameter("give one of --item and --user")
    fitted = load_model(model, *RECOMMENDERS)
    if item is not None:
        ranking = fitted.similar_items(find_id(fitted, "item", item)[0], n)
    else:
        ranking = fitted.similar_users(find_id(fitted, "user", str(user))[0], n)
    emit(_rows(ranking, "similarity"), title=f"Like {item or user}", as_json=as_json, output=output)


@guarded
def explain(
    model: ModelFile,
    item: Annotated[str, typer.Option("--item", help="Id or title of the item to explain.")],
    user: OneUser = None,
    items: Having = None,
    as_json: JsonFlag = False,
    output: OutputFile = None,
) -> None:
    """What each item somebody has contributes to the score of another; contributions sum to the score.

    Example:

      halfstep explain skills.safetensors --items "Python, SQL" --item statistics
    """
    if (user is None) == (items is None):
        raise typer.BadParameter("give one of --user and --items")
    fitted = load_model(model, *RECOMMENDERS)
    wanted, _ = find_id(fitted, "item", item)
    if user is not None:
        reason = fitted.explain(find_id(fitted, "user", user)[0], wanted)
    else:
        reason = fitted.explain(items=_items(fitted, items), item=wanted)
    say(f"score {reason.score:.4f}, the sum of the contributions")
    pairs = zip(named(reason), reason.contributions, strict=True)
    records = [{**name, "contribution": value} for name, value in pairs]
    emit(records, title=f"Why {item}", as_json=as_json, output=output)


def named(answer: Any, most: int | None = None) -> Records:
    """The columns that name the ids of an answer: the title where there is one, and the id where it differs."""
    ids = answer.ids[:most].tolist()
    if answer.labels is None:
        return [{"item": id} for id in ids]
    titles = map(str, answer.labels[:most].tolist())
    return [{"item": t} | ({} if t == id else {"id": id}) for t, id in zip(titles, ids, strict=True)]


def _rows(ranking: Any, score: str) -> Records:
    pairs = zip(named(ranking), ranking.scores, strict=True)
    return [{"rank": k, **name, score: value} for k, (name, value) in enumerate(pairs, 1)]


def _ranked(fitted: Any, ranking: Any, whose: dict[str, Any] | None) -> Records:
    records = _rows(ranking, "score")
    for record, id in zip(records, ranking.ids.tolist(), strict=True) if whose is not None else ():
        record["why"] = ", ".join(str(name["item"]) for name in named(fitted.explain(item=id, **(whose or {})), 3))
    return records


def _items(fitted: Any, text: str | None) -> list[Any]:
    return [find_id(fitted, "item", part)[0] for part in listed(text)]


def _to_file(fitted: Any, output: Path | None, n: int) -> None:
    if output is None or output.suffix.lower() not in (".parquet", ".pq"):
        raise typer.BadParameter("--all writes a Parquet file: add --output best.parquet")
    with working("recommending to everybody"):
        rows = fitted.recommend_to_file(output, n=n)
    say(f"{rows:,} rows written to {output}")
