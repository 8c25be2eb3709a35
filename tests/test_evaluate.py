"""The evaluator against a table worked out by hand; splits lose and leak nothing; intervals cover."""

import json
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator

from halfstep.baselines import ItemKNN, Popularity
from halfstep.evaluate import Result, Split, evaluate, leave_k_out, strong_generalisation, time_split
from halfstep.evaluate.result import Measured, bootstrap_means


def random_matrix(seed=0, shape=(40, 15), density=0.3):
    random = np.random.default_rng(seed)
    dense = random.integers(1, 6, shape) * (random.random(shape) < density)
    dense[:3, :4] = 1
    return sparse.csr_matrix(dense.astype(float))


class Fixed(BaseEstimator):
    """Recommends the same list to everybody, right or wrong."""

    def __init__(self, items=(0,)):
        self.items = items

    def fit(self, matrix):
        self.fitted_on_ = matrix
        return self

    def rank_items(self, seen, n, rows=None):
        return np.tile(np.asarray(self.items), (seen.shape[0], 1))


class Worse(ItemKNN):
    """ItemKNN with its list the wrong way round."""

    def rank_items(self, seen, n, rows=None):
        return super().rank_items(seen, n, rows)[:, ::-1]


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


# ---------------------------------------------------------------- splits


def cells_of(matrix, users=None):
    """{(user, item): value} with the users' positions in the matrix that was split."""
    matrix = matrix.tocoo()
    rows = matrix.row if users is None else users[matrix.row]
    return dict(zip(zip(rows.tolist(), matrix.col.tolist(), strict=True), matrix.data.tolist(), strict=True))


def assert_disjoint_union(parts, whole):
    assert sum(map(len, parts)) == len(whole)
    assert {cell: value for part in parts for cell, value in part.items()} == whole


seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 5))
@settings(deadline=None)
def test_leave_k_out_loses_and_leaks_no_cell(seed, k):
    matrix = random_matrix(seed)
    split = leave_k_out(matrix, k, random_state=seed)
    assert_disjoint_union([cells_of(split.train), cells_of(split.relevant, split.users)], cells_of(matrix))
    n_cells = np.diff(matrix.indptr)
    assert split.users.tolist() == np.flatnonzero(n_cells > k).tolist()
    assert split.left_out == np.count_nonzero(n_cells <= k)
    assert (np.diff(split.relevant.indptr) == k).all()
    assert (split.seen != split.train[split.rows]).nnz == 0


@given(seeds, st.floats(0.05, 0.95), st.sampled_from([0.1, 0.5, 3, 10]))
@settings(deadline=None)
def test_strong_generalisation_loses_and_leaks_no_cell(seed, fold_in, holdout):
    matrix = random_matrix(seed)
    split = strong_generalisation(matrix, holdout, fold_in, random_state=seed)
    trained = np.setdiff1d(np.arange(40), split.users)
    parts = [
        cells_of(split.train, trained),
        cells_of(split.seen, split.users),
        cells_of(split.relevant, split.users),
    ]
    assert_disjoint_union(parts, cells_of(matrix))
    assert len(split.users) == (holdout * 40 if holdout < 1 else holdout)
    assert split.rows is None
    n_cells = np.diff(matrix.indptr)[split.users]
    shown = np.diff(split.seen.indptr)
    assert (shown == np.clip(np.rint(fold_in * n_cells), 1, n_cells - 1)).all()


def test_strong_generalisation_takes_named_users():
    split = strong_generalisation(random_matrix(), np.array([2, 0]), random_state=0)
    assert split.users.tolist() == [0, 2]


@given(seeds, st.floats(0.1, 0.5))
@settings(deadline=None)
def test_time_split_trains_on_the_past_and_counts_what_it_drops(seed, share):
    matrix = random_matrix(seed)
    times = np.random.default_rng(seed).integers(0, 50, matrix.nnz)
    split = time_split(matrix, times, share=share)
    when = cells_of(sparse.csr_matrix((times + 1, matrix.indices, matrix.indptr), shape=matrix.shape))
    train, found = cells_of(split.train), cells_of(split.relevant, split.users)
    assert max(when[cell] for cell in train) < min(when[cell] for cell in found)
    dropped = cells_of(matrix).keys() - train.keys() - found.keys()
    without_past = {user for user in range(40) if not split.train[user].nnz}
    assert {user for user, _ in dropped} <= without_past
    assert train.keys().isdisjoint(found.keys())
    assert split.left_out == 40 - len(split.users)
    assert len(train) >= (1 - share) * matrix.nnz - 1


