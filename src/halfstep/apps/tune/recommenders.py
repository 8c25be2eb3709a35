"""Which recommender, with which parameters: a search over all of them, and a comparison on cells that chose nothing.

Knows recommenders and cells kept apart. Stages go from cheap to dear: closed forms and small ranks first, the better
part of each stage goes on to larger ranks. Sweeps end where rankings stop gaining.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from halfstep.apps.tune.found import RecommenderTuning
from halfstep.models.baselines import ItemKNN, Popularity
from halfstep.models.blend import Blend, chosen_weights, scaled_scores
from halfstep.models.ease import EASE
from halfstep.models.held_out import HeldOut, RankingMetric, keep_some
from halfstep.models.item_graph import ItemGraph
from halfstep.models.wals import WALS

GRAPHS = ((0.7, 0.25, 0.3), (0.5, 0.25, 0.5), (0.5, 0.25, 0.3), (0.7, 0.5, 0.3), (0.9, 0.25, 0.3), (0.7, 0.25, 0.5))
NEIGHBOURS = (("cosine", 0.0, 100), ("bm25", 0.0, 100), ("tfidf", 0.0, 100), ("cosine", 5.0, 300), ("jaccard", 0.0, 50))
RIDGES = (30.0, 100.0, 10.0, 300.0)
STRENGTHS: tuple[dict[str, Any], ...] = (
    {"reg_scaling": "count", "reg": 0.03, "background": 0.01},
    {"reg_scaling": "count", "reg": 0.1, "background": 0.03},
    {"reg_scaling": 1.0, "reg": 0.003, "background": 0.01},
    {"reg_scaling": 1.0, "reg": 0.01, "background": 0.02},
    {"reg_scaling": 1.0, "reg": 0.03, "background": 0.02},
    {"reg_scaling": "count", "reg": 0.05, "background": 0.003},
    {"reg_scaling": 1.0, "reg": 0.001, "background": 0.005},
    {"reg_scaling": 1.0, "reg": 0.03, "background": 0.1},
)
"""Settings of WALS, from the table of docs/wals.md: what was best for one matrix or another."""
FIRST_RANK, RANKS = 64, (128, 256, 512, 1024)
EASE_ITEMS = 6_000  # at most so many in a search: the inverse of more takes most of a short budget
MAX_SWEEPS = 16


@dataclass
class Search:
    """A search under way: trials so far, by family, and how long it may go on."""

    train: Any
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
    best: dict[str, tuple[float, Any, dict[str, Any]]] = field(default_factory=dict)
    stopped: bool = False

    def over(self, dear: float = 0.0) -> bool:
        """Whether no further trial is begun: half of the time is for fitting the winners again, twice."""
        if self.stopped or (self.n_trials is not None and len(self.trials) >= self.n_trials):
            return True
        again = 2 * sum(trial["seconds"] for _, _, trial in self.best.values())
        return bool(self.trials) and time.perf_counter() - self.begun + again + dear > self.seconds

    def try_one(self, model: Any) -> float:
        """Fit to the training cells and rank the cells kept apart."""
        begun, family = time.perf_counter(), type(model).__name__
        sweeps = {}
        if isinstance(model, WALS):
            model.fit(self.train, validation=self.hidden, metric=str(self.metric))
            values = [record[str(self.metric)] for record in model.history_]
            sweeps = {"sweeps": int(np.argmax(values)) + 1}
        else:
            model.fit(self.train)
        ranked = model.rank_items(self.kept.seen, self.metric.depth, self.kept.rows)
        value = self.kept.value(self.metric, ranked)
        params = {name: v for name, v in model.get_params(deep=False).items() if _differs(model, name)}
        trial = {"model": family, "value": value, "seconds": time.perf_counter() - begun, "params": params, **sweeps}
        self.trials.append(trial)
        if family not in self.best or value > self.best[family][0]:
            self.best[family] = (value, model, trial)
        if self.on_trial is not None and self.on_trial(len(self.trials), max(b[0] for b in self.best.values())):
            self.stopped = True
        return value

    def run(self) -> None:
        """All stages, until time or trials are used up."""
        for stage in (self._closed_forms(), self._factors()):
            for model in stage:
                if self.over(self._cost(model)):
                    break
                self.try_one(model)

    def _cost(self, model: Any) -> float:
        """Seconds that a trial may take, from the last one of its kind and rank."""
        past = [t for t in self.trials if t["model"] == type(model).__name__]
        if not past:
            return 0.0
        if not isinstance(model, WALS):
            return float(past[-1]["seconds"])
        growth = (model.rank or 1) / max(past[-1]["params"].get("rank") or 1, 1)
        return float(past[-1]["seconds"] * max(1.0, growth**1.7))

    def _closed_forms(self) -> Iterator[Any]:
        yield Popularity()
        threads: dict[str, Any] = {"n_threads": self.n_threads}
        ridges = RIDGES if self.train.shape[1] <= EASE_ITEMS else ()
        made: list[list[Any]] = [
            [ItemGraph(*each, **threads) for each in GRAPHS],
            [ItemKNN(n, kind, shrink, **threads) for kind, shrink, n in NEIGHBOURS],
            [EASE(reg, **threads) for reg in ridges],
        ]
        for place in range(max(map(len, made))):
            yield from (family[place] for family in made if place < len(family))

    def _factors(self) -> Iterator[WALS]:
        """The default; every setting at a small rank; the better half, then quarter, ... at larger ones."""
        most = max(1, min(self.train.shape) // 2)
        common: dict[str, Any] = {"max_iter": MAX_SWEEPS, "tol": 0.0, "n_threads": self.n_threads}
        yield WALS(random_state=self.seed, **common)
        settings = [dict(each) for each in STRENGTHS]
        ranks = [min(FIRST_RANK, most), *(rank for rank in RANKS if rank <= most)]
        for rank in dict.fromkeys(ranks):
            values = []
            for setting in settings:
                before = len(self.trials)
                yield WALS(rank, random_state=self.seed, **setting, **common)
                values.append(self.trials[-1]["value"] if len(self.trials) > before else -np.inf)
            better = np.argsort(-np.asarray(values), kind="stable")[: max(1, len(settings) // 2)]
            settings = [settings[k] for k in better]


def search_recommenders(
    data: Any,
    *,
    seconds: float,
    metric: str = "ndcg@20",
    n_trials: int | None = None,
    random_state: int = 0,
    n_threads: int | None = None,
    on_trial: Callable[[int, float], Any] | None = None,
) -> RecommenderTuning:
    """The best recommender for these data; see `tune`."""
    judged = RankingMetric.of(metric)
    matrix = sp.csr_array(getattr(data, "matrix", data))
    rest, test = keep_some(matrix, random_state)
    train, hidden = keep_some(rest, random_state + 1)
    kept, asked = HeldOut.of(train, hidden, random_state), HeldOut.of(rest, test, random_state)
    search = Search(train, hidden, kept, judged, seconds, n_trials, random_state, n_threads, on_trial)
    search.run()
    names = sorted(search.best, key=lambda name: -search.best[name][0])
    mixes: list[dict[str, Any]] = []
    fitted = [search.best[name][1] for name in names]
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
    fitted = {name: clone(model).fit(rest) for name, model in models.items()}
    ranked = {name: model.rank_items(asked.seen, metric.depth, asked.rows) for name, model in fitted.items()}
    return {name: asked.value(metric, places) for name, places in ranked.items()}


def _unfitted(best: tuple[float, Any, dict[str, Any]]) -> Any:
    """The model with its parameters, and as many sweeps as ranked best."""
    _, model, trial = best
    return clone(model).set_params(max_iter=trial["sweeps"]) if "sweeps" in trial else clone(model)


def _differs(model: Any, name: str) -> bool:
    """Whether a parameter is one that people want to see: not the default, and no matter of the machine."""
    if name in ("n_threads", "random_state", "max_iter", "tol"):
        return False
    return repr(getattr(model, name)) != repr(getattr(type(model)(), name))
