"""Questions to a fitted model: `recommend` and `similar`. Knows ids, titles and rankings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from halfstep.apps.cli import completion, options
from halfstep.apps.cli.asking import find_id, model_for, names_of
from halfstep.apps.cli.known import rows_of, values_in
from halfstep.apps.cli.options import Answer, command
from halfstep.apps.console import listed, say, working
from halfstep.apps.written import Records

BLOCK = 4096
"""Users asked for at a time when lists are made for everybody."""

Users = Annotated[
    list[str] | None,
    typer.Option("--user", "-u", help="Id or title of a user; repeat for several.", autocompletion=completion.names(0)),
]
OneUser = Annotated[
    str | None, typer.Option("--user", "-u", help="Id or title of a user.", autocompletion=completion.names(0))
]
OneItem = Annotated[
    str | None, typer.Option("--item", help="Id or title of an item.", autocompletion=completion.names(1))
]
EachItem = Annotated[
    list[str] | None,
    typer.Option("--item", help="One thing somebody new has; repeat for several.", autocompletion=completion.names(1)),
]
Having = Annotated[
    str | None, typer.Option("--items", "-i", help="What somebody new has: ids or titles, separated by commas.")
]
HavingFile = Annotated[Path | None, typer.Option("--items-file", help="The same from a file, one in each line.")]
Values = Annotated[
    str | None,
    typer.Option("--values", help="For models of ratings: what somebody new gave each of the items, in their order."),
]
NewUsers = Annotated[
    Path | None,
    typer.Option("--user-features", help="A table of somebody new, or of several: what is known of them, by id."),
]
NewItems = Annotated[
    Path | None,
    typer.Option("--item-features", help="A table of items that nobody has yet, by id; they enter the lists."),
]
EachFeature = Annotated[
    list[str] | None, typer.Option("--feature", help="What is known of somebody new: NAME=VALUE; repeat for several.")
]
HowMany = Annotated[int, typer.Option("-n", help="How many.", min=1)]


@dataclass
class Wishes:
    """What is wanted of a list."""

    n: HowMany = 10
    why: Annotated[bool, typer.Option("--why", help="Name what contributes most to each score.")] = False
    how: Annotated[
        str | None,
        typer.Option(
            help="For --items: fold_in (exact) or average (mean of item vectors).",
            autocompletion=completion.words("fold_in", "average"),
        ),
    ] = None
    diversity: Annotated[
        float | None, typer.Option(help="0 ranks by score; up to 1 prefers unlike items.", min=0, max=1)
    ] = None
    exclude: Annotated[
        str | None, typer.Option(help="Items never to recommend, separated by commas, or @FILE with one in each line.")
    ] = None
    candidates: Annotated[
        str | None, typer.Option(help="Recommend only these, separated by commas, or @FILE with one in each line.")
    ] = None

    def of(self, fitted: Any, method: str) -> dict[str, Any]:
        """As arguments of `method`; what the model's has not is refused."""
        found: dict[str, Any] = {"how": self.how, "diversity": self.diversity}
        for name, text in (("exclude", self.exclude), ("candidates", self.candidates)):
            found[name] = None if text is None else ids_of(fitted, names_in(text))
        asked = options.given(**found)
        known = signature(getattr(fitted, method)).parameters
        for name in asked:
            if name not in known:
                raise ValueError(f"--{name}: lists of this {type(fitted).__name__} know no such wish; leave it out")
        return asked


