"""CFEnsemble as people use it: knobs, the loss, shapes, labels, scikit-learn, imbalance."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, log_loss
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from halfstep import CFEnsemble, baselines, weights
from halfstep.data.datasets.generated import make_predictions

pytestmark = pytest.mark.filterwarnings("ignore::halfstep.ensemble.predictions.PredictionWarning")
SEED_000 = {
    "solver": "als",
    "link": "identity",
    "biases": False,
    "confidence": "certainty",
    "init": "random",
    "reg": 0.01,
    "tol": 0,
}


@pytest.fixture(scope="module")
def data():
    return make_predictions(400, 12, missing=0.3, labels=0.3, random_state=3)


def answers(P, y, fit=None, **parameters):
    return CFEnsemble(**{"max_iter": 8, **parameters}).fit(P, y, **(fit or {})).predict_proba()[:, 1]


KNOBS = {
    "rank": ({}, {"rank": 2}),
    "rho": ({"rho": 0.9}, {"rho": 0.1}),
    "rho 0": ({}, {"rho": 0.0}),
    "rho 1": ({}, {"rho": 1.0}),
    "reg": ({}, {"reg": 8.0}),
    **{
        f"confidence {c}": ({}, {"confidence": c})
        for c in ("certainty", "calibration", "agreement", "label_aware", "label_match", "reliability")
    },
    "confidence array": ({}, {"confidence": np.linspace(0.1, 2, 400 * 12).reshape(400, 12)}),
    "confidence object": ({"confidence": "certainty"}, {"confidence": weights.Certainty(0.2)}),
    "alpha als": ({"solver": "als"}, {"solver": "als", "alpha": 5.0}),
    "alpha label_aware": ({"confidence": "label_aware"}, {"confidence": "label_aware", "alpha": 5.0}),
    "link": ({}, {"link": "identity"}),
    "loss": ({}, {"loss": "bernoulli"}),
    "temperature": ({"loss": "bernoulli"}, {"loss": "bernoulli", "temperature": 3.0}),
    "clip": ({}, {"clip": 0.1}),
    "biases": ({}, {"biases": False}),
    "aggregator mean": ({}, {"aggregator": "mean"}),
    "aggregator attention": ({}, {"aggregator": "attention", "shrinkage": 1.0}),
    "aggregator stacker": ({}, {"aggregator": GaussianNB()}),
    "on reconstructed": ({"shrinkage": 1.0}, {"shrinkage": 1.0, "on": "reconstructed"}),
    "on filled": ({"shrinkage": 1.0}, {"shrinkage": 1.0, "on": "filled"}),
    "shrinkage": ({}, {"shrinkage": 0.5}),
    "class_weight": ({}, {"class_weight": None}),
    "class_weight dict": ({}, {"class_weight": {0: 1.0, 1: 7.0}}),
    "calibrate": ({}, {"calibrate": False}),
    "solver": ({}, {"solver": "als"}),
    "init": ({"max_iter": 2}, {"max_iter": 2, "init": "random"}),
    "random_state": ({"init": "random", "max_iter": 2}, {"init": "random", "max_iter": 2, "random_state": 9}),
    "max_iter": ({}, {"max_iter": 1}),
    "tol": ({}, {"tol": 0.5}),
    "max_seconds": ({}, {"max_seconds": 0.0}),
    "route": ({}, {"route": "auto", "novelty_level": 0.5}),
    "novelty_level": ({"route": "auto", "novelty_level": 0.5}, {"route": "auto", "novelty_level": 0.8}),
    "dtype": ({}, {"dtype": "float64"}),
}


@pytest.mark.parametrize("knob", KNOBS)
def test_every_parameter_changes_the_fit(data, knob):
    P, y, _ = data
    before, after = (answers(P, y, **parameters) for parameters in KNOBS[knob])
    assert np.isfinite(after).all()
    assert np.abs(before - after).max() > (1e-9 if knob == "dtype" else 1e-5)


def test_every_data_argument_changes_the_fit(data):
    P, y, truth = data
    rng = np.random.default_rng(0)
    plain = answers(P, y)
    flipped = y.copy()
    flipped[np.flatnonzero(~np.isnan(y))[:5]] = 1 - flipped[np.flatnonzero(~np.isnan(y))[:5]]
    moved = P.copy()
    moved[np.isnan(y), 0] = 0.5
    changes = {
        "y": answers(P, flipped),
        "P of unlabelled instances": answers(moved, y)[~np.isnan(y)] - plain[~np.isnan(y)],
        "features": answers(P, y, {"features": truth + rng.normal(size=len(y))}),
        "groups": answers(P, y, {"groups": np.arange(12) % 3}),
        "tasks": answers(P, y, {"tasks": np.arange(len(y)) % 2}),
    }
    for name, changed in changes.items():
        difference = changed if name.startswith("P") else changed - plain
        assert np.abs(difference).max() > 1e-4, name


def test_threads_and_verbosity_do_not_change_the_bits(data, capsys):
    P, y, _ = data
    first = CFEnsemble(n_threads=1, max_iter=5).fit(P, y)
    other = CFEnsemble(n_threads=3, max_iter=5, verbose=2).fit(P, y)
    assert np.array_equal(first.predict_proba(), other.predict_proba())


@pytest.mark.parametrize(
    "parameters", [{}, {"rho": 0.95}, {"solver": "als"}, {"loss": "bernoulli"}, SEED_000, {"aggregator": "mean"}]
)
def test_history_never_rises_and_its_parts_add_up(data, parameters):
    P, y, _ = data
    seen = []
    model = CFEnsemble(**{**parameters, "max_iter": 15, "callbacks": (lambda record: seen.append(record["total"]),)})
    model.fit(P, y)
    totals = np.array([record["total"] for record in model.history_])
    assert (np.diff(totals) <= 1e-6 * totals[:-1]).all()
    for record in model.history_:
        assert_allclose(record["total"], record["reconstruction"] + record["supervised"] + record["penalty"], rtol=1e-9)
    assert_allclose(seen, totals)
    supervised = model.history_[-1]["supervised"]
    assert supervised == 0 if parameters.get("solver") == "als" else supervised > 0


def test_total_is_the_formula_of_the_docstring(data):
    P, y, _ = data
    model = CFEnsemble(rho=1.0, dtype="float64", confidence="certainty", max_iter=4).fit(P, y)
    z = model.instance_factors_ @ model.classifier_factors_.T
    c, t = np.abs(P - 0.5), np.log(np.clip(P, 0.05, 0.95)) - np.log1p(-np.clip(P, 0.05, 0.95))
    free_u, free_v = (
        slice(*model.fitted_.factors.columns.row_free),
        slice(*model.fitted_.factors.columns.classifier_free),
    )
    penalty = (model.instance_factors_[:, free_u] ** 2).sum() + (model.classifier_factors_[:, free_v] ** 2).sum()
    expected = (np.nansum(c * (t - z) ** 2) + 2.0 * penalty) / np.nansum(c)
    assert_allclose(model.history_[-1]["total"], expected, rtol=1e-9)


def test_als_is_the_loop_of_the_first_recipe():
    """Label-aware ALS in plain NumPy, from the same start: classifiers, then instances."""
    P, y, _ = make_predictions(60, 8, missing=0.0, labels=0.5, random_state=0)
    rank, lam, sweeps = 3, 0.01, 4
    model = CFEnsemble(**{**SEED_000, "rank": rank, "dtype": "float64", "max_iter": sweeps, "alpha": 2.0, "reg": lam})
    model.fit(P, y)
    from halfstep.core.initial import random_rows

    R, Y = P.T, 0.01 * random_rows(0, 0, 0, 60, rank, np.float64).T
    C = np.abs(R - 0.5)
    for i in np.flatnonzero(~np.isnan(y)):
        C[:, i] *= 1 + 2.0 * (R[:, i] if y[i] == 1 else 1 - R[:, i])
    for _ in range(sweeps):
        X = np.column_stack(
            [np.linalg.solve((Y * c) @ Y.T + lam * np.eye(rank), Y @ (c * r)) for c, r in zip(C, R, strict=True)]
        )
        Y = np.column_stack(
            [np.linalg.solve((X * c) @ X.T + lam * np.eye(rank), X @ (c * r)) for c, r in zip(C.T, R.T, strict=True)]
        )
    shared = model.fitted_.factors.columns.shared
    assert_allclose(model.classifier_factors_[:, shared].T, X, rtol=1e-6, atol=1e-9)
    unlabelled = np.isnan(y)
    assert_allclose(model.instance_factors_[unlabelled][:, shared].T, Y[:, unlabelled], rtol=1e-6, atol=1e-9)


def test_rho_zero_is_stacking_on_complete_predictions():
    P, y, _ = make_predictions(300, 6, missing=0.0, labels=0.5, random_state=1)
    model = CFEnsemble(rho=0.0, shrinkage=5.0, class_weight=None, clip=0.01).fit(P, y)
    stacked = baselines.ShrunkenStacking(strengths=(5.0,)).fit(P, y)
    assert_allclose(model.predict_proba(), stacked.predict_proba(), atol=2e-4)


def test_folding_in_fitted_instances_gives_their_fitted_answer(data):
    P, y, _ = data
    for parameters in (
        {},
        {"solver": "als", "confidence": "certainty"},
        {"confidence": "label_match"},
        {"loss": "bernoulli"},
    ):
        model = CFEnsemble(**parameters).fit(P, y)
        close = 2e-3 if "loss" in parameters else 1e-4  # Newton stops at a tolerance, from different starts
        assert_allclose(model.predict_proba(P), model.predict_proba(), atol=close)
        assert_allclose(model.novelty(P), model.novelty_, atol=close)


def test_a_label_does_not_leak_into_its_own_factors(data):
    """Flip one label: that instance's label-free factors move no more than anybody's."""
    P, y, _ = data
    i = np.flatnonzero(~np.isnan(y))[0]
    other = y.copy()
    other[i] = 1 - y[i]
    a, b = (CFEnsemble(rho=0.5, max_iter=5).fit(P, labels).instance_factors_ for labels in (y, other))
    moved = np.abs(a - b).max(axis=1)
    assert moved[i] <= np.quantile(moved, 0.999) * 1.5


def test_it_beats_the_mean_and_imputed_stacking_where_predictions_are_missing():
    P, y, truth = make_predictions(1500, 24, missing=0.6, labels=0.06, random_state=5)
    rest = np.isnan(y)
    rivals = [baselines.Mean(), baselines.BiasAdjustedMean(), baselines.ShrunkenStacking()]
    best = max(average_precision_score(truth[rest], r.fit(P, y).predict_proba()[rest, 1]) for r in rivals)
    ours = CFEnsemble(shrinkage="auto").fit(P, y).predict_proba()[rest, 1]
    assert average_precision_score(truth[rest], ours) > best
    assert log_loss(truth[rest], ours) < 0.45


def multiclass(n=300, m=8, k=3, seed=0, missing=0.2):
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n)
    scores = rng.normal(size=(n, m, k)) + np.eye(k)[truth][:, None, :] * rng.uniform(0.2, 2.5, m)[:, None]
    P = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    P[rng.random((n, m)) < missing] = np.nan
    names = np.array(["ant", "bee", "cat", "dog"])[truth]
    return P, np.where(rng.random(n) < 0.3, names, None), names


def test_many_classes_with_text_labels():
    P, y, names = multiclass()
    model = CFEnsemble().fit(P, y)
    proba = model.predict_proba()
    assert model.classes_.tolist() == ["ant", "bee", "cat"]
    assert_allclose(proba.sum(axis=1), 1)
    assert (model.predict() == names).mean() > 0.85
    as_list = CFEnsemble().fit([P[:, j] for j in range(P.shape[1])], y)
    assert_allclose(as_list.predict_proba(), proba)
    flat = P.reshape(len(P), -1)
    assert_allclose(CFEnsemble().fit(flat, y).predict_proba(flat), model.predict_proba(P))


def test_two_classes_are_the_same_code():
    P, y, _ = make_predictions(200, 6, random_state=2)
    both = np.stack([1 - P, P], axis=2)
    assert_allclose(CFEnsemble().fit(both, y).predict_proba(), CFEnsemble().fit(P, y).predict_proba())
    flat = CFEnsemble().fit([P[:, j] for j in range(6)], y)
    assert_allclose(flat.predict_proba(), CFEnsemble().fit(P, y).predict_proba())


def test_scikit_learn_conventions():
    X, y = make_classification(300, 8, random_state=0)
    names = np.where(y == 1, "yes", "no")
    base = [
        ("a", LogisticRegression()),
        ("b", GaussianNB()),
        ("c", DecisionTreeClassifier(max_depth=3, random_state=0)),
    ]
    stack = StackingClassifier(base, final_estimator=CFEnsemble(), cv=3).fit(X, names)
    assert stack.score(X, names) > 0.85
    assert set(stack.predict(X)) == {"yes", "no"}
    many, species = load_iris(return_X_y=True)
    assert StackingClassifier(base, final_estimator=CFEnsemble(), cv=3).fit(many, species).score(many, species) > 0.9
    P, _, truth = make_predictions(200, 6, random_state=0)
    fused = cross_val_predict(CFEnsemble(max_iter=5), P, truth, cv=3, method="predict_proba")
    assert average_precision_score(truth, fused[:, 1]) > 0.85
    pipeline = make_pipeline(FunctionTransformer(), CFEnsemble()).fit(P, truth)
    assert pipeline.predict_proba(P).shape == (200, 2)
    twin = clone(CFEnsemble(rank=3, confidence="certainty"))
    assert twin.get_params()["rank"] == 3
    assert not hasattr(twin, "classes_")


# ---------------------------------------------------------------------- imbalance


def imbalanced(rate, n=6000, m=10, labelled=2500, seed=0):
    """Every classifier better than chance; trained on balanced samples, so that most of their scores are high."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < rate).astype(float)
    P = 1 / (1 + np.exp(-(0.8 + 1.0 * (2 * truth[:, None] - 1) + rng.normal(size=(n, m)))))
    y = np.full(n, np.nan)
    y[:labelled] = truth[:labelled]
    return P, y, truth


