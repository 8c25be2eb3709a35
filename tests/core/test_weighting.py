"""Weights of interactions: every formula against its dense twin, new rows weighed as if they had been fitted."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer

from halfstep.core import weighting
from halfstep.core.cells import Observations
from halfstep.core.weighting import BM25, WEIGHTINGS, CellFacts, CountPower, Log, Power, Weighting


def table(seed=0, shape=(9, 7)) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = np.where(rng.random(shape) < 0.5, rng.integers(1, 6, shape), 0).astype(float)
    X[0, 0], X[-1, -1] = 2, 3
    return X


def cells_of(X) -> Observations:
    return Observations.from_weights(sparse.csr_array(X), np.float64)


def dense(name, X):
    N, n, L = len(X), (X > 0).sum(0), X.sum(1, keepdims=True)
    if name in ("none", "given"):
        return X
    if name == "log":
        return np.log1p(X)
    if name in ("sqrt", "power"):
        return np.sqrt(X)
    if name == "binary":
        return (X > 0).astype(float)
    if name == "tfidf":
        return TfidfTransformer(norm=None).fit_transform(X).toarray()
    if name == "bm25":
        return np.log(1 + (N - n + 0.5) / (n + 0.5)) * 2.2 * X / (X + 1.2 * (0.25 + 0.75 * L / L.mean()))
    assert name == "popularity"
    return X * (np.maximum(n, 1) / n.mean()) ** -0.5


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_formulas_are_those_of_the_table(name):
    X = table()
    weighed = weighting.get(name).apply(cells_of(X), dtype=np.float64).to_csr().toarray()
    np.testing.assert_allclose(weighed, dense(name, X), rtol=1e-12)


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_a_new_row_is_weighed_as_it_would_have_been_among_the_fitted(name):
    X, scheme = table(1), weighting.get(name)
    fitted = cells_of(X)
    among = scheme.apply(fitted, dtype=np.float64).to_csr().toarray()
    margins = weighting.margins(fitted)
    for row in range(len(X)):
        alone = scheme.apply(cells_of(X[row : row + 1]), margins, np.float64).to_csr().toarray()
        np.testing.assert_allclose(alone[0], among[row], rtol=1e-12)


def test_the_default_copies_nothing():
    cells = cells_of(table())
    assert weighting.get("none").apply(cells) is cells


def test_a_function_and_a_subclass_are_treated_as_the_built_in_ones():
    @dataclass(frozen=True)
    class Own(Weighting):
        def weigh(self, cells: CellFacts):
            return BM25().weigh(cells)

    X = table(2)
    fitted, new = cells_of(X), cells_of(X[:1])
    for own, built_in in ((Own(), "bm25"), (np.log1p, "log")):
        a, b = weighting.get(own), weighting.get(built_in)
        assert np.array_equal(a.apply(fitted).weights, b.apply(fitted).weights)
        again = [s.apply(new, weighting.margins(fitted)).weights for s in (a, b)]
        assert np.array_equal(*again)
    with pytest.raises(ValueError, match=r"Own\(\) has no name, so a model file cannot keep it"):
        Own().to_dict()
    WEIGHTINGS["own"] = Own
    try:
        assert weighting.get(Own().to_dict()) == Own()
    finally:
        del WEIGHTINGS["own"]


@pytest.mark.parametrize("scheme", [Log(2.0, 0.5, 1.0), Power(0.3), BM25(1.5, 0.2), CountPower(-1.0, 0.5)])
def test_names_and_parameters_give_an_equal_weighting_back(scheme):
    assert weighting.get(scheme.to_dict()) == scheme
    assert weighting.get(scheme) is scheme


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(sorted(WEIGHTINGS)))
def test_weights_are_finite_and_positive(seed, name):
    weights = weighting.get(name).apply(cells_of(table(seed, (4, 3))), dtype=np.float64)
    assert len(weights) == len(cells_of(table(seed, (4, 3))))
    assert np.all(np.isfinite(weights.weights))
    assert np.all(np.asarray(weights.weights) > 0)


def test_a_weight_of_zero_makes_a_cell_unobserved():
    weighed = weighting.get(lambda x: np.maximum(x - 1, 0)).apply(cells_of(np.array([[1.0, 3.0]])))
    assert weighed.indices.tolist() == [1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: weighting.get("bm52"), r"weighting='bm52' is not known.*Did you mean 'bm25'"),
        (lambda: weighting.get(3), "weighting=3 is not known"),
        (lambda: weighting.get({"name": "bm25", "k": 1}), r"parameter of weighting 'bm25'='k' is not known.*'k1'"),
        (lambda: BM25(b=2.0), r"b=2.0 must be a number from 0 to 1"),
        (lambda: Log(eps=0.0), r"eps=0.0 must be a finite number above 0"),
        (lambda: weighting.get(lambda x: -x).apply(cells_of(table())), r"gave -\d.* must be finite and >= 0"),
        (lambda: weighting.get(lambda x: x[1:]).apply(cells_of(table())), r"gave weights of shape"),
    ],
)
def test_what_cannot_be_is_said(make, message):
    with pytest.raises(ValueError, match=message):
        make()
