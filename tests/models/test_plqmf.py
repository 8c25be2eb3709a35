"""PLQMF: its objective, its penalty in two wordings, scikit-learn, unseen ids, fold-in, files, bad input."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split

import halfstep as hs
from halfstep import PLQMF, losses
from halfstep.core.cells import Observations
from halfstep.core.extrapolate import Momentum
from halfstep.core.loop import timeless
from halfstep.core.losses.constant import best_constant
from halfstep.errors import UnknownIdError, UnknownIdWarning
from halfstep.models.rating_penalty import given_penalty, learn_penalty


def ratings(n: int = 60, m: int = 40, share: float = 0.4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Pairs and ratings 1 to 5 of rank 2 with biases; every user and item occurs."""
    rng = np.random.default_rng(seed)
    keep = rng.random((n, m)) < share
    keep[np.arange(n), np.arange(n) % m] = keep[np.arange(m) % n, np.arange(m)] = True
    users, items = np.nonzero(keep)
    score = 3 + rng.normal(size=n)[users] * 0.5 + rng.normal(size=m)[items] * 0.5
    score += np.sum(rng.normal(size=(n, 2))[users] * rng.normal(size=(m, 2))[items], axis=1)
    return np.column_stack([users, items]), np.clip(np.rint(score), 1, 5)


X, Y = ratings()
LABELS = np.where(Y >= 4, "yes", "no")
ALL = ["squared", "absolute", "huber", "quantile", "epsilon_insensitive", "hinge", "squared_hinge", "smoothed_hinge"]
ALL += ["squared_epsilon_insensitive", "logistic", "bernoulli", "poisson"]


def targets_for(loss: str) -> np.ndarray:
    if losses.get(loss).form == "margin":
        return LABELS
    return (Y - 1) / 4 if loss == "bernoulli" else Y


def model(loss: Any = "absolute", **given: Any) -> PLQMF:
    return PLQMF(**{"rank": 3, "loss": loss, "C": 1e-2, "rho": 0.4, "random_state": 0, "n_threads": 1} | given)


def objective(fit: PLQMF, pairs: np.ndarray, y: np.ndarray, weights: Any = 1.0) -> float:
    """The objective as the documentation writes it, dense and in float64."""
    loss = losses.get(fit.loss)
    targets, _ = loss.encode_targets(y)
    P, Q, a, b = (f.astype(float) for f in (fit.user_factors_, fit.item_factors_, fit.user_bias_, fit.item_bias_))
    u, i = fit.fitted_.users.positions(pairs[:, 0]), fit.fitted_.items.positions(pairs[:, 1])
    z = fit.intercept_ + np.sum(P[u] * Q[i], axis=1) + a[u] + b[i]
    lam = fit.penalty_
    factors = lam.user * np.sum(P**2) + lam.item * np.sum(Q**2)
    biases = lam.user_bias * np.sum(a**2) + lam.item_bias * np.sum(b**2)
    return float(fit.C_ * (np.sum(weights * loss.value(z, targets)) + factors + biases))


@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_objective_is_the_documented_one_and_never_rises(loss: str, biases: bool, intercept: bool) -> None:
    y = targets_for(loss)
    weights = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    options = {"max_iter": 6, "tol": 0, "row_tol": 1e-4, "dtype": "float64", "reg_bias": (0.3, 2.0)}
    fit = model(loss, biases=biases, intercept=intercept, **options).fit(X, y, weights)
    assert intercept == (fit.intercept_ != 0)
    values = [record["objective"] for record in fit.history_]
    assert fit.objective_ == pytest.approx(objective(fit, X, y, weights), rel=1e-9)
    assert (np.diff(values) <= 1e-12 * np.abs(values[1:])).all()
    assert all(record["gap"] <= 1e-4 for record in fit.history_)
    last = fit.history_[-1]
    assert last["objective"] == pytest.approx(last["data"] + last["penalty"])
    assert last["mean_loss"] == pytest.approx(last["data"] / fit.C_ / weights.sum())
    assert biases or not (fit.user_bias_.any() or fit.item_bias_.any())


