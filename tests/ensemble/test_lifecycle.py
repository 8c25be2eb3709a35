"""Life after fit: more classifiers, instances and labels; queries; tasks; novelty and routing; diagnostics."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import average_precision_score, log_loss

from halfstep import CFEnsemble
from halfstep.data.datasets.generated import make_predictions

pytestmark = pytest.mark.filterwarnings("ignore::halfstep.ensemble.predictions.PredictionWarning")


@pytest.fixture(scope="module")
def data():
    return make_predictions(600, 15, missing=0.3, labels=0.2, random_state=4)


def test_add_classifiers_leaves_the_rest_alone_and_helps(data):
    P, y, truth = data
    model = CFEnsemble().fit(P[:, :10], y)
    V, U, before = model.classifier_factors_.copy(), model.instance_factors_.copy(), model.predict_proba()[:, 1]
    model.add_classifiers(P[:, 10:])
    assert np.array_equal(model.classifier_factors_[:10], V)
    assert np.array_equal(model.instance_factors_, U)
    assert model.predict_proba(P[:5]).shape == (5, 2)
    assert model.n_features_in_ == 15
    after, rest = model.predict_proba()[:, 1], np.isnan(y)
    assert not np.array_equal(after, before)
    full = CFEnsemble().fit(P, y).predict_proba()[:, 1]
    score = [average_precision_score(truth[rest], p[rest]) for p in (before, after, full)]
    assert score[1] > score[0] - 0.01
    with pytest.raises(ValueError, match="P_extra has 5 instances, but the model was fitted with 600"):
        model.add_classifiers(P[:5, :2])


@pytest.mark.parametrize("confidence", ["uniform", "certainty", "agreement", "array"])
def test_new_classifiers_are_solved_exactly(data, confidence):
    P, y, _ = data
    given = np.random.default_rng(0).uniform(0.5, 2, (600, 10)) if confidence == "array" else confidence
    model = CFEnsemble(dtype="float64", confidence=given).fit(P[:, :10], y).add_classifiers(P[:, 10:])
    start, stop = model.fitted_.factors.columns.classifier_free
    table, U = model.fitted_.factors.table, model.instance_factors_
    V = model.classifier_factors_[10:]
    residual = np.nan_to_num(table.filled_weights()[:, 10:] * (table.targets[:, 10:] - U @ V.T))
    assert_allclose(residual.T @ U[:, start:stop], model.reg * V[:, start:stop], atol=1e-7)


def test_partial_fit_with_more_instances_comes_near_the_whole_fit(data):
    P, y, _ = data
    whole = CFEnsemble(tol=1e-7, max_iter=200).fit(P, y).predict_proba()
    model = CFEnsemble(tol=1e-7, max_iter=200).fit(P[:400], y[:400])
    model.partial_fit(P[400:], y[400:], max_iter=100)
    assert np.abs(model.predict_proba() - whole).mean() < 0.02
    assert model.instance_factors_.shape[0] == 600


def test_partial_fit_with_labels_alone(data):
    P, y, truth = data
    model = CFEnsemble(max_iter=60).fit(P, y)
    more = np.full(600, -1)
    more[np.flatnonzero(np.isnan(y))[:150]] = truth[np.flatnonzero(np.isnan(y))[:150]]
    model.partial_fit(y=more)
    together = np.where(more >= 0, more, y)
    assert (model.fitted_.labels >= 0).sum() == (~np.isnan(together)).sum()
    expected = CFEnsemble(max_iter=60).fit(P, together).predict_proba()
    assert np.abs(model.predict_proba() - expected).mean() < 0.01


def test_partial_fit_reads_labels_as_fit_did():
    P, y, _ = make_predictions(200, 6, labels=0.5, random_state=0)
    names = [None if np.isnan(v) else ("yes" if v else "no") for v in y]
    model = CFEnsemble(positive="yes").fit(P, names)
    model.partial_fit(P[:20], ["yes", *[None] * 19])
    assert model.predict_proba().shape == (220, 2)
    with pytest.raises(ValueError, match=r"y has the label 'maybe', but the classes are \['no', 'yes'\]"):
        model.partial_fit(P[:2], ["maybe", None])
    with pytest.raises(ValueError, match=r"y has shape .*one label for each of 220 instances"):
        model.partial_fit(y=["yes"])
    with pytest.raises(ValueError, match="partial_fit needs P"):
        model.partial_fit()
    assert hasattr(CFEnsemble(positive="yes").partial_fit(P, names), "classes_")


def test_query_asks_for_labels_that_help_more_than_chance(data):
    P, _, truth = data
    rng = np.random.default_rng(0)
    start = np.r_[np.flatnonzero(truth == 1)[:5], np.flatnonzero(truth == 0)[:5]]
    y = np.full(600, np.nan)
    y[start] = truth[start]
    model = CFEnsemble(shrinkage="auto").fit(P, y)
    asked = model.query(40)
    assert len(set(asked)) == 40
    assert np.isnan(y[asked]).all()

    def loss_with(chosen):
        labels = y.copy()
        labels[chosen] = truth[chosen]
        return log_loss(truth, CFEnsemble(shrinkage="auto").fit(P, labels).predict_proba()[:, 1])

    chance = [loss_with(rng.choice(np.flatnonzero(np.isnan(y)), 40, replace=False)) for _ in range(5)]
    assert loss_with(asked) < np.mean(chance)
    with pytest.raises(ValueError, match="n=0 must be between 1 and the number of unlabelled instances"):
        model.query(0)


def test_tasks_share_factors_and_differ_in_their_answers():
    """Two label sets on the same kind of instances: the second is the opposite of the first."""
    P, _, truth = make_predictions(800, 10, missing=0.2, labels=0.3, random_state=1)
    tasks = np.where(np.arange(800) % 2, "same", "opposite")
    target = np.where(tasks == "same", truth, 1 - truth).astype(float)
    y = np.where(np.random.default_rng(0).random(800) < 0.3, target, np.nan)
    rest = np.isnan(y)
    model = CFEnsemble().fit(P, y, tasks=tasks)
    assert average_precision_score(target[rest], model.predict_proba()[rest, 1]) > 0.85
    assert average_precision_score(target[rest], CFEnsemble().fit(P, y).predict_proba()[rest, 1]) < 0.75
    assert_allclose(model.predict_proba(P[:50], tasks=tasks[:50]), model.predict_proba()[:50], atol=1e-4)
    common = model.predict_proba(P[:50], tasks=["unheard of"] * 50)
    assert_allclose(common, model.predict_proba(P[:50]))
    with pytest.raises(ValueError, match="tasks must be given either in every call or in none"):
        model.partial_fit(P[:5], y[:5])


def test_novel_instances_are_recognised_and_routed():
    P, y, _ = make_predictions(800, 16, missing=0.0, labels=0.3, random_state=2)
    model = CFEnsemble(rank=4, route="auto").fit(P, y)
    strange = np.random.default_rng(0).permuted(P[:200], axis=1)
    strange = np.where(np.random.default_rng(1).random(strange.shape) < 0.5, strange, 1 - strange)
    assert np.median(model.novelty(strange)) > np.quantile(model.novelty_, 0.9)
    assert model.routed_.sum() == pytest.approx(8, abs=2)
    routed, plain = model.predict_proba(strange), CFEnsemble(rank=4).fit(P, y).predict_proba(strange)
    novel = model.fitted_.routing.novel(model.novelty(strange))
    assert novel.mean() > 0.3
    assert_allclose(routed[~novel], plain[~novel])
    assert (routed[novel] != plain[novel]).all()
    assert_allclose(routed[novel], model.fitted_.routing.stacker.predict_proba(strange[novel]), atol=1e-6)


def test_diagnostics(data):
    P, y, truth = data
    model = CFEnsemble(max_iter=20).fit(P, y)
    found = model.diagnostics_
    z = model.instance_factors_.astype(float) @ model.classifier_factors_.astype(float).T
    gap = np.clip(P, 0.05, 0.95) - 1 / (1 + np.exp(-z))
    known = ~np.isnan(y)
    assert_allclose(found.rmse_labelled, np.sqrt(np.nanmean(gap[known] ** 2)), rtol=1e-4)
    assert_allclose(found.rmse_unlabelled, np.sqrt(np.nanmean(gap[~known] ** 2)), rtol=1e-4)
    assert_allclose(np.diag(found.classifier_similarity), 1)
    assert_allclose(found.classifier_similarity, found.classifier_similarity.T)
    assert found.difficulty.shape == found.novelty.shape == (600,)
    assert (found.novelty >= 0).all()
    assert (found.novelty <= 1).all()
    assert len(found.convergence["total"]) == model.n_iter_
    assert found.calibration["count"].sum() == known.sum()
    assert_allclose(found.calibration["count"] @ found.calibration["observed"], truth[known].sum())
    skilful = np.arange(15) % 3 != 0  # make_predictions: every third classifier is weak
    assert found.classifier_weights[skilful].mean() > found.classifier_weights[~skilful].mean()
    assert found.as_dict()["rmse_labelled"] == found.rmse_labelled


def test_weights_of_other_aggregators_are_those_of_the_nearest_linear_one(data):
    P, y, _ = data
    linear = CFEnsemble(rho=1.0, shrinkage=3.0).fit(P, y)
    from halfstep.ensemble.diagnostics import classifier_weights

    model = CFEnsemble(rho=1.0, shrinkage=3.0, on="latent").fit(P, y)
    scores = model.fitted_.factors.scores(slice(None))
    moved = (scores - scores.mean(axis=0)) @ classifier_weights(model.fitted_.factors, model.fitted_.fusion)
    answer = model.fitted_.fusion.log_odds(model.fitted_.factors)
    assert np.corrcoef(moved, answer)[0, 1] > 0.999
    assert np.isfinite(linear.classifier_weights_).all()
