"""What was tried to make CFEnsembleCV better, each idea as a variant that can be measured again.

    python benchmarks/ensemble research --datasets pima attrition ... --labels 20 100 --missing 0 0.8 --seeds 1
    python benchmarks/ensemble research --development

Prints, for each variant, points of PR-AUC and log loss against the default, with wins and a signed-rank test over
tasks. Results are stored beside the others. What lost, and by how much, is told in docs/failure_modes.md.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ensemble import run
from ensemble.data import development
from ensemble.methods import METHODS, OURS, Method
from ensemble.report import Results
from ensemble.run import Grid, collect
from ensemble.stats import compare, text_table
from halfstep import CFEnsemble, CFEnsembleCV, baselines
from halfstep.core.blas import blas_threads
from halfstep.ensemble.family.beside import Beside
from halfstep.ensemble.family.fitting import fit_family
from halfstep.ensemble.family.members import Member, Scene
from halfstep.ensemble.family.roster import make_members
from halfstep.ensemble.family.settings import FamilySettings
from halfstep.ensemble.family.views import FactorView, PredictedRows, View
from halfstep.ensemble.naming import read_named
from halfstep.ensemble.predictions import expit, logit

Floats = NDArray[np.float64]


def ours(**parameters: Any) -> CFEnsembleCV:
    return CFEnsembleCV(n_threads=1, **parameters)


class Without:
    """The family without the members whose name holds one of `left_out`."""

    def __init__(self, *left_out: str, **parameters: Any) -> None:
        self.left_out = left_out
        self.model = ours(**parameters)

    def fit(self, P: Floats, y: Floats) -> Without:
        settings = FamilySettings(**self.model.get_params(deep=False))
        with blas_threads(1):
            self.model.fitted_ = fit_family(settings, *read_named(P, y), P.shape[1], self._roster)
        return self

    def _roster(self, views: Sequence[View], labels: int, beside: Beside) -> list[Member]:
        members = make_members(views, labels, beside)
        return [member for member in members if not any(p in member.name for p in self.left_out)]

    def predict_proba(self) -> Floats:
        return self.model.predict_proba()


def without(*parts: str) -> Callable[[], Any]:
    return lambda: Without(*parts)


class RowPosterior:
    """Log odds of a member with posterior variance v divided by sqrt(1 + pi v / 8): sigmoid averaged over the row."""

    def fit(self, P: Floats, y: Floats) -> RowPosterior:
        family = ours().fit(P, y).fitted_.committee
        scene = Scene(PredictedRows(P, np.zeros(len(P), np.int64)), 1, family.views)
        answers = np.array([m.log_odds(scene) / np.sqrt(1 + np.pi / 8 * m.variance(scene)) for m in family.members])
        self._positive = expit(family.weights @ answers * (1 + family.calibration[-1]) + family.calibration[0])
        return self

    def predict_proba(self) -> Floats:
        return np.column_stack([1 - self._positive, self._positive])


class BaggedClassifiers:
    """The mean log odds of fits on `bags` random halves of the classifiers."""

    def __init__(self, bags: int = 5) -> None:
        self.bags = bags

    def fit(self, P: Floats, y: Floats) -> BaggedClassifiers:
        random = np.random.default_rng(0)
        m = P.shape[1]
        total = np.zeros(len(P))
        for _ in range(self.bags):
            half = random.choice(m, max(2, m // 2), replace=False)
            total += logit(ours(ranks=(2, 4)).fit(P[:, half], y).predict_proba()[:, 1], 1e-4)
        self._positive = expit(total / self.bags)
        return self

    def predict_proba(self) -> Floats:
        return np.column_stack([1 - self._positive, self._positive])


class ClassConditional(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Latent factors as two normal clouds, one for each class, with one covariance; EM with the labels given."""

    rank = 2
    steps = 20

    def fit(self, P: Any, y: Any = None) -> ClassConditional:
        y = np.asarray(y, dtype=np.float64)
        known = np.isfinite(y) & (y >= 0)
        self._view = FactorView(self.rank).fit(PredictedRows(P, np.zeros(len(P), np.int64)))
        X = self._features(P)
        belief = np.where(known, y, expit(X[:, 0]))
        for _ in range(self.steps):
            shares = np.stack([1 - belief, belief])
            means = shares @ X / shares.sum(axis=1, keepdims=True)
            scatter = sum(
                (X - mean).T @ ((X - mean) * share[:, None]) for mean, share in zip(means, shares, strict=True)
            )
            slope = np.linalg.solve(scatter / len(X) + 0.01 * np.eye(X.shape[1]), means[1] - means[0])
            shift = np.log(shares[1].sum() / shares[0].sum()) - means.mean(axis=0) @ slope
            belief = np.where(known, y, expit(X @ slope + shift))
        self._slope, self._shift = slope, shift
        return self

    def _features(self, P: Any) -> Floats:
        sight = self._view.look(PredictedRows(P, np.zeros(len(P), np.int64)))
        return np.column_stack([sight.centre, sight.latent])

    def predict_proba(self, P: Any = None) -> Floats:
        positive = expit(self._features(P) @ self._slope + self._shift)
        return np.column_stack([1 - positive, positive])


