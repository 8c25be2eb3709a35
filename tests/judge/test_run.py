"""The evaluator against a table worked out by hand, under every protocol, and what it refuses."""

from typing import ClassVar

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator

from halfstep.baselines import ItemKNN, Popularity
from halfstep.judge import Split, evaluate, leave_k_out, strong_generalisation

from .matrices import random_matrix


class Fixed(BaseEstimator):
    """Recommends the same list to everybody, right or wrong."""

    def __init__(self, items=(0,)):
        self.items = items

    def fit(self, matrix):
        self.fitted_on_ = matrix
        return self

    def rank_items(self, seen, n, rows=None):
        return np.tile(np.asarray(self.items), (seen.shape[0], 1))


# ---------------------------------------------------------------- the table worked out by hand

# Training counts of the items a..e: 4, 3, 2, 1, 0, so all are offered a, b, c, d, e without what they have.
HAND_SPLIT = Split(
    train=sparse.csr_matrix(
        [[1, 1, 1, 1, 0], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]],
    ),
    seen=sparse.csr_matrix([[1, 1, 1, 0, 0], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]]),
    relevant=sparse.csr_matrix([[0, 0, 0, 0, 1], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]),
    rows=np.array([1, 2, 3]),
    users=np.array([1, 2, 3]),
    left_out=1,
    protocol="by hand",
)
# Lists at k = 2: user 1 gets d e (hit second), user 2 gets c d (both hit), user 3 gets b c (no hit).
SECOND = 1 / np.log2(3)
HAND_TABLE = {
    "precision@2": [1 / 2, 1, 0],
    "recall@2": [1, 1, 0],
    "truncated_recall@2": [1, 1, 0],
    "ndcg@2": [SECOND, 1, 0],
    "graded_ndcg@2": [SECOND, 1, 0],
    "map@2": [1 / 2, 1, 0],
    "mrr@2": [1 / 2, 1, 0],
    "hit_rate@2": [1, 1, 0],
    # -log2((count + 1) / 5) for d e, c d, b c
    "novelty@2": [
        -(np.log2(2 / 5) + np.log2(1 / 5)) / 2,
        -(np.log2(3 / 5) + np.log2(2 / 5)) / 2,
        -(np.log2(4 / 5) + np.log2(3 / 5)) / 2,
    ],
    # Percentiles of a..e are .9 .7 .5 .3 .1
    "popularity_bias@2": [0.2 - 0.1, 0.4 - 0.4, 0.6 - 0.2],
}


def test_popularity_reproduces_the_table_worked_out_by_hand():
    names = [label.partition("@")[0] for label in HAND_TABLE]
    result = evaluate(Popularity(), HAND_SPLIT, metrics=[*names, "coverage"], k=2, baselines=False, random_state=0)
    for label, expected in HAND_TABLE.items():
        np.testing.assert_allclose(result.models["Popularity"].per_user[label], expected, err_msg=label, atol=1e-12)
        assert result.table["Popularity"][label].mean == pytest.approx(np.mean(expected))
    assert result.table["Popularity"]["coverage@2"].mean == 4 / 5
    assert result.table["Popularity"]["coverage@2"].low is None
    assert (result.n_users, result.left_out) == (3, 1)


# ---------------------------------------------------------------- evaluate


@pytest.mark.parametrize("protocol", ["strong_generalisation", "leave_k_out", "time_split"])
def test_every_protocol_runs_with_baselines(protocol):
    matrix = random_matrix()

    class Data:
        pass

    data = Data()
    data.matrix, data.timestamps = matrix, np.arange(matrix.nnz) * 7919 % matrix.nnz
    result = evaluate({"mine": ItemKNN(shrink=5)}, data, protocol, k=(1, 5), random_state=0, n_bootstrap=50)
    assert list(result.models) == ["Popularity", "mine"]  # an ItemKNN is there already
    assert result.protocol == protocol
    assert "ndcg@1" in result.metrics
    assert "ndcg@5" in result.metrics


