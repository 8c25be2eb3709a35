"""BayesMF: answers that beat simple rivals, intervals that cover, files, bits, and input that is refused."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import halfstep
from halfstep import BayesMF
from halfstep.errors import UnknownIdError, UnknownIdWarning

from ..contract.refusal import refused

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RATINGS = Path(os.environ.get("HALFSTEP_DATA", "../shared/data")) / "movietweetings-100k" / "ratings.dat"


def made(n=150, m=80, cells=5000, seed=0, outliers=0.0):
    """Pairs, values with noise 0.5, and the true scores."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, n, cells), rng.integers(0, m, cells)
    p, q, a, b = rng.normal(size=(n, 2)), rng.normal(size=(m, 2)), rng.normal(size=n), rng.normal(size=m)
    z = 3 + 0.6 * a[users] + 0.6 * b[items] + 0.6 * np.sum(p[users] * q[items], axis=1)
    y = z + 0.5 * rng.normal(size=cells)
    wild = rng.random(cells) < outliers
    y[wild] += rng.normal(size=wild.sum()) * 8
    return np.column_stack([users, items]), y, z


def damped(X, y, asked, damping=4.0):
    """Mean and damped biases, the rival."""
    n, m = X.max(axis=0) + 1
    a, b, mean = np.zeros(n), np.zeros(m), y.mean()
    for _ in range(15):
        b = np.bincount(X[:, 1], y - mean - a[X[:, 0]], m) / (np.bincount(X[:, 1], minlength=m) + damping)
        a = np.bincount(X[:, 0], y - mean - b[X[:, 1]], n) / (np.bincount(X[:, 0], minlength=n) + damping)
    return mean + a[asked[:, 0]] + b[asked[:, 1]]


def rmse(a, b):
    return float(np.sqrt(np.mean((a - b) ** 2)))


def quick(**given):
    return BayesMF(**{"rank": 3, "n_sweeps": 60, "keep": 15, "random_state": 0, "n_threads": 1} | given)


def test_it_beats_biases_and_its_intervals_cover():
    X, y, _ = made()
    model = quick(n_sweeps=100).fit(X[:4000], y[:4000])
    mean, std = model.predict(X[4000:], return_std=True)
    assert rmse(mean, y[4000:]) < 0.8 * rmse(damped(X[:4000], y[:4000], X[4000:]), y[4000:])
    assert (std > 0).all()
    low, high = model.predict_interval(X[4000:], 0.9).T
    # 1,000 cells: the share has a standard deviation of 0.01 if cells were independent
    assert 0.85 < np.mean((low <= y[4000:]) & (y[4000:] <= high)) < 0.95
    narrow = model.predict_interval(X[4000:], 0.5)
    assert (narrow[:, 0] >= low).all()
    assert (narrow[:, 1] <= high).all()


def test_student_ignores_outliers():
    X, y, z = made(outliers=0.05)
    errors = {
        name: rmse(quick(likelihood=name).fit(X[:4000], y[:4000]).predict(X[4000:]), z[4000:])
        for name in ("gaussian", "student")
    }
    assert errors["student"] < 0.8 * errors["gaussian"]


def test_probit_gives_probabilities_that_are_right_on_average():
    X, _, z = made()
    rng = np.random.default_rng(1)
    labels = np.where(z - 3 + rng.normal(size=len(z)) > 0, "yes", "no")
    model = quick(likelihood="probit").fit(X[:4000], labels[:4000])
    p = model.predict_proba(X[4000:])
    assert_allclose(p.sum(axis=1), 1)
    assert_array_equal(model.classes_, ["no", "yes"])
    positive = labels[4000:] == "yes"
    assert np.mean((p[:, 1] - positive) ** 2) < 0.85 * np.mean((positive.mean() - positive) ** 2)
    assert model.score(X[4000:], labels[4000:]) > 0.65
    assert abs(p[:, 1].mean() - positive.mean()) < 0.06
    with pytest.raises(ValueError, match="use predict_proba"):
        model.predict_interval(X)
    with pytest.raises(ValueError, match="whole numbers"):
        quick(likelihood="probit").fit(X, labels, np.full(len(X), 0.5))


def test_bits_depend_on_the_seed_alone():
    X, y, _ = made(cells=1500)
    one = quick(n_sweeps=12).fit(X, y)
    for n_threads in (1, 2, 3):
        again = quick(n_sweeps=12, n_threads=n_threads).fit(X, y)
        assert_array_equal(again.fitted_.users, one.fitted_.users)
        assert_array_equal(again.predict(X), one.predict(X))
    other = quick(n_sweeps=12, random_state=1).fit(X, y)
    assert (other.fitted_.users[:, :, 2:] != one.fitted_.users[:, :, 2:]).mean() > 0.99


def test_shift_and_scale_of_y_pass_through():
    X, y, _ = made(cells=1500)
    plain, moved = quick(n_sweeps=12).fit(X, y), quick(n_sweeps=12).fit(X, 10 * y + 100)
    assert_allclose(moved.predict(X), 10 * plain.predict(X) + 100, rtol=1e-2)


