"""Ensembles judged by labels they have not seen, alone and inside scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score

import halfstep as hs
from halfstep.data.datasets.generated import make_predictions
from halfstep.evaluate import FUSION_METRICS, LabelledFolds, labelled_scorer

pytestmark = pytest.mark.filterwarnings("ignore::halfstep.ensemble.predictions.PredictionWarning")
P, Y, TRUTH = make_predictions(160, 6, missing=0.2, labels=0.4, random_state=0)
QUICK = hs.CFEnsembleCV(ranks=(1,), links=("logit",))
KNOWN = ~np.isnan(Y)


class Spy:
    """Remembers what it was shown, and answers with the mean."""

    shown = None

    def __init__(self, note=""):
        self.note = note

    def get_params(self, deep=True):
        return {"note": self.note}

    def fit(self, P, y):
        Spy.shown.append((len(P), [label is None for label in y]))
        self.inside, self.classes_ = P, np.array([0, 1])
        return self

    def predict_proba(self, P=None):
        p = np.nan_to_num(np.nanmean(self.inside if P is None else P, axis=1), nan=0.5)
        return np.column_stack([1 - p, p])


@pytest.mark.parametrize("how", ["transductive", "inductive"])
def test_no_fit_sees_the_labels_it_is_judged_by(how):
    Spy.shown = []
    found = hs.cross_validate(Spy(), P, Y, how=how, rivals=())
    assert len(Spy.shown) == 5
    hidden = KNOWN.sum() // 5
    for size, unlabelled in Spy.shown:
        assert size == (160 if how == "transductive" else pytest.approx(160 - hidden, abs=1))
        assert size - sum(unlabelled) == pytest.approx(KNOWN.sum() - hidden, abs=1)
    p, y = found.probabilities["Spy"][:, 1], found.labels
    assert_allclose(p, np.nan_to_num(np.nanmean(P[KNOWN], axis=1), nan=0.5))
    scores = {name: value.value for name, value in found.scores["Spy"].items()}
    expected = {
        "log_loss": log_loss(y, p),
        "brier": brier_score_loss(y, p),
        "accuracy": ((p > 0.5) == y).mean(),
        "roc_auc": roc_auc_score(y, p),
        "pr_auc": average_precision_score(y, p),
    }
    assert scores == pytest.approx(expected)


def test_rivals_stand_beside_the_model_and_differences_are_paired():
    found = hs.cross_validate(QUICK, pd.DataFrame(P), Y)
    assert list(found.scores) == ["CFEnsembleCV", "Mean", "ShrunkenStacking", "GreedySelection"]
    for rival, row in found.differences.items():
        for metric, gap in row.items():
            own, other = found.scores["CFEnsembleCV"][metric], found.scores[rival][metric]
            assert gap.value == pytest.approx(own.value - other.value)
            assert gap.low <= gap.value + 1e-12
            assert gap.high - gap.low < (own.high - own.low) + (other.high - other.low) + 1e-12
    assert "GreedySelection" in str(found)
    frame = found.to_frame().set_index(["method", "metric"])
    assert frame.loc[("Mean", "roc_auc"), "low"] == found.scores["Mean"]["roc_auc"].low
    words = np.where(KNOWN, np.where(Y == 1, "sick", "well"), None)
    named = hs.cross_validate(QUICK.set_params(positive="sick"), P, words, metrics=["roc_auc"])
    QUICK.set_params(positive=None)
    assert named.scores["Mean"]["roc_auc"].value > 0.7
    assert named.scores["CFEnsembleCV"]["roc_auc"].value > 0.7


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(ValueError, match="how='reductive' is not known"):
        hs.cross_validate(QUICK, P, Y, how="reductive")
    with pytest.raises(ValueError, match="two of each class are needed"):
        hs.cross_validate(QUICK, P, np.where(np.arange(160) < 2, [0, 1] * 80, np.nan))


@pytest.mark.parametrize("nothing", [-1, np.nan])
def test_unlabelled_rows_are_no_class(nothing):
    """-1 was scored as a class: .28 where the truth was .935. NaN raised."""
    y = np.where(KNOWN, Y, nothing)
    model = QUICK.fit(P, y)
    assert model.score(P, y) == (model.predict()[KNOWN] == Y[KNOWN]).mean()
    assert hs.CFEnsemble(max_iter=2).fit(P, y).score(P, y) > 0.7
    values = cross_val_score(QUICK, P, y, cv=LabelledFolds(3), error_score="raise")
    assert values.min() > 0.7
    search = GridSearchCV(
        QUICK,
        {"temperature": [1.0, 50.0]},
        cv=LabelledFolds(3),
        scoring=labelled_scorer("log_loss"),
        error_score="raise",
    ).fit(P, y)
    assert -0.7 < search.best_score_ < 0
    for train, test in LabelledFolds(3).split(P, y):
        assert KNOWN[test].all()
        assert len(train) + len(test) == 160


@pytest.mark.parametrize("model", [hs.CFEnsembleCV(ranks=(1,)), hs.CFEnsemble(max_iter=3), hs.baselines.WeightedMean()])
def test_a_grid_search_takes_frames_text_labels_and_several_scorers(model):
    frame = pd.DataFrame(P, index=[f"i{k}" for k in range(160)]).add_prefix("c")
    words = pd.Series(np.where(KNOWN, np.where(Y == 1, "sick", "well"), None), index=frame.index, dtype=object)
    scoring = {"accuracy": labelled_scorer("accuracy"), "loss": labelled_scorer("log_loss")}
    search = GridSearchCV(
        model, {"positive": ["sick"]}, cv=LabelledFolds(2), scoring=scoring, refit="loss", error_score="raise"
    ).fit(frame, words)
    assert search.cv_results_["mean_test_accuracy"][0] > 0.7
    assert search.best_estimator_.classes_.tolist() == ["sick", "well"]


def test_every_metric_says_which_way_is_better():
    y = np.arange(40) % 2
    good, bad = np.where(y == 1, 0.9, 0.1), np.where(y == 1, 0.4, 0.6)
    for judge, more in FUSION_METRICS.values():
        better, worse = (judge(np.column_stack([1 - p, p]), y) for p in (good, bad))
        assert (better > worse) == more
