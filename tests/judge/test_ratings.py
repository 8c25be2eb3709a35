"""Ratings judged: splits that lose nothing, metrics that are what they are called, baselines under the same loss."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

from halfstep import PLQMF, BayesMF
from halfstep.baselines import Biases, Constant
from halfstep.data.datasets import Interactions, Ratings, make_ratings, read_ratings
from halfstep.judge import (
    RATING_PROTOCOLS,
    evaluate,
    random_ratings,
    ratings_by_time,
    ratings_per_user,
)


def some(n=600, seed=0, times=True):
    random = np.random.default_rng(seed)
    pairs = np.column_stack([random.integers(0, 30, n), random.integers(0, 20, n)])
    y = np.clip(np.rint(3 + (pairs[:, 0] % 3 - 1) + random.normal(size=n)), 1, 5)
    return Ratings(pairs, y, random.integers(0, 1000, n) if times else None)


class Told(BaseEstimator):
    """Predicts what it is told."""

    def __init__(self, value=3.0):
        self.value = value

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.full(len(X), self.value)

    def predict_interval(self, X, level):
        return np.column_stack([np.full(len(X), self.value - level), np.full(len(X), self.value + level)])


# ---------------------------------------------------------------------- splits


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(RATING_PROTOCOLS)), st.floats(0.05, 0.9), st.integers(0, 99))
def test_every_rating_is_in_one_place(protocol, share, seed):
    data = Ratings(np.column_stack([np.arange(200) % 17, np.arange(200)]), np.zeros(200), np.arange(200))
    split = RATING_PROTOCOLS[protocol](data, share=share, seed=seed)
    both = np.sort(np.concatenate([split.train.pairs[:, 1], split.test.pairs[:, 1]]))
    assert both.tolist() == list(range(200))


def test_a_random_split_is_the_one_that_its_seed_names():
    data = some()
    split = random_ratings(data, share=0.1, seed=3)
    test = np.random.default_rng(3).random(600) < 0.1
    assert split.test.y.tolist() == data.y[test].tolist()
    assert split.train.pairs.tolist() == data.pairs[~test].tolist()


def test_per_user_leaves_something_of_everybody_and_holds_something_out():
    data = Ratings([["a", 1], ["a", 2], ["a", 3], ["b", 1], ["b", 2], ["c", 1]], np.arange(6.0))
    split = ratings_per_user(data, share=0.34, seed=0)
    assert sorted(split.test.pairs[:, 0]) == ["a", "b"]
    assert set(split.train.pairs[:, 0]) == {"a", "b", "c"}


def test_the_future_is_later_than_the_past():
    data = some()
    split = ratings_by_time(data, share=0.25)
    assert split.test.timestamps.min() > split.train.timestamps.max()
    assert 100 < len(split.test) <= 150  # equal times stay together
    dates = Ratings(data.pairs, data.y, np.array("2024-01-01", "M8[D]") + data.timestamps)
    assert len(ratings_by_time(dates, cutoff="2025-01-01").test) == (data.timestamps > 366).sum()


def test_unseen_users_and_items_are_counted():
    data = Ratings([[0, 0], [1, 1], [2, 0], [0, 9]], np.zeros(4), np.arange(4))
    assert ratings_by_time(data, cutoff=1).cold == 2


# ---------------------------------------------------------------------- numbers


def test_metrics_are_what_they_are_called():
    data = some()
    split = random_ratings(data, seed=1)
    asked = ["rmse", "mae", "pinball@0.9", "coverage@0.5", "width@0.5"]
    found = evaluate({"told": Told(3.5)}, split, metrics=asked, random_state=0, n_bootstrap=50).table["told"]
    missed = split.test.y - 3.5
    assert found["rmse"].mean == pytest.approx(np.sqrt((missed**2).mean()))
    assert found["mae"].mean == pytest.approx(np.abs(missed).mean())
    high = split.test.y - (3.5 + 0.8)  # the upper bound of the interval of level 0.8
    assert found["pinball@0.9"].mean == pytest.approx(np.maximum(0.9 * high, -0.1 * high).mean())
    assert found["coverage@0.5"].mean == pytest.approx((np.abs(missed) <= 0.5).mean())
    assert found["width@0.5"].mean == pytest.approx(1.0)
    assert found["rmse"].low < found["rmse"].mean < found["rmse"].high


def test_log_loss_and_accuracy_are_those_of_scikit_learn():
    from sklearn.metrics import accuracy_score, log_loss

    data = some()
    split = random_ratings(Ratings(data.pairs, np.where(data.y > 3, "yes", "no")), share=0.3, seed=1)
    result = evaluate(PLQMF(rank=2, loss="logistic", random_state=0), split, random_state=0, n_bootstrap=9)
    model = PLQMF(rank=2, loss="logistic", random_state=0).fit(split.train.pairs, split.train.y)
    found = result.table["PLQMF"]
    assert result.metrics == ["log_loss", "accuracy"]
    assert found["log_loss"].mean == pytest.approx(log_loss(split.test.y, model.predict_proba(split.test.pairs)))
    assert found["accuracy"].mean == pytest.approx(accuracy_score(split.test.y, model.predict(split.test.pairs)))
    assert list(result.table) == ["Constant", "Biases", "PLQMF"]


def test_several_splits_are_put_together_by_user():
    data = some()
    result = evaluate({"told": Told()}, data, n_splits=4, random_state=5, n_bootstrap=20)
    tests = [random_ratings(data, seed=5 + number).test for number in range(4)]
    missed = np.concatenate([test.y for test in tests]) - 3.0
    assert result.table["told"]["rmse"].mean == pytest.approx(np.sqrt((missed**2).mean()))
    assert [each["mae"] for each in result.models["told"].splits] == pytest.approx(
        [np.abs(test.y - 3.0).mean() for test in tests]
    )
    assert f"{len(missed):,} ratings of" in result.caption
    assert "in 4 splits" in result.caption
    assert json.loads(json.dumps(result.to_dict()))["models"]["told"]["predict_seconds"] >= 0


def test_rankings_take_several_splits_too():
    from halfstep.baselines import ItemKNN

    from .matrices import random_matrix

    result = evaluate(ItemKNN(), random_matrix(), n_splits=3, k=3, random_state=0, n_bootstrap=20)
    each = [split["ndcg@3"] for split in result.models["ItemKNN"].splits]
    assert len(set(each)) > 1
    assert result.table["ItemKNN"]["ndcg@3"].mean == pytest.approx(np.mean(each))


def test_the_interval_of_an_rmse_covers_as_often_as_it_claims():
    random = np.random.default_rng(0)
    covered = 0
    for trial in range(60):
        users = np.repeat(np.arange(60), 5)
        y = random.normal(size=60)[users] + random.normal(size=300)  # errors of a user go together; the RMSE is sqrt(2)
        train = Ratings([[0, 0]], [0.0])
        split = type(random_ratings(some()))(train, Ratings(np.column_stack([users, users]), y), "random")
        found = evaluate({"told": Told(0.0)}, split, baselines=False, n_bootstrap=200, random_state=trial)
        estimate = found.table["told"]["rmse"]
        covered += estimate.low <= np.sqrt(2) <= estimate.high
    assert 0.85 < covered / 60 <= 1  # 95% claimed; 51 or fewer of 60 are rare, and the seed is fixed


def test_paired_differences_of_ratings():
    data = some()
    result = evaluate({"near": Told(3.0), "far": Told(4.5)}, data, random_state=0, n_bootstrap=100)
    comparison = result.compare("near", "far")
    assert comparison.verdict("rmse") == "b"
    difference = result.table["near"]["rmse"].mean - result.table["far"]["rmse"].mean
    assert comparison["rmse"].mean == pytest.approx(difference)


# ---------------------------------------------------------------------- who stands beside


def test_every_loss_meets_its_own_baselines():
    models = {"median": PLQMF(rank=2, loss="absolute", random_state=0), "mean": PLQMF(rank=2, random_state=0)}
    result = evaluate(models, some(), n_bootstrap=9, random_state=0)
    assert list(result.table)[:4] == ["Constant, absolute", "Constant, squared", "Biases, absolute", "Biases, squared"]
    alone = evaluate(PLQMF(rank=2, loss="quantile:0.9", random_state=0), some(), metrics="pinball@0.9", n_bootstrap=9)
    assert list(alone.table) == ["Constant", "Biases", "PLQMF"]
    assert alone.table["PLQMF"]["pinball@0.9"].mean < 0.5


def test_what_a_model_does_not_answer_is_a_dash():
    class NoIntervals(Told):
        predict_interval = property()  # hasattr says no

    result = evaluate({"plain": NoIntervals(), "told": Told()}, some(), metrics=["mae", "width"], n_bootstrap=9)
    assert "width@0.9" not in result.table["plain"]
    assert str(result).splitlines()[5].split()[:5:4] == ["plain", "-"]
    assert result.records()[2]["width@0.9"] == "-"
    assert list(result.compare("plain", "told").differences) == ["mae"]


def test_biases_may_be_judged_themselves():
    result = evaluate({"learned": Biases(damping=None), "always 3": Told()}, some(), random_state=0, n_bootstrap=9)
    assert list(result.table) == ["Constant", "Biases", "learned", "always 3"]
    assert evaluate({}, some(), random_state=0, n_bootstrap=9).table.keys() == {"Constant", "Biases"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "leave_k_out"}, "protocol='leave_k_out' is not a protocol of ratings.*'random', 'per_user'"),
        ({"protocol": "by_time", "n_splits": 3}, "one past and one future"),
        ({"metrics": ["rsme"]}, "metrics='rsme' is not known.*Did you mean 'rmse'"),
        ({"metrics": ["rmse@3"]}, "'rmse' has no number after an @"),
        ({"metrics": ["coverage@90"]}, "needs a number between 0 and 1 after the @, such as 'coverage@0.9'"),
        ({"metrics": ["log_loss"]}, "metrics='log_loss' needs predict_proba, which none of"),
        ({"k": 10}, "k=10 is the depth of a ranking; ratings have none"),
        ({"protocol_options": {"share": 0}}, "share=0; expected a share"),
        ({"n_splits": 0}, "n_splits=0 must be a whole number of at least 1"),
    ],
)
def test_wrong_questions_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        evaluate(Told(), some(), **options)


def test_models_that_break_the_contract_are_named():
    with pytest.raises(TypeError, match=r"'Interactions' is a object; expected an object with fit\(pairs, y\)"):
        evaluate({"Interactions": object()}, some())
    with pytest.raises(ValueError, match="model 'lost': predict returned 54 NaN"):
        evaluate({"lost": Told(np.nan)}, some(), random_state=0)
    with pytest.raises(ValueError, match="needs times and data has none"):
        evaluate(Told(), some(times=False), "by_time")


# ---------------------------------------------------------------------- data


def test_ratings_come_from_interactions_with_their_zeros():
    from scipy import sparse

    matrix = sparse.csr_array((np.array([0.0, 2.0, 5.0], np.float32), ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    data = Ratings.of(Interactions(matrix, np.array(["a", "b"]), np.array([7, 8]), timestamps=np.arange(3.0)))
    assert data.pairs.tolist() == [["a", 7], ["a", 8], ["b", 8]]
    assert data.y.tolist() == [0, 2, 5]
    assert data.shape == (2, 2)
    assert "3 of 2 users and 2 items" in repr(data)


def test_a_file_of_ratings_keeps_repeated_pairs_and_times(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("user,item,stars,date\n1,x,3,2024-01-02\n1,x,4,2024-01-03\n2,y,,2024-01-01\n")
    with pytest.warns(UserWarning, match="1 of 3 rows lack an id, a number or a time"):
        data = read_ratings(path)
    assert data.y.tolist() == [3, 4]
    assert np.diff(data.timestamps).tolist() == [86400]
    assert data.report["columns"]["weight"] == "stars"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [1]), r"pairs has shape \(2,\)"),
        (([[1, 2]], [1, 2]), r"y has shape \(2,\); pairs has 1 rows"),
        (([[1, 2]], [1], [np.nan]), "1 missing values"),
        (([[1, 2]], [1], ["x"]), "expected numbers or datetimes"),
        (([[1, 2]], [1], [1, 2]), r"timestamps has shape \(2,\)"),
    ],
)
def test_wrong_ratings_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Ratings(*arguments)


def test_a_factorisation_beats_both_baselines_on_generated_ratings():
    pairs, y, _ = make_ratings(300, 200, 12_000, random_state=1)
    result = evaluate(PLQMF(random_state=0), Ratings(pairs, y), random_state=0, n_bootstrap=200)
    assert result.compare("PLQMF", "Biases").verdict("rmse") == "b"
    assert result.compare("Biases", "Constant").verdict("rmse") == "b"
    assert isinstance(Constant().fit(pairs, y).intercept_, float)


def test_ordered_levels_are_judged_as_numbers_and_by_their_probabilities():
    model = PLQMF(rank=2, loss="ordinal", max_iter=3, random_state=0)
    found = evaluate(model, some(), metrics=["rmse", "coverage", "log_loss"], n_bootstrap=9, random_state=0)
    assert set(found.table["PLQMF"]) == {"rmse", "coverage@0.9", "log_loss"}
    assert found.table["PLQMF"]["coverage@0.9"].mean > 0.8
    with pytest.raises(ValueError, match=r"loss='ordinal' fits levels.*use 'squared'"):
        Biases("ordinal").fit(some().pairs, some().y)


def test_a_class_that_training_has_not_seen_costs_the_most():
    import types

    from halfstep.judge.rating_metrics import RATING_METRICS, AskedPairs

    proba = np.array([[0.2, 0.8], [0.2, 0.8]])
    model = types.SimpleNamespace(classes_=np.array([1, 2]), predict_proba=lambda X: proba)
    cost = RATING_METRICS["log_loss"].of(AskedPairs(model, np.zeros((2, 2)), np.array([2, 3])), 0)
    np.testing.assert_allclose(cost, [-np.log(0.8), -np.log(1e-15)])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_level_or_a_class_that_one_model_lacks_does_not_end_the_evaluation():
    """A Gaussian asked for log loss, and quantiles asked for another level, broke all that was measured."""
    pairs, y, _ = make_ratings(40, 30, 600, random_state=0)
    models = {
        "bayes": BayesMF(rank=2, n_sweeps=10, random_state=0),
        "levels": PLQMF(rank=2, loss="ordinal", max_iter=3, random_state=0),
        "quantiles": PLQMF(rank=2, loss="quantiles:0.05,0.5,0.95", max_iter=3, random_state=0),
    }
    found = evaluate(models, Ratings(pairs, y), metrics=["log_loss", "pinball@0.9", "coverage@0.9", "coverage@0.8"])
    told = {name: set(found.table[name]) for name in models}
    assert told["bayes"] == {"pinball@0.9", "coverage@0.9", "coverage@0.8"}
    assert told["levels"] == {"log_loss", "pinball@0.9", "coverage@0.9", "coverage@0.8"}
    assert told["quantiles"] == {"coverage@0.9"}
