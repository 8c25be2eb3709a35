"""CFEnsembleCV at many sites: sums give the fit on all instances, sealed ones too, and small sums are refused."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import log_loss

import halfstep as hs
from halfstep.datasets import make_predictions
from halfstep.ensemble.sealed import PrivacyNoise, Site, share_seeds

M = 9
PARAMETERS = {"ranks": (1, 2)}


@pytest.fixture(scope="module")
def data():
    return make_predictions(700, M, missing=0.3, labels=0.6, random_state=3)


def rounds(model, parts, sites=None, **options):
    """How many rounds a fit takes."""
    sites = [None] * len(parts) if sites is None else sites
    for number in range(1, 100):
        if model.merge(
            [model.accumulate(*part, site=site, **options) for part, site in zip(parts, sites, strict=True)]
        ):
            return number
    raise AssertionError("not finished")


def cut(P, y, *places):
    edges = [0, *places, len(P)]
    return [(P[a:b], y[a:b]) for a, b in pairwise(edges)]


def test_one_site_gives_the_fit_on_one_machine(data):
    P, y, _ = data
    local = hs.CFEnsembleCV(**PARAMETERS).fit(P, y)
    model = hs.CFEnsembleCV(**PARAMETERS)
    assert rounds(model, [(P, y)]) < 60
    assert_allclose(model.predict_proba(P), local.predict_proba(), atol=1e-6)
    assert_allclose(model.uncertainty(P), local.uncertainty(), atol=1e-6)
    assert model.log_loss_ == pytest.approx(local.log_loss_, abs=1e-6)
    assert [row["name"] for row in model.members_[:3]] == [row["name"] for row in local.members_[:3]]


def test_views_of_three_sites_are_those_of_all_rows_and_answers_differ_by_folds_alone(data):
    P, y, truth = data
    local = hs.CFEnsembleCV(**PARAMETERS).fit(P, y)
    model = hs.CFEnsembleCV(**PARAMETERS)
    rounds(model, cut(P, y, 200, 450))
    mine, theirs = (each.fitted_.committee.views for each in (model, local))
    for name, view in mine.items():
        for part, array in view.state().items():
            assert_allclose(array, theirs[name].state()[part], rtol=1e-6, atol=1e-8)
    found = model.predict_proba(P)
    assert np.abs(found - local.predict_proba()).mean() < 0.01
    assert log_loss(truth, found) == pytest.approx(log_loss(truth, local.predict_proba()), abs=0.005)


def test_sealed_sums_give_what_plain_sums_give(data, tmp_path):
    P, y, _ = data
    parts = cut(P, y, 200, 450)
    plain, sealed = hs.CFEnsembleCV(**PARAMETERS), hs.CFEnsembleCV(**PARAMETERS)
    rounds(plain, parts)
    rounds(sealed, parts, [Site(number, seeds) for number, seeds in enumerate(share_seeds(3))])
    assert_allclose(sealed.predict_proba(P), plain.predict_proba(P), atol=1e-5)
    sealed.save(tmp_path / "model.safetensors")
    assert_allclose(hs.load(tmp_path / "model.safetensors").predict_proba(P), sealed.predict_proba(P))
    assert sealed.predict_proba().shape == (0, 2)
    with pytest.raises(ValueError, match="no fitted instances"):
        sealed.novelty(P)
    with pytest.raises(ValueError, match="query needs the fitted predictions; this model was fitted at many sites"):
        sealed.query(2)


def test_a_site_without_labels_takes_part(data):
    P, y, _ = data
    parts = cut(P, np.where(np.arange(len(y)) < 450, y, np.nan), 450)
    model = hs.CFEnsembleCV(**PARAMETERS)
    rounds(model, parts)
    assert_allclose(
        model.predict_proba(P), hs.CFEnsembleCV(**PARAMETERS).fit(P, parts_y(parts)).predict_proba(), atol=1e-6
    )


def parts_y(parts):
    return np.concatenate([y for _, y in parts])


def test_sums_over_few_are_refused(data):
    P, y, _ = data
    model = hs.CFEnsembleCV(**PARAMETERS)
    with pytest.raises(ValueError, match="fewer than least=20"):
        model.accumulate(P[:10], y[:10])
    few = np.where(np.arange(len(y)) < 60, y, np.nan)
    with pytest.raises(ValueError, match=r"in 5 folds.*site="):
        model.accumulate(P, few)
    seeds = share_seeds(2)
    model.accumulate(P, few, site=Site(0, seeds[0]))  # only the total will be read
    with pytest.raises(ValueError, match="noise would drown"):
        model.accumulate(P, y, site=Site(0, seeds[0], PrivacyNoise(epsilon=0.5)))


def test_what_has_no_place_is_named_and_changes_nothing(data):
    P, y, _ = data
    for parameters, said in (({"votes": True}, "votes"), ({"positive": 0}, "1 - P"), ({"max_seconds": 3.0}, "max_sec")):
        with pytest.raises(ValueError, match=said):
            hs.CFEnsembleCV(**PARAMETERS | parameters).accumulate(P, y)
    model = hs.CFEnsembleCV(**PARAMETERS)
    first = model.accumulate(P, y)
    model.merge([first])
    before = model.federated_
    with pytest.raises(ValueError, match="as many of each"):
        hs.CFEnsembleCV(**PARAMETERS).merge([model_of(P, np.where(y == 1, np.nan, y))])
    with pytest.raises(ValueError, match="plain or all"):
        model.merge([])
    assert model.federated_ is before


def model_of(P, y):
    y = y.copy()
    y[np.flatnonzero(y == 0)[0]] = 1
    return hs.CFEnsembleCV(**PARAMETERS).accumulate(P, y)