def test_a_file_keeps_all_answers(tmp_path):
    X, y, _ = made(cells=1500)
    for given in ({}, {"likelihood": "student"}, {"likelihood": "probit"}):
        model = quick(n_sweeps=12, **given).fit(X, y > 3 if given.get("likelihood") == "probit" else y)
        model.save(tmp_path / "model.safetensors")
        back = halfstep.load(tmp_path / "model.safetensors")
        assert_array_equal(back.predict(X), model.predict(X))
        assert_array_equal(back.recommend(3, 5).ids, model.recommend(3, 5).ids)
        assert back.history_ == model.history_
        assert back.diagnostics_ == model.diagnostics_


def test_new_users_are_drawn_like_old_ones():
    X, y, _ = made()
    model = quick(n_sweeps=100, keep=30).fit(X, y)
    mine = X[:, 0] == 7
    ids, factors, bias = model.transform(X[mine], y[mine])
    assert ids.tolist() == [7]
    fit = model.fitted_
    scores = np.einsum("kd,kid->ki", factors[:, 0], fit.items[:, :, fit.columns.factors])
    scores += bias / fit.unit[1] + fit.items[:, :, 0] + fit.items[:, :, 1]
    asked = np.column_stack([np.full(80, 7), np.arange(80)])
    folded = fit.unit[0] + fit.unit[1] * scores.mean(axis=0)
    assert rmse(folded, model.predict(asked)) < 0.25
    best = model.recommend_for(X[mine, 1].tolist(), y[mine], 5)
    assert len(best.ids) == 5
    assert not set(best.ids) & set(X[mine, 1])


@pytest.mark.parametrize("strategy", ["mean", "upper", "thompson"])
def test_lists_leave_out_what_is_seen(strategy):
    X, y, _ = made()
    model = quick(n_sweeps=12).fit(X, y)
    best = model.recommend([3, 4], 6, strategy=strategy, random_state=0)
    assert best.ids.shape == (2, 6)
    for user, ids in zip((3, 4), best.ids, strict=True):
        assert not set(ids) & set(X[X[:, 0] == user, 1])
    assert (np.diff(best.scores, axis=1) <= 0).all()


def test_unknown_ids_are_average_and_less_certain():
    X, y, _ = made()
    model = quick().fit(X, y)
    with pytest.warns(UnknownIdWarning, match="1 users"):
        mean, std = model.predict([(7, 3), (999, 3)], return_std=True)
    assert y.min() <= mean[1] <= y.max()
    assert std[1] > std[0]
    with pytest.raises(UnknownIdError):
        model.predict([(999, 3)], unknown="error")


def test_a_chain_that_still_moves_says_so():
    X, y, _ = made()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = quick(n_sweeps=8, burn_in=0.0).fit(X, y)
    assert any(issubclass(w.category, ConvergenceWarning) for w in said) == (model.diagnostics_["r_hat"] > 1.1)
    assert model.n_iter_ == 8
    assert {"alpha", "intercept", "rmse"} <= set(model.history_[0])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"likelihood": "gausian"}, "Did you mean 'gaussian'"),
        ({"rank": 0}, "rank=0"),
        ({"n_sweeps": 1}, "n_sweeps=1"),
        ({"burn_in": 1.0}, "burn_in=1.0"),
        ({"keep": 0}, "keep=0"),
        ({"nu": 2}, "nu=2"),
        ({"rank": 500}, "rank=500"),
    ],
)
def test_bad_parameters_are_named(given, text):
    X, y, _ = made(cells=300)
    with pytest.raises(ValueError, match=text):
        quick(**given).fit(X, y)


def test_a_refused_fit_leaves_the_old_one():
    X, y, _ = made(n=8, m=6, cells=60)
    assert refused(
        lambda: quick(rank=2, n_sweeps=4, keep=2).fit(X, y),
        lambda model: model.fit(X[:30], y[:30]),
        lambda model: (model.predict(X[:5]), model.recommend(3, 2), model.history_),
    )


def test_memory_counts_what_is_kept():
    small, large = BayesMF(rank=8), BayesMF(rank=8, keep=60)
    assert small.estimate_memory(100, 50, 1000).peak < large.estimate_memory(100, 50, 1000).peak


@pytest.mark.skipif(not RATINGS.exists(), reason="MovieTweetings is not there")
def test_defaults_beat_biases_on_movietweetings():
    with RATINGS.open() as lines:
        table = np.array([line.split("::")[:3] for line in lines], np.int64)
    X = np.column_stack([np.unique(table[:, k], return_inverse=True)[1] for k in (0, 1)])
    y = table[:, 2].astype(float)
    test = np.random.default_rng(0).random(len(y)) < 0.1
    model = BayesMF(random_state=0).fit(X[~test], y[~test])
    with pytest.warns(UnknownIdWarning):
        found = rmse(model.predict(X[test]), y[test])
    assert found < 1.518
    known = np.isin(X[test, 0], X[~test, 0]) & np.isin(X[test, 1], X[~test, 1])
    asked, seen = X[test][known], y[test][known]
    assert rmse(model.predict(asked), seen) < rmse(damped(X[~test], y[~test], asked), seen)
