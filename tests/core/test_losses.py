"""Losses against finite differences, their written formulas, scipy and their own table."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar

from halfstep import _core, losses
from halfstep.core.losses import pieces

ROOT2 = math.sqrt(2)
# Two kinks of each sort, a flat piece, both sides: none of the named losses.
CUSTOM = losses.PLQ(relu=([1, -2, 0], [-1, -3, 0.25]), rehu=([0.5, math.inf], [1.5, -0.7], [0.2, -0.4]))
PLQ_LOSSES = [
    losses.Squared(),
    losses.Absolute(),
    losses.Huber(0.7),
    losses.Quantile(0.2),
    losses.EpsilonInsensitive(0.3),
    losses.SquaredEpsilonInsensitive(0.3),
    losses.Hinge(),
    losses.SquaredHinge(),
    losses.SmoothedHinge(0.6),
    CUSTOM,
    losses.PLQ(CUSTOM.relu, CUSTOM.rehu, form="margin"),
]
ALL_LOSSES = [*PLQ_LOSSES, losses.Logistic(), losses.Bernoulli(), losses.Poisson()]


def positive(x):
    return np.maximum(x, 0)


# Written a second time, straight from the table in the module docstring.
FORMULAS = [
    (losses.Squared(), lambda z, t: (t - z) ** 2),
    (losses.Absolute(), lambda z, t: abs(z - t)),
    (
        losses.Huber(0.7),
        lambda z, t: np.where(abs(z - t) <= 0.7, (z - t) ** 2, 0.7 * (2 * abs(z - t) - 0.7)),
    ),
    (losses.Quantile(0.2), lambda z, t: 0.2 * positive(t - z) + 0.8 * positive(z - t)),
    (losses.EpsilonInsensitive(0.3), lambda z, t: positive(abs(z - t) - 0.3)),
    (losses.SquaredEpsilonInsensitive(0.3), lambda z, t: positive(abs(z - t) - 0.3) ** 2),
    (losses.Hinge(), lambda z, t: positive(1 - t * z)),
    (losses.SquaredHinge(), lambda z, t: positive(1 - t * z) ** 2),
    (
        losses.SmoothedHinge(0.6),
        lambda z, t: np.where(1 - t * z <= 0.6, positive(1 - t * z) ** 2 / 1.2, 1 - t * z - 0.3),
    ),
    (losses.Logistic(), lambda z, t: np.log(1 + np.exp(-t * z))),
    (losses.Bernoulli(), lambda z, t: np.log(1 + np.exp(z)) - t * z),
    (losses.Poisson(), lambda z, t: np.exp(z) - t * z),
]


def targets_for(loss):
    return np.array([-1.0, 1.0]) if loss.form == "margin" else np.array([0.0, 0.3, 1.0])


def grid(loss, points=401):
    """Scores and targets, and whether a score is clear of every kink."""
    z, t = np.meshgrid(np.linspace(-4.01, 4.013, points), targets_for(loss))
    clear = np.ones(z.shape, dtype=bool)
    if loss.is_plq:
        r = z * t if loss.form == "margin" else z - t
        for kink in loss.pieces()[0]:
            clear &= abs(r - kink) > 1e-4
    return z, t, clear


def rehu(x, tau):
    return np.where(x <= 0, 0, np.where(x <= tau, x**2 / 2, tau * (x - tau / 2) if np.isfinite(tau) else 0))


def composed(loss, r):
    relu_sum = sum(positive(u * r + v) for u, v in zip(*loss.relu, strict=True))
    return relu_sum + sum(rehu(s * r + t, tau) for tau, s, t in zip(*loss.rehu, strict=True))


@pytest.mark.parametrize(("loss", "formula"), FORMULAS, ids=[repr(loss) for loss, _ in FORMULAS])
def test_value_is_the_documented_formula(loss, formula):
    z, t, _ = grid(loss)
    assert_allclose(loss.value(z, t), formula(z, t), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("loss", ALL_LOSSES, ids=repr)
def test_derivatives_are_finite_differences_away_from_kinks(loss):
    z, t, clear = grid(loss)
    h = 1e-5
    slope = (loss.value(z + h, t) - loss.value(z - h, t)) / (2 * h)
    bend = (loss.gradient(z + h, t) - loss.gradient(z - h, t)) / (2 * h)
    assert clear.mean() > 0.9
    assert_allclose(loss.gradient(z, t)[clear], slope[clear], rtol=1e-7, atol=1e-8)
    assert_allclose(loss.curvature(z, t)[clear], bend[clear], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("loss", ALL_LOSSES, ids=repr)
def test_gradient_is_a_subgradient_everywhere(loss):
    z, t, _ = grid(loss, 81)
    if loss.is_plq:  # the kinks themselves
        kinks = loss.pieces()[0]
        kink_t = np.repeat(targets_for(loss), len(kinks))
        kinks = np.tile(kinks, len(targets_for(loss)))
        z = np.concatenate([z.ravel(), kink_t * kinks if loss.form == "margin" else kink_t + kinks])
        t = np.concatenate([t.ravel(), kink_t])
    other = np.linspace(-5, 5, 101)[:, None]
    z, t = z.ravel(), t.ravel()
    tangent = loss.value(z, t) + loss.gradient(z, t) * (other - z)
    assert (loss.value(other, t) >= tangent - 1e-9).all()


def test_gradient_at_a_minimising_kink_is_zero():
    assert losses.Absolute().gradient(2.0, 2.0) == 0
    assert losses.Hinge().gradient(-1.0, -1.0) == 0
    assert CUSTOM.gradient(1.0, 0.0) > 0  # not every kink is a minimum


@pytest.mark.parametrize("loss", PLQ_LOSSES, ids=repr)
def test_table_equals_the_value_and_is_convex(loss):
    breaks, coefficients = loss.pieces()
    assert coefficients.shape == (len(breaks) + 1, 3)
    assert (np.diff(breaks) > 0).all()
    pieces.check_table(breaks, coefficients)
    r = np.linspace(-6, 6, 1201)
    a, b, c = coefficients[(r[:, None] > breaks).sum(axis=1)].T
    z, t = (r, 1.0) if loss.form == "margin" else (r + 0.3, 0.3)
    assert_allclose(a * r**2 + b * r + c, loss.value(z, t), rtol=1e-10, atol=1e-10)


def test_table_of_a_composition_equals_its_pieces():
    r = np.linspace(-8, 8, 2001)
    assert_allclose(CUSTOM.value(r, 0.0), composed(CUSTOM, r), rtol=1e-12, atol=1e-12)
    assert len(CUSTOM.pieces()[0]) == 5


finite = st.floats(-3, 3, allow_subnormal=False).map(lambda x: round(x, 3))
relu_pieces = st.lists(st.tuples(finite, finite), min_size=1, max_size=4)
rehu_pieces = st.lists(st.tuples(st.floats(0.01, 5) | st.just(math.inf), finite, finite), min_size=0, max_size=4)


@given(relu_pieces, rehu_pieces, st.sampled_from(["residual", "margin"]))
@settings(max_examples=200, deadline=None)
def test_any_composition_is_its_pieces_convex_and_has_its_prox(relu, rehu_, form):
    loss = losses.PLQ(tuple(zip(*relu, strict=True)), tuple(zip(*rehu_, strict=True)) or ((), (), ()), form)
    r = np.linspace(-7, 7, 141)
    t = -1.0 if form == "margin" else 0.4
    z = r * t if form == "margin" else r + t
    value = loss.value(z, t)
    assert_allclose(value, composed(loss, r), rtol=1e-8, atol=1e-8)
    middle = loss.value((z[:-2] + z[2:]) / 2, t)
    assert (middle <= (value[:-2] + value[2:]) / 2 + 1e-8).all()
    # x is the prox of z exactly if z - x is a subgradient of step phi at x: no point of a grid is better.
    step = 0.6
    x = loss.prox(z, t, step)
    at = step * loss.value(x, t) + (x - z) ** 2 / 2
    elsewhere = step * value[:, None] + (z[:, None] - z) ** 2 / 2
    near = x + np.array([[-1e-3], [1e-3]])
    assert (at <= elsewhere.min(axis=0) + 1e-9).all()
    assert (at <= step * loss.value(near, t) + (near - z) ** 2 / 2 + 1e-9).all()


@pytest.mark.parametrize("loss", PLQ_LOSSES, ids=repr)
def test_prox_is_the_minimiser_scipy_finds(loss):
    rng = np.random.default_rng(0)
    for _ in range(20):
        z, t, step = rng.normal(scale=2), rng.choice(targets_for(loss)), rng.exponential()
        x = loss.prox(z, t, step)
        found = minimize_scalar(
            lambda x, z=z, t=t, step=step: float(step * loss.value(x, t) + (x - z) ** 2 / 2),
            bounds=(-20, 20),
            method="bounded",
            options={"xatol": 1e-10},
        )
        assert step * loss.value(x, t) + (x - z) ** 2 / 2 <= found.fun + 1e-12
        assert x == pytest.approx(found.x, abs=1e-5)


def test_prox_broadcasts_and_a_zero_step_returns_the_point():
    z = np.array([[-1.0, 0.2, 3.0]])
    assert losses.Huber().prox(z, np.zeros((2, 1)), np.array([[0.5], [1.0]])).shape == (2, 3)
    for loss in PLQ_LOSSES:
        assert_allclose(loss.prox(z, 1.0, 0.0), z)


def test_prox_lands_exactly_on_a_kink():
    assert_array_equal(losses.Hinge().prox([0.5, 0.9, 0.2], 1.0, 0.5), [1.0, 1.0, 0.7])


@pytest.mark.parametrize("loss", ALL_LOSSES, ids=repr)
@given(z1=st.floats(-20, 20), z2=st.floats(-20, 20), mix=st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_convex_between_any_two_scores(loss, z1, z2, mix):
    t = targets_for(loss)
    between = loss.value(mix * z1 + (1 - mix) * z2, t)
    chord = mix * loss.value(z1, t) + (1 - mix) * loss.value(z2, t)
    assert (between <= chord + 1e-9 * (1 + abs(chord))).all()


@pytest.mark.parametrize(
    ("named", "pieces"),
    [
        (losses.Huber(1.5), losses.PLQ(rehu=([1.5 * ROOT2] * 2, [ROOT2, -ROOT2], [0, 0]))),
        (losses.Hinge(), losses.PLQ(relu=(-1, 1), form="margin")),
        (losses.Squared(), losses.PLQ(rehu=([math.inf] * 2, [ROOT2, -ROOT2], [0, 0]))),
        (losses.Squared(), losses.Huber(math.inf)),
        (losses.Squared(), losses.SquaredEpsilonInsensitive(0)),
        (losses.Absolute(), losses.EpsilonInsensitive(0)),
    ],
)
def test_related_losses_have_the_same_table(named, pieces):
    for expected, found in zip(named.pieces(), pieces.pieces(), strict=True):
        assert_allclose(found, expected, atol=1e-15)


@pytest.mark.parametrize("loss", ALL_LOSSES, ids=repr)
def test_the_core_counts_what_the_loss_says(loss):
    """The core reads the loss's own table, or has the loss built in."""
    scores = np.linspace(-3, 3, 41)
    targets = np.resize([-1.0, 1.0] if loss.form == "margin" else [0.0, 0.25, 1.0], scores.shape)
    rows = _core.half_step(scores[:, None].copy(), np.ones((1, 1)))
    rows.cells(np.arange(42), np.zeros(41, np.int32), targets, 1.0)
    loss.bind(rows)
    assert_allclose(rows.evaluate(1)["data"], loss.value(scores, targets).sum(), rtol=1e-12)