def test_squared_loss_beats_the_mean_and_classes_are_found() -> None:
    train, test, y_train, y_test = train_test_split(X, Y, random_state=0)
    assert model("squared", C=0.05).fit(train, y_train).score(test, y_test) > 0.3
    train, test, y_train, y_test = train_test_split(X, LABELS, random_state=0)
    fit = model("hinge", C=0.05).fit(train, y_train)
    assert fit.classes_.tolist() == ["no", "yes"]
    assert set(fit.predict(test)) <= {"no", "yes"}
    assert fit.score(test, y_test) == np.mean(fit.predict(test) == y_test)
    assert fit.score(test, y_test) > 0.7


# ---------------------------------------------------------------------- penalty


def test_both_wordings_of_the_penalty_are_the_same_fit() -> None:
    n, m = 60, 40
    one = model(C=0.01, rho=0.3).fit(X, Y)
    two = model(C=None, rho=None, reg_user=0.3 / (0.01 * n), reg_item=0.7 / (0.01 * m)).fit(X, Y)
    assert (two.C_, two.rho_) == pytest.approx((0.01, 0.3))
    np.testing.assert_allclose(one.user_factors_, two.user_factors_, atol=1e-4)


def test_a_given_penalty_and_its_inverse() -> None:
    nothing: dict[str, Any] = dict.fromkeys(("C", "rho", "reg_user", "reg_item", "reg_bias"))
    assert given_penalty(7, 5, **nothing) is None
    said = given_penalty(7, 5, **nothing | {"reg_user": 0.2, "reg_item": 3.0})
    assert said is not None
    C, rho = said.in_words(7, 5)
    assert (rho / (C * 7), (1 - rho) / (C * 5)) == pytest.approx((0.2, 3.0))
    assert (said.user_bias, said.item_bias) == (0.2, 3.0)
    own = given_penalty(7, 5, **nothing | {"C": C, "rho": rho, "reg_bias": (4.0, 5.0)})
    assert own is not None
    assert (own.user, own.item, own.user_bias, own.item_bias) == pytest.approx((0.2, 3.0, 4.0, 5.0))


def test_learned_biases_are_worth_the_noise_over_their_spread() -> None:
    """y = a_u + b_i + e: the best penalty of a bias under the squared loss is var(e) / var(a)."""
    rng = np.random.default_rng(0)
    n, m = 400, 300
    cells = np.flatnonzero(rng.random(n * m) < 0.1)
    u, i = np.divmod(cells, m)
    y = 3 + rng.normal(0, 1.0, n)[u] + rng.normal(0, 0.5, m)[i] + rng.normal(0, 2.0, len(u))
    learned = learn_penalty(Observations.from_cells(u, i, (n, m), y, dtype=np.float64), losses.Squared(), 0)
    assert learned.user_bias == pytest.approx(4.0, rel=0.2)
    assert learned.item_bias == pytest.approx(16.0, rel=0.3)
    noise = 2.0 * (np.sqrt(len(u) / n) + np.sqrt(len(u) / m))  # the largest singular value of noise in these cells
    assert learned.user == pytest.approx(0.6 * noise, rel=0.15)


EQUIVARIANT = ["squared", "absolute", losses.Quantile(0.8)]


@pytest.mark.parametrize("loss", EQUIVARIANT)
@settings(max_examples=8, deadline=None)
@given(times=st.floats(0.01, 100.0), plus=st.floats(-1e3, 1e3))
def test_predictions_follow_a_shift_and_a_scale_of_y(loss: Any, times: float, plus: float) -> None:
    options: dict[str, Any] = {"rank": 2, "loss": loss, "random_state": 0, "dtype": "float64", "tol": 0, "max_iter": 5}
    plain = PLQMF(**options, row_tol=1e-9).fit(X, Y).predict(X)
    moved = PLQMF(**options, row_tol=1e-9).fit(X, times * Y + plus).predict(X)
    spread = times * np.abs(Y - Y.mean()).mean()
    assert np.abs(moved - (times * plain + plus)).max() <= 2e-3 * spread


