"""The sampler: calibration of all it draws, threads and seeds, and what is said about chains."""

import os

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

from halfstep.core.cells import Observations
from halfstep.core.draw import Columns, Draw, Sampler
from halfstep.core.drawn_cells import Cells, Prior
from halfstep.core.likelihoods import Gaussian, Ordered, Student
from halfstep.core.mixing import effective_size, split_r_hat

RANK = 1
D = RANK + 3
COLUMNS = Columns(((2, D), (1, D - 1)), (D - 1, 1), 0)
PRIOR = Prior(shape=4.0, rate=4.0, noise_shape=4.0, noise_rate=4.0, strength=4.0, width=1.0)
N, M, CELLS = 6, 5, 18


def from_prior(likelihood, rng):
    """A state drawn from the prior, and cells drawn given it."""
    rows = [np.ones((N, D)), np.ones((M, D))]
    mean, precision = [], []
    for side, count in enumerate((N, M)):
        start, stop = COLUMNS.free[side]
        mean.append(rng.normal(size=stop - start) / np.sqrt(PRIOR.strength))
        mean[side][COLUMNS.bias[side] - start] = 0
        precision.append(rng.gamma(PRIOR.shape, 1 / PRIOR.rate, stop - start))
        rows[side][:, start:stop] = mean[side] + rng.normal(size=(count, stop - start)) / np.sqrt(precision[side])
    rows[1][:, 0] = rng.normal() / np.sqrt(PRIOR.width)
    alpha = 1.0 if likelihood in CUTS else rng.gamma(PRIOR.shape, 1 / PRIOR.rate)
    users, items = rng.integers(0, N, CELLS), rng.integers(0, M, CELLS)
    cells = Cells.of(Observations.from_cells(users, items, (N, M), np.zeros(CELLS), 1.0, dtype=np.float64), np.float64)
    return Draw(rows, mean, precision, alpha), cells


def redraw(likelihood, state, cells, rng):
    """Targets and weights drawn given a state."""
    users, items = cells.places
    z = np.einsum("ij,ij->i", state.rows[0][users], state.rows[1][items])
    if likelihood == "gaussian":
        cells.by_row = rng.gamma(2.0, 0.5, N)
    elif likelihood == "student":
        cells.weights = cells.turned(rng.gamma(2.0, 0.5, CELLS))
    precision = state.alpha * cells.by_row[users] * (1 if cells.weights is None else cells.weights[0])
    cells.targets = cells.turned(z + rng.normal(size=CELLS) / np.sqrt(precision))


CUTS = {"probit": np.array([-np.inf, 0.0, np.inf]), "ordinal": np.array([-np.inf, 0.0, 0.8, np.inf])}


def law(name, cells):
    if name in CUTS:
        return Ordered((np.searchsorted(CUTS[name], cells.targets[0]) - 1).astype(np.int32), CUTS[name])
    return {"gaussian": Gaussian, "student": Student}[name](4.0)


def asked(state):
    """Numbers that no rotation or sign changes."""
    users, items = state.rows
    return np.array(
        [
            users[0] @ items[0],
            users[3] @ items[4],
            items[0, 0],
            users[1, D - 1],
            np.log(state.precision[0][-1]),
            np.log(state.precision[1][0]),
            np.log(state.precision[0][0] * state.precision[1][1]),
            np.log(state.alpha),
        ]
    )