def test_extreme_scores_stay_finite_or_infinite_never_nan():
    z = np.array([-1e4, 1e4])
    assert_allclose(losses.Logistic().value(z, 1.0), [1e4, 0])
    assert_allclose(losses.Bernoulli().value(z, 1.0), [1e4, 0])
    assert_allclose(losses.Bernoulli().gradient(z, 0.5), [-0.5, 0.5])
    assert_allclose(losses.Poisson().value(z, 2.0), [2e4, np.inf])


# Targets


def test_numbers_stay_numbers():
    targets, classes = losses.Absolute().encode_targets([3, 4, 5])
    assert targets.dtype == np.float64
    assert_array_equal(targets, [3, 4, 5])
    assert classes is None
    assert_allclose(losses.Absolute().decode([1.5]), [1.5])
    assert_allclose(losses.Bernoulli().decode([0.0]), [0.5])
    assert_allclose(losses.Poisson().decode([0.0]), [1.0])


@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1], [-1, 1], [False, True], [1.5, 2.5]])
def test_two_classes_of_any_label_and_back(labels):
    y = np.array(labels)[[1, 0, 0, 1]]
    targets, classes = losses.Hinge().encode_targets(y)
    assert_array_equal(targets, [1, -1, -1, 1])
    assert_array_equal(classes, labels)
    assert_array_equal(losses.Hinge().decode(targets * 0.3, classes), y)
    again, _ = losses.Hinge().encode_targets(y[:1], classes)
    assert_array_equal(again, [1])


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        (
            losses.Squared(),
            [1.0, np.nan],
            r"y has 1 invalid values, the first is y\[1\] = nan; .*finite numb",
        ),
        (losses.Squared(), [1.0, np.inf], "finite numbers"),
        (losses.Squared(), ["a", "b"], "not numbers .*loss for classes such as 'hinge'"),
        (losses.Squared(), [1 + 2j], "not numbers"),
        (losses.Squared(), [[1.0]], r"y has shape \(1, 1\)"),
        (losses.Squared(), [], r"y has shape \(0,\)"),
        (losses.Bernoulli(), [0.5, 1.5], r"y\[1\] = 1.5; Bernoulli\(\) needs numbers in \[0, 1\]"),
        (losses.Poisson(), [2, -1], r"y\[1\] = -1; Poisson\(\) needs numbers >= 0"),
        (
            losses.Hinge(),
            [1, 2, 3, 4, 5, 6],
            r"6 distinct values \(1, 2, 3, 4, 5, \.\.\.\); Hinge\(\) needs exac",
        ),
        (losses.Logistic(), [1, 1], r"1 distinct values \(1\); .*Threshold"),
        (losses.Hinge(), [0.0, 1.0, np.nan], r"y\[2\] = nan"),
        (losses.Hinge(), np.array(["a", None], dtype=object), r"y\[1\] = None"),
        (losses.Hinge(), np.array(["a", 1], dtype=object), "mixes types"),
    ],
)
def test_targets_outside_the_domain_are_named(loss, y, message):
    with pytest.raises(ValueError, match=message):
        loss.encode_targets(y)


