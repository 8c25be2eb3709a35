"""Sites that send sums end where a fit on all their instances ends."""

import copy
from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from halfstep import CFEnsemble, CFEnsembleCV
from halfstep.data.datasets.generated import make_predictions
from halfstep.ensemble.sealed import PrivacyNoise, SealedSums, Site, share_seeds
from halfstep.ensemble.sums import SiteSums

pytestmark = pytest.mark.filterwarnings("ignore::halfstep.ensemble.predictions.PredictionWarning")
SETTINGS = {"shrinkage": 5.0, "calibrate": False, "dtype": "float64", "max_iter": 12, "tol": 1e-9}


def federated(model, sites, rounds=100):
    for _ in range(rounds):
        if model.merge([copy.deepcopy(model).accumulate(P, y) for P, y in sites]):
            return model
    raise AssertionError("the sites did not finish")


@pytest.mark.parametrize(
    "parameters",
    [
        {"rho": 1.0},
        {"solver": "als", "confidence": "certainty"},
        {"rho": 1.0, "on": "latent", "class_weight": None},
        {"solver": "als", "link": "identity", "biases": False, "aggregator": "mean", "reg": 0.1},
    ],
)
def test_merged_sums_give_the_central_fit(parameters):
    P, y, _ = make_predictions(300, 8, labels=0.4, random_state=0)
    central = CFEnsemble(**{**SETTINGS, **parameters}).fit(P, y)
    cuts = [slice(0, 90), slice(90, 220), slice(220, 300)]
    model = federated(CFEnsemble(**{**SETTINGS, **parameters}), [(P[c], y[c]) for c in cuts])
    assert_allclose(model.classifier_factors_, central.classifier_factors_, rtol=1e-6, atol=1e-8)
    assert_allclose(model.predict_proba(P), central.predict_proba(P), atol=1e-6)
    assert_allclose([r["total"] for r in model.history_], [r["total"] for r in central.history_], rtol=1e-8)
    assert_allclose(model.novelty(P), central.novelty(P), atol=1e-6)


def test_what_travels_has_no_instances():
    P, y, _ = make_predictions(200, 6, labels=0.4, random_state=0)
    model = CFEnsemble(rank=2, rho=1.0, **SETTINGS)
    model.merge([model.accumulate(P, y)])
    sent = dict(model.accumulate(P, y).sums)
    sent |= vars(sent.pop("rows"))
    assert all(200 not in np.shape(value) for value in sent.values())
    assert sent["matrices"].shape == (6, 3, 3)  # bias and two factors of each classifier


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "solver='als' or rho=1"),
        ({"rho": 1.0, "shrinkage": "auto"}, "shrinkage as a finite number"),
        ({"rho": 1.0, "shrinkage": 1.0}, "calibrate=False"),
        ({"rho": 1.0, "shrinkage": 1.0, "calibrate": False, "confidence": "calibration"}, "one instance at a time"),
    ],
)
def test_what_cannot_be_summed_is_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        CFEnsemble(**parameters).accumulate(np.full((4, 2), 0.5), [0, 1, 0, 1])


def test_rounds_must_match_and_merged_models_have_no_instances():
    P, y, _ = make_predictions(120, 5, labels=0.5, random_state=0)
    model = CFEnsemble(rho=1.0, **SETTINGS)
    first = model.accumulate(P, y)
    model.merge([first])
    with pytest.raises(ValueError, match="the sites answered 'start', but this round is 'sweep'"):
        model.merge([first])
    with pytest.raises(ValueError, match="cannot be added; merge every round"):
        first + model.accumulate(P, y)
    model = federated(CFEnsemble(rho=1.0, **SETTINGS), [(P, y)])
    with pytest.raises(ValueError, match="query needs fitted instances"):
        model.query(1)


# ---------------------------------------------------------------------- what sums give away


