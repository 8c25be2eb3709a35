"""How strongly a rating model is held, said by its user or learned from the data. Fits no model.

Two questions are asked of the slopes g = phi' of all cells, at the best constant and then at the best biases:

* How far do biases spread? The slopes of one row sum to about -n h tau b with noise of n v, where v is the variance of
  a slope and h the mean curvature; so the squared sums give tau^2, and the best penalty is v / (2 h tau^2), here over
  the root of the efficiency e below: of an extreme quantile the data say less than they seem to.
* Where do factors start to fit noise? sum w phi + lam (|P|^2 + |Q|^2) is a nuclear norm: factors stay at zero while lam
  is above half the largest singular value of the matrix of slopes. With random signs that matrix is noise of the same
  size in the same cells, so its singular value is what chance reaches. lam is the share 1 - 0.4 sqrt(e) of it, where
  e = h^2 var(r) / v is how efficient the loss is beside the square; for extreme quantiles, whose large slopes are few,
  times the mean of both slopes over their geometric mean, 1 / (2 sqrt(q (1 - q))).

Both follow y when it is shifted or scaled, for every loss that does. docs/plqmf.md has the tables behind the share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from halfstep.core.arrays import Floats
from halfstep.core.blas import one_blas_thread
from halfstep.core.cells import Observations
from halfstep.core.losses import Loss
from halfstep.core.losses.constant import best_constant
from halfstep.errors import check_number
from halfstep.models.listed import ListedCells

SHARE = 0.4
WIDEST, NARROWEST = 0.5, 100.0  # cells that a bias is worth; beyond that the data say too little
ROUNDS, STEPS, POWERS = 3, 4, 30


@dataclass(frozen=True)
class RatingPenalty:
    """lam of factors and of biases on both sides, relative to a pair of weight 1; `spread` is the unit of y."""

    user: float
    item: float
    user_bias: float
    item_bias: float
    spread: float = 1.0

    def in_words(self, n: int, m: int) -> tuple[float, float]:
        """C and rho of n users and m items: C = 1 / (m item + n user), rho = n user / (m item + n user)."""
        users, items = n * self.user, m * self.item
        return 1 / (users + items), users / (users + items)

    def divided(self, users: float, items: float) -> RatingPenalty:
        """The same for rows whose penalty will be times these numbers on average."""
        return replace(
            self,
            user=self.user / users,
            item=self.item / items,
            user_bias=self.user_bias / users,
            item_bias=self.item_bias / items,
        )

    @property
    def pins(self) -> tuple[float, float]:
        """What stands in the pinned column of users, which item biases meet, and in that of items.

        A bias b that meets the number c counts as c b; so c = sqrt(lam / lam_bias) gives it a penalty of its own.
        """
        return float(np.sqrt(self.item / self.item_bias)), float(np.sqrt(self.user / self.user_bias))


def given_penalty(
    n: int,
    m: int,
    *,
    C: float | None,
    rho: float | None,
    reg_user: float | None,
    reg_item: float | None,
    reg_bias: float | Sequence[float] | None,
) -> RatingPenalty | None:
    """The penalty that the parameters of a model say, for n users and m items; None where they say nothing.

        reg_user = rho / (C n)     reg_item = (1 - rho) / (C m)

    Biases are held like factors unless `reg_bias` says otherwise.
    """
    direct = reg_user is not None or reg_item is not None
    if direct and (C is not None or rho is not None):
        raise ValueError(
            f"C={C!r}, rho={rho!r} and reg_user={reg_user!r}, reg_item={reg_item!r} say the same thing twice; "
            "give either C and rho, or reg_user and reg_item."
        )
    if direct:
        check_number("reg_user", reg_user, above=0)
        check_number("reg_item", reg_item, above=0)
        user, item = float(reg_user or 0), float(reg_item or 0)
    elif C is None:
        if rho is not None:
            raise ValueError(f"rho={rho!r} shares a penalty that C gives; give C as well, or neither.")
        return None
    else:
        rho = 0.5 if rho is None else rho
        check_number("C", C, above=0)
        check_number("rho", rho)
        if not 0 < rho < 1:
            raise ValueError(
                f"rho={rho!r} must lie between 0 and 1, both excluded: it shares the penalty between the sides."
            )
        user, item = rho / (C * n), (1 - rho) / (C * m)
    return RatingPenalty(user, item, *(bias_penalties(reg_bias) or (user, item)))


def bias_penalties(reg_bias: float | Sequence[float] | None) -> tuple[float, float] | None:
    """Penalties of the biases of users and of items, from one number or two."""
    if reg_bias is None:
        return None
    both = tuple(reg_bias) if isinstance(reg_bias, Sequence) else (reg_bias, reg_bias)
    if len(both) != 2:
        raise ValueError(f"reg_bias={reg_bias!r} must be one number, or two: for users and for items.")
    for value in both:
        check_number("reg_bias", value, above=0)
    return float(both[0]), float(both[1])


@one_blas_thread
def learn_penalty(cells: Observations, loss: Loss, seed: int) -> RatingPenalty:
    """The penalties of factors and biases for these cells."""
    data = ListedCells.of(cells)
    constant = best_constant(loss, np.zeros(len(data.t)), data.t, data.w)
    unit = loss.unit(constant, data.t, data.w)
    slopes = _Slopes(data, loss, unit)
    z = np.full(len(data.t), constant)
    bend = slopes.bend(z)
    worth = [slopes.worth(z, bend, side) for side in (0, 1)]
    biases = (np.zeros(cells.shape[0]), np.zeros(cells.shape[1]))
    counts = [data.sums(data.w, side) for side in (0, 1)]
    for _ in range(ROUNDS):
        for _ in range(STEPS):
            for side in (1, 0):
                pull = data.sums(data.w * slopes.at(z + data.spread_out(biases)), side) / bend
                biases[side][:] -= (pull + worth[side] * biases[side]) / (counts[side] + worth[side])
        bend = slopes.bend(z + data.spread_out(biases))
        others = (np.zeros_like(biases[0]), biases[1]), (biases[0], np.zeros_like(biases[1]))
        worth = [slopes.worth(z + data.spread_out(others[side]), bend, side) for side in (0, 1)]
    z = z + data.spread_out(biases)
    g = slopes.at(z)
    efficiency = slopes.efficiency(z, g, bend) ** 0.5
    factors = loss.skew * (1 - SHARE * efficiency) * _noise(data, data.w * g / 2, seed)
    users, items = (each * bend / (2 * efficiency) for each in worth)
    return RatingPenalty(factors, factors, users, items, unit)


@dataclass(frozen=True, eq=False)
class _Slopes:
    """Slopes of the loss, averaged over a hair's breadth so that a kink counts as its middle."""

    data: ListedCells
    loss: Loss
    unit: float

    def at(self, z: Floats) -> Floats:
        hair = 1e-4 * self.unit
        value = self.loss.value
        return np.asarray((value(z + hair, self.data.t) - value(z - hair, self.data.t)) / (2 * hair))

    def bend(self, z: Floats) -> float:
        """Mean curvature over half a unit to both sides, which kinks have as well."""
        half = 0.5 * self.unit
        rise = np.average(self.at(z + half) - self.at(z - half), weights=self.data.w) / (2 * half)
        return max(float(rise), 1e-9 / self.unit)

    def worth(self, z: Floats, bend: float, side: int) -> float:
        """Of how many cells the prior of a bias is worth: noise over spread."""
        g = self.data.w * self.at(z)
        n = np.bincount(self.data.places[side], minlength=self.data.shape[side])
        sums, v = self.data.sums(g, side), float(np.var(g))
        pairs = float(np.sum(n.astype(np.float64) ** 2 - n)) * bend**2
        spread = max(float(np.sum(sums**2 - n * v)) / pairs, 0.0) if pairs > 0 else 0.0
        noise = max(v - bend**2 * spread, 0.1 * v)
        return float(np.clip(noise / (bend**2 * spread), WIDEST, NARROWEST)) if spread > 0 else NARROWEST

    def efficiency(self, z: Floats, g: Floats, bend: float) -> float:
        """h^2 var(r) / v: 1 for the square, 0.64 for absolute values under normal noise."""
        v = float(np.var(g))
        if self.loss.form == "margin" or self.loss.is_smooth or v == 0:
            return 1.0
        r = z - self.data.t
        spread = 1.4826 * float(np.median(np.abs(r - np.median(r))))  # what outliers do not widen
        return float(np.clip(bend**2 * spread**2 / v, 0.05, 1.0))


def _noise(data: ListedCells, slopes: Floats, seed: int) -> float:
    """The largest singular value of the slopes with random signs, by powers."""
    rng = np.random.default_rng(seed)
    signed = slopes * rng.choice([-1.0, 1.0], len(slopes))
    matrix = sp.csr_array((signed, data.places), shape=data.shape)
    x, size = rng.standard_normal(data.shape[1]), 0.0
    for _ in range(POWERS):
        x = matrix.T @ (matrix @ x)
        size = float(np.linalg.norm(x))
        if size == 0:
            break
        x /= size
    return max(float(np.sqrt(size)), 1e-6)