def test_the_ends_of_a_domain_belong_to_it():
    for loss, y in ((losses.Bernoulli(), [0.0, 1.0, 0.5]), (losses.Poisson(), [0.0, 3.0])):
        assert_array_equal(loss.encode_targets(y)[0], y)


def test_pandas_missing_labels_are_named():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"y\[1\] = <NA>"):
        losses.Hinge().encode_targets(np.array(["a", pandas.NA], dtype=object))
    with pytest.raises(ValueError, match=r"y\[2\] = nan"):
        losses.Hinge().encode_targets(pandas.Series([1, 2, None], dtype="Int64"))


@pytest.mark.parametrize("labels", [[3, 1, 3], [-0.5, 2.5, 2.5], np.array([7, 0, 7], np.uint8)], ids=str)
def test_two_numbers_are_classes_as_sorting_would_find_them(labels):
    targets, classes = losses.Hinge().encode_targets(labels, None)
    np.testing.assert_array_equal(classes, np.unique(labels))
    assert classes.dtype == np.unique(labels).dtype
    np.testing.assert_array_equal(targets, np.where(np.asarray(labels) == classes[1], 1.0, -1.0))


def test_labels_unknown_to_the_fit_are_named():
    with pytest.raises(ValueError, match=r"y\[1\] = maybe; the classes are no and yes"):
        losses.Hinge().encode_targets(["yes", "maybe"], np.array(["no", "yes"]))
    with pytest.raises(ValueError, match="two classes that encode_targets returned"):
        losses.Hinge().decode([0.2])