@pytest.mark.parametrize("loss", [losses.Huber, losses.EpsilonInsensitive, losses.SquaredEpsilonInsensitive])
@settings(max_examples=8, deadline=None)
@given(times=st.floats(0.01, 100.0), plus=st.floats(-1e3, 1e3))
def test_predictions_follow_y_where_the_width_of_the_loss_does(loss: Any, times: float, plus: float) -> None:
    """delta and eps are in units of y."""
    options: dict[str, Any] = {"rank": 2, "random_state": 0, "dtype": "float64", "tol": 0, "max_iter": 5}
    plain = PLQMF(loss=loss(0.3), **options, row_tol=1e-9).fit(X, Y).predict(X)
    moved = PLQMF(loss=loss(0.3 * times), **options, row_tol=1e-9).fit(X, times * Y + plus).predict(X)
    spread = times * np.abs(Y - Y.mean()).mean()
    assert np.abs(moved - (times * plain + plus)).max() <= 2e-3 * spread


def test_a_constant_under_the_absolute_loss_warns_of_no_rounding(recwarn: pytest.WarningsRecorder) -> None:
    """An objective of 4e-312 that rounds to 0 was told as a loss of digits."""
    pairs = hs.datasets.make_ratings(100, 60, 1500, random_state=0)[0]
    assert (PLQMF(loss="absolute", random_state=0).fit(pairs, np.full(len(pairs), 3.0)).predict(pairs) == 3.0).all()
    assert [str(each.message) for each in recwarn] == []


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", losses.Quantile(0.1), losses.Quantile(0.9)])
@pytest.mark.parametrize("outliers", [0.0, 0.05])
def test_no_default_loses_to_its_constant_or_to_mean_and_damped_biases(loss: Any, outliers: float) -> None:
    pairs, y, _ = hs.datasets.make_ratings(400, 300, 12_000, outliers=outliers, random_state=7)
    train, test, y_train, y_test = train_test_split(pairs, y, test_size=0.2, random_state=1)
    phi, fit = losses.get(loss), PLQMF(loss=loss, random_state=0).fit(train, y_train)
    ours = np.mean(phi.value(fit.predict(test), y_test))
    best = best_constant(phi, np.zeros(len(y_train)), y_train, np.ones(len(y_train)))
    assert ours <= 1.01 * np.mean(phi.value(np.full(len(test), best), y_test))
    if not isinstance(loss, losses.Quantile):
        simple = damped_biases(train, y_train, test)
        assert ours <= 1.01 * np.mean(phi.value(simple, y_test))


