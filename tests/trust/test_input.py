"""Models that are not fitted, parameters changed after the fit, numbers that are no real numbers or vanish."""

import inspect
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import halfstep as hs
from halfstep import baselines
from halfstep.evaluate import evaluate

from .zoo import P3, RATINGS, TABLE, Y3, P, Y, answers, fitted

WORK_UNFITTED = {
    *("fit", "partial_fit", "fit_transform", "fit_predict", "get_params", "set_params", "set_output"),
    *("estimate_memory", "default_rank", "from_saved", "get_metadata_routing", "accumulate", "merge"),
}


def estimators():
    found = {}
    for module in (hs, baselines):
        for name in dir(module):
            kind = getattr(module, name)
            if inspect.isclass(kind) and hasattr(kind, "fit") and hasattr(kind, "get_params"):
                found[kind.__name__] = kind
    return found


def unfitted(kind):
    given = {"estimators": [("a", baselines.Mean())], "model": hs.WALS()}
    needed = [p.name for p in inspect.signature(kind).parameters.values() if p.default is p.empty and p.kind < 2]
    return kind(**{name: given[name] for name in needed if name in given})


def members(kind):
    for name in dir(kind):
        if not name.startswith("_") and name not in WORK_UNFITTED and not name.startswith("set_"):
            yield name


CASES = [(kind, name) for kind in estimators().values() for name in members(kind)]


