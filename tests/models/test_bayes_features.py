"""BayesMF with features: answers for ids never seen, files, bits, checkpoints, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import halfstep
from halfstep.data.sweeps import SweepFile
from halfstep.errors import CheckpointError, UnknownIdError, UnknownIdWarning

from .test_bayes import quick, rmse, same_fit

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def made(n=120, m=100, cells=5000, seed=0, told=1.0):
    """Pairs and values; items whose biases and factors are linear in 4 features but for noise, users as they come."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, n, cells), rng.integers(0, m, cells)
    F = rng.normal(size=(m, 4)) * [1, 2, 0.5, 1]
    W = rng.normal(size=(4, 3)) / [[1], [2], [0.5], [1]] / 2
    q, p = told * F @ W + 0.3 * rng.normal(size=(m, 3)), rng.normal(size=(n, 2))
    y = 3 + 0.5 * rng.normal(size=n)[users] + q[items, 2] + np.sum(p[users] * q[items, :2], axis=1)
    return np.column_stack([users, items]), y + 0.5 * rng.normal(size=cells), F


def about(F, ids):
    return {int(i): {f"f{j}": float(x) for j, x in enumerate(F[i])} for i in ids}


def split(X, F, first=80):
    """Cells of warm and cold items, and their features by id."""
    warm = X[:, 1] < first
    return warm, ~warm, about(F, range(first)), about(F, range(first, len(F)))


def test_items_never_seen_are_where_their_features_say():
    X, y, F = made()
    warm, cold, known, new = split(X, F)
    model = quick().fit(X[warm], y[warm], item_features=known)
    mean, std = model.predict(X[cold], return_std=True, item_features=new, unknown="error")
    with pytest.warns(UnknownIdWarning):
        blind, wide = model.predict(X[cold], return_std=True)
    assert rmse(mean, y[cold]) < 0.75 * rmse(y[warm].mean(), y[cold])
    assert rmse(mean, y[cold]) < 0.8 * rmse(blind, y[cold])
    assert std.mean() < 0.8 * wide.mean()
    low, high = model.predict_interval(X[cold], 0.9, item_features=new).T
    # 20 items: their own noise makes cells of an item alike
    assert 0.82 < np.mean((low <= y[cold]) & (y[cold] <= high)) < 0.97
    with pytest.warns(UnknownIdWarning):
        blind_low, blind_high = model.predict_interval(X[cold], 0.9).T
    assert 0.82 < np.mean((blind_low <= y[cold]) & (y[cold] <= blind_high)) < 0.99


def test_users_never_seen_are_where_their_features_say():
    X, y, F = made()
    X = X[:, ::-1]
    warm = X[:, 0] < 80
    model = quick().fit(X[warm], y[warm], user_features=about(F, range(80)))
    mean = model.predict(X[~warm], user_features=about(F, range(80, 100)), unknown="error")
    assert rmse(mean, y[~warm]) < 0.75 * rmse(y[warm].mean(), y[~warm])


def test_features_that_say_nothing_cost_little():
    X, y, _ = made(told=0.0)
    X, y, cells = X[:4000], y[:4000], (X[4000:], y[4000:])
    noise = np.random.default_rng(3).normal(size=(100, 30))
    plain, told = quick().fit(X, y), quick().fit(X, y, item_features=about(noise, range(100)))
    assert rmse(told.predict(cells[0]), cells[1]) < 1.02 * rmse(plain.predict(cells[0]), cells[1])


def test_classes_of_items_never_seen_have_probabilities():
    X, y, F = made()
    warm, cold, known, new = split(X, F)
    model = quick(likelihood="probit").fit(X[warm], y[warm] > 3, item_features=known)
    p = model.predict_proba(X[cold], item_features=new)[:, 1]
    assert np.mean((p - (y[cold] > 3)) ** 2) < 0.85 * np.mean(((y[warm] > 3).mean() - (y[cold] > 3)) ** 2)


