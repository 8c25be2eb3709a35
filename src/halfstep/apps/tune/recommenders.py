"""Which recommender, with which parameters: a search over all of them, and a comparison on cells that chose nothing.

Knows recommenders and cells kept apart. Stages go from cheap to dear: closed forms first, then factors by successive
halving: every setting with a small rank, few sweeps and, where users are many, some of them; the better half with more
of each, and so on, while a larger rank gains. Cells are read and turned once for all trials. Every fit starts from
nothing and ends where rankings stop gaining: how many sweeps it takes is a part of a setting, and one that goes on from
another fit would rank better or worse than its parameters say.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from halfstep.apps.tune.found import RecommenderTuning
from halfstep.apps.tune.trials import fingerprint
from halfstep.data.datasets.read import read_interactions
from halfstep.data.frames import is_frame
from halfstep.data.sweeps import SweepFile, digest_of
from halfstep.data.table import CellsHere, read_table
from halfstep.models.baselines import ItemKNN, Popularity
from halfstep.models.blend import Blend, blend_of_fitted
from halfstep.models.ease import EASE
from halfstep.models.held_out import HeldOut, RankingMetric, keep_some
from halfstep.models.item_graph import ItemGraph
from halfstep.models.memory import estimate_memory, machine_memory
from halfstep.models.mixing import chosen_weights, scaled_scores
from halfstep.models.strength import Strength
from halfstep.models.wals import WALS

GRAPHS = ((0.7, 0.25, 0.3), (0.5, 0.25, 0.5), (0.5, 0.25, 0.3), (0.7, 0.5, 0.3), (0.9, 0.25, 0.3), (0.7, 0.25, 0.5))
NEIGHBOURS = (("cosine", 0.0, 100), ("bm25", 0.0, 100), ("tfidf", 0.0, 100), ("cosine", 5.0, 300), ("jaccard", 0.0, 50))
RIDGES = (30.0, 100.0, 10.0, 300.0)
FIRST_RANK, RANKS = 64, (128, 256, 512, 1024)
FEW_SWEEPS, MAX_SWEEPS = 6, 16
MANY_USERS, SOME_USERS = 6_000, 3_000
EASE_ITEMS = 6_000  # at most so many in a search: the inverse of more takes most of a short budget
ROOM = 0.5  # of the memory that is there, for one fit
GAIN = 0.005  # of the metric, the least that a larger rank must bring for one larger still to be tried


def rule_for(cells: Any) -> Strength:
    """What `WALS()` makes of these cells."""
    return Strength.given(cells.shape, len(cells), cells.total_weight, None, None, None, 1.0)


def strengths(cells: Any) -> list[dict[str, Any]]:
    """Eight settings of WALS: the rule for these cells, around it, and what was best for one matrix or another in the
    tables of docs/wals.md."""
    mean, rule = cells.total_weight / len(cells), rule_for(cells)
    by_count = ({"reg": 0.1, "background": 0.03}, {"reg": 0.03, "background": 0.01})
    return [
        {},
        {"reg": 0.3 * rule.reg},
        {"reg": 2.0 * rule.reg},
        {"background": 0.3 * rule.background},
        {"background": 3.0 * rule.background},
        *({"reg_scaling": "count", **{name: mean * value for name, value in each.items()}} for each in by_count),
        {"background_power": 0.3, "weight_power": -0.3},
    ]


Some = tuple[CellsHere, HeldOut]
"""Cells of some of the users, and what was kept apart of them."""


@dataclass(eq=False)
class Trial:
    """A model to try, on some of the users or on all."""

    model: Any
    some: Some | None = None


@dataclass
class Search:
    """A search under way: trials so far, by family, and how long it may go on."""

    train: CellsHere
    hidden: Any
    kept: HeldOut
    metric: RankingMetric
    seconds: float
    n_trials: int | None
    seed: int
    n_threads: int | None
    on_trial: Callable[[int, float], Any] | None
    begun: float = field(default_factory=time.perf_counter)
    trials: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, tuple[float, Trial, dict[str, Any]]] = field(default_factory=dict)
    stopped: bool = False
    file: SweepFile | None = None
    before: list[dict[str, Any]] = field(default_factory=list)
    """Trials of a search that was lost, which are not made again."""

    def take_up(self) -> None:
        """Go on where a search was lost, its time counted."""
        saved = None if self.file is None else self.file.load()
        self.before = [] if saved is None else list(saved.meta["trials"])
        self.begun -= sum(trial["seconds"] for trial in self.before)

    def over(self, dear: float = 0.0) -> bool:
        """Whether no further trial is begun: winners are fitted again for the test, in the blend, and to all data."""
        if self.stopped or (self.n_trials is not None and len(self.trials) >= self.n_trials):
            return True
        again = 4 * sum(trial["seconds"] for _, _, trial in self.best.values())
        return bool(self.trials) and time.perf_counter() - self.begun + again + dear > self.seconds

    def try_one(self, asked: Trial) -> float:
        """Fit to the training cells, or those of some users, and rank the cells kept apart."""
        if len(self.trials) < len(self.before):
            return self._count(asked, self.before[len(self.trials)])
        begun, model, more = time.perf_counter(), self.fitted(asked), {}
        if isinstance(model, WALS):
            values = [record[str(self.metric)] for record in model.history_]
            more = {"sweeps": int(np.argmax(values)) + 1, "users": len(model.user_ids_)}
        kept = self.kept if asked.some is None else asked.some[1]
        value = kept.value(self.metric, model.rank_items(kept.seen, self.metric.depth, kept.rows))
        params = {name: v for name, v in model.get_params(deep=False).items() if _differs(model, name)}
        took = time.perf_counter() - begun
        return self._count(
            asked, {"model": type(model).__name__, "value": value, "seconds": took, "params": params, **more}
        )

    def fitted(self, asked: Trial) -> Any:
        """The model of a trial; that of a lost search is fitted again."""
        model = asked.model
        if hasattr(model, "fitted_"):
            return model
        train, hidden = (self.train, self.hidden) if asked.some is None else (asked.some[0], _spread(*asked.some))
        if not isinstance(model, WALS):
            return model.fit(train)
        return model.fit(train, validation=hidden, metric=str(self.metric))

    def _count(self, asked: Trial, trial: dict[str, Any]) -> float:
        """One more trial has been made, now or before."""
        value, family = float(trial["value"]), str(trial["model"])
        self.trials.append(trial)
        if self.file is not None and len(self.trials) > len(self.before):
            self.file.save(len(self.trials), {}, {"trials": self.trials})
        if asked.some is None and (family not in self.best or value > self.best[family][0]):
            self.best[family] = (value, asked, trial)
        if self.on_trial is not None and self.on_trial(len(self.trials), max(b[0] for b in self.best.values())):
            self.stopped = True
        return value

    def winners(self, names: list[str]) -> list[Any]:
        """The best of these families, fitted; those of a search that was lost are fitted again."""
        return [self.fitted(self.best[name][1]) for name in names]

    def run(self) -> None:
        """All stages, until time or trials are used up."""
        for stage in (map(Trial, self._closed_forms()), self._factors()):
            for asked in stage:
                if self.over(self._cost(asked)):
                    break
                self.try_one(asked)

    def _cost(self, asked: Trial) -> float:
        """Seconds that a trial may take, from the last one of its kind, users and rank."""
        model = asked.model
        past = [t for t in self.trials if t["model"] == type(model).__name__]
        if not past:
            return 0.0
        if not isinstance(model, WALS):
            return float(past[-1]["seconds"])
        users = (self.train if asked.some is None else asked.some[0]).cells.shape[0]
        growth = (model.rank or 1) / max(past[-1]["params"].get("rank") or model.rank or 1, 1)
        return float(past[-1]["seconds"] * max(1.0, growth**1.7) * max(1.0, users / past[-1]["users"]))

    def _closed_forms(self) -> Iterator[Any]:
        yield Popularity()
        threads: dict[str, Any] = {"n_threads": self.n_threads}
        ridges = RIDGES if self.train.cells.shape[1] <= EASE_ITEMS else ()
        made: list[list[Any]] = [
            [ItemGraph(*each, **threads) for each in GRAPHS],
            [ItemKNN(n, kind, shrink, **threads) for kind, shrink, n in NEIGHBOURS],
            [EASE(reg, **threads) for reg in ridges],
        ]
        for place in range(max(map(len, made))):
            yield from (family[place] for family in made if place < len(family))

    def _factors(self) -> Iterator[Trial]:
        """The default; then successive halving of the settings over users, sweeps and ranks, while ranks gain."""
        common: dict[str, Any] = {"tol": 0.0, "n_threads": self.n_threads, "random_state": self.seed, "init": "normal"}
        yield Trial(WALS(max_iter=MAX_SWEEPS, **common))
        default, usual = self.trials[-1]["value"], rule_for(self.train.cells).rank
        settings, before = strengths(self.train.cells), -np.inf
        for some, rank, sweeps in self._stages():
            values: list[float] = []
            for setting in settings:
                if rank == usual and not setting and some is None:  # that was the default
                    values.append(default)
                    continue
                yield Trial(WALS(rank, max_iter=sweeps, **setting, **common), some)
                values.append(self.trials[-1]["value"])
            order, best = np.argsort(np.negative(values), kind="stable"), max(values)
            if some is None and best < (1 + GAIN) * before:
                return
            settings = [settings[one] for one in order[: max(1, len(settings) // 2)]]
            before = best if some is None else before

    def _stages(self) -> Iterator[tuple[Some | None, int, int]]:
        """Users, rank and sweeps of every stage."""
        n, m = self.train.cells.shape
        room, most = ROOM * machine_memory(), max(1, min(n, m) // 2)
        ranks = [r for r in RANKS if r <= most and estimate_memory(n, m, len(self.train.cells), r).peak <= room]
        yield self._some_users() if n > MANY_USERS else None, min(FIRST_RANK, most), FEW_SWEEPS
        yield from ((None, rank, MAX_SWEEPS) for rank in ranks)

    def _some_users(self) -> Some:
        """Some of the users, and those among them whose cells were kept apart."""
        cells = sp.csr_array(self.train.cells.to_csr())
        chosen = np.sort(np.random.default_rng(self.seed).permutation(cells.shape[0])[:SOME_USERS])
        train, hidden = sp.csr_array(cells[chosen]), sp.csr_array(self.hidden[chosen])
        return read_table(train), HeldOut.of(train, hidden, self.seed)


def search_recommenders(
    data: Any,
    *,
    seconds: float,
    metric: str = "ndcg@20",
    n_trials: int | None = None,
    random_state: int = 0,
    n_threads: int | None = None,
    on_trial: Callable[[int, float], Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
) -> RecommenderTuning:
    """The best recommender for these data; see `tune`."""
    judged = RankingMetric.of(metric)
    data = read_interactions(data) if is_frame(data) else data
    matrix = sp.csr_array(getattr(data, "matrix", data))
    rest, test = keep_some(matrix, random_state)
    train, hidden = keep_some(rest, random_state + 1)
    if not hidden.nnz:
        most = int(np.diff(matrix.indptr).max(initial=0))
        raise ValueError(
            f"data has no user with four items, the most is {most}; a search keeps some of a user's items for the test "
            "and some for choosing."
        )
    kept, asked = HeldOut.of(train, hidden, random_state), HeldOut.of(rest, test, random_state)
    search = Search(read_table(train), hidden, kept, judged, seconds, n_trials, random_state, n_threads, on_trial)
    mark = {"data": fingerprint(matrix), "parameters": digest_of(metric, random_state)}
    search.file = SweepFile.of(checkpoint, 1, resume, random_state, mark)
    search.take_up()
    search.run()
    names = sorted(search.best, key=lambda name: -search.best[name][0])
    mixes: list[dict[str, Any]] = []
    fitted = search.winners(names)
    weights = chosen_weights(scaled_scores(fitted, kept.seen, kept.rows), kept, judged, mixes)
    validation = {name: search.best[name][0] for name in names}
    validation["Blend"] = max(mix[str(judged)] for mix in mixes)
    models = {name: _unfitted(search.best[name]) for name in names}
    used = [k for k, weight in enumerate(weights) if weight > 0]
    if len(used) > 1:
        models["Blend"] = Blend([models[names[k]] for k in used], [float(weights[k]) for k in used], metric=metric)
    else:
        validation.pop("Blend")
    winner = max(models, key=lambda name: validation[name])
    return RecommenderTuning(
        metric=str(judged),
        trials=search.trials,
        validation=validation,
        winner=winner,
        models=models,
        test=_on_test(models, rest, asked, judged),
        model=clone(models[winner]).fit(data),
        seconds=time.perf_counter() - search.begun,
    )


def _on_test(models: dict[str, Any], rest: Any, asked: HeldOut, metric: RankingMetric) -> dict[str, float]:
    """The winner of each family, and their blend, on cells that chose nothing. Parts of the blend are fitted once."""
    cells = read_table(rest)
    fitted = {name: clone(model).fit(cells) for name, model in models.items() if not isinstance(model, Blend)}
    if "Blend" in models:
        blend = models["Blend"]
        fitted["Blend"] = blend_of_fitted(blend, [fitted[type(part).__name__] for part in blend.models], cells)
    ranked = {name: model.rank_items(asked.seen, metric.depth, asked.rows) for name, model in fitted.items()}
    return {name: asked.value(metric, places) for name, places in ranked.items()}


def _unfitted(best: tuple[float, Trial, dict[str, Any]]) -> Any:
    """The model with its parameters, and as many sweeps as ranked best."""
    _, asked, trial = best
    model = clone(asked.model)
    return model.set_params(max_iter=trial["sweeps"]) if "sweeps" in trial else model


def _differs(model: Any, name: str) -> bool:
    """Whether a parameter is one that people want to see: not the default, and no matter of the machine."""
    if name in ("n_threads", "random_state", "max_iter", "tol", "init"):
        return False
    return repr(getattr(model, name)) != repr(getattr(type(model)(), name))


def _spread(train: CellsHere, kept: HeldOut) -> Any:
    """Hidden cells of some rows as CSR over all rows of the cells to learn from."""
    at = kept.hidden.tocoo()
    return sp.csr_array((at.data, (kept.rows[at.row], at.col)), shape=train.cells.shape)
