"""Attributes that read from the one frozen object a fit leaves behind."""

from dataclasses import dataclass

import pytest
from sklearn.exceptions import NotFittedError

from halfstep.core.fitted import FromFit


@dataclass(frozen=True)
class Inner:
    value: int


@dataclass(frozen=True)
class Fit:
    inner: Inner


class Model:
    value_ = FromFit[int]("inner.value")


def test_reads_from_the_fit_and_cannot_be_set():
    model = Model()
    assert not hasattr(model, "value_")
    with pytest.raises(NotFittedError, match="this Model is not fitted yet, so it has no value_"):
        model.value_  # noqa: B018
    model.fitted_ = Fit(Inner(3))
    assert model.value_ == 3
    with pytest.raises(AttributeError, match="value_ belongs to the fit"):
        model.value_ = 4
