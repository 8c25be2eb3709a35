"""The contract of refused calls tells a model that changes at once from one that changes bit by bit."""

import numpy as np
import pytest

from halfstep.errors import check_number

from .refusal import refused, unchanged


class Whole:
    """Assigns once, at its end."""

    def __init__(self):
        self.fitted_ = np.zeros(3)

    def fit(self, value):
        check_number("value", value)
        found = self.fitted_ + value
        check_number("value", value)
        self.fitted_ = found
        return self


class Torn(Whole):
    """Assigns something, and goes on."""

    def fit(self, value):
        self.value_ = value
        check_number("value", value)
        return self


class InPlace(Whole):
    """Changes what it has."""

    def fit(self, value):
        self.fitted_ += value
        check_number("value", value)
        return self


class Forgetful(Whole):
    """Answers from what it does not keep in itself."""

    answer = 0

    def fit(self, value):
        Forgetful.answer += 1
        check_number("value", value)
        return self


def test_a_model_that_assigns_once_keeps_the_contract():
    assert refused(Whole, lambda model: model.fit(1.0), lambda model: model.fitted_ * 2) >= 2


@pytest.mark.parametrize(
    ("kind", "message"),
    [(Torn, "left other attributes: {'value_'}"), (InPlace, "in place"), (Forgetful, "changed the answers")],
)
def test_any_other_is_found_out(kind, message):
    with pytest.raises(AssertionError, match=message):
        refused(kind, lambda model: model.fit(1.0), lambda model: getattr(model, "answer", 0))


def test_a_call_of_nothing_in_halfstep_is_no_test():
    with pytest.raises(AssertionError, match="goes through no function of halfstep"):
        refused(Whole, lambda model: None, lambda model: 0)


def test_unchanged_compares_around_one_refused_call():
    model = Whole()
    unchanged(model, lambda: model.fit("x"), ValueError, lambda: model.fitted_)
    with pytest.raises(AssertionError, match="did not raise"):
        unchanged(model, lambda: model.fit(1.0), ValueError, lambda: model.fitted_)
    torn = Torn()
    with pytest.raises(AssertionError):
        unchanged(torn, lambda: torn.fit("x"), ValueError, lambda: 0)
