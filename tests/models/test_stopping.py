"""Fits that end by what their rankings are worth."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import halfstep as hs
from halfstep.models.held_out import HeldOut, RankingMetric, keep_some
from halfstep.models.stopping import SweepJudge

SKILLS = hs.datasets.load_sample_skills()
TRAIN, HIDDEN = keep_some(SKILLS.matrix, 0)


def settings(**given):
    return {"rank": 50, "reg": 0.01, "background": 0.3, "max_iter": 12, "tol": 0.0, "random_state": 0} | given


def test_a_fifth_of_every_longer_row_is_kept_apart():
    counts, kept = np.diff(SKILLS.matrix.indptr), np.diff(HIDDEN.indptr)
    assert kept.tolist() == np.where(counts >= 3, np.maximum(counts // 5, 1), 0).tolist()
    assert abs(TRAIN + HIDDEN - SKILLS.matrix).max() == 0
    assert TRAIN.multiply(HIDDEN).nnz == 0


def test_the_best_sweep_is_kept_and_the_rest_not_waited_for():
    model = hs.WALS(**settings()).fit(TRAIN, validation=HIDDEN, metric="ndcg@20", patience=2)
    values = [record["ndcg@20"] for record in model.history_]
    best = int(np.argmax(values))
    assert len(values) == best + 3 < 12
    users = np.flatnonzero(np.diff(HIDDEN.indptr))
    ranked = model.rank_items(TRAIN[users], 20, users)
    assert RankingMetric.of("ndcg@20")(ranked, HIDDEN[users]) == pytest.approx(values[best], abs=1e-3)
    alone = hs.WALS(**settings(max_iter=best + 1)).fit(TRAIN)
    np.testing.assert_allclose(
        model.user_factors_ @ model.item_factors_.T, alone.user_factors_ @ alone.item_factors_.T, atol=2e-3
    )
    assert model.objective_ == pytest.approx(alone.objective_, rel=1e-4)


def transposed(cells):
    return sp.csr_array(cells.T)


@pytest.mark.parametrize(
    ("cells", "hidden", "solver", "folded"),
    [
        (TRAIN, HIDDEN, "auto", 0),  # users are the smaller side, so a sweep ends with them
        (TRAIN, HIDDEN, "subspace", 3),  # does not solve a row to the end
        (transposed(TRAIN), transposed(HIDDEN), "exact", 4),  # and when the last sweep is completed
    ],
    ids=["solved last", "left short", "solved first"],
)
def test_users_that_a_sweep_has_solved_are_not_folded_in_again(monkeypatch, cells, hidden, solver, folded):
    calls, whole = [], SweepJudge._folded_in
    monkeypatch.setattr(SweepJudge, "_folded_in", lambda *given: calls.append(given) or whole(*given))
    hs.WALS(**settings(max_iter=3, solver=solver)).fit(cells, validation=hidden, patience=3)
    assert len(calls) == folded


def test_solved_users_rank_as_those_folded_in(monkeypatch):
    both, plain = [], SweepJudge.value

    def value(judge, session, solved=False):
        both.append([plain(judge, session, solved), plain(judge, session, False)])
        return both[-1][0]

    monkeypatch.setattr(SweepJudge, "value", value)
    hs.WALS(**settings(max_iter=4)).fit(TRAIN, validation=HIDDEN, patience=4)
    own, folded = np.transpose(both)
    assert len(both) == 4
    np.testing.assert_allclose(own, folded, atol=1e-3)


def test_a_metric_beside_the_fit_does_not_change_it():
    plain = hs.WALS(**settings(max_iter=3)).fit(TRAIN)
    judged = hs.WALS(**settings(max_iter=3)).fit(TRAIN, validation=HIDDEN, patience=3)
    if np.argmax([r["ndcg@10"] for r in judged.history_]) == 2:
        np.testing.assert_array_equal(plain.item_factors_, judged.item_factors_)
    assert [r["objective"] for r in plain.history_] == pytest.approx([r["objective"] for r in judged.history_])


def test_validation_may_be_a_frame_of_ids():
    pairs = [("a", "x"), ("a", "y"), ("a", "z"), ("b", "x"), ("b", "y"), ("c", "x"), ("c", "z"), ("d", "y")]
    frame = pd.DataFrame(pairs, columns=["user", "item"])
    more = pd.DataFrame([("b", "z"), ("nobody", "x"), ("d", "nothing")], columns=["user", "item"])
    model = hs.WALS(1, max_iter=2, random_state=0).fit(frame, validation=more, metric="recall@1")
    assert "recall@1" in model.history_[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation": HIDDEN[:5]}, r"validation has shape \(5, 357\); X has \(111, 357\)"),
        ({"validation": TRAIN}, "validation has no cell beyond those of X"),
        ({"validation": HIDDEN, "metric": "rmse"}, "metric='rmse' is not known"),
        ({"validation": HIDDEN, "metric": "ndcg@x"}, "needs a whole number after the @"),
        ({"validation": HIDDEN, "patience": 0}, "patience=0 must be a whole number of at least 1"),
    ],
)
def test_validation_that_cannot_be_used_is_named(options, message):
    model = hs.WALS(2)
    with pytest.raises(ValueError, match=message):
        model.fit(TRAIN, **options)
    assert not hasattr(model, "fitted_")


def test_no_more_users_are_ranked_for_than_fit_into_memory(monkeypatch):
    monkeypatch.setattr("halfstep.models.held_out.MOST_NUMBERS", 357 * 10)
    kept = HeldOut.of(sp.csr_array(TRAIN), sp.csr_array(HIDDEN), 0)
    assert len(kept.rows) == 10


def test_the_plot_shows_the_metric_beside_the_objective():
    pytest.importorskip("plotly")
    model = hs.WALS(**settings(max_iter=3)).fit(TRAIN, validation=HIDDEN)
    names = [trace.name for trace in model.plot_objective().data]
    assert "objective" in names
    assert "ndcg@10" in names


@pytest.mark.parametrize(("given", "error"), [("x", TypeError), (np.full((111, 357), np.nan), ValueError)])
def test_validation_that_is_no_matrix_or_not_finite_is_named(given, error):
    with pytest.raises(error, match=r"^validation (is a str; give a matrix|has NaN or infinite values)"):
        hs.WALS(2).fit(hs.datasets.load_sample_skills(), validation=given)
