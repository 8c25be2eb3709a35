"""A refused call leaves a fitted model as it was: its attributes, and the bits of its answers."""

import numpy as np
import pytest
import scipy.sparse as sp

from halfstep import PLQMF, WALS

from ..contract.refusal import refused, unchanged

RNG = np.random.default_rng(0)
SEEN = sp.random_array((12, 9), density=0.4, rng=RNG, format="csr")
MORE = sp.csr_array(([3.0, 1.0], ([2, 12], [9, 4])), shape=(13, 10))
PAIRS = np.column_stack([RNG.integers(0, 8, 60), RNG.integers(0, 6, 60)])
STARS = RNG.integers(1, 6, 60).astype(float)


def wals(**given):
    return WALS(**{"rank": 2, "max_iter": 2, "random_state": 0, "n_threads": 1} | given).fit(SEEN)


def ratings(**given):
    return PLQMF(**{"rank": 2, "max_iter": 2, "random_state": 0, "n_threads": 1} | given).fit(PAIRS, STARS)


def lists(model):
    return model.recommend([0, 3], 4), model.recommend_for([1, 2], 3), model.explain(1, 5), model.history_


def values(model):
    asked = np.array([[0, 1], [7, 5], [99, 2]])
    return model.predict(asked), model.recommend(3, 2), model.transform(PAIRS[:9], STARS[:9]), model.history_


@pytest.mark.parametrize(
    ("given", "call"),
    [
        ({}, lambda model: model.fit(SEEN[:7])),
        ({}, lambda model: model.partial_fit(MORE)),
        ({"warm_start": True}, lambda model: model.fit(SEEN)),
    ],
    ids=["fit", "partial_fit", "warm start"],
)
def test_wals_changes_whole_or_not_at_all(given, call):
    assert refused(lambda: wals(**given), call, lists) > 30


@pytest.mark.parametrize(("loss", "y"), [("absolute", STARS), ("hinge", np.where(STARS > 3, "yes", "no"))])
def test_plqmf_changes_whole_or_not_at_all(loss, y):
    def fitted():
        return PLQMF(rank=2, loss=loss, max_iter=2, random_state=0, n_threads=1).fit(PAIRS, y)

    def answers(model):
        return model.predict(PAIRS[:9]), model.recommend(3, 2), model.transform(PAIRS[:9], y[:9]), model.history_

    assert refused(fitted, lambda model: model.fit(PAIRS[::-1][:40], y[::-1][:40]), answers) > 30


def test_a_refused_plqmf_fit_leaves_no_new_ids_beside_old_factors():
    model = ratings()
    wrong = np.where(np.arange(60) == 4, np.nan, STARS)
    unchanged(model, lambda: model.fit(PAIRS + 100, wrong), ValueError, lambda: values(model))
    assert model.user_ids_.max() < 100


def test_a_refused_partial_fit_does_not_spoil_the_correct_call():
    model, other = wals(), wals()
    wrong = MORE.copy()
    wrong.data[0] = np.nan
    unchanged(model, lambda: model.partial_fit(wrong), ValueError, lambda: lists(model))
    unchanged(model, lambda: model.partial_fit(MORE[:5]), ValueError, lambda: lists(model))
    model.partial_fit(MORE)
    assert model.user_factors_.tobytes() == other.partial_fit(MORE).user_factors_.tobytes()


def test_what_was_fitted_cannot_be_set():
    model = wals()
    with pytest.raises(AttributeError, match="user_factors_ belongs to the fit and cannot be set; call fit"):
        model.user_factors_ = np.zeros((12, 2))
    with pytest.raises(AttributeError):
        model.fitted_.outcome = None


def test_classes_belong_to_losses_of_two_classes():
    assert not hasattr(ratings(), "classes_")
    assert not hasattr(PLQMF(), "classes_")
