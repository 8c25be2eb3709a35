"""Figures for notebooks hold the numbers of the model; cards say what was fitted."""

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("plotly")

import halfstep
from halfstep.data.datasets import load_sample_skills


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


def test_a_report_is_written_without_an_import_of_the_pages(tmp_path):
    code = (
        "import halfstep, sys, numpy; model = halfstep.WALS(2, random_state=0).fit(numpy.eye(5) + numpy.eye(5)[::-1]);"
        "print([m for m in sys.modules if m.startswith('halfstep.apps')]);"
        "print(model.report(sys.argv[1]).stat().st_size)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "r.html")]
    above, size = subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[:2]
    assert above == "[]"
    assert int(size) > 10_000


@pytest.fixture(scope="module")
def ratings():
    from halfstep.data.datasets import make_ratings

    pairs, y, _ = make_ratings(150, 80, 2500)
    return halfstep.PLQMF(rank=2, loss="absolute", max_iter=5, random_state=0).fit(pairs, y), pairs, y


@pytest.fixture(scope="module")
def ensemble():
    from halfstep.data.datasets import make_predictions

    P, y, _ = make_predictions(120, 6)
    return halfstep.CFEnsemble(random_state=0).fit(P, y)


def test_residuals_are_observed_minus_predicted(ratings):
    model, pairs, y = ratings
    given = model.plot_residuals(pairs, y).data[0].x
    np.testing.assert_allclose(given, y - model.predict(pairs))
    np.testing.assert_allclose(np.sort(model.plot_residuals().data[0].x), np.sort(given), atol=1e-5)
    with pytest.raises(ValueError, match="give both pairs and y"):
        model.plot_residuals(pairs)


def test_calibration_and_biases_of_ratings(ratings):
    figure = ratings[0].plot_calibration()
    by_name = {trace.name: trace.y for trace in figure.data}
    assert (np.asarray(by_name["90%"]) >= by_name["median"]).all()
    assert [len(trace.x) for trace in ratings[0].plot_biases().data] == [150, 80]


def test_a_model_from_a_file_knows_its_ratings(ratings, tmp_path):
    ratings[0].save(tmp_path / "m.safetensors")
    loaded = halfstep.load(tmp_path / "m.safetensors")
    assert loaded.plot_residuals().to_json() == ratings[0].plot_residuals().to_json()


def test_figures_of_an_ensemble(ensemble):
    names = list("abcdef")
    figure = ensemble.plot_weights(names)
    weights = dict(zip(figure.data[0].y, figure.data[0].x, strict=True))
    np.testing.assert_allclose([weights[n] for n in names], ensemble.diagnostics_.classifier_weights)
    heat = ensemble.plot_similarity(names).data[0]
    assert sorted(heat.x) == names
    np.testing.assert_allclose(np.diag(heat.z), 1, atol=1e-6)
    assert len(ensemble.plot_calibration().data) == 2
    for by in ("answer", "difficulty", "novelty"):
        assert len(ensemble.plot_instances(by).data[0].x) == 120
    with pytest.raises(ValueError, match="names has 1 entries; this ensemble has 6 classifiers"):
        ensemble.plot_weights(["a"])
    assert "<td>120</td>" in ensemble._repr_html_()


@pytest.fixture(scope="module")
def average():
    P, y, _ = halfstep.data.datasets.make_predictions(150, 6, missing=0.2, labels=0.3, random_state=0)
    return halfstep.CFEnsembleCV(ranks=(1, 2), random_state=0).fit(P, y)


def test_members_of_an_average_are_its_weights_heaviest_on_top(average):
    bars = average.plot_members(5).data[0]
    heaviest = average.members_[:5]
    assert list(bars.y) == [member["name"] for member in heaviest][::-1]
    assert list(bars.x) == [member["weight"] for member in heaviest][::-1]
    assert bars.text[-1] == f"log loss {heaviest[0]['log_loss']:.4f}"
    with pytest.raises(ValueError, match="n=0"):
        average.plot_members(0)


@pytest.mark.filterwarnings("ignore::halfstep.ensemble.predictions.PredictionWarning")
def test_members_without_labels_have_no_loss_to_show():
    P, _, _ = halfstep.data.datasets.make_predictions(60, 4, missing=0.2, labels=0.0, random_state=0)
    model = halfstep.CFEnsembleCV(ranks=(1,), random_state=0).fit(P)
    assert model.plot_members().data[0].text is None
    assert "out-of-fold" not in model._repr_html_()


def test_uncertainty_stands_against_the_probability(average):
    points = average.plot_uncertainty().data[0]
    np.testing.assert_array_equal(points.x, average.predict_proba()[:, 1])
    np.testing.assert_array_equal(points.y, average.uncertainty_)


def test_an_average_writes_its_report_and_has_a_card(average, tmp_path):
    page = average.report(tmp_path / "average.html", title="Six classifiers")
    assert page.read_text().count("Six classifiers") >= 1
    assert average.members_[0]["name"] in page.read_text()
    card = average._repr_html_()
    assert "CFEnsembleCV(ranks=(1, 2))" in card
    assert f"{average.log_loss_:.4f}" in card
    assert not hasattr(average, "plot_objective")  # it has no sweeps
    with pytest.raises(ValueError, match="this CFEnsembleCV is not fitted yet; call fit first"):
        halfstep.CFEnsembleCV().plot_members()
