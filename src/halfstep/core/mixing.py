"""How well a chain has mixed, judged by the trace of one number. Knows no sampler."""

from __future__ import annotations

import numpy as np

from halfstep.core.arrays import Floats


def effective_size(trace: Floats) -> float:
    """How many independent draws a trace is worth, by Geyer's initial positive sequence of pairs."""
    x = np.asarray(trace, np.float64)
    x = x - x.mean()
    n = len(x)
    if n < 4 or not np.any(x):
        return float(n)
    spectrum = np.fft.rfft(x, 2 * n)
    rho = np.fft.irfft(spectrum * spectrum.conj())[:n]
    rho /= rho[0]
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    pairs = np.minimum.accumulate(pairs[: ends[0] if len(ends) else None])
    return float(min(n / max(2 * pairs.sum() - 1, 1 / n), n))


def split_r_hat(trace: Floats) -> float:
    """Between and within the two halves of a trace: near 1 where it has settled."""
    half = len(trace) // 2
    if half < 2:
        return float("nan")
    halves = np.stack([trace[:half], trace[-half:]]).astype(np.float64)
    within = float(halves.var(axis=1, ddof=1).mean())
    if within == 0:
        return 1.0
    between = half * float(halves.mean(axis=1).var(ddof=1))
    return float(np.sqrt((half - 1) / half + between / (half * within)))
