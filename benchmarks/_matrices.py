"""Matrices of who has what that benchmarks of recommenders share, and how their cells are hidden."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from defaults import DATA, tweetings

import halfstep as hs


def whole_sets() -> Iterator[tuple[str, Any]]:
    yield "sample skills", hs.datasets.load_sample_skills().matrix
    if not DATA.is_dir():
        return
    for kind, folder in (("activities", "onet-29.2"), ("technology", "onet-29.2"), ("iwa", "onet-iwa")):
        yield f"O*NET {kind}", hs.datasets.load_onet(DATA / folder, kind).matrix
    table = tweetings()
    table = table[table[:, 2] >= 7]
    u, i = (np.unique(table[:, k], return_inverse=True)[1] for k in (0, 1))
    yield "MovieTweetings", sp.csr_array((np.ones(len(u), np.float32), (u, i)))
    yield "ESCO", hs.datasets.load_esco(DATA / "esco-1.1.1").matrix


def sets(wanted: list[str], parts: tuple[int, ...] = (1, 2, 10)) -> Iterator[tuple[str, sp.csr_array]]:
    """Name and cells, mean weight 1; the whole, half and a tenth of the users (no tenth of the 111 of the sample)."""
    for name, matrix in whole_sets():
        cells = sp.csr_array(matrix).astype(np.float64)
        cells.data /= cells.data.mean()
        for share in parts:
            called = name + {1: "", 2: ", half", 10: ", a tenth"}[share]
            if (wanted and not any(part in called for part in wanted)) or cells.shape[0] < 50 * share:
                continue
            rows = np.sort(np.random.default_rng(share).permutation(cells.shape[0])[: cells.shape[0] // share])
            part = cells if share == 1 else cells[rows]
            yield called, sp.csr_array(part[:, np.asarray(part.sum(axis=0)).ravel() > 0])


def cut(cells: sp.csr_array, seed: int, odd: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Cells to learn from and cells to find; of every second row some are hidden."""
    rng, hide = np.random.default_rng(seed), np.zeros(cells.nnz, bool)
    for row in range(odd, cells.shape[0], 2):
        start, stop = cells.indptr[row], cells.indptr[row + 1]
        hide[rng.choice(np.arange(start, stop), min(5, (stop - start) // 3), replace=False)] = True
    at = cells.tocoo()
    seen, hidden = (
        sp.csr_array((at.data[mask], (at.row[mask], at.col[mask])), shape=cells.shape) for mask in (~hide, hide)
    )
    return seen, hidden