# Names


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("squared", losses.Squared()),
        ("MSE", losses.Squared()),
        ("mae", losses.Absolute()),
        ("svm", losses.Hinge()),
        ("squared hinge", losses.SquaredHinge()),
        ("Squared-Hinge", losses.SquaredHinge()),
        ("sSVM", losses.SmoothedHinge()),
        ("QR", losses.Quantile()),
        ({"name": "huber", "delta": 2.0}, losses.Huber(2.0)),
        (losses.Huber(3.0), losses.Huber(3.0)),
    ],
)
def test_names(name, loss):
    assert losses.get(name) == loss


@pytest.mark.parametrize("loss", ALL_LOSSES, ids=repr)
def test_every_loss_survives_its_dict_and_pickle(loss):
    assert losses.get(loss.to_dict()) == loss
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert hash(losses.get(loss.to_dict())) == hash(loss)


def test_unknown_names_list_the_names():
    with pytest.raises(ValueError, match=r"loss='hubr' is not known.*'squared', 'absolute'.*mean 'huber'"):
        losses.get("hubr")
    with pytest.raises(ValueError, match=r"parameter of loss 'huber'='tau' is not known.*\['delta'\]"):
        losses.get({"name": "huber", "tau": 1.0})
    with pytest.raises(TypeError, match="loss=3 is not a loss; give a name"):
        losses.get(3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: losses.Huber(0), "delta=0 is not valid; it must be a number > 0"),
        (lambda: losses.Huber("1"), "delta='1' is not valid"),
        (lambda: losses.Quantile(1), "q=1 is not valid; it must be a number between 0 and 1"),
        (lambda: losses.EpsilonInsensitive(-1), "eps=-1 is not valid; it must be a finite number >= 0"),
        (lambda: losses.EpsilonInsensitive(math.inf), "eps=inf is not valid"),
        (lambda: losses.SquaredEpsilonInsensitive(math.nan), "eps=nan is not valid"),
        (lambda: losses.SmoothedHinge(math.inf), "width=inf is not valid; it must be a finite number > 0"),
        (lambda: losses.PLQ(), r"no pieces; give relu=\(u, v\)"),
        (lambda: losses.PLQ(relu=(1, 2), form="both"), "form='both' is not known"),
        (lambda: losses.PLQ(relu=([1, 2], [1])), r"relu=.* has the wrong shape; expected \(u, v\)"),
        (lambda: losses.PLQ(relu=(1, 2, 3)), "wrong shape"),
        (lambda: losses.PLQ(relu=("a", 1)), "relu=.* is not numeric"),
        (lambda: losses.PLQ(relu=(math.inf, 1)), "relu=.* is not finite; .* only tau may be inf"),
        (lambda: losses.PLQ(rehu=(0, 1, 1)), r"tau=\[0.0\]; each tau must be > 0"),
        (lambda: losses.PLQ(rehu=(math.nan, 1, 1)), "is not finite"),
        (lambda: losses.PLQ(relu=([1] * 16, range(16))), "16 breaks; at most 15 .* fewer pieces"),
        (lambda: losses.PLQ(rehu=(math.inf, 1e200, 0)), "too large for float64"),
        (lambda: losses.Absolute().prox(0.0, 0.0, -1.0), "step=.* must be >= 0"),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("breaks", "coefficients", "message"),
    [
        ([0.0], [[0, 1, 0], [0, -1, 0]], "not convex"),
        ([], [[-1, 0, 0]], "not convex"),
        ([0.0], [[0, -1, 0], [0, 1, 0.5]], "not continuous"),
        ([1.0, 1.0], [[0, 0, 0]] * 3, "strictly increasing"),
        ([0.0], [[0, 1, 0]], r"shape \(1, 3\); 1 breaks need \(2, 3\)"),
    ],
)
def test_tables_that_break_the_contract_are_refused(breaks, coefficients, message):
    with pytest.raises(ValueError, match=message):
        pieces.check_table(np.array(breaks, dtype=float), np.array(coefficients, dtype=float))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("huber:0.5", losses.Huber(0.5)),
        ("Quantile:q=0.9", losses.Quantile(0.9)),
        ("pinball:.1", losses.Quantile(0.1)),
        ("epsilon-insensitive: 2", losses.EpsilonInsensitive(2.0)),
    ],
)
def test_parameters_may_follow_a_name(text, expected):
    assert losses.get(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("huber:x", "loss='huber:x': 'x' is not a number; write for example 'huber:delta=0.5'"),
        ("huber:", "loss='huber:': '' is not a number"),
        ("huber:1,2", "gives 2 parameters; 'huber' takes delta"),
        ("squared:1", "'squared' takes no parameters"),
        ("ordinal:3", "'ordinal' takes no parameters"),
        ("huber:detla=1", "parameter of loss 'huber'='detla' is not known.*Did you mean 'delta'"),
        ("hubr:1", "loss='hubr' is not known.*Did you mean 'huber'"),
        ("quantile:9", "q"),
    ],
)
def test_wrong_parameters_in_text_are_named(text, message):
    with pytest.raises(ValueError, match=message):
        losses.get(text)


