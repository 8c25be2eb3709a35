"""Search for the parameters of WALS that rank best, and judge the winner on cells no trial has seen.

Knows the estimator, splits and ranking metrics; Optuna proposes and prunes. Tunes ranking metrics alone: the RMSE of
observed cells is smallest for a model that predicts 1 everywhere, so it would choose the worst recommender.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import scipy.sparse as sp
from sklearn.utils import check_random_state

from halfstep.apps.tune.result import Tuning
from halfstep.apps.tune.space import SPACE, space_for
from halfstep.apps.tune.trials import Objective, Stop, as_row, fingerprint, n_done, open_study
from halfstep.errors import check_number, one_of, require
from halfstep.judge import PROTOCOLS

__all__ = ["QUALITY", "SPACE", "Tuning", "tune"]

QUALITY = ("ndcg", "graded_ndcg", "map", "mrr", "precision", "recall", "truncated_recall", "hit_rate")


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
    where = space_for(space, matrix)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    options = dict(protocol_options or {})
    outer = PROTOCOLS[protocol](matrix, **options, random_state=seed)
    inner = PROTOCOLS[protocol](outer.train, **options, random_state=seed + 1)
    objective = Objective(inner, metric, depth, where, max_iter, n_threads, seed, optuna)
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = open_study(optuna, storage, seed, fingerprint(matrix, metric, protocol, options, seed))
        stop = Stop(on_trial)
        left = n_trials - n_done(study)
        if left > 0:
            study.optimize(objective, n_trials=left, timeout=timeout, callbacks=[stop], catch=(ArithmeticError,))
    finally:
        optuna.logging.set_verbosity(before)
    tuning = Tuning(
        metric, [as_row(t) for t in study.trials if t.state.is_finished()], study, stop.asked, outer, n_threads, seed
    )
    if not tuning.finished:
        raise RuntimeError(
            f"none of {len(tuning.trials)} trials finished; allow more time than timeout={timeout}, or a smaller space."
        )
    return tuning


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
