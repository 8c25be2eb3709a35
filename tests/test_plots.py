"""Figures for notebooks hold the numbers of the model; cards say what was fitted."""

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("plotly")

import halfstep
from halfstep.datasets import load_sample_skills


@pytest.fixture(scope="module")
def model():
    return halfstep.WALS(rank=8, max_iter=5, random_state=0).fit(load_sample_skills())


def test_objective_is_the_history(model):
    figure = model.plot_objective()
    assert list(figure.data[0].y) == [record["objective"] for record in model.history_]
    parts = np.sum([trace.y for trace in figure.data[1:]], axis=0)
    np.testing.assert_allclose(parts, figure.data[0].y, rtol=1e-6)


@pytest.mark.parametrize(("side", "n"), [("item", 357), ("user", 111)])
def test_map_has_a_named_point_for_each_row(model, side, n):
    figure = model.plot_map(side, method="PCA")
    assert len(figure.data[0].x) == n
    assert set(figure.data[0].text) == set(getattr(model, f"{side}_ids_").tolist())


def test_popularity_is_counts_against_mean_scores(model):
    figure = model.plot_popularity()
    scores = (model.user_factors_ @ model.item_factors_.T).mean(axis=0)
    np.testing.assert_allclose(figure.data[0].y, scores, atol=1e-5)
    assert int(sum(figure.data[0].x)) == 1597


def test_explanation_bars_sum_to_the_score(model):
    figure = model.plot_explanation(items=["Python", "SQL"], item="R")
    assert sum(figure.data[0].x) == pytest.approx(model.explain(items=["Python", "SQL"], item="R").score)


def test_wrong_arguments_and_models_without_a_fit(model):
    with pytest.raises(ValueError, match=r"side='items' is not known.*Did you mean 'item'"):
        model.plot_map("items")
    with pytest.raises(ValueError, match="this WALS is not fitted yet; call fit first"):
        halfstep.WALS().plot_objective()


def test_cards(model):
    card = model._repr_html_()
    assert "WALS(max_iter=5, random_state=0, rank=8)" in card
    assert "<td>357</td>" in card
    assert model._repr_mimebundle_()["text/html"] == card
    assert "WALS" in halfstep.WALS()._repr_html_()  # scikit-learn's own, before the fit


def test_the_core_stays_light():
    code = (
        "import halfstep, sys; halfstep.WALS();"
        "print([m for m in ('plotly', 'jinja2', 'rich', 'typer', 'optuna') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
