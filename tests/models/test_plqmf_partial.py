"""PLQMF.partial_fit: new pairs, users and items; what is known stays or gives way; refused calls change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halfstep as hs
from halfstep import PLQMF
from halfstep.errors import UnknownIdWarning

from ..contract.refusal import refused, unchanged
from .test_plqmf import LABELS, X, Y, model, objective

MORE, VALUES = np.array([[3, 0], [3, 7], [900, 7], [900, 901]]), np.array([1.0, 5.0, 4.0, 2.0])
EXACT: dict[str, Any] = {"dtype": "float64", "row_tol": 1e-10}


@pytest.mark.parametrize("loss", ["squared", "absolute", "logistic"])
@pytest.mark.parametrize("intercept", [True, False])
def test_touched_rows_are_solved_and_the_others_stay(loss: str, intercept: bool) -> None:
    y, values = (LABELS, np.array(["no", "yes", "yes", "no"])) if loss == "logistic" else (Y, VALUES)
    fit = model(loss, intercept=intercept, reg_scaling=0.5, **EXACT).fit(X, y)
    before, users, items = fit.fitted_, len(fit.user_ids_), len(fit.item_ids_)
    fit.partial_fit(MORE, values)
    assert fit.user_ids_.tolist() == [*range(60), 900]
    assert fit.item_ids_.tolist() == [*range(40), 901]
    assert fit.intercept_ == before.intercept
    np.testing.assert_array_equal(np.delete(fit.fitted_.rows[0][:users], 3, 0), np.delete(before.rows[0], 3, 0))
    np.testing.assert_array_equal(
        np.delete(fit.fitted_.rows[1][:items], [0, 7], 0), np.delete(before.rows[1], [0, 7], 0)
    )
    known = ~((X[:, 0] == 3) & np.isin(X[:, 1], [0, 7]))  # what was known of a pair gives way
    pairs, all_y = np.concatenate([X[known], MORE]), np.concatenate([y[known], values])
    of_three = pairs[:, 0] == 3
    np.testing.assert_allclose(
        fit.transform(pairs[of_three], all_y[of_three]).factors[0], fit.user_factors_[3], atol=1e-6
    )
    assert fit.fitted_.cells.counts.sum() == len(pairs)


def test_the_objective_is_that_of_all_pairs() -> None:
    fit = model("huber", **EXACT).fit(X, Y).partial_fit(MORE, VALUES, sample_weight=[1.0, 2.0, 1.0, 0.5])
    known = ~((X[:, 0] == 3) & np.isin(X[:, 1], [0, 7]))
    weights = np.concatenate([np.ones(known.sum()), [1.0, 2.0, 1.0, 0.5]])
    expected = objective(fit, np.concatenate([X[known], MORE]), np.concatenate([Y[known], VALUES]), weights)
    assert fit.objective_ == pytest.approx(expected, rel=1e-9)


def test_the_first_call_is_fit() -> None:
    np.testing.assert_array_equal(model().partial_fit(X, Y).user_factors_, model().fit(X, Y).user_factors_)


def test_given_in_two_parts_it_comes_near_the_whole_fit() -> None:
    late = np.random.default_rng(0).random(len(Y)) < 0.2
    parts = model("squared", C=1e-3, **EXACT).fit(X[~late], Y[~late]).partial_fit(X[late], Y[late])
    whole = model("squared", C=1e-3, **EXACT).fit(X, Y)
    errors = [np.mean((fit.predict(X) - Y) ** 2) for fit in (parts, whole)]
    assert errors[0] < 1.15 * errors[1]


def test_a_model_from_a_file_goes_on_alike(tmp_path: Path) -> None:
    fit = model("absolute", **EXACT).fit(X, Y, np.linspace(0.5, 2, len(Y)))
    fit.save(tmp_path / "model.safetensors")
    back = hs.load(tmp_path / "model.safetensors")
    assert isinstance(back, PLQMF)
    np.testing.assert_array_equal(
        back.partial_fit(MORE, VALUES).user_factors_, fit.partial_fit(MORE, VALUES).user_factors_
    )


def test_a_file_without_values_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = model().fit(X, Y)
    pattern = {"indptr": fit.fitted_.cells.indptr, "indices": fit.fitted_.cells.indices}
    monkeypatch.setattr(PLQMF, "_cells_to_save", lambda self: pattern)  # as files were in the first edition
    fit.save(tmp_path / "old.safetensors")
    back = hs.load(tmp_path / "old.safetensors")
    assert isinstance(back, PLQMF)
    unchanged(back, lambda: back.partial_fit(MORE, VALUES), ValueError, lambda: back.predict(X[:9]))
    with pytest.raises(ValueError, match="does not hold the values of its pairs"):
        back.partial_fit(MORE, VALUES)


def test_a_refused_call_changes_nothing() -> None:
    fit, other = model("hinge").fit(X, LABELS), model("hinge").fit(X, LABELS)
    values = np.array(["no", "yes", "maybe", "no"])
    unchanged(fit, lambda: fit.partial_fit(MORE, values), ValueError, lambda: fit.predict(X[:9]))
    with pytest.raises(ValueError, match="the classes are no and yes"):
        fit.partial_fit(MORE, values)
    values[2] = "yes"
    np.testing.assert_array_equal(fit.partial_fit(MORE, values).user_bias_, other.partial_fit(MORE, values).user_bias_)


def test_it_changes_whole_or_not_at_all() -> None:
    def answers(fit: PLQMF) -> Any:
        return fit.predict(X[:9]), fit.recommend(3, 2), fit.transform(X[:9], Y[:9]), fit.history_

    few = X[:, 0] < 12
    made = PLQMF(rank=2, max_iter=2, random_state=0, n_threads=1).fit(X[few], Y[few])
    assert refused(lambda: made, lambda fit: fit.partial_fit(MORE, VALUES), answers) > 30


def test_warnings_of_unknown_ids_name_the_line_of_the_caller() -> None:
    """`score` and `predict_proba` ask `decision_function`, so a fixed depth named a line of halfstep."""
    fit = model("logistic").fit(X, LABELS)
    unseen = np.array([[999, 5], [3, 5]])
    for ask in (fit.predict, fit.decision_function, fit.predict_proba, lambda pairs: fit.score(pairs, ["no", "yes"])):
        with pytest.warns(UnknownIdWarning) as caught:
            ask(unseen)
        assert caught[0].filename == __file__
