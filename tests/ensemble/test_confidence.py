"""Cell weights: every formula by hand, every message, and the cross-fitting promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfstep import CFEnsemble
from halfstep.data.datasets.generated import make_predictions
from halfstep.ensemble import confidence as weights
from halfstep.ensemble.confidence import (
    Agreement,
    Calibration,
    Certainty,
    Given,
    LabelAware,
    LabelMatch,
    Reliability,
    Uniform,
)

P = np.array([[0.9, 0.2], [0.4, np.nan], [0.5, 0.7]])
OBSERVED = ~np.isnan(P)
Y = np.array([1, 0, -1])


def compute(what, P=P, observed=OBSERVED, y=Y):
    return weights.get(what).compute(P, observed, y)


def test_uniform():
    assert compute("uniform").tolist() == [[1, 1], [1, 0], [1, 1]]
    assert compute(None).tolist() == [[1, 1], [1, 0], [1, 1]]


def test_certainty_and_its_floor():
    np.testing.assert_allclose(compute("certainty"), [[0.4, 0.3], [0.1, 0], [0, 0.2]])
    np.testing.assert_allclose(compute(Certainty(floor=0.15)), [[0.4, 0.3], [0.15, 0], [0.15, 0.2]])


def test_calibration():
    first = 1 - (0.1**2 + 0.4**2) / 2
    second = 1 - 0.8**2
    np.testing.assert_allclose(compute("calibration"), [[first, second], [first, 0], [first, second]])


def test_calibration_of_a_classifier_without_labelled_cells_is_the_overall_one():
    y = np.array([-1, 0, -1])
    np.testing.assert_allclose(compute(Calibration(), y=y)[0], [1 - 0.16, 1 - 0.16])


def test_agreement():
    np.testing.assert_allclose(compute("agreement"), [[1 - 0.35**2] * 2, [1, 0], [1 - 0.1**2] * 2])


def test_label_aware_is_the_seed_formula():
    expected = [[0.4 * (1 + 2 * 0.9), 0.3 * (1 + 2 * 0.2)], [0.1 * (1 + 2 * 0.6), 0], [0, 0.2]]
    np.testing.assert_allclose(compute(LabelAware(alpha=2)), expected)
    np.testing.assert_allclose(compute(LabelAware("uniform", alpha=0)), compute("uniform"))


def test_label_match_is_the_seed_formula():
    np.testing.assert_allclose(compute("label_match"), [[0.9, 0.2], [0.6, 0], [0, 0.2]])
    np.testing.assert_allclose(compute(LabelMatch("uniform")), [[0.9, 0.2], [0.6, 0], [1, 1]])


def test_arrays_are_taken_as_they_are():
    np.testing.assert_allclose(compute(np.full((3, 2), 7.0)), np.where(OBSERVED, 7, 0))
    np.testing.assert_allclose(compute([[1.0], [2.0], [3.0]]), np.where(OBSERVED, [[1], [2], [3]], 0))
    unseen = np.ones((3, 2))
    unseen[1, 1] = np.nan
    assert compute(unseen)[1, 1] == 0


def make_labelled(n=200, m=5, seed=0):
    random = np.random.default_rng(seed)
    truth = random.integers(0, 2, n)
    skill = np.linspace(0.52, 0.95, m)
    right = random.random((n, m)) < skill
    sure = random.uniform(0.05, 0.5, (n, m))
    P = 0.5 + np.where(right == (truth[:, None] == 1), sure, -sure)
    observed = random.random((n, m)) < 0.8
    return P, observed, np.where(np.arange(n) < n // 2, truth, -1), truth


def test_reliability_knows_who_is_right():
    P, observed, y, truth = make_labelled()
    found = compute("reliability", P, observed, y)
    right = (P >= 0.5) == (truth[:, None] == 1)
    for rows in (y >= 0, y < 0):
        cells = observed & rows[:, None]
        assert found[cells & right].mean() > found[cells & ~right].mean() + 0.05
    assert (np.diff(found.sum(axis=0) / observed.sum(axis=0)) > -0.05).all()


def test_reliability_of_a_cell_has_not_seen_its_own_label():
    P, observed, y, _ = make_labelled()
    before = compute("reliability", P, observed, y)
    for i in (0, 17, 60):
        turned = y.copy()
        turned[i] = 1 - y[i]
        after = compute("reliability", P, observed, turned)
        np.testing.assert_array_equal(after[i], before[i])
        assert not np.array_equal(after, before)


def test_reliability_where_every_labelled_cell_is_right():
    P = np.array([[0.9, 0.8], [0.1, 0.2], [0.8, 0.9], [0.3, 0.6]])
    found = compute("reliability", P, np.ones((4, 2), dtype=bool), np.array([1, 0, 1, -1]))
    np.testing.assert_allclose(found[3], 7 / 8)


@pytest.mark.parametrize("knob", [{"n_splits": 2}, {"C": 0.001}, {"seed": 9}])
def test_reliability_knobs(knob):
    P, observed, y, _ = make_labelled()
    assert not np.array_equal(compute(Reliability(), P, observed, y), compute(Reliability(**knob), P, observed, y))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 100_000), st.sampled_from(sorted(weights.TABLE)))
def test_weights_are_finite_not_negative_and_zero_where_missing(seed, name):
    random = np.random.default_rng(seed)
    n, m = random.integers(4, 15), random.integers(1, 6)
    P = random.choice([0.0, 0.3, 0.5, 1.0], (n, m))
    observed = random.random((n, m)) < 0.7
    observed[:3, 0] = True
    y = random.choice([-1, 0, 1], n)
    y[:3] = [0, 1, 0]
    found = compute(name, np.where(observed, P, np.nan), observed, y)
    assert found.shape == (n, m)
    assert found.dtype == np.float64
    assert (found >= 0).all()
    assert (found[~observed] == 0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: weights.get("certainity"), "weights='certainity' is not known.*Did you mean 'certainty'"),
        (lambda: Certainty(floor=-1), "floor=-1 must be a finite number of at least 0"),
        (lambda: LabelAware(alpha=np.nan), "alpha=nan must be a finite number"),
        (lambda: LabelAware(base="nothing"), "weights='nothing' is not known"),
        (lambda: LabelMatch(base="nothing"), "weights='nothing' is not known"),
        (lambda: Reliability(n_splits=1), "n_splits=1 must be at least 2"),
        (lambda: Reliability(C=0), "C=0 must be positive"),
        (lambda: compute("calibration", y=np.full(3, -1)), "Calibration needs labelled instances"),
        (lambda: compute("reliability", y=np.full(3, -1)), r"Reliability needs at least 2 .* found 0"),
        (lambda: compute(np.ones((2, 3))), r"weights have shape \(2, 3\), but the predictions have \(3, 2\)"),
        (lambda: compute(np.full((3, 2), -1.0)), r"weight\[0, 0\] = -1 on an observed cell"),
        (lambda: compute("uniform", y=np.zeros(5, dtype=int)), r"y \(5,\) do not fit together"),
    ],
)
def test_messages(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_class_or_an_odd_thing_is_a_type_error():
    with pytest.raises(TypeError, match=r"weights=Uniform is a class; pass an object, Uniform\(\)"):
        weights.get(Uniform)
    with pytest.raises(TypeError, match="weights must be one of"):
        weights.get(object())


def test_get_returns_objects_unchanged():
    agreement = Agreement()
    assert weights.get(agreement) is agreement
    assert isinstance(weights.get(np.ones((3, 2))), Given)


class Own(weights.CellWeights):
    """A formula of a user, who says nothing about it."""

    def __init__(self, formula):
        self.formula = formula

    def _weights(self, P, observed, y):
        return self.formula(P, observed, y)


BUILT_IN = [Uniform(), Certainty(), Calibration(), Agreement(), LabelAware(), LabelMatch(), Reliability()]
BUILT_IN += [LabelAware("calibration"), LabelMatch("reliability"), LabelAware(LabelMatch("agreement"))]


@pytest.mark.parametrize("built_in", BUILT_IN, ids=repr)
def test_a_formula_written_by_a_user_is_known_as_the_built_in_one(built_in):
    own = Own(built_in._weights)
    assert own.row_local == built_in.row_local
    if built_in.row_local:
        nobody = np.full(3, -1)
        for y in (Y, nobody):
            plain = built_in.compute(P, OBSERVED, nobody)
            assert np.array_equal(own.without_labels().compute(P, OBSERVED, y), plain)
            assert np.array_equal(built_in.without_labels().compute(P, OBSERVED, y), plain)


def test_weights_that_see_no_label_are_their_own_without_labels():
    for same in (Uniform(), Certainty(), Calibration(), Own(Certainty()._weights), Own(Calibration()._weights)):
        assert same.without_labels() is same
    free = Own(LabelAware()._weights).without_labels()
    assert free.without_labels() is free
    assert free.row_local


def test_a_formula_that_suits_given_classifiers_only_says_so_itself():
    class ByClassifier(Own):
        row_local = True

    formula = ByClassifier(lambda P, observed, y: np.array([1.0, 2.0]) * P)
    assert not Own(formula.formula).row_local
    assert formula.row_local
    assert np.array_equal(formula.without_labels().compute(P, OBSERVED, Y), formula.compute(P, OBSERVED, Y))


def test_constant_weights_and_weights_of_classifiers_say_so():
    assert Uniform().constant == 1.0
    assert Certainty().constant is None
    assert Calibration().by_classifier
    assert Given(np.ones(2)).by_classifier
    assert not (Given(np.ones((3, 2))).by_classifier)
    assert not (Certainty().by_classifier)
    assert not Given(np.ones(2)).row_local


def test_a_user_may_name_what_labels_change():
    class Doubled(weights.CellWeights):
        unlabelled = Calibration()

        def _weights(self, P, observed, y):
            return self.unlabelled.compute(P, observed, y) * np.where(y < 0, 1.0, 2.0)[:, None]

    assert not Doubled().row_local
    assert Doubled().without_labels() is Doubled.unlabelled
    assert LabelAware("calibration").without_labels() == Calibration()


def test_learned_confidences_are_the_same_for_fitted_and_new_rows():
    """New rows took the mean weight of their classifier: answers differed by up to .59."""
    P, y, _ = make_predictions(300, 8, missing=0.3, labels=0.3, random_state=3)
    for more in ({}, {"solver": "als"}, {"link": "identity"}):
        model = CFEnsemble(confidence="reliability", max_iter=5, dtype="float64", **more).fit(P, y)
        free = np.isnan(y) & ~np.isnan(P).all(axis=1)
        np.testing.assert_allclose(model.predict_proba(P[free]), model.predict_proba()[free], atol=1e-6)


def test_labels_without_predictions_are_refused():
    """It died with an AttributeError: nothing had been learned."""
    P, _, truth = make_predictions(40, 5, random_state=0)
    P[:10] = np.nan
    with pytest.raises(ValueError, match=r"learns from labelled instances that have predictions"):
        CFEnsemble().fit(P, np.where(np.arange(40) < 10, truth, np.nan))