def test_times_follow_their_cells_whatever_the_order_and_kind():
    # Columns out of order, and a stored zero. User 0: item 2 at 1, item 0 at 5. User 1: 1 at 2, 2 at 6.
    matrix = sparse.csr_matrix(
        (np.array([1.0, 1, 0, 1, 1]), np.array([2, 0, 1, 1, 2]), np.array([0, 3, 5])), shape=(2, 3)
    )
    times = np.array([1, 5, 9, 2, 6])
    stamped = sparse.csr_matrix((times, matrix.indices, matrix.indptr), shape=matrix.shape)
    days = np.array("2020-01-01", dtype="datetime64[D]") + times
    for split in (
        time_split(matrix, times, cutoff=3),
        time_split(matrix, stamped, cutoff=3),
        time_split(matrix, days, cutoff="2020-01-04"),
        time_split(matrix, days, share=0.5),
        leave_k_out(matrix, 1, timestamps=times),
        leave_k_out(matrix, 1, timestamps=days),
    ):
        assert split.train.toarray().tolist() == [[0, 0, 1], [0, 1, 0]]
        assert split.relevant.toarray().tolist() == [[1, 0, 0], [0, 0, 1]]


def test_splits_are_repeatable_and_vary_with_the_seed():
    matrix = random_matrix()
    for split in (leave_k_out, strong_generalisation):
        first, again, other = (split(matrix, random_state=seed).relevant for seed in (1, 1, 2))
        assert first.shape == again.shape
        assert (first != again).nnz == 0
        assert first.shape != other.shape or (first != other).nnz > 0


def test_held_out_cells_are_drawn_evenly():
    matrix = sparse.csr_matrix(np.ones((4000, 4)))
    drawn = np.bincount(leave_k_out(matrix, 1, random_state=0).relevant.indices)
    assert np.abs(drawn - 1000).max() < 5 * np.sqrt(4000 * 0.25 * 0.75)


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


def test_tables_show_every_model_and_metric():
    result = evaluate([ItemKNN(shrink=1), ItemKNN(shrink=2)], random_matrix(), random_state=0, k=3, n_bootstrap=20)
    assert list(result.models) == ["Popularity", "ItemKNN(shrink=1)", "ItemKNN(shrink=2)"]
    lines = str(result).splitlines()
    assert lines[0].startswith("strong_generalisation: 8 users ranked, 0 left out; mean [95% interval")
    assert lines[1].split() == ["model", *result.metrics, "fit", "s", "rank", "s"]
    assert len(lines) == 3 + 3
    estimate = result.table["Popularity"]["ndcg@3"]
    assert f"{estimate.mean:.4f} [{estimate.low:.4f}, {estimate.high:.4f}]" in lines[3]
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["models"]["Popularity"]["metrics"]["ndcg@3"]["low"] == estimate.low
    assert plain["models"]["Popularity"]["fit_seconds"] > 0


def test_html_escapes_names():
    page = evaluate({"<b>": ItemKNN()}, random_matrix(), random_state=0, k=3, n_bootstrap=9)._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert page.count("<tr>") == 3


# ---------------------------------------------------------------- intervals


def result_of(values, **options):
    models = {name: Measured({"m": np.asarray(each, float)}, {}, 0.0, 0.0) for name, each in values.items()}
    n_users = len(next(iter(values.values())))
    return Result(models, protocol="simulated", n_users=n_users, left_out=0, **options)


def test_the_interval_covers_the_true_mean_as_often_as_it_claims():
    random = np.random.default_rng(0)
    n_trials, covered = 300, 0
    for trial in range(n_trials):
        values = random.beta(1, 4, size=80)  # skewed, as metrics are; the true mean is 0.2
        estimate = result_of({"x": values}, confidence=0.9, n_bootstrap=300, seed=trial).table["x"]["m"]
        covered += estimate.low <= 0.2 <= estimate.high
    spread = np.sqrt(0.9 * 0.1 / n_trials)
    assert 0.9 - 4 * spread < covered / n_trials < 0.9 + 4 * spread


def test_the_bootstrap_has_the_spread_of_a_mean():
    values = np.random.default_rng(1).normal(size=(400, 2))
    means = bootstrap_means(values, 2000, seed=0)
    np.testing.assert_allclose(means.std(axis=0), values.std(axis=0) / np.sqrt(400), rtol=0.1)


