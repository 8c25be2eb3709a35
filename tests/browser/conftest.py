"""Real servers on loopback and Debian's chromium, driven headless. Every page must stay free of console errors."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from halfstep import PLQMF, WALS, CFEnsemble
from halfstep.datasets import load_sample_skills

RUN = "import json, sys; from halfstep.serve import run; run(sys.argv[1], **json.loads(sys.argv[2]))"
SKILLS = '{"port": 0, "user_name": "occupation", "item_name": "skill"}'
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Any, str], str]]:
    """Saves a model and starts a server for it; gives the address."""
    started: list[subprocess.Popen[bytes]] = []

    def start(model: Any, options: str = '{"port": 0}') -> str:
        folder = tmp_path_factory.mktemp("server")
        model.save(folder / "model.safetensors")
        log = folder / "log"
        with log.open("wb") as stream:
            command = [sys.executable, "-c", RUN, str(folder / "model.safetensors"), options]
            started.append(subprocess.Popen(command, stderr=stream, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}))
        for _ in range(900):
            text = log.read_text()
            found = re.search(r"at (http://\S+)", text)
            if found and '"event": "ready"' in text:
                return found[1]
            assert started[-1].poll() is None, text
            time.sleep(0.1)
        raise AssertionError(f"the server is not ready: {log.read_text()}")

    yield start
    for process in started:
        process.terminate()
    for process in started:
        process.wait(20)


@pytest.fixture(scope="session")
def skills(serve: Callable[..., str]) -> str:
    """A recommender of skills for occupations."""
    return serve(WALS(rank=8, background=0.1, reg=0.02, random_state=0).fit(load_sample_skills()), SKILLS)


@pytest.fixture(scope="session")
def locked(serve: Callable[..., str]) -> str:
    """The same, behind a key."""
    model = WALS(rank=4, random_state=0).fit(load_sample_skills())
    return serve(model, '{"port": 0, "api_key": "open sesame"}')


@pytest.fixture(scope="session")
def ratings(serve: Callable[..., str]) -> str:
    """Ratings of films."""
    rng = np.random.default_rng(0)
    users, films = rng.integers(0, 40, 900), rng.integers(0, 30, 900)
    pairs = np.array([[f"user {u}", f"film {f}"] for u, f in zip(users, films, strict=True)], object)
    y = 3 + rng.normal(size=40)[users] + rng.normal(size=30)[films]
    return serve(PLQMF(rank=3, loss="absolute", random_state=0).fit(pairs, y))


@pytest.fixture(scope="session")
def ensemble(serve: Callable[..., str]) -> str:
    """Nine classifiers of different skill on 120 messages, 24 of them labelled."""
    rng = np.random.default_rng(0)
    truth = np.arange(120) % 5 < 2
    scores = np.where(truth, 1, -1)[:, None] * rng.uniform(0.2, 2, 9) + 1.5 * rng.normal(size=(120, 9))
    P = 1 / (1 + np.exp(-scores))
    P[rng.random(P.shape) < 0.05] = np.nan
    y = np.full(120, None, object)
    y[:24] = np.where(truth[:24], "spam", "ham")
    return serve(CFEnsemble(random_state=0).fit(P, y))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed; make test-browser installs it")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Opens pages that fail the test if they log an error, throw, or ask any other host for anything."""
    troubles: list[str] = []
    contexts: list[Any] = []

    def open(url: str, *, width: int = 1280, height: int = 900, scheme: str = "light", allow: str = "") -> Any:
        contexts.append(chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme))
        page = contexts[-1].new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: troubles.append(f"thrown: {error}"))
        page.on(
            "console",
            lambda said: (
                said.type in ("error", "warning")
                and not (allow and allow in said.text)
                and troubles.append(f"console {said.type}: {said.text}")
            ),
        )
        origin = re.match(r"http://[^/]+", url)[0]  # type: ignore[index]
        page.on(
            "request",
            lambda asked: (
                not asked.url.startswith((origin, "data:", "blob:")) and troubles.append(f"asked {asked.url}")
            ),
        )
        page.goto(url)
        return page

    yield open
    shots = os.environ.get("HALFSTEP_SCREENSHOTS")
    for number, context in enumerate(contexts):
        if shots and context.pages:
            Path(shots).mkdir(parents=True, exist_ok=True)
            name = re.sub(r"\W+", "-", request.node.name)
            context.pages[0].screenshot(path=Path(shots) / f"{name}-{number}.png", full_page=True)
        context.close()
    assert troubles == []
