"""The core compiled with a sanitizer, its own tests run against it: AddressSanitizer and UndefinedBehaviorSanitizer in
one build, ThreadSanitizer in another.

    python tests/faults/sanitize.py [--only address|thread] [tests ...]

Each build is a shared object of its own in a temporary folder, put before the installed one; a report of a sanitizer
makes the tests fail. Needs GCC with its runtime libraries.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = [
    "tests/core/test_half_step.py",
    "tests/core/test_rows.py",
    "tests/core/test_plq_rows.py",
    "tests/core/test_core.py",
]
TESTS += ["tests/core/test_drawn_rows.py"]
FLAGS = {
    "address": "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g -O1",
    "thread": "-fsanitize=thread -fno-omit-frame-pointer -g -O1",
}
RUNTIMES = {"address": ("libasan.so", "libubsan.so"), "thread": ("libtsan.so",)}
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",  # the interpreter keeps what it has to its end
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:report_signal_unsafe=0",
}
# Sets the build before the installed one: the finder of an editable install would come first.
SITE = """
import importlib.util, sys
class First:
    def find_spec(self, name, path=None, target=None):
        if name == "halfstep._core":
            return importlib.util.spec_from_file_location(name, {core!r})
sys.meta_path.insert(0, First())
"""


def build(kind: str, folder: Path) -> Path:
    """The core under a sanitizer."""
    import nanobind

    python = sys.executable
    common = ["-S", str(ROOT), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={python}"]
    flags = [f"-DCMAKE_CXX_FLAGS={FLAGS[kind]}", f"-DCMAKE_SHARED_LINKER_FLAGS={FLAGS[kind]}"]
    flags += [f"-DCMAKE_MODULE_LINKER_FLAGS={FLAGS[kind]}", f"-Dnanobind_ROOT={nanobind.cmake_dir()}"]
    cmake = shutil.which("cmake", path=f"{Path(python).parent}:{os.environ['PATH']}") or "cmake"
    subprocess.run([cmake, *common, *flags], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([cmake, "--build", str(folder), "-j", "2"], check=True, stdout=subprocess.DEVNULL)
    return next(folder.glob("_core*.so"))


def runtime(name: str) -> str:
    found = subprocess.run(["g++", f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout
    return str(Path(found.strip()).resolve())


def run(kind: str, tests: list[str]) -> int:
    """Builds and tests; the exit code of the tests."""
    with tempfile.TemporaryDirectory(prefix=f"halfstep-{kind}-") as folder:
        print(f"== compiling the core with {kind} sanitizer", flush=True)
        core = build(kind, Path(folder) / "build")
        site = Path(folder) / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(SITE.format(core=str(core)))
        loaded = " ".join(runtime(name) for name in RUNTIMES[kind])
        environment = (
            os.environ | OPTIONS | {"LD_PRELOAD": loaded, "PYTHONPATH": str(site), "OPENBLAS_NUM_THREADS": "1"}
        )
        check = "import halfstep._core as c; print('under', c.__file__)"
        subprocess.run([sys.executable, "-c", check], check=True, env=environment)
        command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-m", "not heavy", *tests]
        return subprocess.run(command, env=environment, cwd=ROOT).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(FLAGS))
    parser.add_argument("tests", nargs="*", default=TESTS)
    options = parser.parse_args()
    return max(run(kind, options.tests) for kind in ([options.only] if options.only else FLAGS))


if __name__ == "__main__":
    sys.exit(main())
