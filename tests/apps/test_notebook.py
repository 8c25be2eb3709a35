"""What notebooks show: answers and models as small tables with ids, text escaped."""

import numpy as np
import pytest

import halfstep as hs
from halfstep.figures.tables import html_table, text_table
from halfstep.kinds import ESTIMATORS


@pytest.fixture(scope="module")
def fitted() -> dict[str, object]:
    skills = hs.datasets.load_sample_skills()
    reviews = hs.datasets.make_reviews(30, 20, 300, random_state=0).ratings
    P, y, _ = hs.datasets.make_predictions(60, 4, missing=0.0, labels=0.7, random_state=0)
    baselines = hs.baselines
    parts = [hs.WALS(rank=3, random_state=0), hs.ItemGraph()]
    on_skills = [hs.WALS(rank=3, random_state=0), hs.ItemGraph(), hs.EASE(), hs.Blend(parts)]
    on_skills += [baselines.ItemKNN(), baselines.Popularity()]
    on_reviews = [hs.PLQMF(rank=2, random_state=0), hs.BayesMF(rank=2, n_sweeps=24, random_state=0)]
    on_reviews += [baselines.Biases(), baselines.Constant()]
    ensembles = [hs.CFEnsemble(random_state=0), hs.CFEnsembleCV(random_state=0)]
    models = [m.fit(skills) for m in on_skills] + [m.fit(reviews.pairs, reviews.y) for m in on_reviews]
    return {type(m).__name__: m for m in models + [m.fit(P, y) for m in ensembles]}


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_card_of_every_fitted_model_is_small_and_says_its_sizes(kind, fitted):
    card = fitted[kind]._repr_html_()
    assert kind in card
    assert len(card) < 4_000
    assert any(f"<td>{n}</td>" in card for n in (111, 30, 60))


def test_lists_and_explanations_print_ids_and_scores(fitted):
    ranking = fitted["WALS"].recommend("Data scientist", 3)
    lines = repr(ranking).splitlines()
    assert lines[0].split() == ["rank", "item", "score"]
    assert str(ranking.ids[0]) in lines[2]
    several = repr(fitted["WALS"].recommend(["Data scientist", "Accountant"], 2))
    assert several.splitlines()[0].split() == ["user", "rank", "item", "score"]
    assert several.count("Accountant") == 2
    reason = fitted["WALS"].explain("Data scientist", ranking.ids[0])
    assert "together" in repr(reason)
    assert "<td>" in reason._repr_html_()


@pytest.mark.parametrize("kind", ["BayesMF", "CFEnsemble", "CFEnsembleCV"])
def test_diagnostics_print_a_summary(kind, fitted):
    found = fitted[kind].diagnostics_
    assert len(repr(found).splitlines()) > 4
    assert "array(" not in repr(found)
    assert "<table>" in found._repr_html_()


def test_results_of_searches_and_of_cross_validation_are_tables():
    pytest.importorskip("optuna")
    from halfstep.apps.tune import tune

    reviews = hs.datasets.make_reviews(30, 20, 300, random_state=0).ratings
    tuning = tune(reviews, hs.PLQMF(max_iter=5, random_state=0), n_trials=2)
    assert repr(tuning).splitlines()[1].split()[0] == "number"
    assert "<table>" in tuning._repr_html_()
    P, y, _ = hs.datasets.make_predictions(60, 4, missing=0.0, labels=0.9, random_state=0)
    judged = hs.cross_validate(hs.CFEnsemble(random_state=0), P, y, folds=2, rivals=["Mean"])
    assert "CFEnsemble" in repr(judged)
    assert "<td>Mean</td>" in judged._repr_html_()


def test_what_tables_hold_is_text_and_long_ones_are_counted():
    rows = [{"name": "<b>", "value": np.float32(0.5)}, {"name": None, "value": float("nan")}]
    assert "&lt;b&gt;" in html_table(rows)
    assert "None" not in html_table(rows)
    assert text_table(rows).splitlines()[2] == "<b>   0.5000"
    assert "... and 5 more" in text_table([{"k": k} for k in range(45)])
    assert text_table([]) == "(nothing)"


def test_tests_for_shift_and_comparisons_are_tables():
    from halfstep.ensemble.shift.batch import BatchTest
    from halfstep.ensemble.shift.prevalence import Prevalence
    from halfstep.judge.result import Comparison, Estimate

    shares = Prevalence(np.array(["a", "b"]), *(np.array([0.4, 0.6]) for _ in range(4)), True)
    assert repr(shares).startswith("shares have shifted")
    assert "<td>b</td>" in shares._repr_html_()
    assert "0.0100" in repr(BatchTest(0.2, 0.01, 30, 10))
    compared = Comparison("x", "y", {"ndcg": Estimate(0.1, 0.05, 0.15)}, 0.95)
    assert "x is higher" in repr(compared)
    assert "x is higher" in compared._repr_html_()
