"""Cold start: `python benchmarks/cold.py [rankings | warm | ratings | speed] [--data NAME ...] [--models NAME ...]`.

rankings : NDCG@20 of occupations, skills and films of which nothing but features is known: baselines, cmfrec, WALS.
warm : NDCG@20 of five cells held out of each longer row, WALS untouched, with features and without.
ratings : RMSE of the ratings of films held out whole, one row for each model and the difference to damped biases.
speed : processor seconds of WALS on ESCO with the words of all skills, beside a fit without; one thread.

Every model of rankings is tuned with the same budget, BUDGET settings, on rows held out of the training rows in the
same way; the best is fitted again on all of these and judged on rows that chose nothing. Seconds are those of that last
fit and rank.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "2")

import numpy as np
import scipy.sparse as sp

import halfstep as hs
from halfstep.baselines import Biases, Constant, FactorRidge, FeatureKNN, FeatureRidge, GroupPopularity, Popularity
from halfstep.data.features import Features
from halfstep.data.ids import Index
from halfstep.judge import Split, cold_items, cold_users, leave_k_out
from halfstep.judge.features import FeaturesOf
from halfstep.metrics import ndcg_at_k
from halfstep.models.common_words import Vocabulary

DATA = Path(os.environ.get("HALFSTEP_DATA", "../shared/data"))
BUDGET, DEPTH, SHARE = 8, 20, 0.2
SPLITS: dict[str, Callable[..., Split]] = {"users": cold_users, "items": cold_items}


class Task(NamedTuple):
    """Who has what, what is known of the side that is cold, and which side that is."""

    name: str
    matrix: Any
    features: Features
    cold: str
    beside: Features | None = None  # of the other side, for models that can use both

    def known(self) -> FeaturesOf:
        own, other = self.features, self.beside
        return FeaturesOf(own, other) if self.cold == "users" else FeaturesOf(other, own)


class Collective:
    """cmfrec's collective model: interactions and features of both sides factorised together, new rows from theirs.

    turned : whether items are cold: new items are new users of the matrix turned.
    """

    def __init__(self, k: int, reg: float, side: float, alpha: float, sweeps: int, turned: bool) -> None:
        self.k, self.reg, self.side, self.alpha, self.sweeps, self.turned = k, reg, side, alpha, sweeps, turned

    def fit(self, matrix: Any, user_features: Any = None, item_features: Any = None) -> Collective:
        from cmfrec import CMF_implicit

        own, other, cells = user_features, item_features, matrix
        if self.turned:
            own, other, cells = item_features, user_features, matrix.T
        self.model = CMF_implicit(
            k=self.k,
            lambda_=self.reg,
            alpha=self.alpha,
            w_user=self.side,
            w_item=self.side,
            niter=self.sweeps,
            NA_as_zero_user=True,
            NA_as_zero_item=True,
            nthreads=2,
            verbose=False,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told = {name: sp.coo_matrix(each.matrix) for name, each in (("U", own), ("I", other)) if each is not None}
            self.model.fit(sp.coo_matrix(cells, dtype=np.float64), **told)
        return self

    def rank_new(
        self, seen: Any, n: int, rows: Any = None, *, user_features: Any = None, item_features: Any = None
    ) -> Any:
        known = sp.csr_array((item_features if self.turned else user_features).matrix)
        each = [known[[row]] for row in range(known.shape[0])]
        new = np.array([self.model.factors_cold(U_col=row.indices, U_val=row.data) for row in each])
        scores = new @ self.model.B_.T
        return best(scores[:, rows].T if self.turned else scores, n)


class Worded:
    """FeatureRidge, and what words that both sides say add to it: the baseline told what WALS is told.

    Its A knows nothing of the other side, so without `WALS` nobody does this.
    """

    def __init__(self, reg: float, strength: float) -> None:
        self.reg, self.strength = reg, strength

    def fit(self, matrix: Any, user_features: Features, item_features: Features) -> Worded:
        self.ridge = FeatureRidge(self.reg).fit(matrix, user_features=user_features, item_features=item_features)
        self.known = user_features, item_features
        self.words = Vocabulary.of(user_features, item_features)
        return self

    def rank_new(
        self,
        seen: Any,
        n: int,
        rows: Any = None,
        *,
        user_features: Features | None = None,
        item_features: Features | None = None,
    ) -> Any:
        users, items = self.known
        if item_features is None:
            scores, users = self.ridge.fitted_.sides[0].scores(user_features), user_features
        else:
            scores = self.ridge.fitted_.sides[1].scores(item_features).T[rows]
            users, items = users.take(rows), item_features
        words = self.words.rows(0, users) @ self.words.rows(1, items).T
        return best(scores + self.strength * words.toarray(), n)


def best(scores: Any, n: int) -> Any:
    places = np.argpartition(-scores, n, axis=1)[:, :n]
    order = np.argsort(-np.take_along_axis(scores, places, axis=1), axis=1)
    return np.take_along_axis(places, order, axis=1).astype(np.int32)


def in_order(features: Features, ids: Any, side: str) -> Features:
    """Rows as they are in the matrix; splits have no ids."""
    return Features(features.aligned(Index(ids, side)), features.names, None, features.blocks)


def tasks() -> Iterator[tuple[str, Callable[[], Task]]]:
    """By name, read when asked for."""

    def esco(**options: Any) -> Task:
        data = hs.datasets.load_esco(DATA / "esco-1.1.1")
        known = in_order(data.user_features(**options), data.user_ids, "user")
        skills = None if options else in_order(data.item_features(), data.item_ids, "item")
        return Task("ESCO occupations", data.matrix, known, "users", skills)

    def esco_skills() -> Task:
        data = hs.datasets.load_esco(DATA / "esco-1.1.1")
        known = in_order(data.item_features(), data.item_ids, "item")
        return Task("ESCO skills", data.matrix, known, "items", in_order(data.user_features(), data.user_ids, "user"))

    def onet() -> Task:
        data = hs.datasets.load_onet(DATA / "onet-29.2")
        known = in_order(data.user_features(), data.user_ids, "user")
        tools = in_order(data.item_features(), data.item_ids, "item")
        return Task("O*NET occupations", data.matrix, known, "users", tools)

    def films() -> Task:
        data = hs.datasets.load_movielens(DATA / "movietweetings-100k")
        liked = sp.csr_array(data.matrix)
        liked.data = (liked.data >= 7).astype(np.float32)
        liked.eliminate_zeros()
        return Task("MovieTweetings films", liked, in_order(data.item_features(), data.item_ids, "item"), "items")

    names = ["title", "altLabels"]
    yield "esco-names", lambda: esco(columns=[], text=names)._replace(name="ESCO occupations, names")
    yield "esco-groups", lambda: esco(text=names)._replace(name="ESCO occupations, names and groups")
    yield "esco", lambda: esco()._replace(name="ESCO occupations, all")
    yield "onet", onet
    yield "films", films
    yield "skills", esco_skills


def models(cold: str, columns: int, sweeps: int) -> dict[str, list[Any]]:
    """BUDGET settings of each, those likely to be best first. columns, sweeps : of cmfrec, which takes its time."""
    few = {"max_iter": 4, "random_state": 0}
    ours = [
        hs.WALS(random_state=0),  # the default is among what is tried
        *(hs.WALS(feature_reg=held, random_state=0) for held in (0.3, 3.0, 30.0)),
        *(hs.WALS(512, 0.1, 0.002, feature_reg=held, **few) for held in (0.1, 0.3)),
        hs.WALS(512, 0.05, 0.002, feature_reg=0.1, **few),
        hs.WALS(128, feature_reg=30.0, **few),
    ]
    return {
        "Popularity": [Popularity()],
        "GroupPopularity": [GroupPopularity(least, shrink) for shrink in (1.0, 5.0) for least in (2, 5, 10, 20)],
        "FeatureKNN": [FeatureKNN(k) for k in (10, 20, 40, 80, 5, 160, 3, 320)],
        "FeatureRidge": [FeatureRidge(reg) for reg in (1.0, 2.0, 5.0, 20.0, 0.3, 100.0, 500.0, 2500.0)],
        "FactorRidge": [
            FactorRidge(reg, hs.WALS(rank, random_state=0)) for rank in (128, 256) for reg in (0.3, 1.0, 3.0, 10.0)
        ],
        "FeatureRidge, words": [Worded(reg, strength) for reg in (1.0, 2.0, 5.0, 0.3) for strength in (0.2, 0.4)],
        "cmfrec": [
            Collective(columns, *each, sweeps, cold == "items")
            for each in product((10.0, 1.0), (0.05, 0.5), (1.0, 10.0))
        ],
        "WALS": ours,
        "WALS, untouched": [hs.WALS(random_state=0)],
        "WALS, untouched, factors alone": [hs.WALS(common_words=0.0, kindred=0.0, random_state=0)],
    }


def judged(model: Any, split: Split, known: FeaturesOf) -> tuple[Any, float]:
    """NDCG of each that is ranked for, and seconds."""
    begun = time.perf_counter()
    if hasattr(model, "rank_new"):
        ranked = model.fit(split.train, **known.to_fit(split)).rank_new(
            split.seen, DEPTH, rows=split.rows, **known.to_rank(split)
        )
    else:
        ranked = model.fit(split.train).rank_items(split.seen, DEPTH, rows=split.rows)
    return ndcg_at_k(ranked, split.relevant, DEPTH), time.perf_counter() - begun


def inner(task: Task, split: Split, seed: int) -> tuple[Split, FeaturesOf]:
    """A split of what trains, made like the one that judges."""
    rows = task.features.take(split.trained) if split.items is None else task.features.without(split.items)
    chosen = task._replace(matrix=split.train, features=rows)
    return SPLITS[task.cold](chosen.matrix, SHARE, random_state=1000 + seed), chosen.known()


def rankings(
    wanted: list[str], kinds: list[str], seeds: int, budget: int, first: int, columns: int, sweeps: int
) -> None:
    print("| data | model | NDCG@20 | of each seed | standard error of one | chosen | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for key, read in tasks():
        if wanted and key not in wanted:
            continue
        task = read()
        for name, every in models(task.cold, columns, sweeps).items():
            settings = every[:budget]
            if (kinds and name not in kinds) or (task.cold == "items" and name == "Popularity"):
                continue
            if task.beside is None and name.endswith("words"):  # nothing to have in common
                continue
            found: list[tuple[float, float, float]] = []
            for seed in range(first, first + seeds):
                split = SPLITS[task.cold](task.matrix, SHARE, random_state=seed)
                small, known = inner(task, split, seed)
                tried = [judged(model, small, known)[0].mean() for model in settings] if len(settings) > 1 else [0.0]
                model = settings[int(np.argmax(tried))]
                values, seconds = judged(model, split, task.known())
                found.append((values.mean(), values.std() / np.sqrt(len(values)), seconds))
            mean, error, seconds = np.mean(found, axis=0)
            each = " ".join(f"{value:.4f}" for value, _, _ in found)
            shown = " ".join(f"{model!r}".split()) if hasattr(model, "get_params") else str(vars_of(model))
            print(f"| {task.name} | {name} | {mean:.4f} | {each} | {error:.4f} | {shown} | {seconds:.1f} |", flush=True)


def warm(wanted: list[str], seeds: int) -> None:
    print("| data | without features | with | difference | standard error |\n| --- | --- | --- | --- | --- |")
    for key, read in tasks():
        if wanted and key not in wanted:
            continue
        task = read()
        found = []
        for seed in range(seeds):
            split = leave_k_out(task.matrix, 5, random_state=seed)
            told = task.known().to_fit(split)
            ranked = [
                hs.WALS(random_state=0).fit(split.train, **given).rank_items(split.seen, DEPTH, rows=split.rows)
                for given in ({}, told)
            ]
            found.append([ndcg_at_k(each, split.relevant, DEPTH) for each in ranked])
        plain, known = (np.concatenate([values[place] for values in found]) for place in (0, 1))
        gain = known - plain
        error = gain.std() / np.sqrt(len(gain))
        print(
            f"| {task.name} | {plain.mean():.4f} | {known.mean():.4f} | {gain.mean():+.4f} | {error:.4f} |", flush=True
        )


def ratings(seeds: int, first: int) -> None:
    """Films held out whole. Dampings of biases are tried on films held out of those that train; the rest is untouched.

    Errors are over films, whose ratings hang together: of the mean difference of squared errors, by sums of films.
    """
    data = hs.datasets.load_movielens(DATA / "movietweetings-100k")
    cells = sp.coo_array(data.matrix)
    pairs, y = np.column_stack([data.user_ids[cells.row], data.item_ids[cells.col]]), cells.data.astype(np.float64)
    about = data.item_features()
    models: dict[str, tuple[Any, bool]] = {
        "mean": (Constant(), False),
        "mean and damped biases": (None, False),
        "PLQMF": (hs.PLQMF(random_state=0), False),
        "PLQMF with features": (hs.PLQMF(random_state=0), True),
        "BayesMF": (hs.BayesMF(random_state=0), False),
        "BayesMF with features": (hs.BayesMF(random_state=0), True),
    }
    found: dict[str, list[Any]] = {name: [] for name in models}
    for seed in range(first, first + seeds):
        chance = np.random.default_rng(seed)
        train = (chance.random(len(data.item_ids)) >= SHARE)[cells.col]
        inner = train & (chance.random(len(data.item_ids)) >= SHARE)[cells.col]
        tried = [Biases(damping=d) for d in product((2.0, 5.0, 10.0, 20.0), (2.0, 10.0))]
        missed = [misses(model, pairs, y, inner, train & ~inner, None) for model in tried]
        damped = tried[int(np.argmin([each.mean() for each in missed]))]
        for name, (model, told) in models.items():
            found[name].append(misses(model or damped, pairs, y, train, ~train, about if told else None))
            if name.startswith("mean and"):
                found[name][-1] = (found[name][-1], cells.col[~train])
    print("| model | RMSE | of each seed | squared error minus that of biases | standard error |")
    print("| --- | --- | --- | --- | --- |")
    base = found["mean and damped biases"]
    found["mean and damped biases"] = [each for each, _ in base]
    for name, each in found.items():
        gains = [missed - plain for missed, (plain, _) in zip(each, base, strict=True)]
        films = [np.bincount(which, gain - gain.mean()) for gain, (_, which) in zip(gains, base, strict=True)]
        errors = [np.sqrt(np.sum(sums**2)) / len(gain) for sums, gain in zip(films, gains, strict=True)]
        gain, error = np.mean([gain.mean() for gain in gains]), np.sqrt(np.mean(np.square(errors)))
        values = [np.sqrt(missed.mean()) for missed in each]
        shown = " ".join(f"{value:.4f}" for value in values)
        print(f"| {name} | {np.mean(values):.4f} | {shown} | {gain:+.4f} | {error:.4f} |", flush=True)


def misses(model: Any, pairs: Any, y: Any, train: Any, test: Any, about: Features | None) -> Any:
    """Squared errors of what a fit to some pairs predicts of others."""
    told = {} if about is None else {"item_features": about}
    answers = model.fit(pairs[train], y[train], **told).predict(pairs[test], **told)
    return (answers - y[test]) ** 2


def speed(rounds: int) -> None:
    """Medians over `rounds` of processor seconds, which other work on the machine disturbs less, taken in turns."""
    task = dict(tasks())["skills"]()
    told = {"item_features": task.features}
    print("| rank | without features | with, strengths given | times | with, strengths learned | times |")
    print("| --- | --- | --- | --- | --- | --- |")
    for rank in (128, None):
        spent: list[list[float]] = [[], [], []]
        for _ in range(rounds):
            for place, (held, alike, known) in enumerate(((1.0, 0.0, {}), (1.0, 0.2, told), (None, None, told))):
                model = hs.WALS(rank, feature_reg=held, kindred=alike, n_threads=1, random_state=0, tol=0)
                begun = time.process_time()
                model.fit(task.matrix, **known)
                spent[place].append(time.process_time() - begun)
        plain, given, learned = (float(np.median(each)) for each in spent)
        print(
            f"| {model.rank_} | {plain:.2f} | {given:.2f} | {given / plain:.2f} | {learned:.2f} "
            f"| {learned / plain:.2f} |",
            flush=True,
        )


def vars_of(model: Any) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in vars(model).items() if isinstance(value, (int, float)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="rankings", choices=["rankings", "warm", "ratings", "speed"])
    parser.add_argument("--data", nargs="*", default=[])
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--budget", type=int, default=BUDGET, help="settings tried of each model")
    parser.add_argument("--columns", type=int, default=64, help="of cmfrec")
    parser.add_argument("--sweeps", type=int, default=10, help="of cmfrec")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "warm":
        warm(given.data, given.seeds)
    elif given.what == "speed":
        speed(given.seeds)
    elif given.what == "ratings":
        ratings(given.seeds, given.first)
    else:
        rankings(given.data, given.models, given.seeds, given.budget, given.first, given.columns, given.sweeps)


if __name__ == "__main__":
    main()
