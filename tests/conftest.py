"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the real ESCO and O*NET files; skips where it is absent."""
    default = Path(__file__).parents[1].parent / "shared" / "data"
    folder = Path(os.environ.get("HALFSTEP_DATA", default)).resolve()
    if not (folder / "esco-1.1.1").is_dir():
        pytest.skip(f"real data not found at {folder}; set HALFSTEP_DATA to the folder that holds esco-1.1.1")
    return folder
