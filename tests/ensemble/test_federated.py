"""Sites that send sums end where a fit on all their instances ends."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose

from halfstep import CFEnsemble
from halfstep.data.datasets.generated import make_predictions

pytestmark = pytest.mark.filterwarnings("ignore::halfstep.ensemble.predictions.PredictionWarning")
SETTINGS = {"shrinkage": 5.0, "calibrate": False, "dtype": "float64", "max_iter": 12, "tol": 1e-9}


def federated(model, sites, rounds=100):
    for _ in range(rounds):
        if model.merge([copy.deepcopy(model).accumulate(P, y) for P, y in sites]):
            return model
    raise AssertionError("the sites did not finish")


@pytest.mark.parametrize(
    "parameters",
    [
        {"rho": 1.0},
        {"solver": "als", "confidence": "certainty"},
        {"rho": 1.0, "on": "latent", "class_weight": None},
        {"solver": "als", "link": "identity", "biases": False, "aggregator": "mean", "reg": 0.1},
    ],
)
def test_merged_sums_give_the_central_fit(parameters):
    P, y, _ = make_predictions(300, 8, labels=0.4, random_state=0)
    central = CFEnsemble(**{**SETTINGS, **parameters}).fit(P, y)
    cuts = [slice(0, 90), slice(90, 220), slice(220, 300)]
    model = federated(CFEnsemble(**{**SETTINGS, **parameters}), [(P[c], y[c]) for c in cuts])
    assert_allclose(model.classifier_factors_, central.classifier_factors_, rtol=1e-6, atol=1e-8)
    assert_allclose(model.predict_proba(P), central.predict_proba(P), atol=1e-6)
    assert_allclose([r["total"] for r in model.history_], [r["total"] for r in central.history_], rtol=1e-8)
    assert_allclose(model.novelty(P), central.novelty(P), atol=1e-6)


def test_what_travels_has_no_instances():
    P, y, _ = make_predictions(200, 6, labels=0.4, random_state=0)
    model = CFEnsemble(rank=2, rho=1.0, **SETTINGS)
    model.merge([model.accumulate(P, y)])
    sent = dict(model.accumulate(P, y).sums)
    sent |= vars(sent.pop("rows"))
    assert all(200 not in np.shape(value) for value in sent.values())
    assert sent["matrices"].shape == (6, 3, 3)  # bias and two factors of each classifier


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "solver='als' or rho=1"),
        ({"rho": 1.0, "shrinkage": "auto"}, "shrinkage as a finite number"),
        ({"rho": 1.0, "shrinkage": 1.0}, "calibrate=False"),
        ({"rho": 1.0, "shrinkage": 1.0, "calibrate": False, "confidence": "calibration"}, "one instance at a time"),
    ],
)
def test_what_cannot_be_summed_is_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        CFEnsemble(**parameters).accumulate(np.full((4, 2), 0.5), [0, 1, 0, 1])


def test_rounds_must_match_and_merged_models_have_no_instances():
    P, y, _ = make_predictions(120, 5, labels=0.5, random_state=0)
    model = CFEnsemble(rho=1.0, **SETTINGS)
    first = model.accumulate(P, y)
    model.merge([first])
    with pytest.raises(ValueError, match="the sites answered 'start', but this round is 'sweep'"):
        model.merge([first])
    with pytest.raises(ValueError, match="cannot be added; merge every round"):
        first + model.accumulate(P, y)
    model = federated(CFEnsemble(rho=1.0, **SETTINGS), [(P, y)])
    with pytest.raises(ValueError, match="query needs fitted instances"):
        model.query(1)