@pytest.mark.parametrize("likelihood", ["gaussian", "student", "probit"])
def test_states_keep_the_law_of_the_prior(likelihood):
    """Calibration of the whole sampler on its own data, by Geweke's successive-conditional simulation (2004).

    A state from the prior, cells drawn given it, a sweep, cells drawn anew, a sweep, ...: whatever the mixing, every
    state then has the law of the prior, and an error in any conditional drives it away. Ends of chains are ranked among
    draws of the prior, in 6 bins: chi-square at 10^-7 for each of 8 numbers, a false alarm in less than one of 10^6.

    It is blunt: wrong shapes of the gamma laws and of the scale move fail it, a halved shift of biases does not.
    """
    rng = np.random.default_rng(5)
    chains, sweeps, bins = 120, 10, 6
    expected = np.array([asked(from_prior(likelihood, rng)[0]) for _ in range(2000)])
    found = []
    for chain in range(chains):
        state, cells = from_prior(likelihood, rng)
        for number in range(sweeps):
            redraw(likelihood, state, cells, rng)
            Sampler(cells, COLUMNS, law(likelihood, cells), PRIOR, chain).sweep(state, number)
        found.append(asked(state))
    for k in range(expected.shape[1] - (likelihood in CUTS)):
        edges = np.quantile(expected[:, k], np.linspace(0, 1, bins + 1)[1:-1])
        table = [np.bincount(np.searchsorted(edges, x[:, k]), minlength=bins) for x in (expected, np.array(found))]
        assert chi2_contingency(table).pvalue > 1e-7, (k, table)


@pytest.mark.parametrize("likelihood", ["gaussian", "student"])
def test_truth_has_any_rank_among_draws(likelihood):
    """Simulation-based calibration: the rank of what made the cells, among thinned draws given them, is uniform.

    Chains begin elsewhere, so early draws are thrown away. 4 bins, chi-square at 10^-6 for each of 8 numbers: a false
    alarm in less than one of 10^5. HALFSTEP_HEAVY=1 takes twenty times as many truths.
    """
    rng = np.random.default_rng(11)
    truths, burn, thin, kept = 24 * (20 if os.environ.get("HALFSTEP_HEAVY") else 1), 16, 4, 15
    ranks = []
    for truth in range(truths):
        true, cells = from_prior(likelihood, rng)
        redraw(likelihood, true, cells, rng)
        state, _ = from_prior(likelihood, rng)
        cells.by_row, cells.weights = np.ones(N), None
        sampler, found = Sampler(cells, COLUMNS, law(likelihood, cells), PRIOR, truth), []
        for number in range(burn + thin * kept):
            sampler.sweep(state, number)
            if number >= burn and (number - burn) % thin == thin - 1:
                found.append(asked(state))
        ranks.append((np.array(found) < asked(true)).sum(axis=0))
    for k, column in enumerate(np.array(ranks).T):
        counts = np.bincount(column // 4, minlength=4)
        assert chisquare(counts).pvalue > 1e-6, (k, counts)


def test_threads_change_no_bit_and_seeds_change_all():
    rng = np.random.default_rng(0)
    start, _ = from_prior("gaussian", rng)

    def run(seed, n_threads, likelihood):
        cells = Cells.of(Observations.from_cells(np.arange(30) % N, np.arange(30) % M, (N, M), np.sin(np.arange(30.0))))
        state = Draw([rows.astype(np.float32) for rows in start.rows], [*start.mean], [*start.precision], 1.0)
        sampler = Sampler(cells, COLUMNS, likelihood, PRIOR, seed, n_threads)
        for number in range(5):
            sampler.sweep(state, number)
        return state

    one = run(3, 1, Student())
    for n_threads in (2, 3):
        other = run(3, n_threads, Student())
        assert all((a == b).all() for a, b in zip(one.rows, other.rows, strict=True))
        assert one.alpha == other.alpha
    assert (run(4, 1, Student()).rows[0][:, 2:] != one.rows[0][:, 2:]).all()


def test_an_independent_trace_is_worth_its_length_and_a_walk_is_not():
    rng = np.random.default_rng(1)
    steady, walk = rng.normal(size=2000), np.cumsum(rng.normal(size=2000))
    assert 1000 < effective_size(steady) <= 2000
    assert effective_size(walk) < 100
    assert abs(split_r_hat(steady) - 1) < 0.01
    assert split_r_hat(np.arange(100.0)) > 1.5
    assert split_r_hat(np.ones(10)) == 1
