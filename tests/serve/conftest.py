"""A small recommender on disk and a client of its server."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from halfstep import WALS
from halfstep.datasets import load_sample_skills
from halfstep.serve import create_app

RUN = "import json, sys; from halfstep.serve import run; run(sys.argv[1], **json.loads(sys.argv[2]))"


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
    """Starts a real server process on a free port; gives its address, the process and its log."""
    started: list[subprocess.Popen[bytes]] = []

    def start(model: Path, options: str = '{"port": 0}') -> tuple[str, subprocess.Popen[bytes], Path]:
        log = tmp_path / f"log{len(started)}"
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with log.open("wb") as stream:
            command = [sys.executable, "-c", RUN, str(model), options]
            started.append(subprocess.Popen(command, stderr=stream, env=environment))
        for _ in range(900):
            text = log.read_text()
            found = re.search(r"at (http://\S+)", text)
            if found and '"event": "ready"' in text:
                return found[1], started[-1], log
            assert started[-1].poll() is None, text
            time.sleep(0.1)
        raise AssertionError(f"the server is not ready: {log.read_text()}")

    yield start
    for process in started:
        process.terminate()
    for process in started:
        process.wait(20)
