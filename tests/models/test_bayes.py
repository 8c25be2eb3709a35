"""BayesMF: answers that beat simple rivals, intervals that cover, files, bits, and input that is refused."""

import os
import signal
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import halfstep
from halfstep import BayesMF
from halfstep.core.loop import timeless
from halfstep.data.sweeps import SweepFile
from halfstep.errors import CheckpointError, UnknownIdError, UnknownIdWarning

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


def test_users_are_found_to_be_alike_or_not():
    """Degrees of freedom of the noise of users are drawn: many where all users are as noisy, few where they differ."""
    rng = np.random.default_rng(2)
    X, y, z = made(cells=8000)
    alike = quick().fit(X, y)
    spread = np.exp(rng.normal(size=150) * 0.8)
    unlike = quick().fit(X, z + 0.5 * spread[X[:, 0]] * rng.normal(size=len(z)))
    assert np.median(alike.fitted_.nus) > 20 > 8 > np.median(unlike.fitted_.nus)
    assert alike.history_[-1]["nu"] == alike.fitted_.nus[-1]
    assert (quick(nu=5).fit(X, y).fitted_.nus == 5).all()


def test_a_rank_that_is_too_large_costs_no_error():
    X, y, z = made()
    errors = [rmse(quick(rank=rank).fit(X[:4000], y[:4000]).predict(X[4000:]), z[4000:]) for rank in (2, 16)]
    assert errors[1] < 1.08 * errors[0]


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


def test_ordered_classes_have_probabilities_and_expected_values():
    X, y, _ = made(cells=6000)
    stars = np.searchsorted([1.5, 2.6, 3.1, 4.0], y) + 1.0  # uneven steps, which a normal law of stars would not see
    model = quick(likelihood="ordinal", n_sweeps=100).fit(X[:5000], stars[:5000])
    test, seen = X[5000:], stars[5000:]
    p = model.predict_proba(test)
    assert_array_equal(model.classes_, [1, 2, 3, 4, 5])
    assert p.shape == (1000, 5)
    assert_allclose(p.sum(axis=1), 1)
    assert_allclose(p @ model.classes_, model.predict(test), atol=1e-9)
    # 1,000 cells: shares have standard deviations below 0.016
    assert_allclose(p.mean(axis=0), [np.mean(seen == c) for c in model.classes_], atol=0.06)
    chosen = np.log(p[np.arange(1000), (seen - 1).astype(int)]).mean()
    assert chosen > np.log([np.mean(seen == c) for c in seen]).mean() + 0.2
    low, high = model.predict_interval(test, 0.8).T
    assert np.mean((low <= seen) & (seen <= high)) > 0.78
    assert rmse(model.predict(test), seen) < rmse(damped(X[:5000], stars[:5000], test), seen)
    # Cuts, by the spacing of the true ones in units of the noise, 0.5.
    cuts = model.fitted_.cuts[:, 1:-1].mean(axis=0)
    assert_allclose(np.diff(cuts), np.diff([1.5, 2.6, 3.1, 4.0]) / 0.5, rtol=0.25)
    with pytest.raises(ValueError, match="needs 2 to 100"):
        quick(likelihood="ordinal").fit(X, y)


def test_held_out_error_runs_along():
    X, y, _ = made()
    model = quick(n_sweeps=40, keep=30, burn_in=0.25).fit(X[:4000], y[:4000], validation=(X[4000:], y[4000:]))
    errors = [record["validation_rmse"] for record in model.history_]
    assert len(errors) == 40
    assert_allclose(errors[-1], rmse(model.predict(X[4000:]), y[4000:]), rtol=1e-3)
    labels = quick(likelihood="probit", n_sweeps=12).fit(X[:4000], y[:4000] > 3, validation=(X[4000:], y[4000:] > 3))
    assert 0 < labels.history_[-1]["validation_log_loss"] < np.log(2)
    with pytest.raises(ValueError, match="validation must be a pair"):
        quick().fit(X, y, validation=X)