def damped_biases(train: np.ndarray, y: np.ndarray, test: np.ndarray, damping: float = 5.0) -> np.ndarray:
    n, m = 1 + max(train[:, 0].max(), test[:, 0].max()), 1 + max(train[:, 1].max(), test[:, 1].max())
    (u, i), a, b = train.T, np.zeros(n), np.zeros(m)
    for _ in range(15):
        b = np.bincount(i, y - y.mean() - a[u], m) / (np.bincount(i, minlength=m) + damping)
        a = np.bincount(u, y - y.mean() - b[i], n) / (np.bincount(u, minlength=n) + damping)
    return np.asarray(y.mean() + a[test[:, 0]] + b[test[:, 1]])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"C": 0.1, "reg_user": 1.0, "rho": None}, "give either C and rho, or reg_user and reg_item"),
        ({"C": None, "rho": None, "reg_user": 1.0}, "reg_item=None must be a finite number above 0"),
        ({"C": 0.0}, r"C=0.0 must be a finite number above 0"),
        ({"C": -1}, r"C=-1 must be a finite number above 0"),
        ({"rho": 1.0}, r"rho=1.0 must lie between 0 and 1, both excluded"),
        ({"rho": 0}, r"rho=0 must lie between 0 and 1"),
        ({"rank": 61}, r"rank=61 is larger than both sides \(60 users, 40 items\)"),
        ({"rank": 0}, "rank=0 must be a whole number of at least 1"),
        ({"loss": "absolut"}, "'absolut' is not known; it must be one of .*'hinge'.* Did you mean 'absolute'"),
        ({"loss": "hinge"}, r"y has 5 distinct values .* needs exactly two classes"),
        ({"max_iter": 0}, "max_iter=0 must be a whole number of at least 1"),
        ({"tol": -1}, "tol=-1 must be a finite number of at least 0"),
        ({"row_tol": 0}, "row_tol=0 must be a finite number above 0"),
        ({"dtype": "int"}, "dtype='int' is not known"),
        ({"n_threads": 0}, "n_threads=0 must be a whole number of at least 1"),
    ],
)
def test_bad_parameters_say_what_to_do(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(**given).fit(X, Y)


@pytest.mark.parametrize(
    ("pairs", "y", "weights", "message"),
    [
        (X[:0], Y[:0], None, "X has no rows; a fit needs at least one pair"),
        (X[X[:, 0] == 3], Y[X[:, 0] == 3], None, r"X has 1 distinct users and \d+ distinct items; .*two of each"),
        (X, np.where(np.arange(len(Y)) == 4, np.nan, Y), None, r"y has 1 invalid values, the first is y\[4\] = nan"),
        (X, np.where(np.arange(len(Y)) == 7, np.inf, Y), None, r"y has 1 invalid values, the first is y\[7\] = inf"),
        (X, Y[1:], None, r"y has shape \(\d+,\); X has \d+ pairs"),
        (X[:, :1], Y, None, r"X must be \(user, item\) pairs of shape \(n, 2\)"),
        (X, Y, -np.ones(len(Y)), "sample_weight must be finite and >= 0; .* first -1.0 at position 0"),
        (X, Y, np.full(len(Y), np.nan), "sample_weight must be finite and >= 0"),
        (X, Y, np.zeros(len(Y)), "sample_weight is zero everywhere"),
        (X, Y, np.ones(3), r"sample_weight has shape \(3,\)"),
    ],
)
def test_bad_data_says_what_to_do(pairs: Any, y: Any, weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model().fit(pairs, y, weights)


# ---------------------------------------------------------------------- data


def test_a_pair_given_twice_counts_twice() -> None:
    weights = np.where(np.arange(len(Y)) % 5 == 0, 2.0, 1.0)
    again = np.concatenate([np.arange(len(Y)), np.flatnonzero(weights == 2)])
    one = model(dtype="float64", row_tol=1e-9).fit(X, Y, weights)
    two = model(dtype="float64", row_tol=1e-9).fit(X[again], Y[again])
    assert two.objective_ == pytest.approx(one.objective_, rel=1e-6)


def test_ids_of_any_kind() -> None:
    names = np.array([[f"u{u:02d}", f"i{i:02d}"] for u, i in X], dtype=object)
    plain, named = model().fit(X, Y), model().fit(names, Y)
    assert named.user_ids_[3] == "u03"
    np.testing.assert_array_equal(plain.user_factors_, named.user_factors_)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"movie": names[:, 1], "user": names[:, 0]})
    np.testing.assert_array_equal(model().fit(frame, Y).predict(frame), plain.predict(X))