def test_a_file_keeps_what_features_weigh(tmp_path):
    X, y, F = made(cells=1500)
    warm, cold, known, new = split(X, F)
    model = quick(n_sweeps=12).fit(X[warm], y[warm], item_features=known, user_features=np.eye(120)[:, :5])
    model.save(tmp_path / "model.safetensors")
    back = halfstep.load(tmp_path / "model.safetensors")
    assert_array_equal(back.predict(X[cold], item_features=new), model.predict(X[cold], item_features=new))
    asked = {"item_features": new, "level": 0.8}
    assert_array_equal(back.predict_interval(X[cold], **asked), model.predict_interval(X[cold], **asked))
    back.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


def test_bits_depend_on_no_thread_with_features(monkeypatch):
    X, y, F = made(cells=1500)
    for factored in (2048, 0):
        monkeypatch.setattr("halfstep.core.drawn_features.FACTORED", factored)
        one, two = (quick(n_sweeps=8, n_threads=k).fit(X, y, item_features=about(F, range(100))) for k in (1, 2))
        same_fit(one, two)
        assert_array_equal(one.fitted_.known[1].weights, two.fitted_.known[1].weights)


def test_a_fit_with_features_is_resumed_with_the_same_bits(tmp_path, monkeypatch):
    X, y, F = made(cells=1500)
    told = {"item_features": about(F, range(100))}
    whole, save = quick(n_sweeps=24).fit(X, y, **told), SweepFile.save

    def save_and_fail(self, sweep, *rest):
        save(self, sweep, *rest)
        if sweep == 15:
            raise KeyboardInterrupt

    given = {"n_sweeps": 24, "checkpoint": tmp_path / "fit", "every": 5}
    monkeypatch.setattr(SweepFile, "save", save_and_fail)
    with pytest.raises(KeyboardInterrupt):
        quick(**given).fit(X, y, **told)
    monkeypatch.setattr(SweepFile, "save", save)
    with pytest.raises(CheckpointError, match="item_features differ"):
        quick(**given, resume=True).fit(X, y, item_features=about(F + 1, range(99)))
    resumed = quick(**given, resume=True).fit(X, y, **told)
    same_fit(resumed, whole)
    assert_array_equal(resumed.fitted_.known[1].weights, whole.fitted_.known[1].weights)
    assert_array_equal(resumed.fitted_.known[1].spread, whole.fitted_.known[1].spread)


def test_new_users_of_a_fit_with_features_are_drawn():
    """Of whom no features are known: their prior is as wide as users are, not as what features leave of them."""
    X, y, F = made()
    X = X[:, ::-1]
    model = quick().fit(X, y, user_features=about(F, range(100)))
    known, fit = model.fitted_.known[0], model.fitted_
    assert (fit.variance(0, 0) > 1 / fit.hyper[0, 1, 0]).all()
    assert (known.spread[:, -1] * fit.hyper[0, 1, :, -1]).mean() > 1
    mine = X[:, 0] == 7
    _, factors, bias = model.transform(X[mine], y[mine])
    scores = np.einsum("kd,kid->ki", factors[:, 0], fit.items[:, :, fit.columns.factors])
    scores += bias / fit.unit[1] + fit.items[:, :, 0] + fit.items[:, :, 1]
    asked = np.column_stack([np.full(120, 7), np.arange(120)])
    assert rmse(fit.numbers(scores.mean(axis=0)), model.predict(asked)) < 0.35


def test_features_that_cannot_be_used_are_refused():
    X, y, F = made(cells=1500)
    plain = quick(n_sweeps=6).fit(X, y)
    with pytest.raises(ValueError, match="item_features needs a model that was fitted with item_features="):
        plain.predict(X, item_features=about(F, range(3)))
    told = quick(n_sweeps=6).fit(X, y, item_features=F)
    with pytest.raises(ValueError, match="item_features must say whose they are"):
        told.predict(X, item_features=F[:3])
    with pytest.raises(ValueError, match="no item of the fit has features"):
        quick(n_sweeps=6).fit(X, y, item_features={"a": {"f": 1.0}})
    with pytest.raises(UnknownIdError):
        told.predict([(0, 999)], unknown="error")


def test_the_memory_of_features_is_counted():
    model = halfstep.BayesMF(rank=4, keep=10, n_sweeps=40)
    plain, told = model.estimate_memory(100, 50, 1000), model.estimate_memory(100, 50, 1000, user_features=(7, 300))
    assert told.items["kept weights of features of users"] == 10 * 4 * 7 * 7  # draws, bytes, features, columns
    assert told.peak > plain.peak
