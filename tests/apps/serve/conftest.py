"""A small recommender on disk and a client of its server."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from halfstep import WALS
from halfstep.apps.serve import create_app
from halfstep.data.datasets import load_sample_skills

from ..servers import servers


@pytest.fixture(scope="session")
def skills() -> WALS:
    return WALS(rank=8, background=0.1, reg=0.02, random_state=0, n_threads=1).fit(load_sample_skills())


@pytest.fixture(scope="session")
def skills_file(skills: WALS, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "skills.safetensors"
    skills.save(path)
    return path


@pytest.fixture(scope="session")
def client(skills_file: Path) -> Iterator[TestClient]:
    app = create_app(skills_file, max_n=50, max_list=30, max_body=4_000, user_name="occupation", item_name="skill")
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., tuple[str, subprocess.Popen[bytes], Path]]]:
    """Starts a real server process; gives its address, the process and its log."""
    with servers(tmp_path) as running:
        yield running.start