def test_every_parameter_and_argument_changes_the_fit() -> None:
    before = model(max_iter=4).fit(X, Y).predict(X)
    changed: list[dict[str, Any]] = [
        {"rank": 2}, {"loss": "squared"}, {"C": 0.02}, {"rho": 0.8}, {"biases": False}, {"nonnegative": True},
        {"max_iter": 2}, {"tol": 0.5}, {"row_tol": 0.1}, {"init_scale": 1.0}, {"dtype": "float64"}, {"random_state": 1},
        {"max_seconds": 0.0}, {"callbacks": [lambda record: True]},
        {"C": None, "rho": None, "reg_user": 1.0, "reg_item": 1.0},
        {"C": None, "rho": None, "reg_user": 2.0, "reg_item": 1.0}, {"C": None, "rho": None}, {"reg_bias": 0.5},
        {"reg_bias": (0.5, 1.0)}, {"reg_scaling": "count"}, {"reg_scaling": 0.5}, {"intercept": False}, {"n_init": 3},
    ]  # fmt: skip
    for options in changed:
        assert not np.array_equal(before, model(**{"max_iter": 4} | options).fit(X, Y).predict(X)), options
    weights = np.random.default_rng(0).random(len(Y))
    assert not np.array_equal(before, model(max_iter=4).fit(X, Y, weights).predict(X))


def test_threads_and_seeds_give_the_same_bits() -> None:
    one, many = model("hinge", n_threads=1).fit(X, LABELS), model("hinge", n_threads=3).fit(X, LABELS)
    np.testing.assert_array_equal(one.item_factors_, many.item_factors_)


def test_nonnegative_factors() -> None:
    free, bounded = model("huber").fit(X, Y), model("huber", nonnegative=True).fit(X, Y)
    assert (bounded.user_factors_ >= 0).all()
    assert (bounded.item_factors_ >= 0).all()
    assert (free.user_factors_ < 0).any()
    assert free.objective_ < bounded.objective_
    values = [record["objective"] for record in bounded.history_]
    assert (np.diff(values) <= 1e-6 * values[-1]).all()


# ---------------------------------------------------------------------- answers


def test_unseen_ids_are_answered_by_intercept_and_known_bias() -> None:
    fit = model("squared").fit(X, Y)
    unseen = np.array([[999, 5], [4, 999], [999, 999]])
    with pytest.warns(UnknownIdWarning, match="2 users and 2 items among 3 pairs were not in the fit"):
        scores = fit.decision_function(unseen)
    expected = np.array([fit.item_bias_[5], fit.user_bias_[4], 0.0]) + fit.intercept_
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    with pytest.raises(
        UnknownIdError, match="2 users and 2 items that the fit has not seen; drop those pairs, or pass"
    ):
        fit.predict(unseen, unknown="error")
    with pytest.raises(ValueError, match="unknown='zero' is not known"):
        fit.predict(X, unknown="zero")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit.predict(X)


def test_a_new_user_on_a_bad_item_is_predicted_below_the_mean() -> None:
    """An item rated 2.95 on average was predicted 0.76 for a new user: no intercept, biases drawn to 0."""
    bad = np.column_stack([np.arange(60), np.full(60, 900)])
    pairs, y = np.concatenate([X, bad]), np.concatenate([Y, np.full(60, 2.0)])
    with pytest.warns(UnknownIdWarning):
        score = PLQMF(random_state=0).fit(pairs, y).predict(np.array([[999, 900]]))[0]
    assert 2.0 < score < 2.0 + 0.2 * (Y.mean() - 2.0)


@pytest.mark.filterwarnings("ignore::halfstep.errors.UnknownIdWarning")
def test_without_intercept_unseen_ids_fall_back_to_mean_biases() -> None:
    fit = model("squared", intercept=False).fit(X, Y)
    scores = fit.decision_function(np.array([[999, 5], [4, 999], [999, 999]]))
    mean_user, mean_item = fit.user_bias_.mean(), fit.item_bias_.mean()
    expected = [mean_user + fit.item_bias_[5], fit.user_bias_[4] + mean_item, mean_user + mean_item]
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    bare = model("squared", biases=False, intercept=False).fit(X, Y)
    expected = bare.user_factors_.mean(axis=0) @ bare.item_factors_[5]
    np.testing.assert_allclose(bare.decision_function(np.array([[999, 5]])), [expected], rtol=1e-5)


