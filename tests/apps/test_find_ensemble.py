"""`hs.tune(P, y)` and `halfstep tune --ensemble`: hidden labels choose, the default stays unless another is ahead."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

import halfstep as hs
from halfstep.datasets import make_predictions
from halfstep.judge.fusion import cross_validate
from halfstep.tune import find_ensemble

from .command import one_line, run


@pytest.fixture(scope="module")
def data():
    return make_predictions(250, 6, missing=0.3, labels=0.3, random_state=0)


@pytest.fixture(scope="module")
def tuned(data):
    P, y, _ = data
    return hs.tune(P, y)


@pytest.mark.heavy
def test_the_winner_is_fitted_and_every_candidate_was_judged_by_hidden_labels(tuned, data):
    _, y, _ = data
    known = int((~np.isnan(y)).sum())
    assert tuned.model.predict_proba().shape == (250, 2)
    assert {"CFEnsembleCV", "Mean", "ShrunkenStacking", "CFEnsemble"} <= set(tuned.validation)
    assert tuned.winner in tuned.models
    assert set(tuned.test) == {tuned.winner, "CFEnsembleCV", "Mean"}
    assert known >= 40  # so that a fifth is put aside
    for name, found in tuned.ahead.items():
        gap = tuned.validation["CFEnsembleCV"].value - tuned.validation[name].value
        assert found.value == pytest.approx(gap)  # of a loss: less is ahead
    assert "the winner is" in str(tuned)
    json.dumps(tuned.to_dict())


def test_candidates_have_the_value_of_cross_validation_on_labels_that_are_not_put_aside(data):
    P, y, _ = data
    few = y.copy()
    few[np.flatnonzero(~np.isnan(y))[39:]] = np.nan  # fewer than 40: none is put aside
    found = find_ensemble(P, few, seconds=1e-9, metric="brier")
    assert found.test is None
    assert len(found.validation) == 2  # the default and the mean, whatever the time
    expected = cross_validate(hs.CFEnsembleCV(), P, few, rivals=("Mean",), metrics=("brier",))
    for name in ("CFEnsembleCV", "Mean"):
        assert found.validation[name].value == pytest.approx(expected.scores[name]["brier"].value)


class First(ClassifierMixin, BaseEstimator):
    """Says what the first classifier says."""

    def fit(self, P, y):
        self.classes_, self.P = np.array([0, 1]), P
        return self

    def predict_proba(self, P=None):
        first = (self.P if P is None else P)[:, 0]
        return np.column_stack([1 - first, first])


@pytest.mark.parametrize(("says", "wins"), [(0.999, True), (0.6, False)])
def test_another_wins_only_where_it_is_ahead_beyond_chance(says, wins):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 200)
    P = np.column_stack([np.where(truth == 1, says, 1 - says), 0.4 * truth[:, None] + 0.6 * rng.random((200, 9))])
    found = find_ensemble(P, truth, models={"first": First()}, seconds=1e-9)
    assert found.winner == ("first" if wins else "CFEnsembleCV")
    assert (found.ahead["first"].low > 0) == wins


@pytest.mark.heavy
def test_text_labels_many_classes_and_what_is_refused(data):
    P, y, _ = data
    words = np.where(np.isnan(y), None, np.where(y == 1, "sick", "well"))
    found = hs.tune(P, words, 1e-9, positive="sick")
    assert found.model.classes_.tolist() == ["sick", "well"]
    assert found.winner == "CFEnsembleCV"
    with pytest.raises(ValueError, match="positive="):
        hs.tune(P, words)
    cube = np.random.default_rng(0).dirichlet(np.ones(3), (60, 4))
    many = hs.tune(cube, np.arange(60) % 3, 1e-9)
    assert many.model.predict_proba().shape == (60, 3)
    with pytest.raises(ValueError, match="two classes"):
        hs.tune(cube, np.arange(60) % 3, metric="roc_auc")
    stopped = find_ensemble(P, y, on_trial=lambda done, best: done == 1)
    assert list(stopped.validation) == ["CFEnsembleCV"]


def test_the_command_writes_the_winner(tmp_path, data):
    P, y, _ = data
    frame = pd.DataFrame(P, columns=[f"c{j}" for j in range(P.shape[1])])
    frame.insert(0, "id", [f"i{k}" for k in range(len(P))])
    frame.to_csv(tmp_path / "p.csv", index=False)
    labels = pd.DataFrame({"id": frame["id"], "label": np.where(np.isnan(y), None, np.where(y == 1, "sick", "well"))})
    labels.dropna().to_csv(tmp_path / "y.csv", index=False)
    arguments = ["tune", str(tmp_path / "p.csv"), "--ensemble", "--labels", str(tmp_path / "y.csv")]
    result = run(*arguments, "--positive", "sick", "--seconds", "1", "--json", "--save", tmp_path / "m")
    winner = json.loads(result.stdout)["winner"]
    assert f"{winner} written" in result.stderr or f"{winner} cannot be held by a model file" in result.stderr
    assert hs.load(tmp_path / "m").classes_.tolist() == ["sick", "well"]
    assert "--trials" in run(*arguments, "--trials", "3").stderr
    assert "--positive" in one_line(run(*arguments).stderr)
    assert "--ensemble" in run("tune", tmp_path / "p.csv", "--positive", "sick").stderr


@pytest.mark.heavy
def test_candidates_are_a_frame(tuned):
    frame = tuned.to_frame().set_index("model")
    assert frame["value"].to_dict() == {name: found.value for name, found in tuned.validation.items()}
    assert frame.loc[tuned.winner, "test"] == tuned.test[tuned.winner]
