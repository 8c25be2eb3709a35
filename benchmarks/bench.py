"""The main tables of docs/benchmarks.md, one after another; ratios are taken within one run, medians have their spread.

    python benchmarks/bench.py                 make bench: the quick ones, below 5 minutes on two quiet cores
    python benchmarks/bench.py --full          make bench-full: all of them, below an hour
    python benchmarks/bench.py race tune       only parts whose names have one of these words
    python benchmarks/bench.py --list          what would be run

Every part is a command of its own, which is printed before it, names the machine and the versions of the peers, and can
be run alone. A part that fails is said at the end, and does not keep the others from running.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Part:
    """quick, full : the command below this folder, without Python; None where it is not run."""

    name: str
    quick: str | None
    full: str | None

    def command(self, full: bool) -> str | None:
        return self.full if full else self.quick


PARTS = (
    Part("sweep", "wals.py sweep --case small", "wals.py sweep"),
    Part("ranking race", "answer.py ranking ESCO --rank 64", "answer.py ranking --rank 64 128"),
    Part("objective race", None, "answer.py objective --rank 64 --most 100 --repeats 1"),
    Part("PLQ race", "plqmf.py race --repeats 3", "plqmf.py"),
    Part("recommend", "wals.py recommend --users 20000", "wals.py recommend"),
    Part("fresh process", "wals.py fresh", "wals.py fresh"),
    Part("tune", "answer.py tune --repeats 1", "answer.py tune"),
    Part("many classes", "ensemble classes --speed", "ensemble classes --speed"),
    Part("import", None, "wals.py import"),
    Part("memory", None, "wals.py memory"),
    Part("busy cores", None, "wals.py busy"),
    Part("skills", None, "skills.py speed"),
    Part("ensembles", None, "cf_speed.py"),
    Part("ratings", None, "ratings.py sweep"),
    Part("high rank", None, "high_rank.py 512"),
    Part("graph", None, "recommend.py speed"),
)


def chosen(words: list[str], full: bool) -> list[tuple[str, str]]:
    """Name and command of each part that is run; words that no part has are refused."""
    parts = [(part.name, command) for part in PARTS if (command := part.command(full)) is not None]
    missing = [word for word in words if not any(word in name for name, _ in parts)]
    if missing:
        raise SystemExit(f"{', '.join(missing)}: no such part; there are {', '.join(name for name, _ in parts)}")
    return [(name, command) for name, command in parts if not words or any(word in name for word in words)]


def run(name: str, command: str) -> tuple[float, bool]:
    """Seconds that it took, and whether it went well."""
    print(f"\n== {name}: python benchmarks/{command}", flush=True)
    script, *arguments = shlex.split(command)
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, str(FOLDER / script), *arguments])
    return time.perf_counter() - begun, done.returncode == 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only parts with one of these in their names")
    parser.add_argument("--full", action="store_true", help="all parts, and larger cases")
    parser.add_argument("--list", action="store_true", help="say what would be run")
    asked = parser.parse_args(arguments)
    parts = chosen(asked.words, asked.full)
    if asked.list:
        print("\n".join(f"{name:16s}python benchmarks/{command}" for name, command in parts))
        return 0
    ran = {name: run(name, command) for name, command in parts}
    print("\n== seconds of each part")
    for name, (seconds, well) in ran.items():
        print(f"{name:16s}{seconds:7.0f}{'' if well else '   FAILED'}")
    print(f"{'together':16s}{sum(seconds for seconds, _ in ran.values()):7.0f}")
    return 0 if all(well for _, well in ran.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
