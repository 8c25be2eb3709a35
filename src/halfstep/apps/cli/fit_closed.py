"""`halfstep fit` for recommenders in closed form: `graph`, `ease`, `knn`, `popularity`, `blend`. What they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from halfstep.apps.cli import completion, options
from halfstep.apps.cli.options import command
from halfstep.apps.cli.running import Destination, run_closed, tell_memory
from halfstep.apps.cli.sources import PairTable
from halfstep.data.datasets.interactions import Interactions


def _fit(table: PairTable, to: Destination, make: Callable[[Interactions], Any]) -> None:
    """Read, make the model, fit, save."""
    to.check(table.data)
    interactions = table.read()
    model = make(interactions)
    run_closed(model, lambda: model.fit(interactions), to.output, to.as_json)


@command
def fit_graph(
    table: PairTable,
    to: Destination,
    a: Annotated[float, typer.Option(help="How little a popular item of the user's says.")] = 0.7,
    b: Annotated[float, typer.Option(help="How little a user with many items says.")] = 0.25,
    c: Annotated[float, typer.Option(help="How much less a popular item scores.")] = 0.3,
    neighbours: Annotated[int | None, typer.Option(help="Strongest neighbours kept; all when left out.", min=1)] = None,
    threads: options.Threads = None,
) -> None:
    """Recommendations from two steps over the graph of users and items: closed form, no sweeps.

    Example:

      halfstep fit graph clicks.parquet --neighbours 200 -o clicks.safetensors
    """
    from halfstep.models.item_graph import ItemGraph

    _fit(table, to, lambda _: ItemGraph(a, b, c, neighbours=neighbours, n_threads=threads))


@command
def fit_ease(table: PairTable, to: Destination, reg: options.Reg = 30.0, threads: options.Threads = None) -> None:
    """Recommendations by a ridge regression of every item on all others; up to 20,000 items.

    Example:

      halfstep fit ease sample -o skills.safetensors
    """
    from halfstep.models.ease import EASE

    def make(interactions: Interactions) -> EASE:
        items = interactions.shape[1]
        tell_memory(EASE.estimate_memory(items).peak, f"a fit to {items:,} items")
        return EASE(reg, n_threads=threads)

    _fit(table, to, make)


@command
def fit_knn(
    table: PairTable,
    to: Destination,
    neighbours: Annotated[int, typer.Option(help="Neighbours kept of each item.", min=1)] = 100,
    similarity: Annotated[
        str,
        typer.Option(
            help="cosine, bm25, tfidf or jaccard.",
            autocompletion=completion.words("cosine", "bm25", "tfidf", "jaccard"),
        ),
    ] = "cosine",
    shrink: Annotated[float, typer.Option(help="Pulls similarities that rest on few users to 0.", min=0)] = 0.0,
    threads: options.Threads = None,
) -> None:
    """Recommendations of items like those a user has.

    Example:

      halfstep fit knn sample --similarity bm25 -o skills.safetensors
    """
    from halfstep.models.baselines import ItemKNN

    _fit(table, to, lambda _: ItemKNN(neighbours, similarity, shrink, n_threads=threads))


@command
def fit_popularity(table: PairTable, to: Destination) -> None:
    """Recommendations of what most users have, the same for everybody.

    Example:

      halfstep fit popularity sample -o skills.safetensors
    """
    from halfstep.models.baselines import Popularity

    _fit(table, to, lambda _: Popularity())


@command
def fit_blend(table: PairTable, to: Destination, threads: options.Threads = None, seed: options.Seed = 0) -> None:
    """Recommendations of wals and graph on one scale, weighed on cells that are kept apart.

    Example:

      halfstep fit blend sample -o skills.safetensors
    """
    from halfstep.models.blend import Blend
    from halfstep.models.item_graph import ItemGraph
    from halfstep.models.wals import WALS

    parts = [WALS(n_threads=threads, random_state=seed), ItemGraph(n_threads=threads)]
    _fit(table, to, lambda _: Blend(parts))
