"""Constant and Biases: the best constant of every loss, biases that minimise what they say, files, unknown ids."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.base import clone

import halfstep as hs
from halfstep.baselines import Biases, Constant
from halfstep.errors import UnknownIdError, UnknownIdWarning

from ..contract.refusal import refused, unchanged

RNG = np.random.default_rng(0)
PAIRS = np.column_stack([RNG.integers(0, 8, 70), RNG.integers(0, 6, 70)])
STARS = np.clip(np.rint(3 + 0.4 * (PAIRS[:, 0] % 3) + RNG.normal(size=70)), 1, 5)
LIKED = np.where(STARS > 3, "yes", "no")
BOTH = [Constant, Biases]


def test_the_constant_is_the_best_of_its_loss():
    assert Constant().fit(PAIRS, STARS).intercept_ == pytest.approx(STARS.mean())
    assert Constant("absolute").fit(PAIRS, STARS).intercept_ == pytest.approx(np.median(STARS))
    odds = np.log((LIKED == "yes").mean() / (LIKED == "no").mean())
    model = Constant("logistic").fit(PAIRS, LIKED)
    assert model.intercept_ == pytest.approx(odds)
    assert model.predict_proba(PAIRS[:1])[0, 1] == pytest.approx((LIKED == "yes").mean())
    assert set(model.predict(PAIRS)) == {"yes" if odds > 0 else "no"}


@pytest.mark.parametrize(("loss", "y"), [("squared", STARS), ("logistic", LIKED), ("poisson", STARS)])
def test_biases_minimise_what_the_docstring_says(loss, y):
    damping = (2.0, 7.0)
    model = Biases(loss, damping).fit(PAIRS, y)
    rule = hs.losses.get(loss)
    t, _ = rule.encode_targets(y)
    start = Constant(loss).fit(PAIRS, y).intercept_
    half = rule.curvature(np.full(70, start), t).mean() / 2

    def objective(x):
        z = start + x[:8][PAIRS[:, 0]] + x[8:][PAIRS[:, 1]]
        held = damping[0] * (x[:8] ** 2).sum() + damping[1] * (x[8:] ** 2).sum()
        return rule.value(z, t).sum() + half * held

    found = np.concatenate([model.user_bias_, model.item_bias_])
    assert objective(found) == pytest.approx(minimize(objective, np.zeros(14)).fun, rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.1, 50), st.floats(-100, 100), st.sampled_from(["squared", "absolute", "quantile"]))
def test_predictions_follow_a_shift_and_a_scale(scale, shift, loss):
    for kind in BOTH:
        plain = kind(loss).fit(PAIRS, STARS).predict(PAIRS)
        moved = kind(loss).fit(PAIRS, scale * STARS + shift).predict(PAIRS)
        np.testing.assert_allclose(moved, scale * plain + shift, atol=1e-3 * scale)


def test_whole_weights_are_repeats():
    weights = RNG.integers(1, 4, 70)
    weighed = Biases(damping=None).fit(PAIRS, STARS, weights)
    repeated = Biases(damping=weighed.damping_).fit(np.repeat(PAIRS, weights, axis=0), np.repeat(STARS, weights))
    np.testing.assert_allclose(weighed.predict(PAIRS), repeated.predict(PAIRS), atol=1e-5)


def test_damping_is_learned_small_where_biases_are_large():
    random = np.random.default_rng(1)
    pairs = np.column_stack([random.integers(0, 100, 4000), random.integers(0, 80, 4000)])
    noise = random.normal(size=4000)
    large = Biases(damping=None).fit(pairs, random.normal(0, 2, 100)[pairs[:, 0]] + noise)
    small = Biases(damping=None).fit(pairs, random.normal(0, 0.3, 100)[pairs[:, 0]] + noise)
    assert large.damping_[0] == pytest.approx(0.5, abs=0.2)  # 1 / 2^2 is below the least that is allowed
    assert small.damping_[0] == pytest.approx(1 / 0.09, rel=0.6)
    assert min(small.damping_[1], large.damping_[1]) > 20  # items have no bias at all


def test_intervals_cover_what_they_say_on_new_pairs():
    pairs, y, _ = hs.datasets.make_ratings(300, 200, 12_000, random_state=3)
    model = Biases().fit(pairs[:9000], y[:9000])
    low, high = model.predict_interval(pairs[9000:], 0.8).T
    assert 0.77 < ((low <= y[9000:]) & (y[9000:] <= high)).mean() < 0.87  # stars are whole: a little too wide
    assert low.min() >= 1
    assert high.max() <= 5


def test_unknown_ids_have_no_bias():
    model = Biases().fit(PAIRS, STARS)
    with pytest.warns(UnknownIdWarning, match="1 users and 1 items among 2 pairs"):
        answers = model.predict([[99, 2], [3, 99]])
    np.testing.assert_allclose(
        answers - model.intercept_, [model.item_bias_[list(model.item_ids_).index(2)], model.user_bias_[3]]
    )
    with pytest.raises(UnknownIdError, match="1 users that the fit has not seen"):
        model.predict([[99, 2]], unknown="error")


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(("loss", "y"), [("huber", STARS), (hs.losses.Quantile(0.9), STARS), ("logistic", LIKED)])
def test_a_file_gives_the_same_answers(kind, loss, y, tmp_path):
    model = kind(loss).fit(PAIRS, y)
    model.save(tmp_path / "m.safetensors")
    back = hs.load(tmp_path / "m.safetensors")
    assert type(back) is kind
    assert back.predict(PAIRS).tolist() == model.predict(PAIRS).tolist()
    if loss != "logistic":
        assert back.predict_interval(PAIRS).tolist() == model.predict_interval(PAIRS).tolist()
    assert clone(back).get_params().keys() == model.get_params().keys()


@pytest.mark.parametrize("kind", BOTH)
def test_fits_change_whole_or_not_at_all(kind):
    model = kind("absolute").fit(PAIRS, STARS)
    wrong = np.where(np.arange(70) == 4, np.nan, STARS)
    unchanged(model, lambda: model.fit(PAIRS + 100, wrong), ValueError, lambda: model.predict(PAIRS))
    made = refused(
        lambda: kind().fit(PAIRS, STARS), lambda m: m.fit(PAIRS[:40], STARS[:40]), lambda m: m.predict(PAIRS)
    )
    assert made > 10


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Biases(damping=-1), "damping=-1 must be a finite number above 0"),
        (Biases(damping=(1, 2, 3)), r"damping=\(1, 2, 3\) must be one number, two"),
        (Constant("hubr"), "loss='hubr' is not known.*Did you mean 'huber'"),
    ],
)
def test_bad_parameters_are_named(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(PAIRS, STARS)


def test_classes_have_no_intervals_and_numbers_no_classes():
    with pytest.raises(ValueError, match="has classes and no intervals"):
        Constant("hinge").fit(PAIRS, LIKED).predict_interval(PAIRS)
    with pytest.raises(ValueError, match=r"level=1\.0 must lie between 0 and 1"):
        Biases().fit(PAIRS, STARS).predict_interval(PAIRS, 1.0)
    assert not hasattr(Biases().fit(PAIRS, STARS), "classes_")
    assert not hasattr(Biases(), "predict_proba")


def test_biases_stand_where_the_note_on_movietweetings_says(real_data):
    table = np.loadtxt((real_data / "movietweetings-100k/ratings.dat").read_text().replace("::", " ").splitlines())
    pairs, y = table[:, :2].astype(int), table[:, 2]
    test = np.random.default_rng(0).random(len(y)) < 0.1
    with pytest.warns(UnknownIdWarning):
        missed = y[test] - Biases().fit(pairs[~test], y[~test]).predict(pairs[test])
    assert np.sqrt((missed**2).mean()) == pytest.approx(1.531, abs=1e-3)
