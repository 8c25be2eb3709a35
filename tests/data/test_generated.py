"""Generated problems have the shape, the structure and the repeatability they promise."""

import numpy as np
import pytest

from halfstep.data.datasets import make_implicit, make_predictions, make_ratings


def gini(counts: np.ndarray) -> float:
    ordered = np.sort(counts)
    n = len(ordered)
    return float(2 * (np.arange(1, n + 1) * ordered).sum() / (n * ordered.sum()) - (n + 1) / n)


def test_implicit_is_exact_canonical_and_heavy_tailed() -> None:
    matrix = make_implicit(2000, 1500, 60_000, random_state=3)
    assert matrix.shape == (2000, 1500)
    assert matrix.nnz == 60_000
    assert matrix.dtype == np.float32
    checked = matrix.copy()
    checked.sum_duplicates()
    assert checked.nnz == 60_000
    assert (np.diff(matrix.indices)[np.diff(np.repeat(np.arange(2000), np.diff(matrix.indptr))) == 0] > 0).all()
    for counts in (np.diff(matrix.indptr), np.bincount(matrix.indices, minlength=1500)):
        assert gini(counts) > 0.3
        assert counts.max() > 4 * counts.mean()
    flat = make_implicit(2000, 1500, 60_000, exponent=0.0, random_state=3)
    assert gini(np.diff(flat.indptr)) < 0.15
    assert make_implicit(50, 50, 500, exponent=1.0).nnz == 500


def test_implicit_repeats_and_fills_dense_requests() -> None:
    one, two = make_implicit(50, 40, 1000, random_state=1), make_implicit(50, 40, 1000, random_state=1)
    assert (one != two).nnz == 0
    assert (one != make_implicit(50, 40, 1000, random_state=2)).nnz > 0


def test_ratings_look_like_ratings() -> None:
    pairs, y, clean = make_ratings(400, 300, 12_000, random_state=0)
    assert pairs.shape == (12_000, 2)
    assert len(np.unique(pairs, axis=0)) == 12_000
    assert set(y) == {1, 2, 3, 4, 5}
    assert clean.min() >= 1
    assert clean.max() <= 5
    assert np.sqrt(np.mean((y - clean) ** 2)) == pytest.approx(0.65, abs=0.1)  # noise 0.6 and rounding
    # Users and items explain much of it, but not all: there is something for factors to learn.
    sums, counts = np.bincount(pairs[:, 1], y, 300), np.bincount(pairs[:, 1], minlength=300)
    means = sums / np.maximum(counts, 1)
    assert np.var(means[pairs[:, 1]]) > 0.1
    assert np.var(clean - means[pairs[:, 1]]) > 0.2


def test_outliers_are_gross_and_as_many_as_asked() -> None:
    pairs, y, clean = make_ratings(400, 300, 12_000, outliers=0.1, random_state=0)
    same_pairs, calm, same_clean = make_ratings(400, 300, 12_000, random_state=0)
    assert np.array_equal(pairs, same_pairs)
    assert np.array_equal(clean, same_clean)
    changed = y != calm
    assert 0.08 < changed.mean() <= 0.1
    assert np.isin(y[changed], [1, 5]).all()
    assert np.abs(y - clean)[changed].mean() > 2


def test_predictions_are_heterogeneous_correlated_and_partly_missing() -> None:
    P, y, truth = make_predictions(4000, 24, missing=0.25, labels=0.2, random_state=0)
    assert P.shape == (4000, 24)
    assert np.isnan(P).mean() == pytest.approx(0.25, abs=0.02)
    assert not np.isnan(P).all(axis=1).any()
    assert (~np.isnan(y)).mean() == pytest.approx(0.2, abs=0.01)
    known = ~np.isnan(y)
    assert np.array_equal(y[known], truth[known])
    assert set(y[known]) == {0.0, 1.0}
    right = np.where(np.isnan(P), np.nan, (P > 0.5) == truth[:, None])
    accuracy = np.nanmean(right, axis=0)
    assert accuracy.min() < 0.65 < accuracy.max()
    full, _, again = make_predictions(4000, 24, missing=0.0, random_state=0)
    # Within one class a classifier varies by its errors alone; a third of the pairs share a family.
    correlation = np.corrcoef(full[again == 1].T)[np.triu_indices(24, 1)]
    assert np.quantile(correlation, 0.9) > 0.3
    assert abs(np.quantile(correlation, 0.3)) < 0.1


def test_same_seed_same_bits() -> None:
    for make in (lambda: make_ratings(50, 40, 300), lambda: make_predictions(50, 6)):
        for one, two in zip(make(), make(), strict=True):
            assert np.array_equal(one, two, equal_nan=True)


def test_bad_sizes_and_fractions() -> None:
    with pytest.raises(ValueError, match="n_users=0 must be a whole number of at least 1"):
        make_implicit(0, 5, 5)
    with pytest.raises(ValueError, match=r"nnz=80 is more than half of the 10 x 10 cells.*at most 50"):
        make_implicit(10, 10, 80)
    with pytest.raises(ValueError, match=r"outliers=1.5 must be a fraction"):
        make_ratings(50, 40, 100, outliers=1.5)
    with pytest.raises(ValueError, match=r"missing=-0.1 must be a fraction"):
        make_predictions(missing=-0.1)
