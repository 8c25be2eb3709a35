"""Search for parameters, and judge the winner on cells no trial has seen.

Knows that there is a subject, and that Optuna proposes and prunes. Rankings are tuned by ranking metrics alone: the
RMSE of observed cells is smallest for a model that predicts 1 everywhere, so it would choose the worst recommender.
Ratings are tuned by errors of predictions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from sklearn.utils import check_random_state

from halfstep.apps.tune.ensembles import EnsembleTuning, find_ensemble
from halfstep.apps.tune.found import RecommenderTuning
from halfstep.apps.tune.rankings import QUALITY, WalsSubject
from halfstep.apps.tune.ratings import RECIPES, RatingSubject
from halfstep.apps.tune.recommenders import search_recommenders
from halfstep.apps.tune.result import Tuning
from halfstep.apps.tune.space import SPACE
from halfstep.apps.tune.subject import Subject
from halfstep.apps.tune.trials import Stop, as_row, made, n_done, open_study, run_trial
from halfstep.data.datasets.ratings import Ratings
from halfstep.errors import check_number, require

__all__ = [
    "QUALITY",
    "RECIPES",
    "SPACE",
    "EnsembleTuning",
    "RecommenderTuning",
    "Tuning",
    "find_ensemble",
    "find_recommender",
    "tune",
]


def tune(
    data: Any,
    model: Any = None,
    *,
    metric: str | None = None,
    n_trials: int = 40,
    timeout: float | None = None,
    space: Mapping[str, Any] | None = None,
    max_iter: int = 16,
    protocol: str | None = None,
    protocol_options: Mapping[str, Any] | None = None,
    storage: str | os.PathLike[str] | None = None,
    n_threads: int | None = None,
    random_state: Any = 0,
    on_trial: Callable[[int, float], Any] | None = None,
) -> Tuning:
    """Search for the parameters that rank held-out cells, or predict held-out ratings, best.

    The data are split twice: test cells are put aside, and what is left is split into training and validation. Trials
    fit on training cells and are judged on validation cells; one that is worse than the median of earlier trials at
    the same point is given up. `Tuning.test` judges the winner on the test cells, beside the default and the baselines.
    The same data, seed and number of trials give the same winner, unless `timeout` ends the search.

    data : rankings: sparse matrix users x items of weights, or `Interactions`. Ratings: `Ratings`.
    model : what is tuned; its other parameters stay as they are. Rankings: WALS. Ratings: a `PLQMF` (the default) or a
        `BayesMF`; its loss or likelihood says what a good prediction is.
    metric : rankings: quality with its depth, such as "ndcg@10" (the default) or "truncated_recall@20". Ratings:
        "rmse", "mae", "pinball@0.9", "log_loss" or "accuracy"; the one that goes with the loss when left out.
    n_trials : how many trials the study has in the end, those of earlier runs included.
    timeout : no trial is begun after that many seconds.
    space : changes to `SPACE`, or to `RECIPES[...].space` for ratings; a single value fixes a parameter.
    max_iter : rankings: most sweeps of a trial, which is judged after 1, 2, 4, ... of them. Ratings are judged on three
        splits, one after the other.
    protocol, protocol_options : "strong_generalisation" (new users) or "leave_k_out", and arguments of the split; for
        ratings "random", "per_user" or "by_time".
    storage : SQLite file that keeps the study; calling again with the same data and seed goes on where it ended, or was
        lost, to the trials of a search that was not.
    on_trial : called with (trials done, best value so far) after every trial; a true answer ends the search.
    """
    optuna = require("optuna", "tune")
    check_number("n_trials", n_trials, at_least=1, whole=True)
    check_number("max_iter", max_iter, at_least=1, whole=True)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    options = dict(protocol_options or {})
    subject: Subject
    if isinstance(data, Ratings):
        subject = RatingSubject(data, model, metric, space, protocol, options, n_threads, seed, optuna)
    else:
        subject = WalsSubject(data, model, metric, space, max_iter, protocol, options, n_threads, seed, optuna)
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = open_study(optuna, storage, subject)
        stop, begun = Stop(on_trial, subject.sign), time.monotonic()
        for _ in range(n_trials - n_done(study)):
            run_trial(optuna, study, subject, seed, stop)
            if stop.asked or (timeout is not None and time.monotonic() - begun >= timeout):
                break
    finally:
        optuna.logging.set_verbosity(before)
    trials = [as_row(number, trial, subject.sign) for number, trial in enumerate(made(study))]
    tuning = Tuning(subject.metric, trials, study, stop.asked, subject)
    if not tuning.finished:
        raise RuntimeError(
            f"none of {len(tuning.trials)} trials finished; allow more time than timeout={timeout}, or a smaller space."
        )
    return tuning


def find_recommender(
    data: Any,
    seconds: float = 120.0,
    *,
    metric: str = "ndcg@20",
    n_trials: int | None = None,
    random_state: int = 0,
    n_threads: int | None = None,
    on_trial: Callable[[int, float], Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
) -> RecommenderTuning:
    """The best recommender for these data, fitted: WALS, ItemGraph, EASE, ItemKNN, Popularity, or a Blend of them.

    A fifth of every user's cells is put aside for the test; of the rest, a fifth is put aside for choosing. Trials go
    from cheap to dear: closed forms, then WALS at rank 64 under settings that were best for one matrix or another, the
    better half of them at 128, the better quarter at 256, and so on to 1,024 as sizes and time allow; sweeps end where
    rankings stop gaining. The best of each kind are blended. What wins on the cells for choosing is fitted to all data.

    data : sparse matrix users x items of weights, `Interactions`, or a frame with a row for each pair.
    seconds : no trial is begun that would leave too little of this time to fit the winners again.
    metric : what is searched for, such as "ndcg@20" or "recall@20".
    n_trials : at most so many trials. The same data, seed and number of trials give the same answer, unless time ends
        the search.
    on_trial : called with (trials done, best value so far) after every trial; a true answer ends the search.
    checkpoint, resume : a file that trials are written to, one by one; a search that was lost goes on with resume=True.
        Time counts from the trials that were made.
    """
    check_number("seconds", seconds, above=0)
    if n_trials is not None:
        check_number("n_trials", n_trials, at_least=1, whole=True)
    check_number("random_state", random_state, at_least=0, whole=True)
    return search_recommenders(
        data,
        seconds=seconds,
        metric=metric,
        n_trials=n_trials,
        random_state=int(random_state),
        n_threads=n_threads,
        on_trial=on_trial,
        checkpoint=checkpoint,
        resume=resume,
    )
