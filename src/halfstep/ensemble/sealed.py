"""Sums of sites that only their total opens: fixed-point numbers under masks that cancel, and noise with its epsilon.

Site i adds to its sums, as integers modulo 2^64,  sum_{j > i} mask_ij - sum_{j < i} mask_ji,  where both sites of a
pair draw mask_ij from the seed they share, the round and the stage. What one site sends is uniformly random to whoever
lacks its seeds; the total of all sites is exact. Knows sums and seeds; must not know what is summed, nor models.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Floats
from halfstep.ensemble.sums import SiteSums
from halfstep.errors import check_number

FRACTION_BITS = 32
LARGEST = float(2**30)  # of a sum: totals of sites stay below half of what 64 bits hold
SEED_BYTES = 32
Words = NDArray[np.uint64]
Layout = tuple[tuple[str, type | None, tuple[tuple[str, tuple[int, ...]], ...]], ...]
"""Of sums by name: their class, where they have one, and names and shapes of their parts."""


def share_seeds(n_sites: int) -> list[dict[int, bytes]]:
    """A secret for each pair of sites, by the number of the other; for trials on one machine.

    Sites that do not trust each other's dealer agree on 32 bytes for each pair themselves (X25519 and the like).
    """
    check_number("n_sites", n_sites, at_least=2, whole=True)
    pairs = {(i, j): secrets.token_bytes(SEED_BYTES) for i in range(n_sites) for j in range(i + 1, n_sites)}
    return [{j: pairs[min(i, j), max(i, j)] for j in range(n_sites) if j != i} for i in range(n_sites)]


@dataclass(frozen=True)
class PrivacyNoise:
    """The Gaussian mechanism: each instance's sums are held to length `bound`, and a site adds normal noise to its own.

        deviation = bound sqrt(2 log(1.25 / delta)) / epsilon      of every number, in every round

    One round is (epsilon, delta)-differentially private for adding or removing one instance of the site, epsilon at
    most 1; R rounds are (R epsilon, R delta) by adding up.
    """

    epsilon: float
    delta: float = 1e-5
    bound: float = 10.0

    def __post_init__(self) -> None:
        check_number("bound", self.bound, above=0)
        if not 0 < self.epsilon <= 1:
            raise ValueError(f"epsilon={self.epsilon!r} must lie in (0, 1]: the Gaussian mechanism's proof ends there")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta={self.delta!r} must lie strictly between 0 and 1; 1e-5 is the default")

    @property
    def deviation(self) -> float:
        return self.bound * float(np.sqrt(2 * np.log(1.25 / self.delta))) / self.epsilon

    def total(self, instances: Sequence[Floats], rng: np.random.Generator) -> Floats:
        """The sum of vectors, one of each instance, none longer than `bound`, and noise."""
        kept = np.array(instances)
        length = np.sqrt((kept**2).sum(axis=1, keepdims=True))
        kept *= np.minimum(1.0, self.bound / np.maximum(length, np.finfo(float).tiny))
        noisy: Floats = kept.sum(axis=0) + rng.normal(0.0, self.deviation, kept.shape[1])
        return noisy


@dataclass(eq=False)
class Site:
    """One of several sites: seals its sums. Keep one for a whole fit, for it counts rounds: no mask serves twice.

    number : from 0 on. seeds : {number of another site: secret shared with it}, at least 16 bytes each.
    noise : None, or `PrivacyNoise`; `spent` is the (epsilon, delta) so far.
    """

    number: int
    seeds: Mapping[int, bytes]
    noise: PrivacyNoise | None = None
    rounds: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        everybody = sorted([*self.seeds, self.number])
        if len(self.seeds) < 1 or everybody != list(range(len(everybody))):
            raise ValueError(
                f"site {self.number!r} shares seeds with {sorted(self.seeds)}; there must be one for each other site, "
                "and sites are numbered from 0 on"
            )
        if min(len(seed) for seed in self.seeds.values()) < SEED_BYTES // 2:
            raise ValueError(f"seeds must be secrets of at least {SEED_BYTES // 2} bytes; share_seeds makes some")

    @property
    def spent(self) -> tuple[float, float]:
        """(epsilon, delta) of all rounds so far; infinite epsilon without noise."""
        if self.noise is None:
            return np.inf, 0.0
        return self.rounds * self.noise.epsilon, self.rounds * self.noise.delta

    def seal(self, sums: SiteSums, one_by_one: Callable[[], Sequence[SiteSums]]) -> SealedSums:
        """Sums under masks. one_by_one : gives the sums of every single instance, which noise needs."""
        layout, values = flatten(sums.sums)
        if self.noise is not None:
            rng = np.random.default_rng(secrets.randbits(128))
            values = self.noise.total([flatten(each.sums)[1] for each in one_by_one()], rng)
            values = flatten(_possible(_rebuild(layout, values)))[1]
        if not np.abs(values).max() < LARGEST / (len(self.seeds) + 1):
            raise ValueError(
                f"a sum is {np.abs(values).max():g}, too large to be sealed; a site has too many instances"
            )
        words = np.round(values * 2.0**FRACTION_BITS).astype(np.int64).view(np.uint64)
        for other, seed in self.seeds.items():
            mask = _mask(seed, self.rounds, sums.stage, len(words))
            words = words + mask if other > self.number else words - mask
        self.rounds += 1
        everybody = len(self.seeds) + 1
        return SealedSums(sums.stage, self.rounds, layout, words, frozenset([self.number]), everybody)


def _mask(seed: bytes, number: int, stage: str, length: int) -> Words:
    """Words that only holders of the seed can tell from random ones: SHAKE-256 of seed, round and stage."""
    stream = hashlib.shake_256(b"halfstep" + len(seed).to_bytes(4, "big") + seed + number.to_bytes(8, "big"))
    stream.update(stage.encode())
    return np.frombuffer(stream.digest(8 * length), "<u8").astype(np.uint64)


@dataclass(frozen=True, eq=False)
class SealedSums:
    """Sums of some sites under masks; those of all sites open."""

    stage: str
    number: int
    layout: Layout
    words: Words
    sites: frozenset[int]
    n_sites: int

    def __add__(self, other: SealedSums) -> SealedSums:
        mine, theirs = ((each.stage, each.number, each.n_sites) for each in (self, other))
        if mine != theirs or self.layout != other.layout or self.sites & other.sites:
            raise ValueError(
                f"sealed sums of sites {sorted(self.sites)} and {sorted(other.sites)} do not belong to one round "
                f"(stage, round, sites: {mine} and {theirs}); every site answers every round once"
            )
        return SealedSums(*mine[:2], self.layout, self.words + other.words, self.sites | other.sites, self.n_sites)

    def opened(self) -> SiteSums:
        """The total."""
        missing = sorted(set(range(self.n_sites)) - self.sites)
        if missing:
            raise ValueError(f"the sums of sites {missing} are missing; masks cancel only in the total of all sites")
        values = self.words.view(np.int64).astype(np.float64) / 2.0**FRACTION_BITS
        return SiteSums(self.stage, _rebuild(self.layout, values))


# ---------------------------------------------------------------------- sums as one vector


def flatten(sums: Mapping[str, Any]) -> tuple[Layout, Floats]:
    """Sums by name as one vector, and what is needed to make them again."""
    layout, parts = [], []
    for name in sorted(sums):
        value = sums[name]
        kind = type(value) if is_dataclass(value) else None
        fields = vars(value) if kind is not None else {"": value}
        arrays = {key: np.asarray(part, np.float64) for key, part in fields.items()}
        layout.append((name, kind, tuple((key, array.shape) for key, array in arrays.items())))
        parts += [array.ravel() for array in arrays.values()]
    return tuple(layout), np.concatenate(parts)


def _rebuild(layout: Layout, values: Floats) -> dict[str, Any]:
    sums: dict[str, Any] = {}
    start = 0
    for name, kind, fields in layout:
        found: dict[str, Any] = {}
        for key, shape in fields:
            size = int(np.prod(shape))
            part = values[start : start + size].reshape(shape)
            found[key] = part if shape else float(part)
            start += size
        sums[name] = found[""] if kind is None else kind(**found)
    return sums


def _possible(sums: dict[str, Any]) -> dict[str, Any]:
    """Noisy sums as sums could be: quadratics symmetric, without negative directions; what counts, at least 1."""
    found: dict[str, Any] = {}
    for name, value in sums.items():
        if is_dataclass(value):
            kind: Any = type(value)
            found[name] = kind(**_possible(dict(vars(value))))
        elif np.ndim(value) >= 2 and np.shape(value)[-1] == np.shape(value)[-2] and np.shape(value)[-1] > 1:
            values, vectors = np.linalg.eigh((value + np.swapaxes(value, -1, -2)) / 2)
            found[name] = (vectors * np.maximum(values, 0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        elif name in COUNTS:
            found[name] = np.maximum(value, 1.0)
        else:
            found[name] = value
    return found


COUNTS = frozenset({"labels", "total", "counts", "rows", "weight", "left", "data", "penalty"})
"""Sums of what is never negative."""
