"""The fusion benchmark itself: its store resumes and forgets stale results, its tables say what was measured."""

import json

import numpy as np
import pytest
from ensemble import data, report, run
from ensemble.methods import METHODS, Method, SklearnStacking

from halfstep.baselines import Mean

pytestmark = pytest.mark.heavy
GRID = run.Grid(("toy",), (20,), (0, 0.5), (0, 1))


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """A pool in place of the real ones, and a store of its own."""
    random = np.random.default_rng(0)
    truth = (random.random(200) < 0.4).astype(np.int64)
    P = np.clip(truth[:, None] * 0.3 + random.random((200, 6)) * 0.7, 0, 1)
    made = data.Pool(P, truth, np.array(list("abcdef")), np.zeros(6, bool))
    monkeypatch.setattr(data, "pool", lambda name: made)
    monkeypatch.setenv("HALFSTEP_CACHE", str(tmp_path))
    return made


def test_a_case_is_measured_once_and_again_when_its_sources_change(toy):
    assert run.measure("toy", GRID, {"Mean": "one"}) == 4
    assert run.measure("toy", GRID, {"Mean": "one"}) == 0
    assert run.measure("toy", GRID, {"Mean": "two"}) == 4
    assert len(run.collect(GRID, {"Mean": "two"})) == 4
    assert not run.collect(GRID, {"Mean": "three"})
    fewer = run.Grid(("toy",), (20,), (0.5,), (1,))
    assert [row["seed"] for row in run.collect(fewer, {"Mean": "one"})] == [1]


def test_cases_that_some_method_has_not_answered_are_left_out(toy):
    run.measure("toy", GRID, {"Mean": "one"})
    run.measure("toy", run.Grid(("toy",), (20,), (0,), (0,)), {"BiasAdjustedMean": "one"})
    found = run.collect(GRID, {"Mean": "one", "BiasAdjustedMean": "one"})
    assert {(row["missing"], row["seed"]) for row in found} == {(0, 0)}
    assert len(found) == 2


def test_a_torn_line_costs_one_case(toy):
    run.measure("toy", GRID, {"Mean": "one"})
    path = run.store("toy")
    path.write_text(path.read_text()[:-30])
    assert run.measure("toy", GRID, {"Mean": "one"}) == 1


def test_methods_that_need_complete_predictions_skip_the_others(toy, monkeypatch):
    monkeypatch.setitem(METHODS, "complete", Method(Mean, (), complete=True))
    assert run.measure("toy", GRID, {"complete": "x"}) == 2


def test_metrics_are_the_usual_ones():
    truth = np.array([0, 0, 1, 1])
    scores = run.metrics(truth, np.array([0.1, 0.8, 0.4, 1.0]))
    assert scores["roc_auc"] == 0.75
    assert scores["brier"] == pytest.approx((0.01 + 0.64 + 0.36) / 4)
    assert scores["log_loss"] == pytest.approx(-np.log([0.9, 0.2, 0.4, 1 - 1e-4]).mean())


def test_sklearn_stacking_fits_on_the_pool(toy):
    y = np.where(np.arange(200) < 100, toy.y_true, np.nan)
    P = np.where(np.random.default_rng(1).random(toy.P.shape) < 0.3, np.nan, toy.P)
    P[:, 0] = np.nan  # a classifier that nobody asked
    positive = SklearnStacking().fit(P, y).predict_proba()[100:, 1]
    assert ((positive > 0.5) == toy.y_true[100:]).mean() > 0.7


def test_fingerprints_follow_the_sources():
    assert METHODS["Mean"].fingerprint == METHODS["WeightedMean"].fingerprint
    assert METHODS["Mean"].fingerprint != METHODS["DawidSkene"].fingerprint
    assert METHODS["Mean"].fingerprint != METHODS[report.OURS].fingerprint


def rows(ours=0.9, rival=0.8, partial=()):
    made = []
    for dataset in map(str, range(12)):
        for missing in (0, 0.8):
            for seed in (0, 1):
                noise = 0.001 * int(dataset)
                for name, score in {report.OURS: ours, "Mean": rival, "GreedySelection": 0.5}.items():
                    made.append(row(name, dataset, missing, seed, score + noise))
                if missing == 0:
                    made += [row(name, dataset, missing, seed, 0.7) for name in partial]
    return made


def row(method, dataset, missing, seed, score):
    scores = {"pr_auc": score, "roc_auc": score, "log_loss": 1 - score, "brier": 1 - score}
    return {
        "method": method,
        "dataset": dataset,
        "labels": 20,
        "missing": missing,
        "seed": seed,
        "seconds": 1.0,
        **scores,
    }


def test_the_report_tells_margins_and_who_is_worse(tmp_path):
    text = report.report(rows(), str(tmp_path))
    assert "24 tasks" in text
    assert "is significantly worse\n  nowhere" in text
    margin = next(line for line in text.splitlines() if line.startswith("80%") and " all " in line)
    assert margin.split()[:5] == ["80%", "all", "12", "10.00", "nan"]
    assert (tmp_path / "pr_auc.svg").read_text().startswith("<svg")
    losing = report.report(rows(ours=0.7))
    assert "PR-AUC: 80% missing, 20 labels: Mean (0/0/12" in losing


def test_methods_of_complete_cases_have_their_own_table():
    text = report.report(rows(partial=["KNORA-E"]))
    assert "complete predictions only, with KNORA-E" in text
    results = report.Results(rows(partial=["KNORA-E"]))
    assert results.partial == ["KNORA-E"]
    assert results.table("pr_auc", None, "0", ["KNORA-E", "Mean"]).shape == (12, 2)


def test_rows_are_json(toy):
    run.measure("toy", GRID, {"Mean": "one"})
    line = json.loads(run.store("toy").read_text().splitlines()[0])
    assert {"method", "dataset", "labels", "missing", "seed", "pr_auc", "seconds", "fingerprint"} <= set(line)