@command
def recommend(
    model: options.ModelFile,
    wishes: Wishes,
    answer: Answer,
    user: Users = None,
    item: EachItem = None,
    items: Having = None,
    items_file: HavingFile = None,
    values: Values = None,
    feature: EachFeature = None,
    user_features: NewUsers = None,
    item_features: NewItems = None,
    everybody: Annotated[bool, typer.Option("--all", help="For every user.")] = False,
) -> None:
    """The best items for a user, or for somebody new from what they have.

    Examples:

      halfstep recommend skills.safetensors --user "Data scientist"

      halfstep recommend skills.safetensors --items "Python, SQL" --why

      halfstep recommend skills.safetensors --item "Planning, budgeting" --item SQL

      halfstep recommend jobs.safetensors --feature sector=food --feature title="pastry cook"

      halfstep recommend clicks.safetensors --all -o best.parquet
    """
    answer.check()
    having = having_of(item, items, items_file)
    told = features_of(feature, user_features)
    asked = sum([bool(user), having is not None or told is not None, everybody])
    if asked != 1:
        raise typer.BadParameter(
            "give one of --user, --items (or --item, --items-file), --feature (or --user-features) and --all"
        )
    fitted = model_for(model, "recommend", "recommend")
    if item_features is not None:
        if not hasattr(fitted, "add_items"):
            raise ValueError(f"--item-features: a {type(fitted).__name__} knows no features; `halfstep fit wals` does")
        fitted.add_items(rows_of(str(item_features), "item"))
    if told is not None:
        answer.emit(_by_features(fitted, having, told, wishes), title="Recommended")
        return
    if having is not None:
        answer.emit(_for_somebody_new(fitted, having, values, wishes), title="Recommended")
        return
    if values is not None:
        raise typer.BadParameter("--values goes with --items; leave it out")
    if wishes.how is not None:
        raise typer.BadParameter("--how goes with --items; leave it out")
    if everybody and _quick(fitted, answer, wishes):
        with working("recommending to everybody"):
            rows = fitted.recommend_to_file(answer.output, n=wishes.n)
        say(f"{rows:,} rows written to {escape(str(answer.output))}")
        return
    ids = fitted.user_ids_.tolist() if everybody else [find_id(fitted, "user", each)[0] for each in user or []]
    with working("recommending"):
        records = list(_lists(fitted, ids, wishes))
    answer.emit(records if len(ids) > 1 or everybody else [_without(r, "user") for r in records], title="Recommended")


def _quick(fitted: Any, answer: Answer, wishes: Wishes) -> bool:
    """Whether lists go to their file block by block, without standing in memory."""
    parquet = answer.output is not None and answer.output.suffix.lower() in (".parquet", ".pq")
    plain = not wishes.why and wishes.diversity is None and wishes.exclude is None and wishes.candidates is None
    return parquet and plain and answer.printed is None and hasattr(fitted, "recommend_to_file")


def _lists(fitted: Any, ids: list[Any], wishes: Wishes) -> Iterator[dict[str, Any]]:
    asked, titles = wishes.of(fitted, "recommend"), names_of(fitted, 0)
    for start in range(0, len(ids), BLOCK):
        block = ids[start : start + BLOCK]
        found = fitted.recommend(block, wishes.n, **asked)
        for row, id in enumerate(block):
            ranking = type(found)(found.ids[[row]], found.scores[[row]], _row(found.labels, row)).first()
            name = titles.label(int(titles.find([id])[0])) if titles.labels is not None else id
            yield from ({"user": name} | each for each in _ranked(fitted, ranking, {"user": id}, wishes.why))


def _row(labels: Any, row: int) -> Any:
    return None if labels is None else labels[[row]]


def _for_somebody_new(fitted: Any, having: list[str], values: str | None, wishes: Wishes) -> Records:
    ids = ids_of(fitted, having)
    rated = "y" in signature(fitted.recommend_for).parameters
    if rated != (values is not None):
        raise typer.BadParameter(
            f"a model of ratings needs what somebody new gave: add --values with {len(ids)} numbers"
            if rated
            else "--values is for models of ratings; leave it out"
        )
    asked = wishes.of(fitted, "recommend_for")
    if values is None:
        ranking = fitted.recommend_for(ids, wishes.n, **asked)
    else:
        ranking = fitted.recommend_for(ids, numbers_in(values, len(ids)), wishes.n, **asked)
    return _ranked(fitted, ranking, {"items": ids}, wishes.why and wishes.how != "average")


def features_of(feature: list[str] | None, table: Path | None) -> dict[Any, Any] | None:
    """What is known of somebody new, as `recommend_for` takes it; None where nothing is told."""
    if feature and table is not None:
        raise typer.BadParameter("give --feature for one person, or --user-features with a table")
    if table is not None:
        return rows_of(str(table), "user")
    return values_in(feature) if feature else None


