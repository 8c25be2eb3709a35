"""From ratings to kept draws: where the sampler starts, which draws are kept, and new users drawn from them."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from halfstep.core.arrays import Floats
from halfstep.core.cells import Observations
from halfstep.core.draw import (
    Cells,
    Columns,
    Draw,
    Gaussian,
    Likelihood,
    Prior,
    Probit,
    Sampler,
    Student,
    draw_rows,
    effective_size,
    generator,
    split_r_hat,
)
from halfstep.core.initial import random_rows
from halfstep.core.loop import Record
from halfstep.data.table import CellsHere
from halfstep.models.drawn import DrawnFit
from halfstep.models.ratings import RatingColumns

LIKELIHOODS = ("gaussian", "student", "probit")
START = 0.1  # standard deviation of factors at the start, in units of y
DAMPING, PASSES = 4.0, 6  # biases at the start: cells that their prior is worth, and how often they are solved in turn
INNER = 6  # sweeps over a new row with its noise, for each kept draw
NEW = 1 << 31  # the sweeps of new rows are numbered from here on, so that they share no random number with the fit


@dataclass(frozen=True)
class Plan:
    """How long, and how much of it stays."""

    rank: int
    n_sweeps: int
    n_burn: int
    keep: int
    likelihood: str
    nu: float
    seed: int
    n_threads: int

    @property
    def kept(self) -> NDArray[np.int64]:
        """Sweeps whose draws are kept: evenly spread after the burn-in, the last among them."""
        after = self.n_sweeps - self.n_burn
        count = min(self.keep, after)
        return self.n_sweeps - 1 - (np.arange(count)[::-1] * after) // count


def make_likelihood(name: str, nu: float, cells: Cells) -> Likelihood:
    if name == "gaussian":
        return Gaussian(nu)
    return Student(nu) if name == "student" else Probit(cells.targets.copy())


def sampler_columns(columns: RatingColumns) -> Columns:
    start, d = columns.factors.start, columns.d
    return Columns(((start, d), (start - 1, d - 1)), (d - 1, start - 1), 0)


@dataclass
class _Kept:
    """Draws kept so far, and sums over all draws of what is the same in every one: biases and intercept."""

    columns: Columns
    states: list[Draw] = field(default_factory=list)
    noise: list[Floats] = field(default_factory=list)
    sums: list[Floats] | None = None
    total: int = 0

    def main_effects(self, state: Draw) -> list[Floats]:
        """Biases of users; biases of items with the intercept."""
        (users, items), (left, right) = state.rows, self.columns.bias
        constant = items[:, self.columns.constant].astype(np.float64)
        return [users[:, left].astype(np.float64), items[:, right] + constant]

    def count(self, state: Draw) -> None:
        effects = self.main_effects(state)
        self.sums = effects if self.sums is None else [a + b for a, b in zip(self.sums, effects, strict=True)]
        self.total += 1

    def keep(self, state: Draw, by_row: Floats | None) -> None:
        rows = [side.copy() for side in state.rows]
        self.states.append(Draw(rows, [*state.mean], [*state.precision], state.alpha))
        self.noise.append(np.ones(len(rows[0])) if by_row is None else by_row)

    @property
    def shift(self) -> tuple[Floats, Floats]:
        """Means over all draws less those over the kept ones."""
        assert self.sums is not None
        kept = [np.mean([self.main_effects(state)[side] for state in self.states], axis=0) for side in (0, 1)]
        return self.sums[0] / self.total - kept[0], self.sums[1] / self.total - kept[1]


def start_state(cells: Cells, columns: RatingColumns, seed: int) -> Draw:
    """Damped biases about the mean of the targets, which the intercept takes, and small random factors."""
    n, m = cells.by_row.shape
    places, sizes = cells.places, (n, m)
    constant = float(np.average(cells.targets, weights=cells.given))
    biases = [np.zeros(n), np.zeros(m)]
    for _ in range(PASSES):
        for side in (1, 0):
            rest = cells.given * (cells.targets - constant - biases[1 - side][places[1 - side]])
            counts = np.bincount(places[side], cells.given, sizes[side])
            biases[side] = np.bincount(places[side], rest, sizes[side]) / (counts + DAMPING)
    rows = []
    for side, count in enumerate(sizes):
        factors = random_rows(seed, side, 0, count, columns.rank, np.float32) * np.float32(START)
        rows.append(columns.rows(side, factors, constant))
        place = columns.bias(side)
        assert place is not None
        rows[-1][:, place[0]] = biases[side]
    residual = cells.targets - constant - biases[0][places[0]] - biases[1][places[1]]
    alpha = 1 / max(float(np.average(residual**2, weights=cells.given)), 1e-6)
    f = columns.rank + 1
    return Draw(rows, [np.zeros(f), np.zeros(f)], [np.full(f, START**-2), np.full(f, START**-2)], alpha)


def sample(given: CellsHere, plan: Plan, verbose: int) -> DrawnFit:
    """The whole chain."""
    columns = RatingColumns(plan.rank, True, True)
    cells, unit, bounds = in_units(given.cells, plan.likelihood)
    likelihood = make_likelihood(plan.likelihood, plan.nu, cells)
    state = start_state(cells, columns, plan.seed)
    if plan.likelihood == "probit":
        state.alpha = 1.0
    sampler = Sampler(cells, sampler_columns(columns), likelihood, Prior(), plan.seed, plan.n_threads)
    kept, history, wanted = _Kept(sampler.columns), [], set(plan.kept.tolist())
    begun = time.perf_counter()
    for number in tqdm(range(plan.n_sweeps), "BayesMF", unit="sweep", delay=0 if verbose else 2, disable=None):
        z = sampler.sweep(state, number)
        history.append(_record(sampler, state, z, unit, number, time.perf_counter() - begun))
        if number >= plan.n_burn:
            kept.count(state)
        if number in wanted:
            kept.keep(state, likelihood.by_row)
    trace = np.array([record["loss"] for record in history[plan.n_burn :]])
    diagnostics = {"effective_size": effective_size(trace), "r_hat": split_r_hat(trace), "draws": float(len(trace))}
    states = kept.states
    hyper = [[[getattr(s, name)[side] for s in states] for name in ("mean", "precision")] for side in (0, 1)]
    return DrawnFit(
        given.ids,
        Observations(given.cells.shape, given.cells.indptr, given.cells.indices),
        columns,
        np.stack([s.rows[0] for s in states]),
        np.stack([s.rows[1] for s in states]),
        np.array([s.alpha for s in states]),
        np.stack(kept.noise).astype(np.float32),
        np.array(hyper),
        kept.shift,
        unit,
        bounds,
        plan.seed,
        history,
        diagnostics,
        given.classes,
    )


def in_units(
    observed: Observations, likelihood: str, unit: tuple[float, float] | None = None
) -> tuple[Cells, tuple[float, float], tuple[float, float]]:
    """Cells with mean 0 and variance 1, so that no prior knows the scale of y; mean and scale; the range of y.

    Classes stay -1 and 1, and a pair of weight w is repeated w times.
    """
    cells = Cells.of(observed)
    if likelihood == "probit":
        times = cells.given.astype(np.int64)
        if (times != cells.given).any():
            first = int(np.argmax(times != cells.given))
            raise ValueError(
                f"sample_weight holds {cells.given[first]:g}; likelihood='probit' repeats pairs, so weights must be "
                "whole numbers. Round them, or use likelihood='gaussian'."
            )
        rows, columns = (np.repeat(places, times) for places in cells.places)
        signs = np.repeat(cells.targets, times)
        repeated = Observations.from_cells(rows, columns, observed.shape, signs, 1.0, dtype=np.float64)
        return Cells.of(repeated), (0.0, 1.0), (-math.inf, math.inf)
    bounds = float(cells.targets.min()), float(cells.targets.max())
    if unit is None:
        mean = float(np.average(cells.targets, weights=cells.given))
        spread = float(np.sqrt(np.average((cells.targets - mean) ** 2, weights=cells.given)))
        unit = mean, spread if spread > 1e-9 * max(abs(mean), 1.0) else 1.0
    cells.targets = (cells.targets - unit[0]) / unit[1]
    return cells, unit, bounds


def _record(sampler: Sampler, state: Draw, z: Floats, unit: tuple[float, float], number: int, seconds: float) -> Record:
    cells = sampler.cells
    error = float(np.average((cells.targets - z) ** 2, weights=cells.given))
    return {
        "iteration": number + 1,
        "loss": error,
        "rmse": unit[1] * math.sqrt(error),
        "alpha": state.alpha / unit[1] ** 2,
        "intercept": unit[0] + unit[1] * float(state.rows[1][0, 0]),
        "seconds": seconds,
    }


def draw_new_users(fit: DrawnFit, given: Observations, likelihood: str, nu: float, n_threads: int) -> NDArray[Any]:
    """Rows (K, n, d) of users who were not in the fit, one draw of each for every kept draw of the rest."""
    cells, _, _ = in_units(given, likelihood, fit.unit)
    columns, n = sampler_columns(fit.columns), given.shape[0]
    drawn = np.empty((fit.n_draws, n, fit.columns.d), np.float32)
    for k in range(fit.n_draws):
        own = np.repeat(fit.average(0, k)[None], n, axis=0)
        state = Draw([own, fit.items[k]], [*fit.hyper[:, 0, k]], [*fit.hyper[:, 1, k]], float(fit.alphas[k]))
        law, alpha = make_likelihood(likelihood, nu, cells), state.alpha
        work = Cells(cells.by_row, cells.targets, cells.given, cells.given)
        sampler = Sampler(work, columns, law, Prior(), fit.seed, n_threads)
        for inner in range(INNER):
            number = NEW + k * INNER + inner
            law.draw(work, sampler.scores(state), alpha, generator(fit.seed, number), sampler.prior)
            draw_rows(state, 0, columns, work.oriented(0, alpha, np.float32), (fit.seed, number), n_threads=n_threads)
        drawn[k] = own
    return drawn
