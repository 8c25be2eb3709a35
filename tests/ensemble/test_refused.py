"""A refused call leaves a fitted CFEnsemble as it was, whatever raised on the way."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from halfstep import CFEnsemble
from halfstep.data.datasets.generated import make_predictions
from halfstep.ensemble.confidence import CellWeights

from ..contract.refusal import refused, unchanged

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.filterwarnings("ignore::halfstep.ensemble.predictions.PredictionWarning"),
]
P, y, truth = make_predictions(30, 4, missing=0.2, labels=0.5, random_state=0)
OTHER = np.where(np.isnan(y), None, np.where(y == 1, "yes", "no"))


def fitted(**parameters):
    features = np.random.default_rng(0).normal(size=(len(y), 2))
    model = CFEnsemble(**{"max_iter": 2, "rank": 2, "shrinkage": 5.0} | parameters)
    return model.fit(P, y, features=features, groups=np.arange(4) % 2, tasks=np.arange(len(y)) % 2)


def answers(model):
    side = {"features": np.ones((5, 2)), "tasks": np.zeros(5, int)}
    return model.predict_proba(), model.predict_proba(P[:5], **side), model.classes_, model.novelty_, model.query(3)


CALLS = {
    "fit": lambda model: model.fit(1 - P[:, :3], 1 - y),
    "partial_fit, instances": lambda model: model.partial_fit(
        P[:9], y[:9], features=np.ones((9, 2)), tasks=np.zeros(9, int), max_iter=1
    ),
    "partial_fit, labels": lambda model: model.partial_fit(y=truth, max_iter=1),
    "add_classifiers": lambda model: model.add_classifiers(P[:, :2]),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_failure_anywhere_changes_nothing(call):
    assert refused(lambda: fitted(max_iter=1, route="auto"), CALLS[call], answers) > 30


def test_a_failure_of_a_merge_changes_nothing():
    settings = {"rho": 1.0, "shrinkage": 5.0, "calibrate": False, "max_iter": 1, "aggregator": "weighted"}

    def make():
        model = CFEnsemble(**settings)
        model.merge([model.accumulate(P, y)])
        return model

    assert refused(make, lambda model: model.merge([model.accumulate(P, y)]), lambda model: model.accumulate(P, y)) > 20


def test_a_refused_fit_keeps_the_classes():
    model = fitted()
    bad = P.copy()
    bad[3, 2] = 7.0
    unchanged(model, lambda: model.fit(bad, OTHER), ValueError, lambda: answers(model))
    unchanged(model, lambda: model.fit(P, OTHER, groups=[1]), ValueError, lambda: answers(model))
    assert model.classes_.tolist() == [0, 1]


def test_partial_fit_works_after_it_was_refused():
    """It died with a broadcasting error: features of the refused instances had stayed."""
    model, twin = fitted(), fitted()
    side = {"features": np.ones((9, 2)), "tasks": np.zeros(9, int)}
    unchanged(
        model, lambda: model.partial_fit(P[:9], y[:9], features=side["features"]), ValueError, lambda: answers(model)
    )
    model.partial_fit(P[:9], y[:9], **side)
    twin.partial_fit(P[:9], y[:9], **side)
    assert_array_equal(model.predict_proba(), twin.predict_proba())


@dataclass(frozen=True)
class OwnCertainty(CellWeights):
    """What a user may write."""

    def _weights(self, P, observed, y):
        return np.abs(P - 0.5)


@pytest.mark.parametrize("solver", ["exact", "als"])
def test_a_confidence_of_ones_own_is_treated_as_a_built_in_one(solver):
    """New rows were answered differently, by up to 0.153."""
    models = [CFEnsemble(confidence=c, solver=solver, max_iter=5).fit(P, y) for c in (OwnCertainty(), "certainty")]
    assert_array_equal(models[0].predict_proba(), models[1].predict_proba())
    new = np.random.default_rng(1).uniform(0.01, 0.99, (40, 4))
    assert_array_equal(models[0].predict_proba(new), models[1].predict_proba(new))
    assert_array_equal(models[0].novelty(new), models[1].novelty(new))
    sites = {"rho": 1.0, "shrinkage": 5.0, "calibrate": False}
    sent = [CFEnsemble(confidence=c, **sites).accumulate(P, y) for c in (OwnCertainty(), "certainty")]
    assert sent[0].sums["total"] == sent[1].sums["total"]


def test_a_fit_cannot_be_changed_by_assignment():
    model = fitted()
    with pytest.raises(AttributeError, match="classes_ belongs to the fit"):
        model.classes_ = np.array([1, 2])
    with pytest.raises(AttributeError):
        model.fitted_.labels = y
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not hasattr(CFEnsemble(), "classes_")
