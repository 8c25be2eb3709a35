"""Features of instances and groups of classifiers in the averaged family: they help, go on living, and are checked."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import log_loss

import halfstep as hs
from halfstep.ensemble.predictions import expit

N, M = 500, 9


def told_by_features(seed=0, classes=2):
    """Weak classifiers, and two features that say more than they do; a third that says nothing."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, N)
    signs = np.eye(classes)[truth] * 2 - 1
    features = np.column_stack([truth * 1.5 + rng.normal(size=N), (truth == 0) * 40 + 30 * rng.normal(size=N)])
    features = np.column_stack([features, rng.normal(size=N)])
    P = np.exp(0.2 * signs[:, None, :] + rng.normal(size=(N, M, classes)))
    P /= P.sum(axis=2, keepdims=True)
    y = np.where(np.arange(N) < 120, truth, -1)
    return (P[:, :, 1] if classes == 2 else P), y, truth, features


@pytest.mark.parametrize("classes", [2, 3])
def test_features_that_tell_lower_the_loss_on_new_instances(classes):
    P, y, truth, X = told_by_features(classes=classes)
    old, new = slice(None, 300), slice(300, None)
    plain = hs.CFEnsembleCV(ranks=(2,)).fit(P[old], y[old])
    told = hs.CFEnsembleCV(ranks=(2,)).fit(P[old], y[old], features=X[old])
    assert any("features" in member["name"] and member["weight"] > 0.01 for member in told.members_)
    answer = told.predict_proba(P[new], features=X[new])
    assert log_loss(truth[new], answer) < log_loss(truth[new], plain.predict_proba(P[new])) - 0.05
    assert_allclose(told.predict_proba(P[old], features=X[old]), told.predict_proba(), atol=1e-9)
    assert_allclose(told.predict_proba(P[new], features=X[new]), answer)
    assert told.uncertainty(P[new], features=X[new]).shape == (200,)
    assert told.classifier_weights_.shape == (M,)


def test_a_unit_of_measurement_changes_nothing():
    P, y, _, X = told_by_features()
    one, two = (hs.CFEnsembleCV(ranks=(2,)).fit(P, y, features=f) for f in (X, X * [1000, 0.01, 3] + 5))
    assert_allclose(one.predict_proba(), two.predict_proba(), atol=1e-8)


def test_more_instances_with_features_are_one_fit_on_all_of_them():
    P, y, _, X = told_by_features()
    grown = hs.CFEnsembleCV(ranks=(2,)).fit(P[:300], y[:300], features=X[:300])
    grown.partial_fit(P[300:], y[300:], features=X[300:])
    assert_allclose(grown.predict_proba(), hs.CFEnsembleCV(ranks=(2,)).fit(P, y, features=X).predict_proba(), atol=1e-8)


def families(seed=0, classes=2):
    """Six copies of one poor classifier and three that know different things: a mean hears the copies."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, N)
    signs = np.eye(classes)[truth] * 2 - 1
    copies = 0.3 * signs[:, None, :] + 2.5 * rng.normal(size=(N, 1, classes)) + 0.3 * rng.normal(size=(N, 6, classes))
    alone = 0.8 * signs[:, None, :] + rng.normal(size=(N, 3, classes))
    P = np.exp(np.concatenate([copies, alone], axis=1))
    P /= P.sum(axis=2, keepdims=True)
    return (P[:, :, 1] if classes == 2 else P), truth, ["copies"] * 6 + ["a", "b", "c"]


@pytest.mark.parametrize("classes", [2, 3])
def test_a_group_counts_once_so_copies_do_not_outvote_the_others(classes):
    P, truth, groups = families(classes=classes)
    y = np.where(np.arange(N) < 12, truth, -1)
    plain = hs.CFEnsembleCV(ranks=(1,)).fit(P, y)
    grouped = hs.CFEnsembleCV(ranks=(1,)).fit(P, y, groups=groups)
    names = [member["name"] for member in grouped.members_]
    assert sum("groups" in name for name in names) == 3
    hidden = y < 0
    losses = [log_loss(truth[hidden], model.predict_proba()[hidden]) for model in (plain, grouped)]
    assert losses[1] < losses[0] - 0.005
    named = hs.CFEnsembleCV(ranks=(1,)).fit(P, y, groups=[{"copies": 7, "a": 1, "b": 3, "c": 2}[g] for g in groups])
    assert_allclose(named.predict_proba(), grouped.predict_proba(), atol=1e-9)  # names are names


def test_added_classifiers_bring_their_groups():
    P, truth, groups = families()
    y = np.where(np.arange(N) < 60, truth, -1)
    model = hs.CFEnsembleCV(ranks=(1,)).fit(P[:, :8], y, groups=groups[:8])
    with pytest.raises(ValueError, match="groups="):
        model.add_classifiers(P[:, 8:])
    model.add_classifiers(P[:, 8:], groups=groups[8:])
    whole = hs.CFEnsembleCV(ranks=(1,)).fit(P, y, groups=groups)
    assert_allclose(model.predict_proba(), whole.predict_proba(), atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_file_keeps_features_and_groups(classes, tmp_path):
    P, y, _, X = told_by_features(classes=classes)
    model = hs.CFEnsembleCV(ranks=(2,)).fit(P, y, features=X, groups=np.arange(M) % 3)
    model.save(tmp_path / "model.safetensors")
    loaded = hs.load(tmp_path / "model.safetensors")
    assert_array_equal(loaded.predict_proba(P[:9], features=X[:9]), model.predict_proba(P[:9], features=X[:9]))
    loaded.partial_fit(y={3: int(y[3])})
    assert_allclose(loaded.predict_proba(), model.predict_proba(), atol=1e-8)


def test_what_is_wrong_beside_predictions_is_named():
    P, y, _, X = told_by_features()
    model = hs.CFEnsembleCV(ranks=(1,))
    for features, said in ((X[:9], "features has shape"), (np.where(X.max() == X, np.nan, X), "not finite")):
        with pytest.raises(ValueError, match=said):
            model.fit(P, y, features=features)
    with pytest.raises(ValueError, match="groups has shape"):
        model.fit(P, y, groups=["a"])
    model.fit(P, y, features=X)
    with pytest.raises(ValueError, match="fitted with 3 features"):
        model.predict_proba(P[:5])
    with pytest.raises(ValueError, match="pass P"):
        model.partial_fit(y=y, features=X)
    with pytest.raises(ValueError, match="features"):
        hs.CFEnsembleCV(ranks=(1,)).fit(P, y).predict_proba(P[:5], features=X[:5])
    many = expit(np.random.default_rng(0).normal(size=(50, 3, 30)))
    many /= many.sum(axis=2, keepdims=True)
    with pytest.raises(ValueError, match="train a classifier on the features"):
        hs.CFEnsembleCV(ranks=(1,)).fit(many, np.arange(50) % 30, features=np.ones((50, 40)))