def alternating() -> Without:
    """Factorisations with one penalty for all (rank 1, 2, 4, 7; reg 2) in place of factor analyses."""
    forms = ("reconstructed", "latent", "filled")
    fits = [
        (f"{rank} {form}", CFEnsemble(rank=rank, rho=1.0, on=form, max_iter=15, n_threads=1))
        for rank in (1, 2, 4, 7)
        for form in forms
    ]
    return Without("factors", ranks=(1,), links=("logit",), estimators=fits)


def plus(name: str, estimator: Any) -> Callable[[], Any]:
    return lambda: ours(estimators=[(name, estimator)])


VARIANTS: dict[str, Callable[[], Any]] = {
    "select the best member": lambda: ours(temperature=1e-6),
    "plain average": lambda: ours(temperature=np.inf),
    "without calibration": lambda: ours(calibrate=False),
    "without skill": without("skill"),
    "without latent": without("latent"),
    "without stacked": without("stacked"),
    "without probabilities": lambda: ours(links=("logit",)),
    "rank 4 alone": lambda: ours(ranks=(4,), links=("logit",)),
    "alternating least squares, reg 2": alternating,
    "CFEnsemble alone": lambda: CFEnsemble(n_threads=1),
    "raw probabilities, no biases, |p - 1/2| weights": lambda: CFEnsemble(
        link="identity", biases=False, confidence="certainty", solver="als", n_threads=1
    ),
    "plus CFEnsemble(rho=0.5)": plus("combined", CFEnsemble(rho=0.5, max_iter=15, n_threads=1)),
    "plus CFEnsemble(solver='als')": plus("als", CFEnsemble(solver="als", max_iter=15, n_threads=1)),
    "plus attention": plus("attention", CFEnsemble(rank=3, rho=1.0, aggregator="attention", max_iter=15, n_threads=1)),
    "plus spectral": plus("spectral", baselines.SpectralMetaLearner(votes="soft")),
    "plus greedy selection": plus("greedy", baselines.GreedySelection(impute="bias_adjusted")),
    "plus Dawid-Skene": plus("dawid-skene", baselines.DawidSkene()),
    "plus class-conditional": plus("clouds", ClassConditional()),
    "class-conditional alone": ClassConditional,
    "row posteriors": RowPosterior,
    "bagged classifiers": BaggedClassifiers,
}

_SOURCES = METHODS[OURS].sources
_TEXT = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:6]


def fingerprint(name: str) -> str:
    return METHODS[name].fingerprint + ("" if name == OURS else _TEXT)


class _Transductive:
    """A variant that answers new rows only: asked about the fitted ones."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, P: Floats, y: Floats) -> _Transductive:
        self._P = P
        self.model.fit(P, y)
        return self

    def predict_proba(self) -> Floats:
        answer: Floats = self.model.predict_proba(self._P)
        return answer


METHODS["class-conditional alone"] = Method(lambda: _Transductive(ClassConditional()), _SOURCES)
for _name, _make in VARIANTS.items():
    METHODS.setdefault(_name, Method(_make, _SOURCES))


def measure(task: tuple[str, Grid, dict[str, str]]) -> tuple[str, int]:
    return task[0], run.measure(*task)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--datasets", nargs="*", help="the development half when left out")
    parser.add_argument("--development", action="store_true", help="said aloud; it is the default")
    parser.add_argument("--labels", type=int, nargs="*", default=[20, 100])
    parser.add_argument("--missing", nargs="*", default=["0", "0.8"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--variants", nargs="*", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args(arguments)
    missing = tuple(m if m == "structured" else 0 if float(m) == 0 else float(m) for m in asked.missing)
    grid = Grid(tuple(asked.datasets or development()), tuple(asked.labels), missing, tuple(range(asked.seeds)))
    fingerprints = {name: fingerprint(name) for name in (OURS, *asked.variants)}
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as workers:
        for name, count in workers.map(measure, [(name, grid, fingerprints) for name in grid.datasets]):
            print(f"{name}: {count} measured", flush=True)
    results = Results(collect(grid, fingerprints))
    rows: list[list[object]] = []
    precision, loss = results.table("pr_auc"), results.table("log_loss")
    versus = {pair.second: pair for pair in compare(precision, results.methods, against=OURS)}
    base = results.methods.index(OURS)
    for k, name in enumerate(results.methods):
        if k != base:
            gap = 100 * (precision[:, k] - precision[:, base]).mean()
            worse = (loss[:, k] - loss[:, base]).mean()
            pair = versus[name]
            rows.append([name, float(gap), float(worse), f"{pair.losses}/{pair.ties}/{pair.wins}", f"{pair.p:.2g}"])
    header = ["variant", "points of PR-AUC", "log loss", "wins/ties/losses", "p"]
    print(f"\nagainst {OURS}, {len(precision)} tasks\n{text_table(header, rows, digits=4)}")
