"""The sample ships with the package, says that it is illustrative, and has structure to find."""

import subprocess
import sys

import numpy as np

from halfstep.data.datasets import load_sample_skills


def test_sample_is_as_described() -> None:
    data = load_sample_skills()
    users, items = data.shape
    assert users >= 80
    assert items >= 250
    assert set(data.matrix.data) == {1, 2, 3, 4, 5}
    per_user = np.diff(data.matrix.indptr)
    assert per_user.min() >= 12
    assert per_user.max() <= 25
    assert "illustrative" in data.source
    assert data.report["broken_rows"] == 0


def test_related_occupations_share_skills() -> None:
    data = load_sample_skills()
    overlap = (data.matrix > 0).astype(int) @ (data.matrix > 0).astype(int).T
    place = {name: i for i, name in enumerate(data.user_ids)}
    near = overlap[place["Data scientist"], place["Machine learning engineer"]]
    far = overlap[place["Data scientist"], place["Bricklayer"]]
    assert near >= 5
    assert far == 0
    shared = np.bincount(data.matrix.indices) > 1
    assert shared.mean() > 0.85


def test_import_brings_no_frame_library() -> None:
    code = (
        "import sys, halfstep.data.datasets as d; d.load_sample_skills(); "
        "print([m for m in ('pandas', 'polars', 'pyarrow', 'duckdb') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