def same_fit(one, other):
    for name in ("users", "items", "alphas", "noise", "hyper", "cuts"):
        assert_array_equal(getattr(one.fitted_, name), getattr(other.fitted_, name))
    assert_array_equal(one.fitted_.shift[0], other.fitted_.shift[0])
    assert [r["loss"] for r in one.history_] == [r["loss"] for r in other.history_]


def test_a_killed_fit_is_resumed_with_the_same_bits(tmp_path):
    script = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from tests.models.test_bayes import made, quick
from halfstep.data.sweeps import SweepFile
save = SweepFile.save
def save_and_die(self, sweep, *rest):
    save(self, sweep, *rest)
    if sweep == 15:
        os.kill(os.getpid(), signal.SIGKILL)
SweepFile.save = save_and_die
X, y, _ = made(cells=1500)
quick(n_sweeps=24, likelihood="student", checkpoint=sys.argv[1], every=5).fit(X, y)
"""
    path, root = tmp_path / "fit.checkpoint", Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script, path, root], cwd=root, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    X, y, _ = made(cells=1500)
    given = {"n_sweeps": 24, "likelihood": "student", "checkpoint": path, "every": 5}
    with pytest.raises(CheckpointError, match="already holds sweep 15"):
        quick(**given).fit(X, y)
    with pytest.raises(CheckpointError, match="another fit: data differ"):
        quick(**given, resume=True).fit(X, 6 - y)
    with pytest.raises(CheckpointError, match="another fit: parameters differ"):
        quick(**given | {"n_sweeps": 30}, resume=True).fit(X, y)
    same_fit(quick(**given, resume=True, n_threads=2).fit(X, y), quick(n_sweeps=24, likelihood="student").fit(X, y))


@pytest.mark.parametrize("likelihood", ["gaussian", "probit", "ordinal"])
def test_a_fit_that_broke_off_is_resumed_with_the_same_bits(likelihood, tmp_path, monkeypatch):
    X, y, _ = made(cells=1500)
    values = y > 3 if likelihood == "probit" else np.clip(np.rint(y), 1, 5)
    given = {"n_sweeps": 24, "likelihood": likelihood}
    held = (X[:50], values[:50])
    whole = quick(**given).fit(X, values, validation=held)
    save = SweepFile.save

    def save_and_fail(self, sweep, *rest):
        save(self, sweep, *rest)
        if sweep == 15:
            raise KeyboardInterrupt

    given |= {"checkpoint": tmp_path / "fit", "every": 5}
    monkeypatch.setattr(SweepFile, "save", save_and_fail)
    with pytest.raises(KeyboardInterrupt):
        quick(**given).fit(X, values, validation=held)
    monkeypatch.setattr(SweepFile, "save", save)
    resumed = quick(**given, resume=True).fit(X, values, validation=held)
    same_fit(resumed, whole)
    names = ("validation_rmse", "validation_log_loss")
    assert [[r.get(n) for n in names] for r in resumed.history_] == [[r.get(n) for n in names] for r in whole.history_]
    with pytest.raises(ValueError, match="Give an int"):
        quick(checkpoint=tmp_path / "other", random_state=None).fit(X, y)
    with pytest.raises(ValueError, match="resume=True needs"):
        quick(resume=True).fit(X, y)


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
    for given in ({}, {"likelihood": "student"}, {"likelihood": "probit"}, {"likelihood": "ordinal"}):
        values = {"probit": y > 3, "ordinal": np.clip(np.rint(y), 1, 5)}.get(given.get("likelihood", ""), y)
        model = quick(n_sweeps=12, **given).fit(X, values)
        model.save(tmp_path / "model.safetensors")
        back = halfstep.load(tmp_path / "model.safetensors")
        assert_array_equal(back.predict(X), model.predict(X))
        assert_array_equal(back.recommend(3, 5).ids, model.recommend(3, 5).ids)
        assert back.history_ == timeless(model.history_)
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
    found = model.diagnostics_
    assert found["r_hat"] > 1.1
    assert any(issubclass(w.category, ConvergenceWarning) for w in said)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        settled = quick(n_sweeps=200).fit(X, y).diagnostics_
    assert settled["r_hat"] < 1.1
    assert settled["loss_drift"] < 0.05
    assert 30 < settled["effective_size"] <= settled["draws"] == 150
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


@pytest.mark.parametrize("likelihood", ["gaussian", "student"])
def test_ratings_that_are_all_the_same_end_and_are_predicted(likelihood):
    """The chain began at a noise far below what its prior allows, fell to a precision of 0 and never ended."""
    X, y, _ = made(cells=300)
    mean, std = quick(rank=2, likelihood=likelihood).fit(X, np.full(len(y), 3.0)).predict(X, return_std=True)
    assert_allclose(mean, 3.0)
    assert (std < 0.5).all()


@pytest.mark.parametrize("times", [1e-30, 1e-10, 1e30])
def test_the_unit_of_ratings_does_not_matter_however_small(times):
    """Ratings that spread by less than 1e-9 were taken for a constant, and the fit never ended."""
    X, y, _ = made(cells=300)
    plain, moved = (quick(rank=2).fit(X, target).predict(X) for target in (y, times * y))
    assert_allclose(moved / times, plain, rtol=1e-5)


def test_weights_too_large_to_draw_with_are_refused_in_place_of_a_fit_without_end():
    X, y, _ = made(cells=300)
    with pytest.raises(ArithmeticError, match="huge"):
        quick(rank=2, n_sweeps=60).fit(X, y, sample_weight=np.full(len(y), 1e12))


def test_only_likelihoods_of_classes_offer_probabilities():
    """`hasattr` said yes to all, so `halfstep evaluate --metrics log_loss` broke at a Gaussian."""
    assert [hasattr(BayesMF(likelihood=name), "predict_proba") for name in ("gaussian", "student")] == [False, False]
    assert [hasattr(BayesMF(likelihood=name), "predict_proba") for name in ("probit", "ordinal")] == [True, True]


def test_a_refused_fit_leaves_the_old_one():
    X, y, _ = made(n=8, m=6, cells=60)
    assert refused(
        lambda: quick(rank=2, n_sweeps=4, keep=2).fit(X, y),
        lambda model: model.fit(X[:30], y[:30]),
        lambda model: (model.predict(X[:5]), model.recommend(3, 2), model.history_),
    )


def test_memory_counts_what_is_kept():
    small, large = BayesMF(rank=8, keep=30), BayesMF(rank=8, keep=60)
    assert small.estimate_memory(100, 50, 1000).peak < large.estimate_memory(100, 50, 1000).peak


@pytest.mark.parametrize("likelihood", ["gaussian", "student"])
def test_memory_is_what_a_fit_holds(likelihood):
    X, y, _ = made(n=3000, m=1000, cells=40_000)
    model = quick(rank=8, n_sweeps=8, keep=6, likelihood=likelihood)
    stated = model.estimate_memory(3000, 1000, 40_000)
    model.fit(X[:2000], y[:2000])  # whatever is imported late
    tracemalloc.start()
    model.fit(X, y)
    now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    fit = model.fitted_
    assert stated.phases["sweeps"]["kept draws"] == fit.users.nbytes + fit.items.nbytes + fit.noise.nbytes
    assert now < 1.3 * stated.phases["sweeps"]["kept draws"] + 2e6
    assert 0.5 * most < stated.peak < 2 * most


@pytest.mark.heavy
@pytest.mark.skipif(not RATINGS.exists(), reason="MovieTweetings is not there")
def test_a_short_chain_beats_biases_on_movietweetings():
    with RATINGS.open() as lines:
        table = np.array([line.split("::")[:3] for line in lines], np.int64)
    X = np.column_stack([np.unique(table[:, k], return_inverse=True)[1] for k in (0, 1)])
    y = table[:, 2].astype(float)
    test = np.random.default_rng(0).random(len(y)) < 0.1
    model = BayesMF(random_state=0, n_sweeps=80).fit(X[~test], y[~test])
    with pytest.warns(UnknownIdWarning):
        found = rmse(model.predict(X[test]), y[test])
    assert found < 1.518
    known = np.isin(X[test, 0], X[~test, 0]) & np.isin(X[test, 1], X[~test, 1])
    asked, seen = X[test][known], y[test][known]
    assert rmse(model.predict(asked), seen) < rmse(damped(X[~test], y[~test], asked), seen)
