"""Real servers on loopback and Debian's chromium, driven headless. Every page must stay free of console errors."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from halfstep import PLQMF, WALS, BayesMF, CFEnsemble, CFEnsembleCV, ItemGraph
from halfstep.data.datasets import load_esco, load_sample_skills

from ..apps.servers import servers
from ..apps.tiny_esco import write_esco

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
def skills_model() -> WALS:
    """A recommender of skills for occupations."""
    return WALS(rank=8, background=0.1, reg=0.02, random_state=0).fit(load_sample_skills())


@pytest.fixture(scope="session")
def ratings_model() -> PLQMF:
    """Ratings of films."""
    rng = np.random.default_rng(0)
    users, films = rng.integers(0, 40, 900), rng.integers(0, 30, 900)
    pairs = np.array([[f"user {u}", f"film {f}"] for u, f in zip(users, films, strict=True)], object)
    y = 3 + rng.normal(size=40)[users] + rng.normal(size=30)[films]
    return PLQMF(rank=3, loss="absolute", random_state=0).fit(pairs, y)


@pytest.fixture(scope="session")
def votes() -> tuple[Any, Any]:
    """Nine classifiers of different skill on 120 messages, 24 of them labelled."""
    rng = np.random.default_rng(0)
    truth = np.arange(120) % 5 < 2
    scores = np.where(truth, 1, -1)[:, None] * rng.uniform(0.2, 2, 9) + 1.5 * rng.normal(size=(120, 9))
    P = 1 / (1 + np.exp(-scores))
    P[rng.random(P.shape) < 0.05] = np.nan
    y = np.full(120, None, object)
    y[:24] = np.where(truth[:24], "spam", "ham")
    return P, y


@pytest.fixture(scope="session")
def ensemble_model(votes: tuple[Any, Any]) -> CFEnsemble:
    return CFEnsemble(positive="spam", random_state=0).fit(*votes)


@pytest.fixture(scope="session")
def average_model(votes: tuple[Any, Any]) -> CFEnsembleCV:
    return CFEnsembleCV(positive="spam", random_state=0).fit(*votes)


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Saves a model and starts a server for it; gives the address."""
    folder = tmp_path_factory.mktemp("servers")
    with servers(folder) as running:

        def start(model: Any, options: str = '{"port": 0}') -> str:
            path = folder / f"model{len(running.started)}.safetensors"
            model.save(path)
            return running.start(path, options)[0]

        yield start


@pytest.fixture(scope="session")
def skills(serve: Callable[..., str], skills_model: WALS) -> str:
    return serve(skills_model, SKILLS)


@pytest.fixture(scope="session")
def locked(serve: Callable[..., str]) -> str:
    """A recommender behind a key."""
    model = WALS(rank=4, random_state=0).fit(load_sample_skills())
    return serve(model, '{"port": 0, "api_key": "open sesame"}')


@pytest.fixture(scope="session")
def ratings(serve: Callable[..., str], ratings_model: PLQMF) -> str:
    return serve(ratings_model)


@pytest.fixture(scope="session")
def graph(serve: Callable[..., str]) -> str:
    return serve(ItemGraph().fit(load_sample_skills()))


@pytest.fixture(scope="session")
def drawn(serve: Callable[..., str]) -> str:
    """Ratings of films, drawn."""
    rng = np.random.default_rng(0)
    pairs = np.array([[f"user {u}", f"film {f}"] for u, f in rng.integers(0, 20, (300, 2))], object)
    return serve(BayesMF(rank=2, n_sweeps=20, random_state=0).fit(pairs, rng.normal(3, 1, 300)))


@pytest.fixture(scope="session")
def narrowed(serve: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Occupations and skills with what their files say beside, in two languages."""
    folder = write_esco(tmp_path_factory.mktemp("esco"))
    return serve(WALS(rank=2, random_state=0).fit(load_esco(folder)), json.dumps({"port": 0, "about": str(folder)}))


@pytest.fixture(scope="session")
def ensemble(serve: Callable[..., str], ensemble_model: CFEnsemble) -> str:
    return serve(ensemble_model)


@pytest.fixture(scope="session")
def named_average(serve: Callable[..., str], votes: tuple[Any, Any]) -> str:
    """The averaged family, with ids of messages and names of classifiers."""
    P, y = votes
    frame = pandas.DataFrame(P, index=[f"message {k}" for k in range(120)], columns=[f"filter {j}" for j in range(9)])
    return serve(CFEnsembleCV(ranks=(1, 2), positive="spam", random_state=0).fit(frame, y))


@pytest.fixture(scope="session")
def average(serve: Callable[..., str], average_model: CFEnsembleCV) -> str:
    return serve(average_model)


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
        origin = re.match(r"http://[^/]+|file://.*", url)[0]  # type: ignore[index]
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