def test_paired_differences_see_what_single_intervals_cannot():
    random = np.random.default_rng(2)
    hard = random.random(200)
    result = result_of({"a": hard + 0.02 + 0.01 * random.random(200), "b": hard}, seed=1)
    a, b = result.table["a"]["m"], result.table["b"]["m"]
    assert a.low < b.high  # the single intervals overlap
    comparison = result.compare("a", "b")
    assert 0.02 < comparison["m"].low < 0.025 < comparison["m"].high < 0.03
    assert comparison.verdict("m") == "a"
    assert result.compare("b", "a").verdict("m") == "b"
    assert result.compare("a", "a")["m"].mean == 0
    assert result.compare("a", "a").verdict("m") == "undecided"
    assert "a is higher" in str(comparison)
    assert json.loads(json.dumps(comparison.to_dict()))["differences"]["m"]["low"] == comparison["m"].low


def test_a_better_model_wins_the_comparison_on_ranked_data():
    random = np.random.default_rng(3)
    taste = np.repeat(np.arange(2), 100)  # two groups of users with a half of the catalogue each
    dense = (random.random((200, 20)) < 0.4) & (np.arange(20) // 10 == taste[:, None])
    result = evaluate([ItemKNN(), Worse()], sparse.csr_matrix(dense.astype(float)), k=5, random_state=0)
    assert result.compare("ItemKNN", "Popularity").verdict("ndcg@5") == "a"
    assert result.compare("Worse", "ItemKNN")["precision@5"].mean == 0  # the same items in another order


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
        ({"n_bootstrap": 0}, r"n_bootstrap=0; expected a whole number"),
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


MATRIX = sparse.csr_matrix([[1.0, 1, 0], [0, 1, 0]])


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (lambda: leave_k_out(MATRIX, 0), r"k=0; expected a whole number"),
        (lambda: leave_k_out(MATRIX, 2), r"k=2 but no row of matrix has more than 2 cells"),
        (lambda: leave_k_out(sparse.csr_matrix((2, 2))), r"matrix of shape \(2, 2\) has no positive cell"),
        (lambda: leave_k_out(MATRIX.toarray()), r"matrix is a ndarray; expected a scipy sparse"),
        (
            lambda: strong_generalisation(MATRIX, fold_in=1.0),
            r"fold_in=1.0; expected a share between 0 and 1",
        ),
        (lambda: strong_generalisation(MATRIX, 2), r"holdout_users=2; expected .* number from 1 to 1"),
        (lambda: strong_generalisation(MATRIX, 1.5), r"holdout_users=1.5; expected a share below 1"),
        (lambda: strong_generalisation(MATRIX, [5]), r"holdout_users must be positions of rows from 0 to 1"),
        (lambda: strong_generalisation(MATRIX, []), r"holdout_users is empty"),
        (lambda: strong_generalisation(MATRIX, [1]), r"holdout_users names row 1, which has fewer than two"),
        (lambda: strong_generalisation(MATRIX[:1], 1), r"holdout_users leaves no cell to train on"),
        (lambda: time_split(MATRIX, [1, 2]), r"timestamps has shape \(2,\); expected \(3,\)"),
        (lambda: time_split(MATRIX, [1, 2, np.nan]), r"timestamps has 1 missing values"),
        (lambda: time_split(MATRIX, ["a", "b", "c"]), r"timestamps holds <U1; expected numbers or datetimes"),
        (lambda: time_split(MATRIX, MATRIX.T), r"timestamps stores other cells than matrix"),
        (lambda: time_split(MATRIX, [1, 2, 3], share=1), r"share=1; expected a share between 0 and 1"),
        (lambda: time_split(MATRIX, [1, 2, 3], cutoff=9), r"cutoff=9.0 leaves no user with cells both"),
        (lambda: time_split(MATRIX, [1, 2, 3], cutoff="x"), r"cutoff='x' cannot be compared"),
    ],
)
def test_bad_arguments_of_splits_are_named(split, message):
    with pytest.raises((ValueError, TypeError), match=message):
        split()


def test_duplicate_cells_make_times_ambiguous():
    twice = sparse.csr_matrix((np.ones(2), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    with pytest.raises(ValueError, match=r"matrix stores a cell twice"):
        time_split(twice, [1, 2])


def test_comparing_an_unknown_model_or_no_metric_is_an_error():
    result = result_of({"a": [1, 2]})
    with pytest.raises(ValueError, match=r"b='c' is not known"):
        result.compare("a", "c")
    only_coverage = evaluate(ItemKNN(), random_matrix(), metrics="coverage", k=3, random_state=0)
    with pytest.raises(ValueError, match=r"have no value for each user"):
        only_coverage.compare("ItemKNN", "Popularity")
