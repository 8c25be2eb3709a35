"""How the command talks: results on standard output, everything else on standard error, failures in one line.

Knows tables and exit codes. Must not know models.
"""

from __future__ import annotations

import csv
import functools
import inspect
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from halfstep.apps.spoken import spoken
from halfstep.apps.written import Records, decimals

FAILED, INTERRUPTED = 1, 130
EXPECTED = (ValueError, TypeError, KeyError, OSError, ImportError, ArithmeticError, MemoryError)
"""Errors that say themselves what is wrong. Any other is a mistake of ours, and its traceback is wanted."""

P = ParamSpec("P")
R = TypeVar("R")


def console(stderr: bool = False) -> Console:
    """A console for the standard stream of this moment; colours only where it is a terminal."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, width=None if terminal else 140)


def say(text: str) -> None:
    """A note for people, on standard error."""
    console(stderr=True).print(text, style="dim")


def guarded(function: Callable[P, R]) -> Callable[P, R]:
    """A command whose failures are one line on standard error and an exit code. HALFSTEP_DEBUG=1 shows tracebacks."""

    options = options_of(function)

    @functools.wraps(function)
    def command(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with _short_warnings(options):
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
            _complain(spoken(_one_line(error), options))
            raise typer.Exit(FAILED) from None

    return command


def options_of(function: Callable[..., Any]) -> dict[str, str]:
    """The options of a command by the names of its parameters; arguments have none."""
    options: dict[str, str] = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        for about in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(about, typer.models.OptionInfo):
                long = [d for d in about.param_decls or () if d.startswith("--")]
                options[name] = (long or about.param_decls or [f"--{name.replace('_', '-')}"])[0].split("/")[0]
    return options


def _complain(text: str) -> None:
    console(stderr=True).print(f"[bold red]halfstep:[/] {escape(text)}", soft_wrap=True)


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def _short_warnings(options: dict[str, str]) -> Iterator[None]:
    """Warnings as one line each instead of a file name, a line number and a line of source."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = spoken(" ".join(str(message).split()), options)
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
    digits = {name: decimals(record[name] for record in records) for name in names}
    for record in records:
        drawn.add_row(*(escape(_text(record[name], digits[name])) for name in names))
    return drawn


def _text(value: Any, digits: int | None = None) -> str:
    """A value as people read it; `digits` : decimals of its column."""
    if isinstance(value, (float, np.floating)):
        return "" if value != value else f"{value:.4g}" if digits is None else f"{value:,.{digits}f}"
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
