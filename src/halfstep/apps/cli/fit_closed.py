"""`halfstep fit` for recommenders in closed form: `graph`, `ease`, `knn`, `popularity`. Options, and what they make."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from halfstep.apps.cli import sources
from halfstep.apps.cli.fit import Reg, SavedTo, Threads
from halfstep.apps.cli.running import check_writable, run_closed
from halfstep.apps.console import JsonFlag, guarded, say


@guarded
def fit_graph(
    data: sources.Data,
    output: SavedTo = Path("model.safetensors"),
    user: sources.UserColumn = None,
    item: sources.ItemColumn = None,
    weight: sources.WeightColumn = None,
    duplicates: sources.Duplicates = "sum",
    kind: sources.OnetKind = "activities",
    a: Annotated[float, typer.Option(help="How little a popular item of the user's says.")] = 0.7,
    b: Annotated[float, typer.Option(help="How little a user with many items says.")] = 0.25,
    c: Annotated[float, typer.Option(help="How much less a popular item scores.")] = 0.3,
    neighbours: Annotated[int | None, typer.Option(help="Strongest neighbours kept; all when left out.", min=1)] = None,
    threads: Threads = None,
    as_json: JsonFlag = False,
) -> None:
    """Recommendations from two steps over the graph of users and items: closed form, no sweeps.

    Example:

      halfstep fit graph clicks.parquet --neighbours 200 -o clicks.safetensors
    """
    from halfstep.models.item_graph import ItemGraph

    check_writable(output)
    interactions = sources.read_interactions(data, user, item, weight, duplicates, kind)
    model = ItemGraph(a, b, c, neighbours=neighbours, n_threads=threads)
    run_closed(model, lambda: model.fit(interactions), output, as_json)


@guarded
def fit_ease(
    data: sources.Data,
    output: SavedTo = Path("model.safetensors"),
    user: sources.UserColumn = None,
    item: sources.ItemColumn = None,
    weight: sources.WeightColumn = None,
    duplicates: sources.Duplicates = "sum",
    kind: sources.OnetKind = "activities",
    reg: Reg = 30.0,
    threads: Threads = None,
    as_json: JsonFlag = False,
) -> None:
    """Recommendations by a ridge regression of every item on all others; up to 20,000 items.

    Example:

      halfstep fit ease sample -o skills.safetensors
    """
    from halfstep.models.ease import EASE

    check_writable(output)
    interactions = sources.read_interactions(data, user, item, weight, duplicates, kind)
    needed = EASE.estimate_memory(interactions.shape[1]).peak
    say(f"a fit to {interactions.shape[1]:,} items needs {needed / 1e6:,.0f} MB")
    model = EASE(reg, n_threads=threads)
    run_closed(model, lambda: model.fit(interactions), output, as_json)


@guarded
def fit_knn(
    data: sources.Data,
    output: SavedTo = Path("model.safetensors"),
    user: sources.UserColumn = None,
    item: sources.ItemColumn = None,
    weight: sources.WeightColumn = None,
    duplicates: sources.Duplicates = "sum",
    kind: sources.OnetKind = "activities",
    neighbours: Annotated[int, typer.Option(help="Neighbours kept of each item.", min=1)] = 100,
    similarity: Annotated[str, typer.Option(help="cosine, bm25, tfidf or jaccard.")] = "cosine",
    shrink: Annotated[float, typer.Option(help="Pulls similarities that rest on few users to 0.", min=0)] = 0.0,
    threads: Threads = None,
    as_json: JsonFlag = False,
) -> None:
    """Recommendations of items like those a user has.

    Example:

      halfstep fit knn sample --similarity bm25 -o skills.safetensors
    """
    from halfstep.models.baselines import ItemKNN

    check_writable(output)
    interactions = sources.read_interactions(data, user, item, weight, duplicates, kind)
    model = ItemKNN(neighbours, similarity, shrink, n_threads=threads)
    run_closed(model, lambda: model.fit(interactions), output, as_json)


@guarded
def fit_popularity(
    data: sources.Data,
    output: SavedTo = Path("model.safetensors"),
    user: sources.UserColumn = None,
    item: sources.ItemColumn = None,
    weight: sources.WeightColumn = None,
    duplicates: sources.Duplicates = "sum",
    kind: sources.OnetKind = "activities",
    as_json: JsonFlag = False,
) -> None:
    """Recommendations of what most users have, the same for everybody.

    Example:

      halfstep fit popularity sample -o skills.safetensors
    """
    from halfstep.models.baselines import Popularity

    check_writable(output)
    interactions = sources.read_interactions(data, user, item, weight, duplicates, kind)
    model = Popularity()
    run_closed(model, lambda: model.fit(interactions), output, as_json)
