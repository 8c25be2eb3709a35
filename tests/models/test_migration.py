"""docs/migration.md: parameters of other libraries, mapped: the same row problem, and where possible the same answers.

Peers that are installed are asked themselves. Of the others, the row problem that they publish is solved here in NumPy.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import halfstep as hs

RANK, LAM, ALPHA = 4, 0.3, 2.5
MODELS = [("bayes", GaussianNB()), ("tree", DecisionTreeClassifier(max_depth=3, random_state=0))]


@pytest.fixture(scope="module")
def counts() -> sp.csr_array:
    cells = np.random.default_rng(0).poisson(0.3, (40, 25)).astype(np.float64)
    cells[:, 0] += 1  # nobody has nothing
    return sp.csr_array(cells)


@pytest.fixture(scope="module")
def ratings() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    places = np.argwhere(rng.random((30, 20)) < 0.4)
    return places, rng.integers(1, 6, len(places)).astype(np.float64)


def solved(Y, cells, weight, penalty, background):
    """Rows of users by normal equations: A = background Y'Y + sum (w - background) y y' + penalty I, b = sum w y."""
    rows = []
    for start, end in zip(cells.indptr[:-1], cells.indptr[1:], strict=True):
        y, w = Y[cells.indices[start:end]], weight(cells.data[start:end])
        A = background * Y.T @ Y + (y.T * (w - background)) @ y + penalty(end - start) * np.eye(Y.shape[1])
        rows.append(np.linalg.solve(A, w @ y))
    return np.array(rows)


def fitted_wals(cells, **options):
    return hs.WALS(RANK, 1.0, LAM, dtype="float64", random_state=0, **options).fit(cells)


def test_implicit_has_the_same_rows(counts):
    model = fitted_wals(ALPHA * counts, reg_scaling="constant")
    theirs = solved(model.item_factors_, counts, lambda r: ALPHA * r, lambda n: LAM, 1.0)
    np.testing.assert_allclose(model.transform(ALPHA * counts), theirs, rtol=1e-6)


def test_dislikes_of_implicit_are_dislikes(counts):
    signed = counts.copy()
    signed.data[::7] *= -1
    model = fitted_wals(ALPHA * signed, reg_scaling="constant", dislikes=True)
    Y = model.item_factors_
    for row, start, end in zip(model.transform(ALPHA * signed), signed.indptr[:-1], signed.indptr[1:], strict=True):
        y, c = Y[signed.indices[start:end]], ALPHA * signed.data[start:end]
        A = Y.T @ Y + (y.T * (abs(c) - 1)) @ y + LAM * np.eye(RANK)
        np.testing.assert_allclose(row, np.linalg.solve(A, np.maximum(c, 0) @ y), rtol=1e-6, atol=1e-9)


def test_implicit_itself_answers_alike(counts):
    implicit = pytest.importorskip("implicit", reason="the bench extra brings it")
    model = hs.WALS(RANK, 1.0, LAM, reg_scaling="constant", random_state=0).fit(ALPHA * counts)
    peer = implicit.cpu.als.AlternatingLeastSquares(RANK, LAM, ALPHA, use_cg=False)
    peer.item_factors, peer.user_factors = model.item_factors_, model.user_factors_
    rows = peer.recalculate_user(np.arange(40), sp.csr_matrix(counts))
    np.testing.assert_allclose(model.transform(ALPHA * counts), rows, rtol=1e-3, atol=1e-5)


def test_spark_implicit_feedback_has_the_same_rows(counts):
    weights = counts.copy()
    weights.data = 1 + ALPHA * counts.data
    model = fitted_wals(weights, reg_scaling="count")
    theirs = solved(model.item_factors_, counts, lambda r: 1 + ALPHA * r, lambda n: LAM * n, 1.0)
    np.testing.assert_allclose(model.transform(weights), theirs, rtol=1e-6)


def test_spark_explicit_ratings_have_the_same_rows(ratings):
    pairs, y = ratings
    model = hs.PLQMF(
        RANK, "squared", reg_user=LAM, reg_item=LAM, reg_scaling="count", intercept=False, biases=False,
        dtype="float64", row_tol=1e-12, random_state=0,
    ).fit(pairs, y)  # fmt: skip
    for user, row in zip(model.user_ids_, model.user_factors_, strict=True):
        mine = pairs[:, 0] == user
        Q = model.item_factors_[model.item_positions(pairs[mine, 1])]
        theirs = np.linalg.solve(Q.T @ Q + LAM * mine.sum() * np.eye(RANK), Q.T @ y[mine])
        np.testing.assert_allclose(row, theirs, rtol=1e-5, atol=1e-8)


def test_a_step_of_surprise_moves_no_user(ratings):
    """SVD goes along e q - reg p and e - reg b_u, rating by rating; over all ratings of a user these sum to nothing."""
    pairs, y = ratings
    model = hs.PLQMF(
        RANK, "squared", reg_user=LAM, reg_item=LAM, reg_bias=LAM, reg_scaling="count", dtype="float64",
        row_tol=1e-12, random_state=0,
    ).fit(pairs, y)  # fmt: skip
    error = y - model.predict(pairs)
    for k, user in enumerate(model.user_ids_):
        mine = pairs[:, 0] == user
        Q = model.item_factors_[model.item_positions(pairs[mine, 1])]
        step = error[mine] @ Q - LAM * mine.sum() * model.user_factors_[k]
        np.testing.assert_allclose(step, 0, atol=1e-6)
        assert error[mine].sum() - LAM * mine.sum() * model.user_bias_[k] == pytest.approx(0, abs=1e-6)


def test_baselines_of_surprise_are_damped_biases(ratings):
    pairs, y = ratings
    model = hs.baselines.Biases(damping=(15, 10)).fit(pairs, y)
    item = dict(zip(model.item_ids_.tolist(), model.item_bias_, strict=True))
    for user, bias in zip(model.user_ids_.tolist(), model.user_bias_, strict=True):
        mine = pairs[:, 0] == user
        left = y[mine] - y.mean() - [item[i] for i in pairs[mine, 1].tolist()]
        assert bias == pytest.approx(left.sum() / (15 + mine.sum()), abs=1e-5)


def test_surprise_itself_has_these_biases(ratings):
    surprise = pytest.importorskip("surprise", reason="the bench extra brings it")
    pairs, y = ratings
    import pandas as pd

    frame = pd.DataFrame({"user": pairs[:, 0], "item": pairs[:, 1], "rating": y})
    data = surprise.Dataset.load_from_df(frame, surprise.Reader(rating_scale=(1, 5))).build_full_trainset()
    options = {"method": "als", "n_epochs": 200, "reg_u": 15, "reg_i": 10}
    peer = surprise.BaselineOnly(bsl_options=options, verbose=False).fit(data)
    ours = hs.baselines.Biases(damping=(15, 10)).fit(pairs, y)
    users, items = (data.to_inner_uid, data.to_inner_iid)
    np.testing.assert_allclose([peer.bu[users(u)] for u in ours.user_ids_], ours.user_bias_, atol=1e-5)
    np.testing.assert_allclose([peer.bi[items(i)] for i in ours.item_ids_], ours.item_bias_, atol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["mse", "mae", "hinge", "squared hinge"])
def test_rehline_has_the_same_objective_at_its_own_solution(name, ratings):
    """Its last half-step solves items; at that point of theirs, our objective counts the same."""
    rehline = pytest.importorskip("rehline", reason="the test extra brings it")
    from halfstep.core import losses

    pairs, y = ratings
    y = np.where(y >= 4, 1.0, -1.0) if "hinge" in name else y
    C, rho, n, m = 0.01, 0.4, 30, 20
    peer = rehline.plqMF_Ridge(n, m, {"name": name}, biased=True, rank=3, C=C, rho=rho, random_state=0).fit(pairs, y)
    loss = losses.get({"squared hinge": "squared_hinge"}.get(name, name))
    scores = peer.decision_function(pairs)
    data = C * loss.value(scores, y).sum()
    users, items = ((peer.P, peer.bu), (peer.Q, peer.bi))
    held = rho / n * sum((each**2).sum() for each in users) + (1 - rho) / m * sum((each**2).sum() for each in items)
    assert data + held == pytest.approx(peer.history[np.isfinite(peer.history[:, 1]), 1][-1], rel=1e-4)


def test_fusion_with_a_logistic_regression_is_stacking():
    X, y = make_classification(300, 8, n_informative=5, random_state=0)
    folds = StratifiedKFold(5)
    stacked = StackingClassifier(MODELS, LogisticRegression(), cv=folds, stack_method="predict_proba").fit(X, y)
    fused = hs.FusionClassifier(MODELS, LogisticRegression(), cv=folds, stack_method="predict_proba").fit(X, y)
    np.testing.assert_allclose(fused.predict_proba(X), stacked.predict_proba(X), rtol=1e-6)
    P = np.asarray(hs.out_of_fold(MODELS, X, y, cv=folds, stack_method="predict_proba"))
    for k, (_, model) in enumerate(MODELS):
        np.testing.assert_allclose(P[:, k], cross_val_predict(model, X, y, cv=folds, method="predict_proba")[:, 1])
