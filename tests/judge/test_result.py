"""What an evaluation found: tables, intervals that cover, comparisons of models over the same users."""

import json

import numpy as np
import pytest
from scipy import sparse

from halfstep.baselines import ItemKNN
from halfstep.judge import Result, evaluate
from halfstep.judge.result import Measured, bootstrap_means

from .matrices import random_matrix


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


class Worse(ItemKNN):
    """ItemKNN with its list the wrong way round."""

    def rank_items(self, seen, n, rows=None):
        return super().rank_items(seen, n, rows)[:, ::-1]


def test_a_better_model_wins_the_comparison_on_ranked_data():
    random = np.random.default_rng(3)
    taste = np.repeat(np.arange(2), 100)  # two groups of users with a half of the catalogue each
    dense = (random.random((200, 20)) < 0.4) & (np.arange(20) // 10 == taste[:, None])
    result = evaluate([ItemKNN(), Worse()], sparse.csr_matrix(dense.astype(float)), k=5, random_state=0)
    assert result.compare("ItemKNN", "Popularity").verdict("ndcg@5") == "a"
    assert result.compare("Worse", "ItemKNN")["precision@5"].mean == 0  # the same items in another order


def test_comparing_an_unknown_model_or_no_metric_is_an_error():
    result = result_of({"a": [1, 2]})
    with pytest.raises(ValueError, match=r"b='c' is not known"):
        result.compare("a", "c")
    only_coverage = evaluate(ItemKNN(), random_matrix(), metrics="coverage", k=3, random_state=0)
    with pytest.raises(ValueError, match=r"have no value for each user"):
        only_coverage.compare("ItemKNN", "Popularity")


def test_estimates_and_differences_are_frames_of_numbers():
    found = evaluate({"a": ItemKNN(5), "b": ItemKNN(9)}, random_matrix())
    frame = found.to_frame().set_index(["model", "metric"])
    assert frame.loc[("b", "ndcg@10"), "low"] == found.table["b"]["ndcg@10"].low
    compared = found.compare("a", "b")
    assert compared.to_frame()["mean"].tolist() == [each.mean for each in compared.differences.values()]
    assert set(compared.to_frame()["verdict"]) <= {"a", "b", "undecided"}