def _by_features(fitted: Any, having: list[str] | None, told: dict[Any, Any], wishes: Wishes) -> Records:
    """Lists for somebody new of whom features are known, or for each of several."""
    if "features" not in signature(fitted.recommend_for).parameters:
        raise ValueError(f"--feature: lists of this {type(fitted).__name__} know no features; `halfstep fit wals` does")
    several = all(isinstance(value, dict) for value in told.values())
    if several and having is not None:
        raise typer.BadParameter("--items are those of one person; describe them by --feature, not by a table")
    items = None if having is None else ids_of(fitted, having)
    ranking = fitted.recommend_for(items, wishes.n, features=told, **wishes.of(fitted, "recommend_for"))
    if not several:
        return _ranked(fitted, ranking, {"items": items, "features": told}, wishes.why and wishes.how != "average")
    return [
        {"user": user} | each
        for user, found in ranking.by_user().items()
        for each in _ranked(fitted, found, {"features": told[user]}, wishes.why)
    ]


@command
def similar(
    model: options.ModelFile, answer: Answer, item: OneItem = None, user: OneUser = None, n: HowMany = 10
) -> None:
    """Items like an item, or users like a user, by what the model knows of them.

    Example:

      halfstep similar skills.safetensors --item Python
    """
    answer.check()
    if (item is None) == (user is None):
        raise typer.BadParameter("give one of --item and --user")
    if item is not None:
        fitted = model_for(model, "similar", "similar_items")
        ranking = fitted.similar_items(find_id(fitted, "item", item)[0], n)
    else:
        fitted = model_for(model, "similar users", "similar_users")
        ranking = fitted.similar_users(find_id(fitted, "user", str(user))[0], n)
    answer.emit(_rows(ranking, "similarity", "item" if user is None else "user"), title=f"Like {item or user}")


def named(answer: Any, most: int | None = None, side: str = "item") -> Records:
    """The columns that name the ids of an answer: the title where there is one, and the id where it differs."""
    ids = answer.ids[:most].tolist()
    if answer.labels is None:
        return [{side: id} for id in ids]
    titles = map(str, answer.labels[:most].tolist())
    return [{side: t} | ({} if t == id else {"id": id}) for t, id in zip(titles, ids, strict=True)]


def _rows(ranking: Any, score: str, side: str = "item") -> Records:
    pairs = zip(named(ranking, side=side), ranking.scores, strict=True)
    return [{"rank": k, **name, score: value} for k, (name, value) in enumerate(pairs, 1)]


def _ranked(fitted: Any, ranking: Any, whose: dict[str, Any], why: bool) -> Records:
    records = _rows(ranking, "score")
    if not why:
        return records
    if not hasattr(fitted, "explain"):
        raise ValueError(
            f"--why: lists of a {type(fitted).__name__} have no reasons; `halfstep explain --user --item` takes one "
            "rating apart"
        )
    for record, id in zip(records, ranking.ids.tolist(), strict=True):
        parts = fitted.explain(item=id, **whose)
        told = () if parts.features is None else parts.features.names[:3].tolist()
        record["why"] = ", ".join([*(str(name["item"]) for name in named(parts, 3)), *told])
    return records


def _without(record: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != name}


def having_of(each: Iterable[str] | None, items: str | None, file: Path | None) -> list[str] | None:
    """What somebody new has, by whichever options; None where none was given."""
    if not each and items is None and file is None:
        return None
    return [*(each or []), *listed(items), *([] if file is None else lines_in(file))]


def names_in(text: str) -> list[str]:
    """Names separated by commas, or those of the lines of @FILE."""
    return lines_in(Path(text[1:])) if text.startswith("@") else list(listed(text))


def lines_in(path: Path) -> list[str]:
    """The lines of a text file that hold something."""
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise ValueError(f"{path} has no lines; it must name one item in each")
    return found


def numbers_in(text: str, n: int) -> list[float]:
    """Numbers separated by commas, as many as asked for."""
    try:
        found = [float(part) for part in listed(text)]
    except ValueError:
        raise ValueError(f"--values {text}: these must be numbers, separated by commas") from None
    if len(found) != n:
        raise ValueError(f"--values has {len(found)} numbers for {n} items; give one for each")
    return found


def ids_of(fitted: Any, names: Iterable[str]) -> list[Any]:
    return [find_id(fitted, "item", part)[0] for part in names]
