"""What a prediction is fitted to: its target under a link and a loss, and how a fitted score becomes log odds.

| link | loss | target of p | log odds of a fitted z | weight |
| --- | --- | --- | --- | --- |
| "logit" | `Squared` | logit(p) | z | 1 |
| "identity" | `Squared` | p | 4 (z - 1/2), the tangent of the logit at 1/2 | 1 |
| any | `Bernoulli` | sigmoid(logit(p) / T) | T z | T^2 |

Probabilities are held inside [clip, 1 - clip] before a logit is taken. Knows single cells, no table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from halfstep.core.arrays import Floats
from halfstep.core.losses import Bernoulli, Loss, Squared
from halfstep.ensemble.predictions import CLIP, expit, logit
from halfstep.errors import one_of


@dataclass(frozen=True)
class CellScale:
    """A line of the table above; this one is the first. Log odds are slope * z + shift."""

    clip: float = CLIP
    temperature: float = 1.0
    loss: ClassVar[Loss] = Squared()
    shift: ClassVar[float] = 0.0
    in_probabilities: ClassVar[bool] = False
    """Whether scores are probabilities themselves."""

    @property
    def slope(self) -> float:
        return 1.0

    @property
    def weight(self) -> float:
        """What multiplies a cell's weight."""
        return 1.0

    def target(self, P: Floats) -> Floats:
        return logit(P, self.clip)

    def log_odds(self, targets: Floats) -> Floats:
        """Observed targets in the units of fitted log odds."""
        return self.slope * targets + self.shift

    def score(self, targets: Floats) -> Floats:
        """The score that would reconstruct a target."""
        return targets

    def prediction(self, targets: Floats) -> Floats:
        """The predictions behind targets, clipped as they were."""
        return self.probability(self.log_odds(targets))

    def seen(self, P: Floats) -> Floats:
        """Predictions as they can be read back from their targets."""
        return self.prediction(self.target(P))

    def probability(self, log_odds: Floats) -> Floats:
        return np.asarray(expit(log_odds))


class IdentityScale(CellScale):
    """The second line."""

    shift = -2.0
    in_probabilities = True

    @property
    def slope(self) -> float:
        return 4.0

    def target(self, P: Floats) -> Floats:
        return P

    def prediction(self, targets: Floats) -> Floats:
        return targets

    def probability(self, log_odds: Floats) -> Floats:
        return 0.5 + log_odds / 4


class SoftenedScale(CellScale):
    """The third line."""

    loss = Bernoulli()

    @property
    def slope(self) -> float:
        return self.temperature

    @property
    def weight(self) -> float:
        """T^2 keeps gradients of softened targets at their size."""
        return self.temperature**2

    def target(self, P: Floats) -> Floats:
        return np.asarray(expit(logit(P, self.clip) / self.temperature))

    def log_odds(self, targets: Floats) -> Floats:
        return self.temperature * logit(targets, min(self.clip, 1e-3))

    def score(self, targets: Floats) -> Floats:
        return self.log_odds(targets) / self.slope


SCALES: dict[tuple[str, str], type[CellScale]] = {
    ("logit", "squared"): CellScale,
    ("identity", "squared"): IdentityScale,
    ("logit", "bernoulli"): SoftenedScale,
    ("identity", "bernoulli"): SoftenedScale,
}


def make_scale(link: str, loss: str, temperature: float = 1.0, clip: float = CLIP) -> CellScale:
    """The scale that names of a link and a loss stand for."""
    links, losses = ([*dict.fromkeys(names)] for names in zip(*SCALES, strict=True))
    one_of("link", link, links)
    one_of("loss", loss, losses)
    return SCALES[link, loss](float(clip), float(temperature))
