"""Trials: Optuna proposes, each is judged on validation cells as its sweeps go on, and may be given up early.

Knows the study and its file. Not how the data were split.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from halfstep.apps.tune.space import suggest
from halfstep.apps.tune.subject import Subject
from halfstep.data.table import read_table
from halfstep.judge import Split
from halfstep.judge.rankings import METRICS, Judgement
from halfstep.models.wals import WALS

LOST = "lost"
FITTED: dict[str, Any] = {"tol": 0.0, "solver": "exact"}
"""How trials and their winner are fitted."""


class Objective:
    """One trial: sweeps until rankings get worse from one judged sweep to the next, the end, or Optuna gives it up.

    The value is that of the best judged sweep. Every trial starts from nothing: on from another one, the sweeps that it
    is best after would say nothing of a fit of its own. Sweeps are exact, so that those of a fit that was judged in
    between are those of one that was not. What trials share are the cells, read and turned once.
    """

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
        self.split, self.space, self.depth, self.cells = split, space, depth, read_table(split.train)
        self.judge = METRICS[metric.partition("@")[0]]
        self.n_threads, self.seed, self.optuna = n_threads, seed, optuna
        self.checkpoints = checkpoints(max_iter)
        self.counts = np.bincount(split.train.indices, minlength=split.train.shape[1])

    def __call__(self, trial: Any) -> float:
        params = {name: suggest(trial, name, spec) for name, spec in self.space.items()}
        weighting = params.pop("weights")
        model = WALS(
            **params,
            **FITTED,
            weighting=weighting,
            warm_start=True,
            n_threads=self.n_threads,
            random_state=self.seed,
        )
        seconds, best, done = 0.0, -np.inf, 0
        for sweeps in self.checkpoints:
            begun = time.perf_counter()
            model.set_params(max_iter=sweeps - done).fit(self.cells)
            seconds += time.perf_counter() - begun
            done = sweeps
            value = self._value(model)
            trial.report(value, sweeps)
            if value <= best:
                break
            best = value
            trial.set_user_attr("sweeps", sweeps)
            trial.set_user_attr("seconds", seconds)
            if trial.should_prune():
                raise self.optuna.TrialPruned
        return best

    def _value(self, model: WALS) -> float:
        ranked = model.rank_items(self.split.seen, self.depth, self.split.rows)
        judgement = Judgement(ranked, self.split.relevant, self.counts, self.split.train.shape[0])
        return float(np.mean(self.judge(judgement, self.depth)))


class Stop:
    """Tells the caller after every trial, and ends the study where the answer is true."""

    def __init__(self, on_trial: Callable[[int, float], Any] | None, sign: int) -> None:
        self.on_trial = on_trial
        self.sign = sign
        self.asked = False

    def __call__(self, study: Any, trial: Any) -> None:
        if self.on_trial is None:
            return
        values = [self.sign * t.value for t in study.trials if t.state.name == "COMPLETE"]
        if self.on_trial(n_done(study), self.sign * max(values, default=float("nan"))):
            self.asked = True
            study.stop()


def checkpoints(max_iter: int) -> list[int]:
    """1, 2, 4, ... and the last sweep."""
    powers = [2**k for k in range(max_iter.bit_length()) if 2**k < max_iter]
    return [*powers, max_iter]


def open_study(optuna: Any, storage: str | os.PathLike[str] | None, subject: Subject) -> Any:
    """A new study, or the one a SQLite file holds if it is about the same data."""
    url = None
    if storage is not None:
        text = os.fspath(storage)
        url = text if "://" in text else f"sqlite:///{os.path.abspath(text)}"
    study = optuna.create_study(
        storage=url,
        study_name="halfstep",
        direction="maximize" if subject.sign > 0 else "minimize",
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=8, n_warmup_steps=subject.warmup),
    )
    known = study.user_attrs.get("fingerprint")
    if known is None:
        study.set_user_attr("fingerprint", subject.fingerprint)
    elif known != subject.fingerprint:
        raise ValueError(
            f"storage={os.fspath(storage or '')!r} holds a study of other data, another model, metric, "
            "protocol or seed; its values cannot be compared with new ones. Use another file."
        )
    running = [trial.number for trial in study.trials if trial.state.name == "RUNNING"]
    if running:  # of a search that was lost; they are made again
        study.set_user_attr(LOST, [*study.user_attrs.get(LOST, ()), *running])
    for number in running:
        study.tell(number, state=optuna.trial.TrialState.FAIL)
    return study


def made(study: Any) -> list[Any]:
    """Trials that came to an end, whichever; those of a search that was lost did not."""
    lost = study.user_attrs.get(LOST, ())
    return [trial for trial in study.trials if trial.state.is_finished() and trial.number not in lost]


def run_trial(optuna: Any, study: Any, subject: Subject, seed: int, stop: Stop) -> None:
    """One more trial. What is proposed follows from the seed and the trials before, so that a search that was lost in
    the middle of it proposes the same again."""
    number = len(made(study))
    study.sampler = optuna.samplers.TPESampler(seed=seed + number)
    waiting = any(trial.state.name == "WAITING" for trial in study.trials)
    if number < len(subject.first) and not waiting:
        study.enqueue_trial(subject.first[number])
    study.optimize(subject, n_trials=1, callbacks=[stop], catch=(ArithmeticError,))


def fingerprint(matrix: Any, *choices: Any) -> str:
    crc = zlib.crc32(matrix.indices.tobytes(), zlib.crc32(matrix.indptr.tobytes()))
    return f"{zlib.crc32(matrix.data.tobytes(), crc):08x} {matrix.shape} {choices}"


def n_done(study: Any) -> int:
    return sum(t.state.name in ("COMPLETE", "PRUNED") for t in study.trials)


def as_row(number: int, trial: Any, sign: int) -> dict[str, Any]:
    """A trial as plain numbers: its place, its value, what it took, and its parameters."""
    best = max if sign > 0 else min
    value = trial.value if trial.state.name == "COMPLETE" else best(trial.intermediate_values.values(), default=None)
    took = {name: trial.user_attrs[name] for name in ("seconds", "sweeps") if name in trial.user_attrs}
    return {"number": number, "state": trial.state.name.lower(), "value": value, **took, **trial.params}
