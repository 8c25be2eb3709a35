"""The engine of this machine keeps the engine's contract, and its helpers do what they say."""

import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from halfstep import losses
from halfstep.engine import LocalEngine, Problem, Side, Solver
from halfstep.engine.local import gram_matrix, symmetric_eigen, thread_count

from ..contract.engine import KeptContract, SessionContract, interactions, random_problem


class TestLocalSession(SessionContract):
    def open(self, problem, factors, solver, n_threads=1):
        return LocalEngine(n_threads).open(problem, factors, solver)


class TestLocalEngine(KeptContract):
    def engine(self):
        return LocalEngine(1)

    def frame(self, table):
        return pd.DataFrame(table)

    def values(self, table, target, weight):
        return self.pairs(table), table[target], None if weight is None else table[weight]

    def more(self, table, known):
        users, rows = np.unique(table["user"].astype(str), return_inverse=True)
        X = np.zeros((len(users), len(known)))
        np.add.at(X, (rows, known.positions(table["item"])), table["weight"])
        return X

    def by_id(self, answer, index):
        return dict(zip(range(len(answer)) if index is None else index.ids.tolist(), answer, strict=True))

    def apart(self, answer):
        return {id: (row, bias) for id, row, bias in zip(*answer, strict=True)}

    def listed(self, answer, column):
        return answer

    def test_what_runs_on_a_cluster_says_what_to_use_here(self):
        kept = self.fitted(interactions())
        for call, instead in (
            (lambda: kept.rank_all(3, False), "recommend_for_all .* use recommend_to_file"),
            (kept.collect, "collect .* use the model itself"),
            (lambda: kept.write("folder", {}, {}), "write .* use save"),
        ):
            with pytest.raises(RuntimeError, match=instead):
                call()


def test_the_session_changes_the_factors_it_was_given():
    problem, factors = random_problem(losses.Squared())
    before = [f.copy() for f in factors]
    session = LocalEngine(1).open(problem, factors, Solver())
    kept = session.snapshot()
    session.half_step(0)
    assert session.factors[0] is factors[0]
    assert not np.allclose(factors[0] @ factors[1].T, before[0] @ before[1].T)
    assert_allclose(kept[0], before[0])


def test_evaluate_agrees_with_the_half_step_before():
    problem, factors = random_problem(losses.Squared())
    session = LocalEngine(1).open(problem, factors, Solver())
    sums, again = session.half_step(0, evaluate=True), session.evaluate()
    for name in ("data", "squares", "scores"):
        assert_allclose(again[name], sums[name], rtol=1e-12)


def test_a_prior_pulls_rows_towards_it():
    problem, factors = random_problem(losses.Squared(), background=0.0)
    prior = np.full((1, factors[0].shape[1]), 0.3)
    sides = (Side(1e9, prior=prior), problem.sides[1])
    session = LocalEngine(1).open(Problem(problem.observations, sides, problem.loss, 0.0), factors, Solver())
    session.half_step(0)
    assert_allclose(factors[0], 0.3, atol=1e-6)


@pytest.mark.parametrize("method", ["exact", "cholesky", "cg", "subspace"])
def test_one_number_for_all_cells_gives_the_bits_of_an_array_of_it(method):
    problem, factors = random_problem(losses.Squared())
    cells = len(problem.observations)
    solved = []
    for targets, weights in ((2.0, 3.0), (np.full(cells, 2.0), np.full(cells, 3.0))):
        same = replace(problem.observations, targets=targets, weights=weights, _transposed=[])
        session = LocalEngine(1).open(replace(problem, observations=same), [f.copy() for f in factors], Solver(method))
        sums = session.half_step(0, evaluate=True)
        solved.append((session.factors[0].tobytes(), sums["data"]))
    assert solved[0] == solved[1]


def test_gram_matrix_is_the_product_and_has_the_same_bits_for_any_thread_count():
    x = np.random.default_rng(0).normal(size=(40_000, 7)).astype(np.float32)
    one = gram_matrix(x, 1)
    assert one.dtype == np.float64
    assert_allclose(one, x.astype(float).T @ x.astype(float), rtol=1e-5, atol=1e-2)
    assert all(gram_matrix(x, n).tobytes() == one.tobytes() for n in (2, 3, 8))


def test_eigenvalues_of_a_gram_matrix_are_never_negative():
    x = np.random.default_rng(0).normal(size=(3, 6))
    values, vectors = symmetric_eigen(x.T @ x)
    assert values.min() >= 0
    assert_allclose(vectors * values @ vectors.T, x.T @ x, atol=1e-12)


def test_the_sign_of_an_eigenvector_does_not_follow_from_rounding():
    """A sign of LAPACK's own choice made a fit on Spark end with a column turned round."""
    x = np.random.default_rng(0).normal(size=(200, 8)) * np.arange(1, 9)
    _, expected = symmetric_eigen(x.T @ x)
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(size=(8, 8)) * 1e-9
        _, vectors = symmetric_eigen(x.T @ x + noise + noise.T)
        assert_allclose(vectors, expected, atol=1e-6)
    assert (expected.max(axis=0) >= -expected.min(axis=0)).all()


def test_thread_count():
    assert thread_count(3) == 3
    assert 1 <= thread_count(None) <= (os.cpu_count() or 1)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2", True])
def test_a_bad_thread_count_is_refused(bad):
    with pytest.raises(ValueError, match="must be a whole number of at least 1, or None for all cores"):
        thread_count(bad)
