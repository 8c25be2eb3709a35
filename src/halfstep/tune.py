"""Search for the parameters of WALS that rank best, and judge the winner on cells no trial has seen.

Knows the estimator, splits and ranking metrics; Optuna proposes and prunes. Tunes ranking metrics alone: the RMSE of
observed cells is smallest for a model that predicts 1 everywhere, so it would choose the worst recommender.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from halfstep.errors import check_number, one_of, require
from halfstep.evaluate import PROTOCOLS, Result, Split, evaluate
from halfstep.evaluate.run import METRICS, Judgement
from halfstep.wals import WALS

TRANSFORMS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "given": lambda w: w,
    "sqrt": np.sqrt,
    "log": np.log1p,
    "binary": np.ones_like,
}
"""What may be done to weights before the fit, by name; "log" is log(1 + w)."""

SPACE: dict[str, Any] = {
    "rank": (8, 128),
    "background": (1e-3, 1.0),
    "reg": (1e-4, 10.0),
    "reg_scaling": (0.0, 1.0),
    "weights": list(TRANSFORMS),
}
"""Where the search looks. A pair is a range (whole numbers for `rank`), a list is a choice.

`rank`, `background` and `reg` are drawn evenly in their logarithm.
"""

QUALITY = ("ndcg", "graded_ndcg", "map", "mrr", "precision", "recall", "truncated_recall", "hit_rate")
_LOGARITHMIC = ("rank", "background", "reg")


class Reweighted(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A ranker that transforms weights, then hands them to `model`; new users' weights alike."""

    def __init__(self, model: WALS, weights: str = "given") -> None:
        self.model = model
        self.weights = weights

    def fit(self, matrix: Any, y: Any = None) -> Self:
        self.model.fit(transformed(matrix, self.weights))
        return self

    def rank_items(self, seen: Any, n: int, rows: NDArray[Any] | None = None) -> NDArray[np.int32]:
        return self.model.rank_items(transformed(seen, self.weights), n, rows)


def transformed(data: Any, weights: str) -> Any:
    """A sparse matrix or `Interactions` with its weights transformed."""
    one_of("weights", weights, TRANSFORMS)
    if hasattr(data, "matrix"):
        return replace(data, matrix=transformed(data.matrix, weights))
    cells = sp.csr_array(data)
    return sp.csr_array((TRANSFORMS[weights](cells.data), cells.indices, cells.indptr), cells.shape)


