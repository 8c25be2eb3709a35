"""`out_of_fold`: the predictions alone, with names, for whoever wants to fuse, save or look at them."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from halfstep.core.arrays import Floats
from halfstep.core.initial import seed_from
from halfstep.ensemble.from_estimators.features import FeatureTable
from halfstep.ensemble.from_estimators.fitting import first_layer
from halfstep.ensemble.from_estimators.layer import read_entries


def out_of_fold(
    estimators: Any,
    X: Any,
    y: Any,
    cv: Any = 5,
    *,
    stack_method: str = "auto",
    unlabelled: Any = -1,
    n_jobs: int | None = None,
    random_state: Any = 0,
    verbose: int = 0,
) -> Any:
    """Predictions P of estimators for X, none of which has seen the label of its own row.

    Labelled rows are predicted by estimators fitted to the other folds, all others by estimators fitted to every
    labelled row; NaN where a row lacks what an estimator needs. Arguments as for `FusionClassifier`.

    Returns a pandas frame with the index of X, if pandas is there, and (array, names) otherwise. With two classes it
    has one column for each estimator, the probability of the second class of the sorted labels; with more, the classes
    of an estimator side by side, `name_class`. `CFEnsembleCV` takes either.
    """
    table = FeatureTable.of(X)
    options = {"stack_method": stack_method, "n_jobs": n_jobs, "verbose": verbose, "seed": seed_from(random_state)}
    targets, P, layer = first_layer(read_entries(estimators), table, y, unlabelled, cv, **options)
    flat, names = flat_columns(P, layer.names, targets.classes)
    if importlib.util.find_spec("pandas") is None:
        return flat, names
    import pandas as pd

    return pd.DataFrame(flat, columns=names, index=getattr(X, "index", None))


def flat_columns(P: Floats, names: Any, classes: Any) -> tuple[Floats, list[str]]:
    """(n, m) of two classes, (n, m * k) of more, and the names of its columns."""
    if P.shape[2] == 2:
        return P[:, :, 1], list(names)
    return np.asarray(P.reshape(len(P), -1)), [f"{name}_{label}" for name in names for label in classes.tolist()]