def test_the_callers_models_are_not_changed():
    model = Fixed(items=(14, 13))
    unseen = random_matrix(shape=(40, 13))
    matrix = sparse.hstack([unseen, sparse.csr_matrix((40, 2))]).tocsr()
    before = matrix.copy()
    evaluate([model], matrix, "leave_k_out", k=2, baselines=False, random_state=0, n_bootstrap=10)
    assert not hasattr(model, "fitted_on_")
    assert (matrix != before).nnz == 0


class Recorder(Popularity):
    """Notes what the evaluator hands over."""

    calls: ClassVar[list[tuple[object, ...]]] = []

    def rank_items(self, seen, n, rows=None):
        self.calls.append((seen, n, rows))
        return super().rank_items(seen, n, rows)


def test_known_users_are_ranked_by_position_and_new_ones_folded_in():
    matrix = random_matrix()
    for split in (leave_k_out(matrix, 2, random_state=0), strong_generalisation(matrix, random_state=0)):
        Recorder.calls.clear()
        evaluate(Recorder(), split, k=(2, 4), baselines=False, n_bootstrap=5)
        [(seen, n, rows)] = Recorder.calls
        assert (seen != split.seen).nnz == 0
        assert n == 4
        assert (rows is None) == (split.protocol == "strong_generalisation")
        if rows is not None:
            np.testing.assert_array_equal(rows, split.users)


def test_results_repeat_with_the_seed():
    def run(seed):
        table = evaluate(ItemKNN(), random_matrix(), random_state=seed, k=3, n_bootstrap=50).to_dict()
        return {name: row["metrics"] for name, row in table["models"].items()}

    assert run(3) == run(3)
    assert run(3) != run(4)


def test_metrics_take_their_own_depth_and_options_reach_the_split():
    result = evaluate(
        ItemKNN(),
        random_matrix(),
        metrics=["recall@7", "ndcg"],
        k=[2, 3],
        protocol_options={"holdout_users": 5},
        random_state=0,
        n_bootstrap=10,
    )
    assert result.metrics == ["recall@7", "ndcg@2", "ndcg@3"]
    assert result.n_users == 5


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "leave_one_out"}, r"protocol='leave_one_out' is not known"),
        ({"metrics": ["ndgc"]}, r"metrics='ndgc' is not known.*Did you mean 'ndcg'"),
        ({"metrics": ["ndcg@x"]}, r"metrics='ndcg@x' has no whole number after the @"),
        ({"metrics": []}, r"metrics and k name nothing to compute"),
        ({"k": 0}, r"k=0; expected a whole number"),
        ({"k": 16}, r"k=16 but the catalogue has only 15 items"),
        ({"n_bootstrap": 0}, r"n_bootstrap=0 must be a whole number of at least 1"),
        ({"confidence": 95}, r"confidence=95; expected a number between 0 and 1"),
        ({"protocol": "time_split"}, r"protocol='time_split' needs timestamps and data has none"),
        ({"data": [[1]]}, r"data is a list; expected a scipy sparse matrix"),
        ({"data": HAND_SPLIT, "protocol": "leave_k_out"}, r"cannot apply: data is a Split already"),
        ({"models": [3]}, r"models: 'int' is a int; expected an object with fit\(matrix\)"),
        ({"models": Popularity}, r"is the class Popularity; expected an object"),
        ({"models": [], "baselines": False}, r"models is empty and baselines=False"),
        ({"models": [ItemKNN(), ItemKNN()]}, r"models has two entries named 'ItemKNN\(\)'; give a dict"),
        ({"models": {"Popularity": ItemKNN()}}, r"the name 'Popularity' is a baseline's"),
        ({"models": Fixed((0,)), "k": 2}, r"model 'Fixed': rank_items returned shape \(8, 1\); expected \(8, 2\)"),
        ({"models": Fixed((0, 0)), "k": 2}, r"model 'Fixed': ranked lists an item twice"),
        (
            {"models": Fixed(tuple(range(15))), "k": 15},
            r"model 'Fixed': rank_items recommended an item .* stored in seen",
        ),
    ],
)
def test_bad_arguments_of_evaluate_are_named(options, message):
    arguments = {
        "models": ItemKNN(),
        "data": random_matrix(),
        "k": 3,
        "n_bootstrap": 5,
        "random_state": 0,
    } | options
    with pytest.raises((ValueError, TypeError), match=message):
        evaluate(**arguments)
