"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest

from halfstep import _core


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the real ESCO and O*NET files; skips where it is absent."""
    default = Path(__file__).parents[1].parent / "shared" / "data"
    folder = Path(os.environ.get("HALFSTEP_DATA", default)).resolve()
    if not (folder / "esco-1.1.1").is_dir():
        pytest.skip(f"real data not found at {folder}; set HALFSTEP_DATA to the folder that holds esco-1.1.1")
    return folder


@pytest.fixture(params=_core.instruction_sets())
def instruction_set(request):
    """Every instruction set that this machine has, in turn."""
    before = _core.instruction_set()
    _core.use_instruction_set(request.param)
    yield request.param
    _core.use_instruction_set(before)
