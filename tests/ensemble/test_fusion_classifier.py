"""FusionClassifier: scikit-learn's checks, what it owes to unlabelled rows, to missing inputs, and to any labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_wine, make_classification
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import halfstep as hs
from halfstep.ensemble.from_estimators.features import FeatureTable
from halfstep.ensemble.from_estimators.scores import ScoreCalibration
from halfstep.ensemble.predictions import PredictionWarning

from ..contract.refusal import refused, unchanged

pytestmark = pytest.mark.filterwarnings("ignore::halfstep.ensemble.predictions.PredictionWarning")
CHEAP = hs.CFEnsembleCV(ranks=(1,), links=("logit",), folds=2)
X, truth = make_classification(240, 8, n_informative=5, random_state=0)
y = np.where(np.arange(240) < 80, truth, -1)
TREE = DecisionTreeClassifier(max_depth=3, random_state=0)
POOL = [("bayes", GaussianNB()), ("tree", TREE), ("lr", LogisticRegression())]


def fusion(estimators: Any = POOL, **parameters: Any) -> hs.FusionClassifier:
    return hs.FusionClassifier(estimators, **{"cv": 3, "final_estimator": CHEAP, **parameters})


@parametrize_with_checks([hs.FusionClassifier([("bayes", GaussianNB())], CHEAP, cv=2, unlabelled=None)])
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_unlabelled_rows_are_learned_from() -> None:
    """The factor analyses see them: with other unlabelled rows the answers are others."""
    few = fusion().fit(X[:80], y[:80]).predict_proba(X)
    many = fusion().fit(X, y).predict_proba(X)
    assert np.abs(few - many).max() > 1e-3
    assert fusion().fit(X, y).score(X, truth) > 0.8


def test_no_prediction_has_seen_the_label_of_its_row() -> None:
    """A tree that knows its training rows by heart is right about all of them; out of fold it is not."""
    noise = np.random.default_rng(0).integers(2, size=240)
    P = hs.out_of_fold([("heart", DecisionTreeClassifier(random_state=0))], X, noise, cv=4)
    assert 0.3 < np.mean((P["heart"] > 0.5) == noise) < 0.7


def test_labelled_rows_are_predicted_out_of_fold_and_others_by_the_refitted() -> None:
    model = fusion().fit(X, y)
    P = hs.out_of_fold(POOL, X, y, cv=3)
    assert list(P.columns) == ["bayes", "tree", "lr"]
    assert P.shape == (240, 3)
    assert_array_equal(model.predictions_, P)
    refitted = GaussianNB().fit(X[:80], truth[:80]).predict_proba(X)[:, 1]
    assert_allclose(P["bayes"][80:], refitted[80:])
    assert np.abs(P["bayes"][:80] - refitted[:80]).max() > 1e-3
    assert_allclose(model.transform(X)[:, 0], refitted)


@pytest.mark.parametrize("k", [2, 3])
def test_text_labels_keep_their_columns(k: int) -> None:
    """The alphabet turns classes round; probabilities must follow their labels."""
    many, codes = load_wine(return_X_y=True)
    many, codes = many[codes < k], codes[codes < k]
    names = np.array(["well", "sick", "lost"])
    shown = np.arange(len(codes)) % 2 == 0
    numbers = fusion(POOL[:2]).fit(many, np.where(shown, codes, -1))
    texts = fusion(POOL[:2]).fit(many, np.where(shown, names[codes], None))
    assert texts.classes_.tolist() == sorted(names[:k])
    assert texts.score(many, names[codes]) > 0.85
    order = np.argsort(names[:k])  # folds are dealt in the order of the classes, so the fits are not quite the same
    assert_allclose(texts.predict_proba(many), numbers.predict_proba(many)[:, order], atol=0.3)


@pytest.mark.parametrize("kind", ["list", "series", "float", "nullable"])
def test_every_way_to_say_unlabelled(kind: str) -> None:
    given_y: Any = {
        "list": [int(v) if v >= 0 else None for v in y],
        "series": pd.Series(np.where(y < 0, None, y)),
        "float": np.where(y < 0, np.nan, y),
        "nullable": pd.Series(pd.array([v if v >= 0 else pd.NA for v in y], dtype="Int64")),
    }[kind]
    expected = fusion().fit(X, y)
    model = fusion().fit(X, given_y)
    assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    assert model.score(X, given_y) == np.mean(model.predict(X[:80]) == truth[:80])


def test_minus_one_is_a_class_where_the_user_says_so() -> None:
    signs = 2 * truth - 1
    with pytest.raises(ValueError, match="unlabelled=-1; None if that is a class"):
        fusion().fit(X, signs)
    assert fusion(unlabelled=None).fit(X, signs).classes_.tolist() == [-1, 1]


def test_an_estimator_abstains_where_its_columns_are_missing() -> None:
    frame = pd.DataFrame(X, columns=[f"s{j}" for j in range(8)])
    frame.loc[::3, ["s0", "s1"]] = np.nan
    frame.loc[1::3, "s4"] = np.nan
    sensors = [
        ("left", LogisticRegression(), ["s0", "s1", "s2"]),
        ("right", make_pipeline(StandardScaler(), LogisticRegression()), slice("s5", "s7")),
        ("trees", TREE, ["s0", "s3"]),  # takes NaN
        ("one", GaussianNB(), lambda table: [4]),
    ]
    model = fusion(sensors).fit(frame, y)
    gaps = np.isnan(model.transform(frame))
    assert_array_equal(gaps[:, 0], frame["s0"].isna())
    assert not gaps[:, 1].any()
    assert not gaps[:, 2].any()  # it has one of its columns, and needs no more
    assert_array_equal(gaps[:, 3], frame["s4"].isna())
    assert_array_equal(np.isnan(model.predictions_), gaps)
    assert np.isfinite(model.predict_proba(frame)).all()
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.score(frame, truth) > 0.75


def test_polars_and_sparse_tables_are_taken() -> None:
    pl = pytest.importorskip("polars")
    sp = pytest.importorskip("scipy.sparse")
    expected = fusion(POOL[1:]).fit(X, y).predict_proba(X[:9])
    names = [f"s{j}" for j in range(8)]
    assert_allclose(fusion(POOL[1:]).fit(pl.DataFrame(X, names), y).predict_proba(pl.DataFrame(X[:9], names)), expected)
    assert_allclose(fusion(POOL[1:]).fit(sp.csr_array(X), y).predict_proba(sp.csr_array(X[:9])), expected, atol=1e-6)
    null = pl.DataFrame({"a": [1.0, None, float("nan")], "b": ["x", None, "y"]})
    assert FeatureTable.of(null).missing.tolist() == [[False, False], [True, True], [True, False]]


class Backwards(ClassifierMixin, BaseEstimator):
    """Fitted elsewhere, with its classes in an order of its own."""

    classes_ = np.array(["well", "sick"])

    def fit(self, X: Any, y: Any) -> Backwards:
        return self

    def predict_proba(self, X: Any) -> Any:
        sick = 1 / (1 + np.exp(-X[:, 0]))
        return np.column_stack([1 - sick, sick])


def test_fitted_estimators_are_used_as_they_are() -> None:
    labels = np.where(np.arange(240) < 80, np.where(X[:, 0] > 0, "sick", "well"), None)
    other = LogisticRegression().fit(X[:, 1:], np.where(truth == 1, "sick", "well"))
    model = fusion([("own", Backwards()), ("other", other, slice(1, 8))], cv="prefit").fit(X, labels)
    assert_allclose(model.transform(X)[:, 0], 1 - Backwards().predict_proba(X)[:, 1])  # of "well", the second by sort
    assert_allclose(model.transform(X)[:, 1], other.predict_proba(X[:, 1:])[:, 1])
    assert model.named_estimators_.other is other
    assert model.score(X, np.where(X[:, 0] > 0, "sick", "well")) > 0.9
    nobody = fusion([("own", Backwards())], cv="prefit").fit(X, np.full(240, None))
    assert nobody.predict(X[X[:, 0] > 1])[0] == "sick"
    with pytest.raises(ValueError, match="cv='prefit' takes fitted estimators, but 'lr'"):
        fusion(cv="prefit", estimators=[("lr", LogisticRegression())]).fit(X, y)
    with pytest.raises(ValueError, match=r"know the classes \['sick', 'well'\], but y has \[0, 1\]"):
        fusion([("other", other)], cv="prefit").fit(X, truth)


@pytest.mark.parametrize("method", ["decision_function", "predict"])
@pytest.mark.parametrize("k", [2, 3])
def test_scores_and_votes_become_probabilities(k: int, method: str) -> None:
    many, codes = make_classification(300, 6, n_informative=4, n_classes=k, random_state=1)
    P = hs.out_of_fold([("ridge", RidgeClassifier())], many, codes, cv=3, stack_method=method)
    cube = P.to_numpy().reshape(300, -1)
    assert ((cube >= 0) & (cube <= 1)).all()
    if k == 3:
        assert_allclose(cube.sum(axis=1), 1)
    share = cube[:, -1].mean()  # calibrated: the mean of a class's probability is its share
    assert share == pytest.approx(np.mean(codes == k - 1), abs=0.05)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 4), st.integers(0, 10_000), st.floats(0.01, 100))
def test_calibration_does_not_know_units_and_keeps_order(k: int, seed: int, unit: float) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=60)
    scores = np.eye(k)[labels] + rng.normal(size=(60, k))
    found = ScoreCalibration.fit(scores, labels).apply(scores)
    assert_allclose(ScoreCalibration.fit(unit * scores, labels).apply(unit * scores), found, atol=1e-8)
    assert_allclose(found.sum(axis=1), 1)
    if k == 2:
        slope = np.corrcoef(scores[:, 1] - scores[:, 0], labels)[0, 1]
        if slope > 0.1:
            order = np.argsort(scores[:, 1] - scores[:, 0])
            assert (np.diff(found[order, 1]) >= -1e-12).all()


def test_a_class_that_a_fold_has_not_seen_gets_its_share() -> None:
    codes = np.r_[np.zeros(40, int), np.ones(40, int), 2]
    P = hs.out_of_fold([("bayes", GaussianNB())], X[:81], codes, cv=3).to_numpy()
    assert P[80, 2] == pytest.approx(1 / 81)
    assert_allclose(P.sum(axis=1), 1)


def test_features_are_passed_through() -> None:
    blind = [("blind", GaussianNB(), [0])]
    without, passed = (fusion(blind, passthrough=each).fit(X, y) for each in (False, True))
    assert passed.get_feature_names_out().tolist() == ["blind", "passthrough"]
    assert passed.score(X, truth) > without.score(X, truth) + 0.05
    with pytest.raises(ValueError, match="passthrough=True needs a table of numbers"):
        fusion(blind, passthrough=True).fit(pd.DataFrame({"a": X[:, 0], "b": ["x"] * 240}), y)


def test_parameters_reach_the_estimators() -> None:
    model = fusion()
    assert model.get_params()["tree__max_depth"] == 3
    model.set_params(tree__max_depth=5, bayes="drop")
    assert model.fit(X, y).transform(X).shape == (240, 2)
    search = GridSearchCV(fusion(cv=2), {"tree__max_depth": [1, 4]}, cv=StratifiedKFold(2)).fit(X[:80], y[:80])
    assert search.best_params_["tree__max_depth"] in (1, 4)
    assert clone(model).get_params()["tree__max_depth"] == 5


def test_splitters_must_hold_out_every_labelled_row_once() -> None:
    assert fusion(cv=StratifiedKFold(4)).fit(X, y).predict_proba(X).shape == (240, 2)
    with pytest.raises(ValueError, match="must hold every labelled row out exactly once"):
        fusion(cv=[(np.arange(40), np.arange(40, 60))]).fit(X, y)


def test_an_estimator_that_no_label_can_teach_abstains_and_says_so() -> None:
    gone = X.copy()
    gone[:80, 0] = np.nan
    model = fusion([("lonely", GaussianNB(), [0]), ("lr", LogisticRegression(), slice(1, 8))])
    with pytest.warns(PredictionWarning, match="'lonely' has labelled rows of fewer than two classes"):
        model.fit(gone, y)
    assert model.named_estimators_["lonely"] is None
    assert np.isfinite(model.predict_proba(gone)).all()


@pytest.mark.parametrize(
    ("estimators", "message"),
    [
        ([], "estimators is empty"),
        ([("a", GaussianNB()), ("a", GaussianNB())], "each must have its own"),
        ([("a", GaussianNB(), ["s00"])], "names the column 's00', which X does not have. Did you mean 's0'"),
        ([("a", GaussianNB(), [12])], "columns of estimator 'a' are"),
        ([("a", GaussianNB(), [])], "columns of estimator 'a'|given no column"),
        ([("a__b", GaussianNB())], "without '__'"),
        ([GaussianNB()], "each must be \\(name, estimator\\)"),
        ([("a", StandardScaler())], "'a', a StandardScaler, has no predict_proba"),
    ],
)
def test_what_cannot_be_fused_is_refused(estimators: Any, message: str) -> None:
    frame = pd.DataFrame(X, columns=[f"s{j}" for j in range(8)])
    model = fusion().fit(frame, y)
    with pytest.raises(ValueError, match=message):
        fusion(estimators).fit(frame, y)
    model.estimators = estimators
    unchanged(model, lambda: model.fit(frame, y), ValueError, lambda: model.classes_)


def test_a_failure_anywhere_changes_nothing() -> None:
    small = fusion(POOL[:1], cv=2, final_estimator=hs.baselines.Mean())
    assert refused(lambda: clone(small).fit(X[:60], y[:60]), lambda m: m.fit(X[60:110], truth[60:110]), answers) > 20


def answers(model: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.predict_proba(X[:9]), model.classes_, model.predictions_
