"""CFEnsemble and what it is given: bad input is named, and little of it still gives finite answers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import average_precision_score

from halfstep import CFEnsemble
from halfstep.data.datasets.generated import make_predictions
from halfstep.ensemble.predictions import PredictionWarning

pytestmark = pytest.mark.filterwarnings("ignore::halfstep.ensemble.predictions.PredictionWarning")

GOOD = np.full((6, 4), 0.5) + np.linspace(-0.4, 0.4, 24).reshape(6, 4)
LABELS = [0, 1, 0, 1, None, None]
BAD = {
    "one class only": ((GOOD, [1, 1, None, None, None, None]), {}, r"labels of every class.*\{0: 0, 1: 2\}"),
    "text class only": ((GOOD, ["a", "a", None, None, None, None]), {}, "only the class"),
    "outside [0, 1]": ((np.where(GOOD > 0.85, 1.5, GOOD), LABELS), {}, r"P\[5, 2\] = 1.5 is not a probability"),
    "cube outside [0, 1]": ((np.full((6, 4, 3), 2.0), LABELS), {}, r"P\[0, 0, 0\] = 2 is not a probability"),
    "transposed": ((GOOD.T, LABELS), {}, "P looks transposed, pass P.T"),
    "too many classes": ((GOOD, [0, 1, 2, 0, 1, 2]), {}, r"y has 3 classes, but P of shape \(6, 4\)"),
    "classes of the cube": (
        (np.full((6, 4, 3), 1 / 3), LABELS),
        {},
        "labels of every class.*{0: 2, 1: 2, 2: 0}.*CFEnsembleCV",
    ),
    "rank": ((GOOD, LABELS), {"rank": 5}, "rank=5 is above the number of classifiers, 4"),
    "rank zero": ((GOOD, LABELS), {"rank": 0}, "rank=0 must be a whole number"),
    "rho": ((GOOD, LABELS), {"rho": 1.5}, r"rho=1.5 must lie in \[0, 1\]"),
    "reg": ((GOOD, LABELS), {"reg": 0.0}, "reg=0.0 must be a positive finite number"),
    "alpha": ((GOOD, LABELS), {"alpha": -1.0}, "alpha=-1.0 must be"),
    "clip": ((GOOD, LABELS), {"clip": 0.5}, "clip=0.5 must lie strictly between"),
    "temperature": ((GOOD, LABELS), {"temperature": 2.0}, "temperature=2.0 needs loss='bernoulli'"),
    "solver": ((GOOD, LABELS), {"solver": "adam"}, "solver='adam' is not known"),
    "aggregator": ((GOOD, LABELS), {"aggregator": "median"}, "aggregator='median' is not known"),
    "shrinkage": ((GOOD, LABELS), {"shrinkage": -1.0}, "shrinkage=-1.0 must be positive"),
    "class_weight": ((GOOD, LABELS), {"class_weight": "equal"}, "class_weight='equal' must be 'balanced'"),
    "class_weight names": ((GOOD, LABELS), {"class_weight": {7: 1.0}}, r"class_weight names \['7'\]"),
    "route": ((GOOD, LABELS), {"route": "always"}, "route='always' is not known"),
    "novelty_level": ((GOOD, LABELS), {"novelty_level": 0.0}, "novelty_level=0.0 must be a quantile"),
    "max_iter": ((GOOD, LABELS), {"max_iter": 0}, "max_iter=0 must be at least 1"),
    "confidence shape": ((GOOD, LABELS), {"confidence": np.ones((9, 9))}, r"the weights have shape \(9, 9\)"),
    "ragged list": (([GOOD[:, 0], GOOD[:3, 1]], LABELS), {}, "a list must hold one array for each classifier"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    (P, y), parameters, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        CFEnsemble(**parameters).fit(P, y)


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        ({"features": np.ones((3, 2))}, r"features has shape \(3, 2\); it must be \(6, number of features\)"),
        ({"features": np.full((6, 1), np.nan)}, r"features\[0, 0\] is not finite"),
        ({"groups": [1, 2]}, "must name the group of each of the 4 classifiers"),
        ({"tasks": [1, 2]}, "must name the label set of each of the 6 instances"),
    ],
)
def test_bad_side_information_is_named(fit, message):
    with pytest.raises(ValueError, match=message):
        CFEnsemble().fit(GOOD, LABELS, **fit)


def test_bad_aggregator_object_and_new_predictions_are_named():
    with pytest.raises(TypeError, match="a classifier with fit and predict_proba"):
        CFEnsemble(aggregator=3).fit(GOOD, LABELS)
    model = CFEnsemble().fit(GOOD, LABELS, features=np.arange(6))
    with pytest.raises(ValueError, match=r"P has 3 classifiers \(columns\), but the model was fitted with 4"):
        model.predict_proba(GOOD[:, :3], features=np.arange(6))
    with pytest.raises(ValueError, match="fitted with 1 features of each instance"):
        model.predict_proba(GOOD)


def test_no_labels_at_all_is_the_mean_of_reconstructed_scores():
    P, _, truth = make_predictions(300, 8, random_state=0)
    with pytest.warns(PredictionWarning, match="no labels at all"):
        model = CFEnsemble().fit(P)
    assert average_precision_score(truth, model.predict_proba()[:, 1]) > 0.8
    assert_allclose(model.classifier_weights_, 1 / 8)


def test_one_label_of_a_class_stays_at_the_mean():
    P, _, truth = make_predictions(300, 8, random_state=0)
    y = np.full(300, np.nan)
    y[[np.flatnonzero(truth == 1)[0], *np.flatnonzero(truth == 0)[:3]]] = [1, 0, 0, 0]
    with pytest.warns(PredictionWarning, match="fewer than two of a class"):
        model = CFEnsemble(shrinkage="auto").fit(P, y)
    assert np.ptp(model.classifier_weights_) < 1e-12
    assert np.isfinite(model.predict_proba()).all()


def test_empty_rows_empty_columns_and_constant_classifiers_give_finite_answers():
    P, y, _ = make_predictions(200, 8, labels=0.5, random_state=0)
    P[:, 2], P[:, 5], P[:, 6] = np.nan, 0.7, 0.0
    P[3], y[3] = np.nan, 1.0
    for parameters in ({}, {"link": "identity", "confidence": "certainty"}, {"loss": "bernoulli"}, {"solver": "als"}):
        with pytest.warns(PredictionWarning, match="no prediction at all"):
            model = CFEnsemble(**parameters).fit(P, y)
        assert np.isfinite(model.predict_proba()).all()
        assert np.isfinite(model.predict_proba(P)).all()
        assert np.isfinite(model.novelty_).all()
        assert model.novelty_[3] == 1


def test_all_predictions_equal():
    model = CFEnsemble().fit(np.full((10, 3), 0.5), [0, 1] * 5)
    assert_allclose(model.predict_proba(), 0.5, atol=1e-6)