@pytest.mark.parametrize("loss", ["squared", "absolute", "hinge", "logistic"])
def test_folding_a_user_of_the_fit_in_returns_its_row(loss: str) -> None:
    y = targets_for(loss)
    fit = model(loss, dtype="float64", row_tol=1e-10).fit(X, y)
    mine = np.isin(X[:, 0], [7, 11])
    folded = fit.transform(X[mine], y[mine])
    assert folded.ids.tolist() == [7, 11]
    np.testing.assert_allclose(folded.factors, fit.user_factors_[[7, 11]], atol=1e-4)
    np.testing.assert_allclose(folded.bias, fit.user_bias_[[7, 11]], atol=1e-4)
    with pytest.raises(UnknownIdError, match="unknown item id 999"):
        fit.transform(np.array([[1, 999]]), y[:1])


def test_recommend_ranks_by_score_and_leaves_seen_items_out() -> None:
    fit = model("squared").fit(X, Y)
    ids, scores = fit.recommend(3, n=50)
    seen = set(X[X[:, 0] == 3, 1])
    assert set(ids) == set(range(40)) - seen
    np.testing.assert_allclose(scores, fit.decision_function(np.column_stack([np.full(len(ids), 3), ids])), rtol=1e-5)
    assert (np.diff(scores) <= 0).all()
    assert fit.recommend([3, 4], n=5).ids.shape == (2, 5)
    liked = fit.recommend_for([1, 2, 3], [5, 5, 1], n=4)
    assert not set(liked.ids) & {1, 2, 3}
    assert fit.similar_items(3, n=2).ids.shape == (2,)
    assert not np.isnan(fit.recommend(3, n=5, diversity=0.5).scores).any()


def test_probabilities_belong_to_the_logistic_loss() -> None:
    fit = model("logistic").fit(X, LABELS)
    chances = fit.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_array_equal(fit.classes_[chances.argmax(axis=1)], fit.predict(X))
    assert not hasattr(model("hinge"), "predict_proba")
    chances = model("bernoulli").fit(X, (Y - 1) / 4).predict(X)
    assert ((chances >= 0) & (chances <= 1)).all()


def test_score_by_kind_of_loss() -> None:
    squared = model("squared").fit(X, Y)
    error = Y - squared.predict(X)
    assert squared.score(X, Y) == pytest.approx(1 - np.sum(error**2) / np.sum((Y - Y.mean()) ** 2), rel=1e-6)
    absolute = model("absolute").fit(X, Y)
    assert absolute.score(X, Y) == pytest.approx(-np.mean(np.abs(Y - absolute.predict(X))))


# ---------------------------------------------------------------------- scikit-learn, files


def test_scikit_learn_tools() -> None:
    assert is_regressor(model())
    assert is_classifier(model("hinge"))
    copy = clone(model(losses.Huber(0.7)))
    assert copy.get_params()["loss"] == losses.Huber(0.7)
    assert cross_val_score(model(), X, Y, cv=3).shape == (3,)
    assert (cross_val_score(model("hinge", C=0.05), X, LABELS, cv=3) > 0.55).all()
    search = GridSearchCV(model(), {"rank": [1, 2], "loss": ["absolute", losses.Huber(0.5)]}, cv=2).fit(X, Y)
    assert search.best_params_["rank"] in (1, 2)
    with pytest.raises(NotFittedError):
        model().predict(X)