@pytest.mark.parametrize("rate", [0.1, 0.01])
def test_class_weights_keep_the_weights_positive_where_they_collapse_without(rate):
    """Gradient descent, as the first recipe trains its aggregator, lets the majority pull all weights below zero."""
    P, y, truth = imbalanced(rate)
    known = ~np.isnan(y)

    def descend(balanced, steps=30, step=0.5):
        r, t = P[known], y[known]
        s = np.where(t == 1, len(t) / (2 * t.sum()), len(t) / (2 * (1 - t).sum())) if balanced else np.ones(len(t))
        w, b = np.full(P.shape[1], 1 / P.shape[1]), 0.0
        for _ in range(steps):
            residual = s * (1 / (1 + np.exp(-(r @ w + b))) - t) / s.sum()
            w, b = w - step * r.T @ residual, b - step * residual.sum()
        return w

    assert (descend(balanced=False) < 0).all()  # the collapse
    assert (descend(balanced=True) > 0).all()
    for parameters in ({}, {"link": "identity"}, {"solver": "als", "link": "identity"}):
        model = CFEnsemble(**parameters, max_iter=10).fit(P, y)
        w = model.classifier_weights_
        assert (w > 0).all()
        assert w.std() < w.mean()  # stable: nobody dominates among equals
        rest = np.isnan(y)
        assert model.predict_proba()[rest, 1].mean() == pytest.approx(truth[rest].mean(), rel=0.35)  # calibrated


