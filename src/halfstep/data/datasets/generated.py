"""Generated problems of the three families, with the truth beside them. Must not know estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from halfstep.core.cells import Observations
from halfstep.errors import check_number

FloatArray = npt.NDArray[np.float64]


def make_ratings(
    n_users: int = 2_000,
    n_items: int = 1_000,
    n_ratings: int = 60_000,
    *,
    rank: int = 6,
    noise: float = 0.6,
    outliers: float = 0.0,
    random_state: int | np.random.Generator | None = 0,
) -> tuple[npt.NDArray[np.int64], FloatArray, FloatArray]:
    """A MovieLens-shaped rating problem.

    `r_ij = 3.5 + a_i + b_j + p_i'q_j` with normal `a` (sd 0.4), `b` (sd 0.5) and rank-`rank` product (sd
    0.6); users and items are drawn with heavy-tailed popularity. Observed ratings add normal noise of sd
    `noise`, are rounded to whole stars and clipped to 1..5. A fraction `outliers` of them is then replaced by
    the opposite end of the scale (1 where `r_ij` is above 3, else 5).

    Returns
    -------
    pairs : (n_ratings, 2) int64, distinct (user, item) rows in random order
    y : (n_ratings,) the observed ratings, 1..5
    clean : (n_ratings,) the noise-free `r_ij` clipped to [1, 5], to judge predictions against
    """
    rng = np.random.default_rng(random_state)
    for name, value in (("n_users", n_users), ("n_items", n_items), ("n_ratings", n_ratings), ("rank", rank)):
        check_number(name, value, at_least=1, whole=True)
    _fraction("outliers", outliers)
    matrix = make_implicit(n_users, n_items, n_ratings, random_state=rng)
    rows = np.repeat(np.arange(n_users), np.diff(matrix.indptr))
    pairs = np.column_stack([rows, matrix.indices]).astype(np.int64)
    rng.shuffle(pairs)
    users, items = pairs.T
    user_bias, item_bias = rng.normal(0, 0.4, n_users), rng.normal(0, 0.5, n_items)
    # Factors of sd s on both sides give a product of sd s^2 sqrt(rank).
    scale = np.sqrt(0.6 / np.sqrt(rank))
    p, q = rng.normal(0, scale, (n_users, rank)), rng.normal(0, scale, (n_items, rank))
    truth = 3.5 + user_bias[users] + item_bias[items] + np.einsum("nk,nk->n", p[users], q[items])
    y = np.clip(np.rint(truth + rng.normal(0, noise, len(truth))), 1, 5)
    wrong = rng.permutation(len(y))[: round(outliers * len(y))]
    y[wrong] = np.where(truth[wrong] > 3, 1.0, 5.0)
    return pairs, y, np.clip(truth, 1, 5)


def make_implicit(
    n_users: int,
    n_items: int,
    nnz: int,
    *,
    exponent: float = 0.8,
    random_state: int | np.random.Generator | None = 0,
) -> Any:
    """A users x items CSR matrix of ones (float32): exactly `nnz` cells, power-law counts on both sides.

    Users and items are drawn independently, the one of popularity rank r (0, 1, ...) with probability
    proportional to the integral of `x^-exponent` over [r + 10, r + 11]; ranks are dealt to row and column
    numbers at random. Pairs drawn twice are drawn again until all cells are distinct, which flattens the head
    where the matrix is dense.
    """
    for name, value in (("n_users", n_users), ("n_items", n_items), ("nnz", nnz)):
        check_number(name, value, at_least=1, whole=True)
    if nnz > n_users * n_items / 2:
        raise ValueError(
            f"nnz={nnz} is more than half of the {n_users} x {n_items} cells; a power law needs room, ask "
            f"for at most {n_users * n_items // 2}"
        )
    rng = np.random.default_rng(random_state)
    user_of, item_of = rng.permutation(n_users), rng.permutation(n_items)
    cells = np.empty(0, np.int64)
    while len(cells) < nnz:
        missing = nnz - len(cells)
        # Later rounds ask for more than is missing: most of what they draw is there already.
        draws = missing + missing // 4 + 1000
        users = user_of[_power_law(rng, n_users, draws, exponent)]
        items = item_of[_power_law(rng, n_items, draws, exponent)]
        drawn = users * np.int64(n_items) + items
        cells = np.concatenate([cells, drawn])
        cells.sort()
        cells = cells[np.append(True, cells[1:] != cells[:-1])]
        exponent *= 0.9  # without this a dense head would be drawn for ever
    if len(cells) > nnz:
        cells = np.delete(cells, rng.choice(len(cells), len(cells) - nnz, replace=False))
    return Observations.from_cells(*np.divmod(cells, n_items), (n_users, n_items)).to_csr()


def make_predictions(
    n_instances: int = 2_000,
    n_classifiers: int = 20,
    *,
    missing: float = 0.2,
    labels: float = 0.3,
    positives: float = 0.4,
    random_state: int | np.random.Generator | None = 0,
) -> tuple[FloatArray, FloatArray, npt.NDArray[np.int64]]:
    """Predictions of heterogeneous classifiers, some of them missing, with few labels.

    Instances lie in 4 regions. The logit of classifier j on instance i is

        s_ij (2 y_i - 1) + c_j + h_{g(j), i} + e_ij

    with own noise `e` (sd 1) and noise `h` (sd 1) shared by the classifiers of one of 3 families `g`, so that
    errors are correlated. A third of the classifiers are weak (s = 0.3 everywhere), a third experts (s = 2.5
    in one region, 0.1 elsewhere), the rest good (s = 1.2); `c` (sd 0.5) is a bias of calibration.

    Returns
    -------
    P : (n_instances, n_classifiers) probabilities of class 1, NaN for the fraction `missing`; every row keeps
        one
    y : (n_instances,) 0.0 or 1.0, NaN where unlabelled; the fraction `labels` is labelled, both classes among
        them
    y_true : (n_instances,) 0 or 1 for all
    """
    rng = np.random.default_rng(random_state)
    check_number("n_instances", n_instances, at_least=4, whole=True)
    check_number("n_classifiers", n_classifiers, at_least=1, whole=True)
    for name, value in (("missing", missing), ("labels", labels), ("positives", positives)):
        _fraction(name, value)
    regions, families = 4, 3
    y_true = (rng.random(n_instances) < positives).astype(np.int64)
    y_true[:2] = 0, 1  # both classes exist, whatever the fraction
    region = rng.integers(regions, size=n_instances)
    kind = np.arange(n_classifiers) % 3  # weak, expert, good
    expert_in = np.arange(n_classifiers) // 3 % regions
    at_home = region[:, None] == expert_in
    skill = np.select([kind == 0, kind == 1], [0.3, np.where(at_home, 2.5, 0.1)], 1.2)
    family = rng.integers(families, size=n_classifiers)
    shared = rng.normal(size=(n_instances, families))[:, family]
    own = rng.normal(size=(n_instances, n_classifiers))
    P = expit(skill * (2 * y_true[:, None] - 1) + rng.normal(0, 0.5, n_classifiers) + shared + own)

    gone = rng.random(P.shape) < missing
    gone[np.arange(n_instances), rng.integers(n_classifiers, size=n_instances)] = False
    P[gone] = np.nan
    labelled = rng.permutation(n_instances)[: round(labels * n_instances)]
    y = np.full(n_instances, np.nan)
    y[labelled] = y_true[labelled]
    if labels > 0:
        y[:2] = y_true[:2]
    order = rng.permutation(n_instances)
    return P[order], y[order], y_true[order]


def _power_law(rng: np.random.Generator, size: int, draws: int, exponent: float) -> npt.NDArray[np.int64]:
    """Ranks 0..size-1: a continuous power law x^-exponent on [10, size + 10], inverted, rounded down, less 10."""
    low, high, power = 10.0, size + 10.0, 1.0 - exponent
    uniform = rng.random(draws)
    if abs(power) < 1e-9:
        x = low * (high / low) ** uniform
    else:
        x = (low**power + uniform * (high**power - low**power)) ** (1 / power)
    return np.minimum((x - low).astype(np.int64), size - 1)


def _fraction(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ValueError(f"{name}={value!r} must be a fraction, from 0 to less than 1")