@pytest.mark.filterwarnings("ignore::halfstep.errors.UnknownIdWarning")
@pytest.mark.parametrize("loss", ["squared", "hinge", losses.Huber(0.7)])
def test_saved_models_answer_the_same(loss: Any, tmp_path: Path) -> None:
    y = LABELS if loss == "hinge" else Y
    fit = model(loss).fit(X.astype(str).astype(object), y)
    fit.save(tmp_path / "model.safetensors")
    back = hs.load(tmp_path / "model.safetensors")
    assert isinstance(back, PLQMF)
    pairs = np.array([["3", "5"], ["unseen", "7"]], dtype=object)
    np.testing.assert_array_equal(back.predict(pairs), fit.predict(pairs))
    np.testing.assert_array_equal(back.recommend("3").ids, fit.recommend("3").ids)
    assert back.history_ == timeless(fit.history_)
    assert losses.get(back.loss) == losses.get(loss)
    np.testing.assert_array_equal(back.transform(X.astype(str).astype(object)[:9], y[:9]).bias,
                                  fit.transform(X.astype(str).astype(object)[:9], y[:9]).bias)  # fmt: skip
    again = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(again.predict(pairs), fit.predict(pairs))


# ---------------------------------------------------------------------- momentum


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "absolute", "hinge"])
def test_sweeps_begin_where_the_ones_before_point(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The objective never rises, and after as many sweeps it is lower."""
    pairs, y = ratings(120, 80, 0.3, seed=4)
    y = np.where(y >= 4, 1.0, -1.0) if losses.get(loss).form == "margin" else y
    options = {"C": 0.02, "rho": 0.5, "max_iter": 12, "tol": 0, "random_state": 0}
    led = PLQMF(4, loss, **options).fit(pairs, y)
    values = np.array([record["objective"] for record in led.history_])
    assert (np.diff(values) <= 1e-6 * values[1:]).all()
    assert sum(record["leapt"] for record in led.history_) >= 8
    monkeypatch.setattr(Momentum, "share", lambda self: 0.0)
    plain = PLQMF(4, loss, **options).fit(pairs, y)
    assert not any(record["leapt"] for record in plain.history_)
    assert led.objective_ < plain.objective_


@pytest.mark.parametrize("options", [{"nonnegative": True}, {"loss": "ordinal"}], ids=str)
def test_bounded_factors_and_losses_that_learn_stay_where_sweeps_end(options: dict[str, Any]) -> None:
    pairs, y = ratings(30, 20, 0.5)
    fit = PLQMF(3, **options, C=0.02, rho=0.5, max_iter=4, tol=0, random_state=0).fit(pairs, y)
    assert not any("leapt" in record for record in fit.history_)


# ---------------------------------------------------------------------- rehline


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize(
    ("loss", "theirs"),
    [("squared", "mse"), ("absolute", "mae"), ("hinge", "hinge"), ("squared_hinge", "squared hinge")],
)
def test_sweeps_equal_those_of_rehline(loss: str, theirs: str, biases: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rehline = pytest.importorskip("rehline", reason="rehline is not installed; the bench extra brings it")
    pairs, y = ratings(24, 18, 0.5, seed=2)
    y = np.where(y >= 4, 1.0, -1.0) if losses.get(loss).form == "margin" else y
    peer = rehline.plqMF_Ridge(
        24, 18, {"name": theirs}, biased=biases, rank=3, C=0.004, rho=0.4, random_state=5, tol=1e-8, tol_CD=1e-15,
        max_iter=1_000_000, max_iter_CD=10,
    ).fit(pairs, y)  # fmt: skip
    random = np.random.default_rng(5)  # the stream rehline starts from, users first
    starts = [random.normal(size=(n, 3)) for n in (24, 18)]
    monkeypatch.setattr(
        "halfstep.models.ratings.random_rows", lambda seed, side, first, last, d, dtype: starts[side][first:last].copy()
    )
    monkeypatch.setattr(Momentum, "share", lambda self: 0.0)  # theirs begin where the last one ended
    # One sweep more, since the last record includes the closing half-step.
    options = {"intercept": False, "biases": biases, "random_state": 5, "max_iter": 11, "tol": 0, "row_tol": 1e-9}
    ours = PLQMF(3, loss, 0.004, 0.4, **options, dtype="float64")
    values = [record["objective"] for record in ours.fit(pairs, y).history_[:10]]
    np.testing.assert_allclose(values, peer.history[1:11, 1], rtol=1e-4)