def test_the_loss_may_be_a_sum_as_the_documents_write_it():
    P, y, _ = make_predictions(120, 6, labels=0.3, random_state=0)
    model = CFEnsemble(scaling="sum", rho=0.6, rank=2, max_iter=4, dtype="float64", class_weight=None).fit(P, y)
    mean = CFEnsemble(scaling="mean", rho=0.6, rank=2, max_iter=4, dtype="float64", class_weight=None).fit(P, y)
    last = model.history_[-1]
    assert last["total"] == pytest.approx(last["reconstruction"] + last["supervised"] + last["penalty"])
    falls = [record["total"] for record in model.history_]
    assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(falls))
    cells, labels = (~np.isnan(P)).sum(), (~np.isnan(y)).sum()
    # The same loss up to a factor where rho / S : (1 - rho) / L is the ratio of the other scaling.
    rho = 0.6 * cells / (0.6 * cells + 0.4 * labels)
    same = CFEnsemble(scaling="mean", rho=rho, rank=2, max_iter=4, dtype="float64", class_weight=None).fit(P, y)
    np.testing.assert_allclose(model.predict_proba(), same.predict_proba(), atol=1e-9)
    assert np.abs(model.predict_proba() - mean.predict_proba()).max() > 1e-6


def test_the_lowest_of_several_starts_is_kept():
    P, y, _ = make_predictions(120, 6, labels=0.3, random_state=0)
    settings = {"rank": 3, "max_iter": 4, "init": "random", "dtype": "float64"}
    single = [CFEnsemble(**settings, random_state=seed).fit(P, y).history_[-1]["total"] for seed in range(4)]
    best = CFEnsemble(**settings, random_state=0, n_init=4).fit(P, y).history_[-1]["total"]
    assert best == pytest.approx(min(single))
    with pytest.raises(ValueError, match="n_init=0 must be a whole number"):
        CFEnsemble(n_init=0).fit(P, y)
