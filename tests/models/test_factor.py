"""What WALS and PLQMF share: models come back from their files, and what cannot be kept is refused."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import halfstep
from halfstep import PLQMF, losses
from halfstep.core.loop import timeless
from halfstep.data.datasets import Interactions
from halfstep.models.wals import WALS

from ..contract.estimator import random_cells
from .implicit import dense_objective, matrix, small


@pytest.fixture(scope="module")
def X():
    return sp.csr_array(matrix(random_cells(1)))


def fitted_with(ids, labels=None):
    cells = random_cells(2, (9, 7))
    user_ids, item_ids = (np.array([f"u{i}" for i in range(9)]), np.array([f"item {j}" for j in range(7)]))
    if ids == "int":
        user_ids, item_ids = np.arange(9) * 10, np.arange(7) + 100
    if ids == "none":
        return small(rank=3).fit(matrix(cells))
    titles = np.array([f"Title {j}" for j in range(7)]) if labels else None
    return small(rank=3).fit(Interactions(sp.csr_array(matrix(cells)), user_ids, item_ids, item_labels=titles))


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("ids", ["str", "int", "none"])
@pytest.mark.parametrize("labels", [False, True])
def test_a_saved_model_comes_back(tmp_path, ids, labels, mmap):
    model = fitted_with(ids, labels)
    model.save(tmp_path / "model.safetensors")
    back = halfstep.load(tmp_path / "model.safetensors", mmap=mmap)
    assert isinstance(back, WALS)
    assert back.get_params() | {"loss": None} == model.get_params() | {"loss": None}
    for name in ("user_factors_", "item_factors_", "user_ids_", "item_ids_"):
        assert_array_equal(getattr(back, name), getattr(model, name))
    if labels and ids != "none":
        assert back.item_labels_.tolist() == model.item_labels_.tolist()
    assert back.history_ == timeless(model.history_)
    assert (back.objective_, back.n_iter_, back.converged_) == (model.objective_, model.n_iter_, model.converged_)
    users = model.user_ids_.tolist()
    for ours, theirs in zip(model.recommend(users, 5), back.recommend(users, 5), strict=True):
        assert_array_equal(ours, theirs)
    given = model.item_ids_[:2].tolist()
    assert_array_equal(back.recommend_for(given).ids, model.recommend_for(given).ids)
    assert_array_equal(back.similar_items(given[0]).ids, model.similar_items(given[0]).ids)
    assert_allclose(back.explain(users[0], given[0]).score, model.explain(users[0], given[0]).score)


@pytest.mark.parametrize("mmap", [False, True])
def test_a_loaded_model_learns_on(tmp_path, X, mmap):
    model = small().fit(X)
    model.save(tmp_path / "m.safetensors")
    back = halfstep.load(tmp_path / "m.safetensors", mmap=mmap)
    more = sp.csr_array(([4.0], ([3], [7])), shape=X.shape)
    assert_array_equal(back.partial_fit(more).user_factors_, model.partial_fit(more).user_factors_)
    assert back.set_params(warm_start=True).fit(X).objective_ < dense_objective(model, X)


def test_numpy_parameters_can_be_saved(tmp_path, X):
    model = WALS(rank=np.int64(3), reg=np.float64(0.1), background=np.float32(0.125), max_iter=np.int32(2)).fit(X)
    model.save(tmp_path / "m.safetensors")
    back = halfstep.load(tmp_path / "m.safetensors")
    assert (back.rank, back.reg, back.background) == (3, 0.1, 0.125)


@dataclass(frozen=True)
class Softened(losses.Huber):
    """A loss of somebody's own, with the name of another."""


def test_a_loss_of_ones_own_is_refused_rather_than_saved_as_another(tmp_path, X):
    model = small(loss=Softened(2.0), max_iter=1).fit(X)
    with pytest.raises(ValueError, match=r"loss=Softened\(delta=2.0\) is not a loss of halfstep.losses"):
        model.save(tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


def test_classes_come_back_as_they_were(tmp_path):
    pairs = np.array([(u, i) for u in range(4) for i in range(3)])
    for labels in (["no", "yes"], [0, 1], [False, True], [-0.5, 2.5]):
        y = np.array(labels)[np.arange(12) * 7 % 5 % 2]
        model = PLQMF(rank=2, loss="hinge", random_state=0).fit(pairs, y)
        model.save(tmp_path / "m.safetensors")
        back = halfstep.load(tmp_path / "m.safetensors")
        assert back.classes_.dtype == model.classes_.dtype
        assert_array_equal(back.predict(pairs), model.predict(pairs))


@pytest.mark.parametrize("estimator", [WALS, PLQMF])
def test_parameters_of_the_loop_are_checked_alike(estimator, X):
    for change, message in (
        ({"max_seconds": -1.0}, r"max_seconds=-1.0"),
        ({"max_iter": 0}, r"max_iter=0"),
        ({"tol": -1e-3}, r"tol=-0.001"),
        ({"dtype": "float16"}, r"dtype='float16'"),
    ):
        with pytest.raises(ValueError, match=message):
            estimator(**change).fit(X, np.ones(X.shape[0]))
