"""What every family does, whatever its members are about: views in turn, members in turn, weights, and the table.

Knows that views are fitted and members learn; must not know what of.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from tqdm.auto import tqdm

from halfstep.core.arrays import Floats
from halfstep.data.sweeps import SweepFile
from halfstep.ensemble.family.views import PredictedRows, View
from halfstep.ensemble.sums import SiteSums


class NamedView(Protocol):
    @property
    def name(self) -> str: ...

    def fit(self, cells: Any) -> Any: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, arrays: Any) -> None: ...


class NamedMember(Protocol):
    name: str

    @property
    def view(self) -> Any: ...

    def learn(self, scene: Any, labels: Any) -> Floats: ...


AnyView = TypeVar("AnyView", bound=NamedView)


def steps_bar(planned: int, verbose: Any) -> Any:
    """A progress bar over steps, of which more may be announced; quiet fits show it after two seconds."""
    return tqdm(
        total=planned,
        desc="CFEnsembleCV",
        unit="step",
        delay=0 if verbose else 2,
        disable=None,
        leave=bool(verbose),
    )


def fit_views(
    planned: Sequence[AnyView], cells: Any, max_seconds: float | None, sure: int, bar: Any, file: SweepFile | None
) -> tuple[dict[str, AnyView], dict[str, float]]:
    """Views by name, fitted in turn while there is time, and the seconds of each; the first `sure` ones always are.

    file : where those that are fitted are kept, and taken from.
    """
    views: dict[str, AnyView] = {}
    spent: dict[str, float] = {}
    saved = None if file is None else file.load()
    if saved is not None:
        views = {view.name: view for view in planned if view.name in saved.meta["spent"]}  # JSON has no order
        spent = {name: saved.meta["spent"][name] for name in views}
        for name, view in views.items():
            begins = f"{name}."
            view.restore({k.removeprefix(begins): a for k, a in saved.arrays.items() if k.startswith(begins)})
            bar.update()
    begun = time.perf_counter() - sum(spent.values())
    for view in planned[len(views) :]:
        started = time.perf_counter()
        late = max_seconds is not None and started - begun >= max_seconds
        if late and len(views) >= min(sure, len(planned)):
            break
        views[view.name] = view.fit(cells)
        spent[view.name] = time.perf_counter() - started
        bar.update()
        if file is not None and file.due(len(views)):
            arrays = {f"{name}.{k}": array for name, view in views.items() for k, array in view.state().items()}
            file.save(len(views), arrays, {"spent": spent})
    return views, spent


def ask_views(views: Mapping[str, View], cells: PredictedRows) -> SiteSums:
    """What views that have not settled need of these rows, which may be some of many; sums add up."""
    return SiteSums("views", {name: view.ask(cells) for name, view in views.items() if not view.settled})


def told_views(views: Mapping[str, View], total: SiteSums) -> dict[str, View]:
    """All of them, one step further by the sums over all rows."""
    return {name: view if view.settled else view.told(total.sums[name]) for name, view in views.items()}


def learn_members(members: Sequence[NamedMember], scene: Any, labels: Any, bar: Any) -> tuple[Floats, list[float]]:
    """(members, ...) out-of-fold answers, and the seconds of each."""
    answers, seconds = [], []
    bar.total += len(members)
    for member in members:
        started = time.perf_counter()
        answers.append(member.learn(scene, labels))
        seconds.append(time.perf_counter() - started)
        bar.update()
    return np.array(answers), seconds


def weigh(losses: Floats, evidence: float) -> Floats:
    """Weights of members with these mean log losses: exp(-evidence (loss - lowest)), summing to 1."""
    weights = np.exp(-evidence * (losses - losses.min()))
    return np.asarray(weights / weights.sum())


def member_table(
    members: Sequence[NamedMember],
    weights: Floats,
    losses: Floats | None,
    seconds: Sequence[float],
    spent: dict[str, float],
) -> list[dict[str, Any]]:
    """The members, heaviest first; seconds include a share of the view."""
    names = [None if member.view is None else member.view.name for member in members]
    table = [
        {
            "name": member.name,
            "weight": float(weights[k]),
            "log_loss": None if losses is None else float(losses[k]),
            "seconds": seconds[k] + (spent[name] / names.count(name) if name else 0.0),
        }
        for k, (member, name) in enumerate(zip(members, names, strict=True))
    ]
    return sorted(table, key=lambda row: -row["weight"])