# What fits ask of a loss beside its values

EVERY = [*ALL_LOSSES, losses.Quantiles(), losses.Coarse(), losses.Ordinal((0.0,))]


def test_what_each_loss_can_do():
    def those(flag):
        return {loss.name for loss in EVERY if getattr(loss, flag)}

    plain = {"logistic", "bernoulli", "poisson", "ordinal"}
    assert those("is_plq") == {loss.name for loss in EVERY} - plain
    assert those("is_quadratic") == {"squared"}
    assert those("is_smooth") == plain | {"squared"}
    assert those("keeps_duals") == those("is_plq") - {"squared"}
    assert those("learns") == those("has_quantiles") == {"ordinal"}
    assert those("has_probabilities") == {"logistic", "ordinal"}
    assert {loss.name: loss.slopes for loss in EVERY if loss.slopes} == {
        "absolute": (1.0, 1.0),
        "quantile": (0.2, 0.8),
        "quantiles": (0.5, 0.5),
    }


def test_a_loss_without_parameters_of_its_own_learns_itself_and_has_nothing_beside():
    ones = np.ones(2)
    for loss in ALL_LOSSES:
        assert loss.learned(ones, ones, ones) is loss
        assert loss.beside == ()


def test_the_unit_of_scores_is_the_mean_distance_from_the_constant():
    t, w = np.array([1.0, 2.0, 6.0]), np.array([1.0, 1.0, 2.0])
    assert losses.Absolute().unit(2.0, t, w) == pytest.approx((1 + 0 + 8) / 4)
    assert losses.Squared().unit(2.0, np.full(3, 2.0), w) == 1.0  # targets that are all the same have no scale
    assert losses.Hinge().unit(0.3, np.array([-1.0, 1.0, 1.0]), w) == 1.0
    assert losses.Bernoulli().unit(0.3, np.array([0.0, 1.0, 1.0]), w) == 1.0
    assert losses.Ordinal((0.0,)).unit(0.3, np.array([0.0, 1.0, 1.0]), w) == 1.0
    assert losses.Poisson().unit(math.log(4.0), np.array([3.0, 5.0, 4.0]), w) == pytest.approx((1 + 1) / 4 / 4)
    assert losses.Poisson().unit(0.0, np.array([9.0, 9.0, 9.0]), w) == 1.0  # at most that of log rates
    assert losses.Poisson().unit(0.0, np.ones(3), w) == 1.0