def attack(sums, factors):
    """Predictions and the label of a site with one instance, from the sums of one round and the classifiers it got.

    A classifier's quadratic is w x x' and its vector w (t - b) x, x = (1, factors): their ratio is the logit less the
    instance's bias b, which follows from what the classifiers leave. The aggregator's gradient is (p - y) x, so the
    sign of its intercept is that of the label.
    """
    rows, (start, stop) = sums["rows"], factors.columns.classifier_free
    w = rows.matrices[0, 0, 0]
    x, s = rows.matrices[0, 0] / w, rows.vectors[:, 0] / w
    b = w * (s - factors.classifier_factors[:, start:stop] @ x).sum() / factors.reg
    return 1 / (1 + np.exp(-np.clip(s + b, -30, 30))), float(sums["gradient"][0] < 0)


def sites_with_one_instance():
    P, y, _ = make_predictions(121, 6, missing=0.0, labels=0.9, random_state=0)
    one = int(np.flatnonzero(~np.isnan(y))[0])
    rest = np.delete(np.arange(121), one)
    return (P[[one]], y[[one]]), [(P[rest[:60]], y[rest[:60]]), (P[rest[60:]], y[rest[60:]])]


def second_round(P, y, rest, seal=None):
    model = CFEnsemble(rank=2, rho=1.0, **SETTINGS)
    model.merge([model.accumulate(*each) for each in rest])
    return model, model.accumulate(P, y, least=1, site=seal)


def test_one_instance_is_recovered_from_plain_sums_and_therefore_refused():
    """Predictions came back to three decimals, and the sign of the label."""
    (P, y), rest = sites_with_one_instance()
    model, sent = second_round(P, y, rest)
    found, label = attack(sent.sums, model.federated_.factors)
    assert_allclose(found, np.clip(P[0], 0.05, 0.95), atol=1e-3)
    assert label == y[0]
    with pytest.raises(ValueError, match="the site has 1 instances, and sums over fewer than least=20"):
        model.accumulate(P, y)


def test_nothing_is_recovered_from_sealed_sums():
    (P, y), rest = sites_with_one_instance()
    labels = []
    for _ in range(20):
        seeds = share_seeds(3)
        model, sent = second_round(P, y, rest, Site(0, seeds[0]))
        alone = SealedSums(sent.stage, sent.number, sent.layout, sent.words, frozenset(range(3)), 3).opened()
        found, label = attack(alone.sums, model.federated_.factors)  # as if the masks were not there
        assert np.abs(found - np.clip(P[0], 0.05, 0.95)).max() > 1e-3
        labels.append(label == y[0])
        bits = np.unpackbits(sent.words.view(np.uint8))
        assert abs(bits.mean() - 0.5) < 5 / np.sqrt(4 * len(bits))  # uniform, whatever was sealed
    assert 1 < sum(labels) < 19  # a coin knows as much
    with pytest.raises(ValueError, match=r"the sums of sites \[1, 2\] are missing"):
        sent.opened()


def test_few_labels_and_few_predictions_are_refused():
    P, y, _ = make_predictions(60, 5, missing=0.0, labels=0.9, random_state=0)
    model = CFEnsemble(rho=1.0, **SETTINGS)
    few = np.where(np.arange(60) < 3, 1.0, np.nan)
    with pytest.raises(ValueError, match="3 labels, and sums over fewer than half of least=20"):
        model.accumulate(P, few)
    P[2:, 3] = np.nan
    with pytest.raises(ValueError, match="classifier 3 has 2 predictions at the site"):
        model.accumulate(P, y)


def test_sealed_sums_give_the_central_fit():
    P, y, _ = make_predictions(300, 8, labels=0.5, random_state=0)
    central = CFEnsemble(rho=1.0, **SETTINGS).fit(P, y)
    cuts = [slice(0, 90), slice(90, 220), slice(220, 300)]
    sites = [Site(k, seeds) for k, seeds in enumerate(share_seeds(3))]
    model = CFEnsemble(rho=1.0, **SETTINGS)
    for _ in range(100):
        if model.merge([model.accumulate(P[c], y[c], site=site) for c, site in zip(cuts, sites, strict=True)]):
            break
    assert_allclose(model.predict_proba(P), central.predict_proba(P), atol=1e-6)
    assert sites[0].spent == (np.inf, 0.0)