@pytest.mark.parametrize(("kind", "name"), CASES, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_whatever_needs_a_fit_says_so(kind, name):
    model = unfitted(kind)
    if name in model.get_params() or isinstance(inspect.getattr_static(kind, name), int | float | str | None):
        return  # a parameter, or a constant of the class
    with pytest.raises(AttributeError) as raised:  # NotFittedError is one too
        use(model, name)
    optional = "has no attribute" in str(raised.value)  # only there for some losses or engines
    assert optional or isinstance(raised.value, NotFittedError)


def use(model, name):
    found = getattr(model, name)
    if callable(found):
        needed = [p for p in inspect.signature(found).parameters.values() if p.default is p.empty]
        found(*(placeholder(p.name) for p in needed if p.kind < 2))


def placeholder(name):
    return {"path": "never-written", "n": 1, "level": 0.9, "y": Y[:3]}.get(name, P[:3])


def test_nothing_was_written_by_models_that_are_not_fitted():
    from pathlib import Path

    assert not Path("never-written").exists()


CHANGES = {
    "WALS": {"rank": 5, "reg": 3.0},
    "PLQMF": {"rank": 5, "biases": False, "intercept": False, "reg_user": 3.0, "reg_item": 1.0},
    "PLQMF-levels": {"rank": 5, "biases": False},
    "BayesMF": {"rank": 5, "likelihood": "ordinal", "keep": 3},
    "CFEnsemble": {"rank": 2, "biases": False, "link": "identity", "clip": 0.2, "on": "filled", "aggregator": "mean"},
    "CFEnsemble-classes": {"rank": 2, "solver": "als", "aggregator": "weighted", "confidence": "brier"},
    "CFEnsembleCV": {"ranks": (2, 3), "links": ("identity",), "clip": 0.3},
    "CFEnsembleCV-classes": {"ranks": (2,), "clip": 0.3},
    "ItemGraph": {},
    "Biases": {"damping": 1.0},
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_parameters_that_changed_after_the_fit_change_no_answer_of_its_file(tmp_path, name):
    model = clone(fitted(name))
    model.fitted_ = fitted(name).fitted_
    before = answers(name, model)
    model.set_params(**CHANGES[name]).save(tmp_path / "model.safetensors")
    back = hs.load(tmp_path / "model.safetensors")
    for parameter, value in CHANGES[name].items():
        assert np.array_equal(getattr(back, parameter), value), parameter
    for ours, theirs in zip(before, answers(name, back), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "params"),
    [("WALS", {"rank": -1}), ("PLQMF", {"dtype": "half"}), ("BayesMF", {"keep": 0}), ("CFEnsemble", {"clip": 7}),
     ("CFEnsembleCV", {"ranks": ()}), ("Biases", {"damping": -1}), ("ItemKNN", {"k": -3})],
)  # fmt: skip
def test_parameters_that_make_no_sense_are_refused_before_a_file_appears(tmp_path, name, params):
    model = clone(fitted(name))
    model.fitted_ = fitted(name).fitted_
    with pytest.raises(ValueError, match=next(iter(params))):
        model.set_params(**params).save(tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


X, y = RATINGS
ODD = 1 + 1j


@pytest.mark.parametrize(
    "call",
    [
        lambda: hs.WALS(rank=2).fit(TABLE * ODD),
        lambda: hs.WALS(rank=2).fit(sp.csr_array(TABLE * ODD)),
        lambda: hs.WALS(rank=2).fit(pd.DataFrame({"user": [1, 2], "item": [1, 2], "weight": [ODD, 1]})),
        lambda: hs.PLQMF(rank=2).fit(X, y * ODD),
        lambda: hs.PLQMF(rank=2).fit(X, y, np.ones(len(y)) * ODD),
        lambda: hs.BayesMF(rank=2, n_sweeps=4).fit(X, y * ODD),
        lambda: baselines.Biases().fit(X, y, np.ones(len(y)) * ODD),
        lambda: fitted("WALS").recommend_for(["i0", "i1"], 2, weights=[ODD, 1]),
        lambda: hs.CFEnsemble().fit(P * ODD, Y),
        lambda: hs.CFEnsemble().fit(P3 * ODD, Y3),
        lambda: hs.CFEnsemble().fit(P, Y, features=P * ODD),
        lambda: hs.CFEnsemble().fit(pd.DataFrame(P * ODD), Y),
        lambda: hs.CFEnsembleCV().fit(P * ODD, Y),
        lambda: hs.CFEnsembleCV().fit([column * ODD for column in P.T], Y),
        lambda: fitted("CFEnsembleCV").predict_proba(P * ODD),
        lambda: baselines.Mean().fit(P * ODD, Y),
    ],
)
def test_complex_numbers_are_refused_not_cut(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        with pytest.raises((TypeError, ValueError), match=r"complex|not numbers"):
            call()


@pytest.mark.parametrize(
    "call",
    [
        lambda w: hs.WALS(rank=2).fit(np.array([[w, 1], [2, 1.0]])),
        lambda w: hs.WALS(rank=2).fit(sp.csr_array(np.array([[w, 1], [2, 1.0]]))),
        lambda w: hs.WALS(rank=2).fit(sp.csr_array(np.full((3, 3), w))),
        lambda w: hs.WALS(rank=2).fit(pd.DataFrame({"user": [1, 2], "item": [1, 2], "weight": [w, 1]})),
        lambda w: hs.PLQMF(rank=2).fit(X, y, np.where(np.arange(len(y)), 1.0, w)),
        lambda w: hs.PLQMF(rank=2).fit(X, y, np.full(len(y), w)),
    ],
)
def test_a_weight_that_would_vanish_is_refused(call):
    with pytest.raises(ValueError, match="weights of 1e-46 are 0 in float32"):
        call(1e-46)


def test_such_a_weight_counts_in_float64():
    cells = hs.WALS(rank=1, dtype="float64", max_iter=1).fit(np.array([[1e-46, 1], [2, 1.0]])).fitted_.cells
    assert cells.weights.tolist() == [1e-46, 1, 2, 1]


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("C", [None, 0.1])
@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "quantile", "poisson", "bernoulli", "inside"])
def test_targets_that_leave_nothing_to_do_fit_like_any_other(loss, C, biases):
    """All zero, or all inside epsilon: an objective of 0 has no relative change."""
    loss = {"name": "epsilon_insensitive", "eps": 100.0} if loss == "inside" else loss
    rho = None if C is None else 0.5
    model = hs.PLQMF(rank=2, loss=loss, C=C, rho=rho, biases=biases, intercept=biases, max_iter=4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for targets in (np.zeros(len(y)), y / y.max()):
            fit = model.fit(X, targets)
            assert np.isfinite(fit.predict(X)).all()
            assert np.isfinite(fit.objective_)


@pytest.mark.parametrize(
    "model", [hs.CFEnsemble(), hs.CFEnsembleCV(), baselines.ShrunkenStacking(), baselines.BestSingle()]
)
def test_labels_of_instances_nobody_has_spoken_about(model):
    silent = np.where((Y >= 0)[:, None], np.nan, P)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer = clone(model).fit(silent, Y).predict_proba()
        except ValueError as error:
            assert "with predictions" in str(error)  # noqa: PT017
        else:
            assert np.isfinite(answer).all()


CELLS = sp.random_array((12, 9), density=0.4, rng=0, format="csr")


def _csr(change, form="csr"):
    matrix = CELLS.asformat(form).copy()
    change(matrix)
    return matrix


def _coo(row):
    matrix = CELLS.tocoo()
    matrix.coords[0][0] = row
    return matrix


UNSOUND = {
    "offsets beyond the cells": lambda: _csr(lambda m: m.indptr.__setitem__(3, 10**6)),
    "offsets below zero": lambda: _csr(lambda m: m.indptr.__setitem__(3, -5)),
    "columns beyond the shape": lambda: _csr(lambda m: m.indices.__setitem__(0, 1000)),
    "columns below zero": lambda: _csr(lambda m: m.indices.__setitem__(0, -1)),
    "rows of columns": lambda: _csr(lambda m: m.indices.__setitem__(0, 1000), "csc"),
    "rows beyond the shape": lambda: _coo(1000),
    "rows below zero": lambda: _coo(-1),
}
TAKE_MATRICES = {
    "WALS": lambda X: hs.WALS(rank=2, max_iter=1).fit(X),
    "validation": lambda X: hs.WALS(rank=2, max_iter=1).fit(CELLS, validation=X),
    "partial_fit": lambda X: hs.WALS(rank=2, max_iter=1).fit(CELLS).partial_fit(X),
    "transform": lambda X: hs.WALS(rank=2, max_iter=1).fit(CELLS).transform(X),
    "rank_items": lambda X: hs.EASE().fit(CELLS).rank_items(X, 3),
    "EASE": lambda X: hs.EASE().fit(X),
    "Interactions": lambda X: hs.datasets.Interactions(X, np.arange(12), np.arange(9)),
    "evaluate": lambda X: evaluate(hs.EASE(), X),
    "Features": lambda X: hs.Features.of(X),
}


@pytest.mark.parametrize("unsound", UNSOUND)
@pytest.mark.parametrize("call", TAKE_MATRICES)
def test_a_matrix_whose_places_lie_outside_is_refused_not_followed(call, unsound):
    """scipy follows them out of its memory: all of these crashed the process, or answered from other memory."""
    with pytest.raises(ValueError, match="no sound sparse matrix"):
        TAKE_MATRICES[call](UNSOUND[unsound]())


@pytest.mark.parametrize("values", ["datetime64[s]", "timedelta64[s]"])
def test_times_are_no_ratings(values):
    """They were taken for their number of seconds, in silence."""
    with pytest.raises(ValueError, match="times"):
        hs.PLQMF(rank=2).fit(RATINGS[0], np.arange(len(RATINGS[0])).astype(values))


def test_masked_values_do_not_count_as_if_they_were_not():
    """NumPy drops the mask: hidden weights, predictions and ratings were used."""
    X = np.ma.masked_greater(CELLS.toarray(), 0.5)
    with pytest.raises(TypeError, match="masked"):
        hs.WALS(rank=2).fit(X)
    with pytest.raises(TypeError, match="masked"):
        hs.CFEnsembleCV().fit(np.ma.masked_greater(P, 0.5), Y)
    with pytest.raises(ValueError, match="masked"):
        hs.PLQMF(rank=2).fit(RATINGS[0], np.ma.masked_less(RATINGS[1], np.median(RATINGS[1])))
    hs.WALS(rank=2, max_iter=1).fit(np.ma.masked_greater(CELLS.toarray(), 5.0))  # nothing is masked


def test_columns_of_one_name_are_told_in_our_words():
    frame = pd.DataFrame([[1, 2, 3]], columns=["user", "item", "item"])
    for fit in (lambda: hs.WALS(rank=2).fit(frame), lambda: hs.PLQMF(rank=2).fit(frame, [1.0])):
        with pytest.raises(ValueError, match="several columns of one name"):
            fit()