def test_the_unit_of_log_rates_is_relative_to_the_rate_and_at_most_one():
    rates, w = losses.Poisson(), np.ones(4)
    assert rates.unit(math.log(4.0), np.array([3.0, 5.0, 3.0, 5.0]), w) == pytest.approx(0.25)
    assert rates.unit(0.0, np.array([0.0, 0.0, 0.0, 99.0]), w) == 1.0
    assert rates.unit(0.0, np.ones(4), w) == 1.0  # all alike: no unit at all


def test_skew_is_the_mean_slope_over_the_geometric_one():
    assert losses.Absolute().skew == losses.Squared().skew == losses.Quantile(0.5).skew == 1
    assert losses.Quantile(0.2).skew == pytest.approx(0.5 / 0.4)
    assert losses.Coarse(2.0, 8.0).skew == pytest.approx(5 / 4)


def test_a_score_of_zero_is_the_first_class():
    assert_array_equal(losses.Hinge().decode([-1e-9, 0.0, 1e-9], np.array([3, 7])), [3, 3, 7])
    assert_allclose(losses.Logistic().probabilities([0.0, math.log(3)]), [[0.5, 0.5], [0.25, 0.75]])


def test_quantiles_are_sorted_and_the_middle_one_is_the_loss():
    loss = losses.get("quantiles:0.9,0.1,0.4")
    assert loss.levels == (0.1, 0.4, 0.9)
    assert loss.q == 0.4
    assert loss.beside == (losses.Quantile(0.1), losses.Quantile(0.9))
    assert losses.get(loss.to_dict()) == loss
    assert losses.Quantiles().levels == (0.05, 0.5, 0.95)
    for bad in ((), (0.0, 0.5), (0.5, 1.0), (0.5, 0.5), 0.5):
        with pytest.raises(ValueError, match=r"levels=.* is not valid"):
            losses.Quantiles(bad)
    with pytest.raises(ValueError, match=r"must list numbers, such as 'quantiles:0.05,0.5,0.95'"):
        losses.get("quantiles:low")


def test_defaults_are_those_of_the_table():
    assert losses.Huber() == losses.Huber(1.0)
    assert losses.Quantile() == losses.Quantile(0.5)
    assert losses.EpsilonInsensitive() == losses.EpsilonInsensitive(0.1)
    assert losses.SmoothedHinge() == losses.SmoothedHinge(1.0)
    assert losses.Coarse() == losses.Coarse(1.0, 1.0, 1.0, 0.0, math.inf)
