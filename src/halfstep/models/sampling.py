"""From ratings to kept draws: where the sampler starts, which draws are kept, and new users drawn from them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from halfstep.core.arrays import Floats
from halfstep.core.cells import Observations
from halfstep.core.draw import Columns, Draw, Sampler, draw_rows, generator
from halfstep.core.drawn_cells import Cells, CellsAnywhere, Chance, Prior
from halfstep.core.drawn_features import DrawnWeights
from halfstep.core.drawn_rows import Stretch
from halfstep.core.initial import random_rows
from halfstep.core.likelihoods import Gaussian, Likelihood, Ordered, Student
from halfstep.core.loop import Record
from halfstep.core.mixing import effective_size, split_r_hat
from halfstep.data.features import Features
from halfstep.data.sweeps import SweepFile, digest_of
from halfstep.engine.drawing import CellsToDraw, cells_in_units
from halfstep.engine.features import FeaturesHere
from halfstep.models.drawn import DrawnFit, Pairs, with_ends
from halfstep.models.keeping import Kept, Watched
from halfstep.models.known import SIDES
from halfstep.models.ratings import RatingColumns

LIKELIHOODS = ("gaussian", "student", "probit", "ordinal")
CLASSES = ("probit", "ordinal")
MOST_CLASSES = 100
PROBES = 200  # cells whose scores are followed from draw to draw
START = 0.25  # standard deviation of factors at the start, in units of y
DAMPING, PASSES = 4.0, 6  # biases at the start: cells that their prior is worth, and how often they are solved in turn
NU = 4.0  # where degrees of freedom start that are drawn
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
    nu: float | None
    seed: int
    n_threads: int

    @property
    def kept(self) -> NDArray[np.int64]:
        """Sweeps whose draws are kept: evenly spread after the burn-in, the last among them."""
        after = self.n_sweeps - self.n_burn
        count = min(self.keep, after)
        return self.n_sweeps - 1 - (np.arange(count)[::-1] * after) // count

    def mark(self, given: CellsToDraw, features: Sequence[Features | None]) -> dict[str, str]:
        """Which fit this is, for its checkpoints."""
        told = {
            f"{name}_features": FeaturesHere(each).digest()
            for name, each in zip(SIDES, features, strict=True)
            if each is not None
        }
        parameters = [self.rank, self.n_sweeps, self.n_burn, self.keep, self.likelihood, self.nu, self.seed]
        return {"data": given.digest(), "parameters": digest_of(*parameters)} | told


@dataclass(frozen=True)
class Task:
    """Cells in units of the sampler, their law, and how to come back to y."""

    cells: CellsAnywhere
    likelihood: Likelihood
    unit: tuple[float, float]
    bounds: tuple[float, float]
    classes: NDArray[Any] | None = None

    @property
    def cuts(self) -> Floats:
        return self.likelihood.cuts


def sampler_columns(columns: RatingColumns) -> Columns:
    start, d = columns.factors.start, columns.d
    return Columns(((start, d), (start - 1, d - 1)), (d - 1, start - 1), 0)


def start_state(cells: CellsAnywhere, columns: RatingColumns, seed: int, n_threads: int) -> Draw:
    """Damped biases about the mean of the targets, which the intercept takes, and small random factors."""
    sizes = cells.shape
    counts, sums = cells.row_sums(0, np.zeros(sizes[1]))
    constant = float(sums.sum() / counts.sum())
    biases = [np.zeros(sizes[0]), np.zeros(sizes[1])]
    for _ in range(PASSES):
        for side in (1, 0):
            counts, rest = cells.row_sums(side, constant + biases[1 - side])
            biases[side] = rest / (counts + DAMPING)
    rows = []
    for side, count in enumerate(sizes):
        rows.append(columns.rows(side, np.zeros((count, columns.rank), np.float32), constant))
        place = columns.bias(side)
        assert place is not None
        rows[-1][:, place[0]] = biases[side]
    still = Stretch(0, np.arange(0), np.zeros(0, np.float32))
    squares = cells.residual(rows[0], rows[1], still, False, n_threads).squares.sum()
    floor = 2 / max(
        cells.total, 2.0
    )  # a chain that starts far above what the prior of the noise allows is lost at once
    alpha = 1 / max(float(squares) / cells.total, floor)
    for side, count in enumerate(sizes):
        rows[side][:, columns.factors] = random_rows(seed, side, 0, count, columns.rank, np.float32) * np.float32(START)
    f = columns.rank + 1
    return Draw(rows, [np.zeros(f), np.zeros(f)], [np.full(f, START**-2), np.full(f, START**-2)], alpha)


def sample(
    given: CellsToDraw,
    plan: Plan,
    verbose: int,
    watched: Watched | None,
    file: SweepFile | None,
    features: Sequence[Features | None] = (None, None),
) -> DrawnFit:
    """The whole chain, from its start or from a checkpoint. features : of the rows of both sides."""
    columns = RatingColumns(plan.rank, True, True)
    task = task_of(given, plan.likelihood, plan.nu)
    state = start_state(task.cells, columns, plan.seed, plan.n_threads)
    state.told = [None if each is None else DrawnWeights.start(each.matrix, plan.rank + 1) for each in features]
    if plan.likelihood in CLASSES:
        state.alpha = 1.0
    sampler = Sampler(task.cells, sampler_columns(columns), task.likelihood, Prior(), plan.seed, plan.n_threads)
    probes = Pairs(*task.cells.some(PROBES))
    kept = Kept.room(plan.kept, plan.n_sweeps - plan.n_burn, state, sampler.columns, task.likelihood, probes, features)
    history: list[Record] = []
    saved = None if file is None else file.load()
    if saved is not None:
        history = list(saved.meta["history"])
        _restore(saved.arrays, state, task, kept, watched)
    begun = time.perf_counter() - (history[-1]["seconds"] if history else 0.0)
    numbers = range(len(history), plan.n_sweeps)
    from tqdm.auto import tqdm  # brings asyncio along

    bar = tqdm(
        numbers, "BayesMF", plan.n_sweeps, initial=len(history), unit="sweep", delay=0 if verbose else 2, disable=None
    )
    for number in bar:
        loss = sampler.sweep(state, number)
        record = {
            "iteration": number + 1,
            "loss": loss,
            **({} if task.classes is not None else {"rmse": task.unit[1] * math.sqrt(loss)}),
            "alpha": state.alpha / task.unit[1] ** 2,
            **({} if task.classes is not None else {"nu": task.likelihood.nu}),
            "intercept": task.unit[0] + task.unit[1] * float(state.rows[1][0, 0]),
        }
        if number >= plan.n_burn:
            kept.count(number, state, task.cells.by_row, task.likelihood)
        if watched is not None:
            record |= watched.look(state, sampler.columns, task, number >= plan.n_burn, plan.n_threads)
            bar.set_postfix_str(watched.said)
        history.append(record | {"seconds": time.perf_counter() - begun})
        if file is not None and (file.due(number + 1) or number + 1 == plan.n_sweeps):
            file.save(number + 1, _state_arrays(state, task, kept, watched), {"history": history})
    task.cells.let_go()
    trace = np.array([record["loss"] for record in history[plan.n_burn :]])
    return DrawnFit(
        given.ids,
        given.pattern(),
        columns,
        kept.rows[0],
        kept.rows[1],
        kept.alphas,
        kept.noise,
        kept.hyper,
        kept.cuts,
        kept.nus,
        kept.shift,
        task.unit,
        task.bounds,
        plan.seed,
        plan.likelihood,
        history,
        judge_chain(trace, kept.traces),
        task.classes,
        kept.known,
    )


def judge_chain(loss: Floats, traces: Floats) -> dict[str, float]:
    """How far a chain can be believed, from the loss (draws,) and the scores of some cells (draws, P)."""
    half = len(loss) // 2
    each = np.array([(effective_size(trace), split_r_hat(trace)) for trace in traces.T])
    return {
        "draws": float(len(loss)),
        "effective_size": float(np.median(each[:, 0])),
        "r_hat": float(np.quantile(each[:, 1], 0.9)),
        "loss_effective_size": effective_size(loss),
        "loss_r_hat": split_r_hat(loss),
        "loss_drift": float(abs(loss[:half].mean() / loss[-half:].mean() - 1)),
    }


def _state_arrays(state: Draw, task: Task, kept: Kept, watched: Watched | None) -> dict[str, NDArray[Any]]:
    """All that the next sweep needs; each array is changed in place by `_restore`."""
    arrays = {"alpha": np.array([state.alpha]), "nu": np.array([task.likelihood.nu]), "cuts": task.cuts}
    arrays |= task.cells.arrays()
    for side in (0, 1):
        arrays |= {f"rows{side}": state.rows[side], f"mean{side}": state.mean[side]}
        arrays |= {f"precision{side}": state.precision[side]}
        told = state.told[side]
        arrays |= {} if told is None else {f"{name}{side}": each for name, each in told.arrays().items()}
    arrays |= kept.arrays()
    return arrays if watched is None else arrays | watched.arrays()


def _restore(arrays: dict[str, NDArray[Any]], state: Draw, task: Task, kept: Kept, watched: Watched | None) -> None:
    state.alpha = float(arrays["alpha"][0])
    task.cells.restore(arrays)
    for side in (0, 1):
        state.rows[side], state.mean[side] = arrays[f"rows{side}"], arrays[f"mean{side}"]
        state.precision[side] = arrays[f"precision{side}"]
        told = state.told[side]
        if told is not None:
            told.restore({name: arrays[f"{name}{side}"] for name in told.arrays()})
    task.likelihood.nu, task.likelihood.cuts = float(arrays["nu"][0]), arrays["cuts"]
    kept.restore(arrays)
    if watched is not None:
        watched.restore(arrays)


def task_of(given: CellsToDraw, likelihood: str, nu: float | None) -> Task:
    """Cells with mean 0 and variance 1, so that no prior knows the scale of y, and their law.

    Classes become normals about 0, and a pair of weight w is repeated w times.
    """
    if likelihood == "gaussian":
        mean, spread, low, high = given.spread()
        unit = mean, spread if spread > 1e-9 * abs(mean) else 1.0
        return Task(given.in_units(unit), Gaussian(nu or NU, nu is None), unit, (low, high))
    here = given.here(f"likelihood={likelihood!r}")
    if likelihood in CLASSES:
        return _class_task(here.given.cells, likelihood, here.given.classes, None)
    task = task_of(here, "gaussian", nu)
    return replace(task, likelihood=Student(nu or NU, nu is None))


def more_of(fit: DrawnFit, observed: Observations) -> tuple[Cells, Likelihood]:
    """Cells of new rows in the units, classes and cuts of a fit, and their law."""
    if fit.likelihood in CLASSES:
        task = _class_task(observed, fit.likelihood, fit.classes, fit)
        assert isinstance(task.cells, Cells)
        return task.cells, task.likelihood
    return cells_in_units(observed, fit.unit), Student() if fit.likelihood == "student" else Gaussian()


def _class_task(observed: Observations, likelihood: str, labels: NDArray[Any] | None, fit: DrawnFit | None) -> Task:
    t, w = (np.broadcast_to(np.asarray(v, np.float64), len(observed)) for v in (observed.targets, observed.weights))
    times = w.astype(np.int64)
    if (times != w).any():
        first = int(np.argmax(times != w))
        raise ValueError(
            f"sample_weight holds {w[first]:g}; likelihood={likelihood!r} repeats pairs, so weights must be "
            "whole numbers. Round them, or use likelihood='gaussian'."
        )
    values = np.array([-1.0, 1.0]) if likelihood == "probit" else np.unique(t) if fit is None else fit.classes
    assert values is not None
    codes = np.minimum(np.searchsorted(values, t), len(values) - 1)
    if (values[codes] != t).any():
        wrong = t[np.argmax(values[codes] != t)]
        raise ValueError(f"y holds {wrong:g}, which is none of the classes of the fit: {values.tolist()}.")
    if not 2 <= len(values) <= MOST_CLASSES:
        raise ValueError(
            f"y has {len(values)} distinct values; likelihood='ordinal' needs 2 to {MOST_CLASSES}. "
            "Use likelihood='gaussian' for numbers."
        )
    rows = np.repeat(np.repeat(np.arange(observed.shape[0]), observed.counts), times)
    columns, codes = np.repeat(observed.indices, times), np.repeat(codes, times)
    share = np.cumsum(np.bincount(codes, minlength=len(values))) / max(len(codes), 1)
    if fit is None:
        inner = ndtri(np.clip(share[:-1], 1e-6, 1 - 1e-6))
        middle = ndtri((share + np.append(0.0, share[:-1])) / 2) - inner[0]
        cuts = with_ends(inner - inner[0])
    else:
        cuts, middle = fit.cuts[-1], np.zeros(len(values))
    # Targets and classes move together when cells are sorted: codes travel as weights.
    grouped = Observations.from_cells(
        rows, columns, observed.shape, middle[codes], codes.astype(np.float64), dtype=np.float64
    )
    sorted_codes = np.broadcast_to(np.asarray(grouped.weights), len(grouped)).astype(np.int32)
    cells = Cells.of(Observations(grouped.shape, grouped.indptr, grouped.indices, grouped.targets))
    bounds = (float(values[0]), float(values[-1])) if likelihood == "ordinal" else (-math.inf, math.inf)
    return Task(cells, Ordered(sorted_codes, cuts), (0.0, 1.0), bounds, labels if likelihood == "probit" else values)


def draw_new_users(fit: DrawnFit, given: Observations, n_threads: int) -> NDArray[Any]:
    """Rows (K, n, d) of users who were not in the fit, one draw of each for every kept draw of the rest."""
    columns, n = sampler_columns(fit.columns), given.shape[0]
    drawn = np.empty((fit.n_draws, n, fit.columns.d), np.float32)
    cells, law = more_of(fit, given)
    for k in range(fit.n_draws):
        own = np.repeat(fit.average(0, k)[None], n, axis=0)
        precision = fit.hyper[:, 1, k] if fit.known[0] is None else [1 / fit.variance(0, k), fit.hyper[1, 1, k]]
        state = Draw([own, fit.items[k]], [*fit.hyper[:, 0, k]], [*precision], float(fit.alphas[k]))
        cells.by_row, cells.weights = np.ones(n), None
        law.nu, law.cuts = float(fit.nus[k]), fit.cuts[k]
        sampler = Sampler(cells, columns, law, Prior(), fit.seed, n_threads)
        for inner in range(INNER):
            chance = Chance(fit.seed, NEW + k * INNER + inner, generator(fit.seed, NEW + k * INNER + inner), n_threads)
            law.refresh(cells, sampler.residual(state, 0), state.alpha, chance)
            draw_rows(state, 0, columns, cells, chance)
        drawn[k] = own
    return drawn
