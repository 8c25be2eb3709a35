"""How the command talks: results on standard output, everything else on standard error, failures in one line.

Knows tables and exit codes. Must not know models.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import math
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from halfstep.data.files import atomic_write
from halfstep.errors import require

FAILED, INTERRUPTED = 1, 130
EXPECTED = (ValueError, TypeError, KeyError, OSError, ImportError, ArithmeticError, MemoryError)
"""Errors that say themselves what is wrong. Any other is a mistake of ours, and its traceback is wanted."""

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
OutputFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write the result to a .csv, .tsv, .json, .jsonl, .parquet or .arrow file."),
]

P = ParamSpec("P")
R = TypeVar("R")
Records = list[dict[str, Any]]


def console(stderr: bool = False) -> Console:
    """A console for the standard stream of this moment; colours only where it is a terminal."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, width=None if terminal else 140)


def say(text: str) -> None:
    """A note for people, on standard error."""
    console(stderr=True).print(text, style="dim")


def guarded(function: Callable[P, R]) -> Callable[P, R]:
    """A command whose failures are one line on standard error and an exit code. HALFSTEP_DEBUG=1 shows tracebacks."""

    @functools.wraps(function)
    def command(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with _short_warnings():
                result = function(*args, **kwargs)
                sys.stdout.flush()  # a pipe that is gone shows itself here, not at exit
            return result
        except KeyboardInterrupt:
            _complain("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # What is still buffered has nowhere to go; without this Python would complain about it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            _complain("the reader of the output has gone away; the rest was not written")
            raise typer.Exit(FAILED) from None
        except EXPECTED as error:
            if os.environ.get("HALFSTEP_DEBUG"):
                raise
            _complain(_one_line(error))
            raise typer.Exit(FAILED) from None

    return command


def _complain(text: str) -> None:
    console(stderr=True).print(f"[bold red]halfstep:[/] {escape(text)}", soft_wrap=True)


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Warnings as one line each instead of a file name, a line number and a line of source."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        console(stderr=True).print(f"[yellow]warning:[/] {escape(text)}", soft_wrap=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


class StopAsked:
    """A callback for `fit` that ends it after the sweep under way once Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, record: object) -> bool:
        return self.asked


@contextmanager
def stop_on_interrupt(unit: str = "sweep") -> Iterator[StopAsked]:
    """The first Ctrl-C asks the work to stop after its sweep or trial; a second one gives up at once."""
    stop = StopAsked()

    def handler(number: int, frame: Any) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True
        say(f"\nStopping after this {unit}. Ctrl-C again gives up at once.")

    before = signal.signal(signal.SIGINT, handler)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def working(text: str) -> Iterator[None]:
    """A spinner beside `text` while the block runs; nothing where standard error is not a terminal."""
    with console(stderr=True).status(text):
        yield


@contextmanager
def bar(text: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """A bar with the time left, on a terminal; yields what moves it to a number done, with a remark."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shown = console(stderr=True)
    with Progress(*columns, TextColumn("{task.fields[remark]}"), console=shown, disable=not shown.is_terminal) as drawn:
        task = drawn.add_task(text, total=total, remark="")
        yield lambda done, remark: drawn.update(task, completed=done, remark=remark)


def table(records: Records, title: str | None = None) -> Table:
    """Records as a rich table, numbers to the right."""
    drawn = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="bold")
    names = list(records[0]) if records else []
    for name in names:
        numeric = all(isinstance(record[name], (int, float, np.number)) for record in records)
        drawn.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for record in records:
        drawn.add_row(*(escape(_text(record[name])) for name in names))
    return drawn


def emit(records: Records, *, title: str = "", as_json: bool = False, output: Path | None = None) -> None:
    """Show records: to a file, as JSON, as a table on a terminal, as tab-separated lines in a pipe."""
    if output is not None:
        write_records(output, records)
        say(f"{len(records):,} rows written to {escape(str(output))}")
    if as_json:
        print(to_json(records))
    elif output is None and sys.stdout.isatty():
        console().print(table(records, title))
    elif output is None:
        sys.stdout.write(_delimited(records, "\t"))


def emit_document(document: dict[str, Any], shown: Callable[[], None], *, as_json: bool, output: Path | None) -> None:
    """Show one JSON-able document: to a .json file, as JSON, or as `shown()` draws it."""
    text = to_json(document)
    if output is not None:
        if output.suffix.lower() != ".json":
            raise ValueError(f"--output {output} must be a .json file here")
        write_text(output, text + "\n")
        say(f"written to {escape(str(output))}")
    if as_json:
        print(text)
    elif output is None:
        shown()


def write_records(path: Path, records: Records) -> None:
    """Records to a file, whole or not at all; the ending of its name decides the format."""
    suffix = path.suffix.lower()
    if suffix == ".json":
        write_text(path, to_json(records) + "\n")
    elif suffix == ".jsonl":
        write_text(path, "".join(to_json(r, None) + "\n" for r in records))
    elif suffix in (".csv", ".tsv", ".txt", ""):
        write_text(path, _delimited(records, "," if suffix == ".csv" else "\t"))
    elif suffix in (".parquet", ".pq", ".arrow", ".feather"):
        pa = require("pyarrow", "frames")
        columns = {name: [plain(r[name]) for r in records] for name in (records[0] if records else {})}
        kind = "parquet" if suffix in (".parquet", ".pq") else "feather"
        module = require(f"pyarrow.{kind}", "frames")
        write = module.write_table if kind == "parquet" else module.write_feather
        with atomic_write(path) as temporary:
            write(pa.table(columns), str(temporary))
    else:
        raise ValueError(
            f"--output {path}: the ending {suffix!r} is not known; use .csv, .tsv, .json, .jsonl, .parquet or .arrow"
        )


def write_text(path: Path, text: str) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _delimited(records: Records, delimiter: str) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    if records:
        writer.writerow(records[0])
    writer.writerows([_exact(value) for value in record.values()] for record in records)
    return stream.getvalue()


def _exact(value: Any) -> Any:
    value = plain(value)
    return "" if value is None else value


def plain(value: Any) -> Any:
    """Python numbers, text, lists and dicts; NaN and infinity become null, which is what JSON readers expect."""
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        # The short text of a float32 is the number people know; its float64 twin has a tail of digits.
        value = float(str(value)) if isinstance(value, np.floating) else value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def to_json(value: Any, indent: int | None = 2) -> str:
    return json.dumps(plain(value), ensure_ascii=False, indent=indent, allow_nan=False)


def _text(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return "" if value != value else f"{value:.4g}"
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)


def pairs(facts: dict[str, Any], title: str | None = None) -> None:
    """Names and values in two columns."""
    drawn = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, show_header=False)
    drawn.add_column(style="dim")
    drawn.add_column(overflow="fold")
    for name, value in facts.items():
        drawn.add_row(escape(str(name)), escape(_text(value)))
    console().print(drawn)


def listed(text: str | None) -> Sequence[str]:
    """The parts of "Python, SQL" without blanks; quotes as in CSV protect a comma."""
    if text is None:
        return []
    parts = next(csv.reader([text], skipinitialspace=True), [])
    return [part.strip() for part in parts if part.strip()]