@dataclass
class Tuning:
    """What a search found.

    metric : what was maximised.
    trials : one dict for each finished or pruned trial: number, state, value, seconds, sweeps and the parameters.
        `value` is the metric on the validation cells at the best of the judged sweeps, `seconds` the fitting time
        until then.
    study : the Optuna study itself.
    """

    metric: str
    trials: list[dict[str, Any]]
    study: Any
    interrupted: bool
    _outer: Split
    _n_threads: int | None
    _seed: int

    @property
    def finished(self) -> list[dict[str, Any]]:
        """The trials that were not pruned, best first."""
        return sorted((t for t in self.trials if t["state"] == "complete"), key=lambda t: -t["value"])

    @property
    def best_params(self) -> dict[str, Any]:
        """Parameters of the best trial; `weights` names a transform, the others belong to WALS."""
        best = self.finished[0]
        return {name: best[name] for name in SPACE} | {"max_iter": best["sweeps"]}

    @property
    def best_value(self) -> float:
        """The metric of the best trial on the validation cells. A little too good: it was chosen for it."""
        return float(self.finished[0]["value"])

    def ranked(self, n: int = 10) -> list[dict[str, Any]]:
        """The best `n` trials as rows of a table."""
        return [_row(t) for t in self.finished[:n]]

    def front(self) -> list[dict[str, Any]]:
        """The trials that no other beats in both quality and time, quickest first."""
        chosen: list[dict[str, Any]] = []
        for trial in sorted(self.finished, key=lambda t: (t["seconds"], -t["value"])):
            if not chosen or trial["value"] > chosen[-1]["value"]:
                chosen.append(trial)
        return [_row(t) for t in chosen]

    def importance(self) -> dict[str, float]:
        """Share of the variation of the metric that each parameter explains (fANOVA), largest first."""
        if len({t["value"] for t in self.finished}) < 2:
            return {}
        found = require("optuna", "tune").importance.get_param_importances(self.study)
        return {str(name): float(share) for name, share in found.items()}

    def best_model(self) -> WALS:
        """An unfitted WALS with the best parameters; fit it to `weighted(data)`."""
        params = self.best_params
        params.pop("weights")
        return WALS(**params, tol=0.0, n_threads=self._n_threads, random_state=self._seed)

    def weighted(self, data: Any) -> Any:
        """A sparse matrix or `Interactions` with the weights the best trial used."""
        return transformed(data, self.best_params["weights"])

    @cached_property
    def test(self) -> Result:
        """The best setting, the default WALS and the baselines on cells that no trial has seen."""
        models = {
            "WALS default": WALS(n_threads=self._n_threads, random_state=self._seed),
            "WALS tuned": Reweighted(self.best_model(), self.best_params["weights"]),
        }
        return evaluate(models, self._outer, metrics=[self.metric], random_state=self._seed)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, ready for JSON."""
        return {
            "metric": self.metric,
            "best": self.best_params,
            "validation": self.best_value,
            "front": self.front(),
            "importance": self.importance(),
            "trials": self.trials,
            "test": self.test.to_dict(),
        }


def tune(
    data: Any,
    *,
    metric: str = "ndcg@10",
    n_trials: int = 40,
    timeout: float | None = None,
    space: Mapping[str, Any] | None = None,
    max_iter: int = 16,
    protocol: str = "strong_generalisation",
    protocol_options: Mapping[str, Any] | None = None,
    storage: str | os.PathLike[str] | None = None,
    n_threads: int | None = None,
    random_state: Any = 0,
    on_trial: Callable[[int, float], Any] | None = None,
) -> Tuning:
    """Search the parameters of WALS for the best ranking of held-out cells.

    The data are split twice: test cells are put aside, and what is left is split into training and validation. Every
    trial fits on training cells, is judged on validation cells after 1, 2, 4, ... sweeps, and is given up where it is
    worse than the median of earlier trials at that sweep. `Tuning.test` judges the winner on the test cells.

    data : sparse matrix users x items of weights, or `Interactions`.
    metric : a metric of ranking quality with its depth, such as "ndcg@10", "map@10" or "truncated_recall@20".
    n_trials : how many trials the study has in the end, those of earlier runs included.
    timeout : no trial is begun after that many seconds.
    space : changes to `SPACE`; a single value fixes a parameter.
    max_iter : most sweeps of a trial.
    protocol, protocol_options : "strong_generalisation" (new users) or "leave_k_out", and arguments of the split.
    storage : SQLite file that keeps the study; calling again with the same data and seed goes on where it ended.
    on_trial : called with (trials done, best value so far) after every trial; a true answer ends the search.
    """
    optuna = require("optuna", "tune")
    depth = _checked_metric(metric)
    check_number("n_trials", n_trials, at_least=1, whole=True)
    check_number("max_iter", max_iter, at_least=1, whole=True)
    one_of("protocol", protocol, ("strong_generalisation", "leave_k_out"))
    matrix = sp.csr_array(getattr(data, "matrix", data))
    where = _space(space, matrix)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    options = dict(protocol_options or {})
    outer = PROTOCOLS[protocol](matrix, **options, random_state=seed)
    inner = PROTOCOLS[protocol](outer.train, **options, random_state=seed + 1)
    objective = _Objective(inner, metric, depth, where, max_iter, n_threads, seed, optuna)
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = _open_study(optuna, storage, seed, _fingerprint(matrix, metric, protocol, options, seed))
        stop = _Stop(on_trial)
        left = n_trials - _n_done(study)
        if left > 0:
            study.optimize(objective, n_trials=left, timeout=timeout, callbacks=[stop], catch=(ArithmeticError,))
    finally:
        optuna.logging.set_verbosity(before)
    tuning = Tuning(
        metric, [_trial(t) for t in study.trials if t.state.is_finished()], study, stop.asked, outer, n_threads, seed
    )
    if not tuning.finished:
        raise RuntimeError(
            f"none of {len(tuning.trials)} trials finished; allow more time than timeout={timeout}, or a smaller space."
        )
    return tuning


class _Objective:
    """One trial: sweeps until the end or until Optuna gives it up; the value is that of the best judged sweep."""

    def __init__(
        self,
        split: Split,
        metric: str,
        depth: int,
        space: dict[str, Any],
        max_iter: int,
        n_threads: int | None,
        seed: int,
        optuna: Any,
    ) -> None:
        self.split, self.space, self.depth = split, space, depth
        self.judge = METRICS[metric.partition("@")[0]]
        self.n_threads, self.seed, self.optuna = n_threads, seed, optuna
        self.checkpoints = _checkpoints(max_iter)
        self.counts = np.bincount(split.train.indices, minlength=split.train.shape[1])

    def __call__(self, trial: Any) -> float:
        params = {name: _suggest(trial, name, spec) for name, spec in self.space.items()}
        weights = params.pop("weights")
        train, seen = transformed(self.split.train, weights), transformed(self.split.seen, weights)
        model = WALS(**params, tol=0.0, warm_start=True, n_threads=self.n_threads, random_state=self.seed)
        seconds, best, done = 0.0, -np.inf, 0
        for sweeps in self.checkpoints:
            begun = time.perf_counter()
            model.set_params(max_iter=sweeps - done).fit(train)
            seconds += time.perf_counter() - begun
            done = sweeps
            value = self._value(model, seen)
            if value > best:
                best = value
                trial.set_user_attr("sweeps", sweeps)
                trial.set_user_attr("seconds", seconds)
            trial.report(value, sweeps)
            if trial.should_prune():
                raise self.optuna.TrialPruned
        return best

    def _value(self, model: WALS, seen: Any) -> float:
        ranked = model.rank_items(seen, self.depth, self.split.rows)
        judgement = Judgement(ranked, self.split.relevant, self.counts, self.split.train.shape[0])
        return float(np.mean(self.judge(judgement, self.depth)))


class _Stop:
    """Tells the caller after every trial, and ends the study where the answer is true."""

    def __init__(self, on_trial: Callable[[int, float], Any] | None) -> None:
        self.on_trial = on_trial
        self.asked = False

    def __call__(self, study: Any, trial: Any) -> None:
        if self.on_trial is None:
            return
        values = [t.value for t in study.trials if t.state.name == "COMPLETE"]
        if self.on_trial(_n_done(study), max(values, default=float("nan"))):
            self.asked = True
            study.stop()


def _checked_metric(metric: str) -> int:
    """The depth of a ranking metric, 10 where none is given."""
    key, at, depth = metric.partition("@")
    if key not in QUALITY:
        raise ValueError(
            f"metric={metric!r} does not measure ranking quality; choose one of {list(QUALITY)}, such as 'ndcg@10'. "
            "RMSE over observed cells rewards predicting 1 everywhere."
        )
    if at and not (depth.isdecimal() and int(depth) > 0):
        raise ValueError(f"metric={metric!r} needs a whole number after the @, such as '{key}@10'.")
    return int(depth) if at else 10


def _space(changes: Mapping[str, Any] | None, matrix: Any) -> dict[str, Any]:
    """The space for these data: no rank above the smaller side, no transforms of weights that are all alike."""
    for name in changes or {}:
        one_of("space", name, SPACE)
    space = dict(SPACE)
    most = max(1, min(matrix.shape) - 1)
    space["rank"] = (min(SPACE["rank"][0], most), min(SPACE["rank"][1], most))
    if matrix.nnz and matrix.data.min() == matrix.data.max():
        space["weights"] = ["given"]
    space |= dict(changes or {})
    for name in space["weights"] if isinstance(space["weights"], list) else [space["weights"]]:
        one_of("space['weights']", name, TRANSFORMS)
    return space


def _suggest(trial: Any, name: str, spec: Any) -> Any:
    if isinstance(spec, tuple):
        low, high = spec
        log = name in _LOGARITHMIC and low > 0
        whole = name == "rank"
        return (trial.suggest_int if whole else trial.suggest_float)(name, low, high, log=log)
    choices: Sequence[Any] = spec if isinstance(spec, list) else [spec]
    return trial.suggest_categorical(name, choices)


def _checkpoints(max_iter: int) -> list[int]:
    """1, 2, 4, ... and the last sweep."""
    powers = [2**k for k in range(max_iter.bit_length()) if 2**k < max_iter]
    return [*powers, max_iter]


def _open_study(optuna: Any, storage: str | os.PathLike[str] | None, seed: int, fingerprint: str) -> Any:
    """A new study, or the one a SQLite file holds if it is about the same data."""
    url = None
    if storage is not None:
        text = os.fspath(storage)
        url = text if "://" in text else f"sqlite:///{os.path.abspath(text)}"
    study = optuna.create_study(
        storage=url,
        study_name="halfstep",
        direction="maximize",
        load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=8, n_warmup_steps=1),
    )
    known = study.user_attrs.get("fingerprint")
    if known is None:
        study.set_user_attr("fingerprint", fingerprint)
    elif known != fingerprint:
        raise ValueError(
            f"storage={os.fspath(storage or '')!r} holds a study of other data, another metric, protocol or seed; "
            "its values cannot be compared with new ones. Use another file."
        )
    return study


def _fingerprint(matrix: Any, *choices: Any) -> str:
    crc = zlib.crc32(matrix.indices.tobytes(), zlib.crc32(matrix.indptr.tobytes()))
    return f"{zlib.crc32(matrix.data.tobytes(), crc):08x} {matrix.shape} {choices}"


def _n_done(study: Any) -> int:
    return sum(t.state.name in ("COMPLETE", "PRUNED") for t in study.trials)


def _trial(trial: Any) -> dict[str, Any]:
    value = trial.value if trial.state.name == "COMPLETE" else max(trial.intermediate_values.values(), default=None)
    return {
        "number": trial.number,
        "state": trial.state.name.lower(),
        "value": value,
        "seconds": trial.user_attrs.get("seconds"),
        "sweeps": trial.user_attrs.get("sweeps"),
        **trial.params,
    }


def _row(trial: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in trial.items() if name != "state"}
