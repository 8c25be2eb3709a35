"""Metrics against a plain-Python oracle, against scikit-learn, and against identities they must satisfy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import average_precision_score, ndcg_score

from halfstep import metrics

RELEVANCE = [
    metrics.precision_at_k,
    metrics.recall_at_k,
    metrics.truncated_recall_at_k,
    metrics.ndcg_at_k,
    metrics.average_precision_at_k,
    metrics.reciprocal_rank,
    metrics.hit_rate_at_k,
]


def oracle(row, gains, k):
    """All metrics of one user, written as the definitions read."""
    wanted = {item for item, gain in enumerate(gains) if gain > 0}
    hits = [1 if item in wanted else 0 for item in row[:k]]
    discount = [1 / math.log2(rank + 2) for rank in range(len(gains) + k)]
    ideal = sorted((gain for gain in gains if gain > 0), reverse=True)[:k]
    dcg = sum(hit * d for hit, d in zip(hits, discount, strict=False))
    graded = sum((gains[i] if i >= 0 else 0) * d for i, d in zip(row[:k], discount, strict=False))
    precisions = [sum(hits[: r + 1]) / (r + 1) for r in range(k)]
    return {
        "precision_at_k": sum(hits) / k,
        "recall_at_k": sum(hits) / len(wanted),
        "truncated_recall_at_k": sum(hits) / min(k, len(wanted)),
        "ndcg_at_k": dcg / sum(discount[: min(k, len(wanted))]),
        "graded": graded / sum(g * d for g, d in zip(ideal, discount, strict=False)),
        "average_precision_at_k": sum(h * p for h, p in zip(hits, precisions, strict=True)) / min(k, len(wanted)),
        "reciprocal_rank": next((1 / (r + 1) for r, hit in enumerate(hits) if hit), 0.0),
        "hit_rate_at_k": float(any(hits)),
    }


@st.composite
def cases(draw):
    """Rankings with padding, graded relevance with empty rows, and a depth."""
    n_users, n_items = draw(st.integers(1, 6)), draw(st.integers(1, 9))
    width = draw(st.integers(1, n_items + 2))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ranked = np.full((n_users, width), -1)
    for row in ranked:
        length = random.integers(0, min(width, n_items) + 1)
        row[:length] = random.permutation(n_items)[:length]
    gains = random.integers(0, 4, (n_users, n_items)) * (random.random((n_users, n_items)) < 0.5)
    gains[0, random.integers(n_items)] = 2  # somebody must be judged
    return ranked, gains, draw(st.integers(1, width))


@given(cases())
@settings(deadline=None)
def test_all_metrics_match_the_oracle(case):
    ranked, gains, k = case
    relevant = sparse.csr_matrix(gains)
    users = metrics.users_with_relevant(relevant)
    assert users.tolist() == [u for u in range(len(gains)) if gains[u].any()]
    expected = [oracle(ranked[u].tolist(), gains[u].tolist(), k) for u in users]
    for metric in RELEVANCE:
        values = metric(ranked, relevant, k)
        np.testing.assert_allclose(values, [each[metric.__name__] for each in expected], atol=1e-12)
    graded = metrics.ndcg_at_k(ranked, relevant, k, graded=True)
    np.testing.assert_allclose(graded, [each["graded"] for each in expected], atol=1e-12)


@given(cases())
@settings(deadline=None)
def test_metrics_lie_between_0_and_1(case):
    ranked, gains, k = case
    for metric in RELEVANCE:
        values = metric(ranked, sparse.csr_matrix(gains), k)
        assert ((values >= 0) & (values <= 1)).all()
    assert 0 <= metrics.coverage(ranked, gains.shape[1], k) <= 1
    counts = np.count_nonzero(gains, axis=0)
    assert (np.abs(metrics.popularity_bias(ranked, sparse.csr_matrix(gains), counts, k)) <= 1).all()
    surprise = metrics.novelty(ranked, counts, len(gains), k)
    assert ((surprise >= 0) & (surprise <= math.log2(len(gains) + 1) + 1e-12)).all()


@given(cases(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_names_of_items_and_order_of_users_do_not_matter(case, random):
    ranked, gains, k = case
    n_users, n_items = gains.shape
    new_name = np.array(random.sample(range(n_items), n_items))
    renamed = np.where(ranked >= 0, new_name[ranked], -1)
    moved = np.zeros_like(gains)
    moved[:, new_name] = gains
    judged = metrics.users_with_relevant(sparse.csr_matrix(gains))
    order = np.array(random.sample(range(n_users), n_users))
    judged_after = order[metrics.users_with_relevant(sparse.csr_matrix(moved[order]))]
    for metric in RELEVANCE:
        before = dict(zip(judged, metric(ranked, sparse.csr_matrix(gains), k), strict=True))
        after = dict(zip(judged_after, metric(renamed[order], sparse.csr_matrix(moved[order]), k), strict=True))
        assert before == pytest.approx(after)


@given(cases())
@settings(deadline=None)
def test_a_perfect_ranking_scores_1(case):
    _, gains, k = case
    perfect = np.argsort(-gains, axis=1, kind="stable")
    k = min(k, gains.shape[1])
    relevant = sparse.csr_matrix(gains)
    for metric in RELEVANCE:
        if metric in (metrics.precision_at_k, metrics.recall_at_k):
            continue  # these cannot reach 1 when k and the number of relevant items differ
        np.testing.assert_allclose(metric(perfect, relevant, k), 1, err_msg=metric.__name__)
    np.testing.assert_allclose(metrics.ndcg_at_k(perfect, relevant, k, graded=True), 1)
    np.testing.assert_allclose(metrics.recall_at_k(perfect, relevant), 1)


@given(cases())
@settings(deadline=None)
def test_precision_and_recall_count_the_same_hits(case):
    ranked, gains, k = case
    relevant = sparse.csr_matrix(gains)
    n_relevant = np.count_nonzero(gains, axis=1)
    n_relevant = n_relevant[n_relevant > 0]
    hits = metrics.precision_at_k(ranked, relevant, k) * k
    np.testing.assert_allclose(metrics.recall_at_k(ranked, relevant, k) * n_relevant, hits)
    np.testing.assert_allclose(metrics.truncated_recall_at_k(ranked, relevant, k) * np.minimum(k, n_relevant), hits)


@pytest.mark.parametrize("k", [1, 3, 12])
def test_agrees_with_scikit_learn(k):
    random = np.random.default_rng(0)
    gains = random.integers(0, 5, (40, 12)) * (random.random((40, 12)) < 0.4)
    gains[:, 0] = 1
    scores = random.permuted(np.tile(np.arange(12.0), (40, 1)), axis=1)  # no ties
    ranked, relevant = np.argsort(-scores, axis=1), sparse.csr_matrix(gains)
    graded = metrics.ndcg_at_k(ranked, relevant, k, graded=True)
    assert graded.mean() == pytest.approx(ndcg_score(gains, scores, k=k))
    assert metrics.ndcg_at_k(ranked, relevant, k).mean() == pytest.approx(ndcg_score(gains > 0, scores, k=k))
    if k == 12:
        expected = [average_precision_score(gains[u] > 0, scores[u]) for u in range(40)]
        np.testing.assert_allclose(metrics.average_precision_at_k(ranked, relevant, k), expected)


def test_coverage_counts_distinct_recommended_items():
    assert metrics.coverage([[0, 1], [1, -1]], 5) == 2 / 5
    assert metrics.coverage([[0, 1], [1, -1]], 5, k=1) == 2 / 5
    assert metrics.coverage([[0, 1], [0, 2]], 4, k=1) == 1 / 4


def test_novelty_is_self_information_in_bits():
    values = metrics.novelty([[0, 1], [2, -1], [-1, -1]], [7, 1, 0], n_users=7)
    np.testing.assert_allclose(values, [(0 + 2) / 2, 3, 0])


def test_popularity_bias_compares_percentiles():
    # Percentiles of the four items: 0.875, 0.5, 0.5 (a tie), 0.125.
    relevant = sparse.csr_matrix([[0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]])
    bias = metrics.popularity_bias([[0, 1], [3, -1], [-1, -1]], relevant, [9, 5, 5, 2])
    np.testing.assert_allclose(bias, [(0.875 + 0.5) / 2 - 0.125, 0.125 - 0.875, 0])


def test_stored_zeros_are_not_relevant_and_duplicates_add_up():
    relevant = sparse.csr_matrix((np.array([0.0, 1, 1]), np.array([0, 1, 1]), np.array([0, 3])), shape=(1, 3))
    assert metrics.recall_at_k([[0, 1]], relevant) == [1]
    assert metrics.ndcg_at_k([[0, 1]], relevant, graded=True) == pytest.approx([1 / math.log2(3)])


GOOD = sparse.csr_matrix([[1, 0, 1]])


@pytest.mark.parametrize(
    ("ranked", "relevant", "k", "message"),
    [
        ([[0]], np.ones((1, 3)), 1, r"relevant is a ndarray; expected a scipy sparse matrix"),
        ([[0]], sparse.csr_matrix([[np.nan]]), 1, r"relevant stores NaN or infinite values"),
        ([[0]], sparse.csr_matrix([[-1.0]]), 1, r"relevant stores negative values \(smallest -1\)"),
        ([[0]], sparse.csr_matrix((1, 3)), 1, r"relevant has no positive cell"),
        ([0], GOOD, 1, r"ranked is a 1-D array of int64; expected a 2-D integer array"),
        ([[0.5]], GOOD, 1, r"ranked is a 2-D array of float64"),
        ([[0], [1]], GOOD, 1, r"ranked has 2 rows but relevant has 1"),
        ([[3]], GOOD, 1, r"ranked holds positions from 3 to 3; expected -1 \(padding\) to 2"),
        ([[1, 1]], GOOD, 2, r"ranked lists an item twice in row 0"),
        ([[1, 0]], GOOD, 3, r"k=3 but ranked has only 2 columns"),
        ([[1, 0]], GOOD, 0, r"k=0; expected a whole number of at least 1"),
        ([[1, 0]], GOOD, 1.5, r"k=1.5; expected a whole number"),
    ],
)
def test_bad_input_is_named(ranked, relevant, k, message):
    with pytest.raises((ValueError, TypeError), match=message):
        metrics.recall_at_k(ranked, relevant, k)


def test_bad_counts_are_named():
    with pytest.raises(ValueError, match=r"item_counts has a count of 5 but n_users=3"):
        metrics.novelty([[0]], [5, 1], n_users=3)
    with pytest.raises(ValueError, match=r"item_counts has shape \(1, 2\); expected \(n_items,\)"):
        metrics.novelty([[0]], [[5, 1]], n_users=9)
    with pytest.raises(ValueError, match=r"item_counts has 2 entries but relevant has 3 items"):
        metrics.popularity_bias([[0]], GOOD, [1, 2])


@pytest.mark.parametrize("equal", ["width", "count"])
def test_bins_of_a_calibrated_forecast_lie_on_the_diagonal(equal):
    random = np.random.default_rng(0)
    p = random.random(20_000)
    bins = metrics.calibration_bins(p, random.random(20_000) < p, equal=equal)
    np.testing.assert_allclose(bins.predicted, bins.observed, atol=0.03)
    assert bins.count.sum() == 20_000
    assert bins.error == pytest.approx(0, abs=0.02)
    assert (np.bincount(bins.place) == bins.count).all()


def test_bins_by_hand():
    p, y = [0.05, 0.1, 0.95, 1.0], [0, 1, 1, 1]
    wide = metrics.calibration_bins(p, y, 2)
    assert wide.predicted.tolist() == pytest.approx([0.075, 0.975])
    assert wide.observed.tolist() == [0.5, 1.0]
    assert wide.error == pytest.approx((2 * 0.425 + 2 * 0.025) / 4)
    assert metrics.calibration_bins(p, y, 10).count.tolist() == [1, 1, 2]  # empty bins are left out
    assert metrics.calibration_bins([7.0, 3.0, 5.0], [1, 2, 3], 3, equal="count").place.tolist() == [2, 0, 1]
    assert not len(metrics.calibration_bins([], []).count)


def test_bins_refuse_what_does_not_match():
    with pytest.raises(ValueError, match=r"predicted has shape \(2,\) and observed \(1,\)"):
        metrics.calibration_bins([0.1, 0.2], [1])
    with pytest.raises(ValueError, match="equal='size' is not known"):
        metrics.calibration_bins([0.1], [1], equal="size")