@given(st.integers(2, 5), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_masks_cancel_exactly_in_the_total(n_sites, seed):
    rng = np.random.default_rng(seed)
    given_sums = [SiteSums("any", {"a": rng.normal(0, 1000, (3, 2)), "b": float(rng.normal())}) for _ in range(n_sites)]
    sites = [Site(k, seeds) for k, seeds in enumerate(share_seeds(n_sites))]
    for _ in range(2):  # rounds have masks of their own
        sent = [site.seal(sums, list) for site, sums in zip(sites, given_sums, strict=True)]
        total = reduce(add, sent).opened().sums
        assert_allclose(total["a"], sum(each.sums["a"] for each in given_sums), atol=n_sites * 2.0**-33)
        assert_allclose(total["b"], sum(each.sums["b"] for each in given_sums), atol=n_sites * 2.0**-33)
    first, again = (Site(0, {1: bytes(32)}).seal(given_sums[0], list).words for _ in range(2))
    assert (first == again).all()  # a new Site starts again: one serves a whole fit
    with pytest.raises(ValueError, match="do not belong to one round"):
        sent[0] + sent[0]


def test_noise_is_bounded_by_what_one_instance_can_do():
    """The deviation is that of the Gaussian mechanism, and no instance moves the total further than its bound."""
    noise = PrivacyNoise(epsilon=0.5, delta=1e-5, bound=2.0)
    assert noise.deviation == pytest.approx(2 * np.sqrt(2 * np.log(1.25e5)) / 0.5)
    rows = [np.full(4, 100.0), np.full(4, 0.1)]
    totals = [noise.total(each, np.random.default_rng(0)) for each in (rows, rows[1:])]
    assert np.linalg.norm(totals[0] - totals[1]) == pytest.approx(2.0)
    drawn = [noise.total(rows, np.random.default_rng(k)) for k in range(300)]
    assert np.std(drawn) == pytest.approx(noise.deviation, rel=0.1)
    for bad in ({"epsilon": 2.0}, {"epsilon": 0.5, "delta": 0}, {"epsilon": 0.5, "bound": 0}):
        with pytest.raises(ValueError, match=f"{list(bad)[-1]}="):
            PrivacyNoise(**bad)


@pytest.mark.filterwarnings("ignore")
def test_a_fit_under_noise_ends_and_states_its_epsilon():
    P, y, _ = make_predictions(80, 4, missing=0.0, labels=0.9, random_state=0)
    sites = [Site(k, seeds, PrivacyNoise(1.0, bound=20.0)) for k, seeds in enumerate(share_seeds(2))]
    model = CFEnsemble(rank=1, rho=1.0, aggregator="mean", **{**SETTINGS, "max_iter": 1})
    done = False
    for _ in range(60):
        parts = zip((slice(0, 40), slice(40, 80)), sites, strict=True)
        done = model.merge([model.accumulate(P[c], y[c], site=site) for c, site in parts])
        if done:
            break
    assert done
    assert np.isfinite(model.predict_proba(P)).all()
    assert sites[0].spent == (sites[0].rounds, pytest.approx(sites[0].rounds * 1e-5))


def test_seeds_must_be_those_of_all_other_sites():
    with pytest.raises(ValueError, match="one for each other site"):
        Site(0, {2: bytes(32)})
    with pytest.raises(ValueError, match="secrets of at least 16 bytes"):
        Site(0, {1: b"short"})
    P, y, _ = make_predictions(60, 4, missing=0.0, labels=0.9, random_state=0)
    model = CFEnsemble(rho=1.0, **SETTINGS)
    with pytest.raises(ValueError, match="all of them plain or all of them sealed"):
        model.merge([model.accumulate(P, y), model.accumulate(P, y, site=Site(0, share_seeds(2)[0]))])


@pytest.mark.parametrize("make", [lambda: CFEnsemble(rho=1.0, **SETTINGS), CFEnsembleCV])
def test_names_of_classifiers_that_sums_would_lose_are_refused(make):
    """A site with its columns in another order changed everybody's answers, and so did a reversed frame later."""
    P, y, _ = make_predictions(150, 5, missing=0.1, labels=0.9, random_state=0)
    named = pd.DataFrame(P, columns=list("abcde"))
    with pytest.raises(ValueError, match="know them by place alone"):
        make().accumulate(named, y)
    make().accumulate(named[list("abcde")].to_numpy(), y)
