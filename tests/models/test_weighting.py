"""WALS with a weighting: the model of weighed cells, in every answer; a weighting of one's own like a built-in one."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from halfstep.core import weighting
from halfstep.core.weighting import BM25, WEIGHTINGS, CellFacts, Weighting
from halfstep.data.files import read, save
from halfstep.kinds import load
from halfstep.models.wals import WALS

PARAMETERS = {"rank": 3, "max_iter": 4, "random_state": 0, "dtype": "float64", "n_threads": 1}


@dataclass(frozen=True)
class Own(Weighting):
    """BM25's formula in a class of a user."""

    def weigh(self, cells: CellFacts):
        return BM25().weigh(cells)


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return sp.csr_array(np.where(rng.random((14, 9)) < 0.5, rng.integers(1, 9, (14, 9)), 0).astype(float))


def weighed(X, name):
    values = weighting.get(name).weights(X.indptr, X.indices, X.data, X.shape[1])
    return sp.csr_array((values, X.indices, X.indptr), shape=X.shape)


def answers(model, X):
    return [
        *model.fitted_.rows,
        model.transform(X[:3]),
        model.recommend_for([1, 2], weights=[3.0, 1.0]).scores,
        model.recommend_for([1, 2], how="average").scores,
        model.explain(0, 1).contributions,
        model.explain(items=[2, 3], item=1).contributions,
        model.rank_items(X[:2], 4),
    ]


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_a_fit_with_a_weighting_is_the_fit_of_weighed_cells(X, name):
    model = WALS(weighting=name, **PARAMETERS).fit(X)
    plain = WALS(**PARAMETERS).fit(weighed(X, name))
    for ours, theirs in zip(model.fitted_.rows, plain.fitted_.rows, strict=True):
        assert_allclose(ours, theirs, atol=1e-12)
    assert (model.fitted_.cells.to_csr() != X).nnz == 0  # what people have is kept as they gave it


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_a_fitted_user_folded_in_again_has_the_fitted_row(X, name):
    model = WALS(weighting=name, **PARAMETERS | {"max_iter": 30, "tol": 0.0}).fit(X)
    assert_allclose(model.transform(X), model.user_factors_, atol=1e-10)
    score = float(model.user_factors_[0] @ model.item_factors_[1])
    assert model.explain(0, 1).score == pytest.approx(score, abs=1e-8)


@pytest.mark.parametrize(("own", "built_in"), [(Own(), "bm25"), (np.log1p, "log"), (BM25(), "bm25")])
def test_a_weighting_of_ones_own_gets_the_treatment_of_a_built_in_one(X, own, built_in):
    a, b = (WALS(weighting=each, **PARAMETERS).fit(X) for each in (own, built_in))
    for ours, theirs in zip(answers(a, X), answers(b, X), strict=True):
        assert np.array_equal(ours, theirs)
    more = sp.csr_array(np.eye(15, 10))
    for ours, theirs in zip(a.partial_fit(more).fitted_.rows, b.partial_fit(more).fitted_.rows, strict=True):
        assert np.array_equal(ours, theirs)


def test_partial_fit_weighs_by_what_is_known_then(X):
    model = WALS(weighting="tfidf", **PARAMETERS).fit(X[:8]).partial_fit(X)
    assert (model.fitted_.cells.to_csr() != X).nnz == 0
    assert_allclose(model.transform(X), model.user_factors_, atol=1e-10)  # users are solved last, all of them here


@pytest.mark.parametrize("scheme", ["bm25", BM25(b=0.5), {"name": "log", "eps": 0.5}])
def test_a_saved_model_weighs_new_users_as_before(X, tmp_path, scheme):
    model = WALS(weighting=scheme, **PARAMETERS).fit(X)
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    assert weighting.get(again.weighting) == weighting.get(model.weighting)
    for ours, theirs in zip(answers(model, X), answers(again, X), strict=True):
        assert np.array_equal(ours, theirs)


def test_what_has_no_name_cannot_be_saved_until_it_has_one(X, tmp_path):
    with pytest.raises(ValueError, match="has no name, so a model file cannot keep it"):
        WALS(weighting=np.log1p, **PARAMETERS).fit(X).save(tmp_path / "m.safetensors")
    model = WALS(weighting=Own(), **PARAMETERS).fit(X)
    with pytest.raises(ValueError, match="has no name"):
        model.save(tmp_path / "m.safetensors")
    WEIGHTINGS["own"] = Own
    try:
        model.save(tmp_path / "m.safetensors")
        assert load(tmp_path / "m.safetensors").weighting == Own()
    finally:
        del WEIGHTINGS["own"]


def test_a_file_without_a_weighting_loads_as_none(X, tmp_path):
    path = tmp_path / "m.safetensors"
    model = WALS(**PARAMETERS).fit(X)
    model.save(path)
    saved = read(path)
    params = {name: value for name, value in saved.params.items() if name != "weighting"}
    save(path, saved.kind, params, saved.arrays, saved.meta, saved.indexes)
    again = load(path)
    assert again.weighting == "none"
    assert np.array_equal(again.transform(X), model.transform(X))


def test_none_is_the_fit_without_the_parameter_bit_for_bit(X):
    a, b = WALS(**PARAMETERS).fit(X), WALS(weighting="none", **PARAMETERS).fit(X)
    for ours, theirs in zip(answers(a, X), answers(b, X), strict=True):
        assert np.array_equal(ours, theirs)


def test_an_unknown_weighting_is_refused_before_anything_is_read():
    with pytest.raises(ValueError, match=r"weighting='bm52' is not known.*Did you mean 'bm25'"):
        WALS(weighting="bm52").fit(object())
