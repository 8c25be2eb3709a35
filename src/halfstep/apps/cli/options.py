"""Options that commands share: a group of them is a dataclass, and `command` makes options of its fields.

Knows names, types and what people are told of them. Reads and fits nothing.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.markup import escape

from halfstep.apps.cli import completion
from halfstep.apps.console import console, guarded, say, table
from halfstep.apps.written import Records, as_text, check_ending, to_json, write_records, write_text
from halfstep.errors import one_of

FORMS = ("table", "csv", "tsv", "json", "jsonl")

ModelFile = Annotated[
    Path,
    typer.Argument(help="A model written by `halfstep fit` or `model.save`.", autocompletion=completion.files),
]
SavedTo = Annotated[Path, typer.Option("--output", "-o", help="Where the model is written.")]
OwnRank = Annotated[int | None, typer.Option(help="Length of the factors; from the data when left out.", min=1)]
Background = Annotated[
    float | None, typer.Option(help="Weight of every unobserved cell; the model's own when left out.", min=0)
]
OwnReg = Annotated[float | None, typer.Option(help="Strength of the penalty; from the data when left out.", min=0)]
Reg = Annotated[float, typer.Option(help="Strength of the penalty.", min=0)]
RegScaling = Annotated[
    str | None,
    typer.Option(
        help="How the penalty grows with counts: constant, count or a number (the default).",
        autocompletion=completion.words("constant", "count"),
    ),
]
Threads = Annotated[int | None, typer.Option(help="Threads; all cores when left out.", min=1)]
Seed = Annotated[int, typer.Option(help="Seed; the same seed gives the same bits.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
OutputFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write the result to a .csv, .tsv, .json, .jsonl, .parquet or .arrow file."),
]
Form = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="How it is printed: table (the default on a terminal), tsv (in a pipe), csv, json or jsonl.",
        autocompletion=completion.words(*FORMS),
    ),
]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """A command: parameters that are dataclasses become the options of their fields; failures are one line."""
    own = inspect.signature(function, eval_str=True).parameters
    groups: dict[str, Any] = {name: each.annotation for name, each in own.items() if is_dataclass(each.annotation)}
    flat: list[inspect.Parameter] = []
    for name, parameter in own.items():
        flat += _fields(groups[name]) if name in groups else [parameter.replace(kind=parameter.KEYWORD_ONLY)]

    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        function(**given)

    called.__name__, called.__doc__, called.__module__ = function.__name__, function.__doc__, function.__module__
    called.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return guarded(called)


def _fields(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(group)
    ]


@dataclass
class Answer:
    """Where an answer goes, and in which form."""

    as_json: JsonFlag = False
    form: Form = None
    output: OutputFile = None

    def check(self) -> None:
        """Find out before the work whether the answer can be given."""
        if self.form is not None:
            one_of("--format", self.form, FORMS)
            if self.as_json and self.form != "json":
                raise ValueError(f"--json and --format {self.form} are two things; leave out one of them")
        if self.output is not None:
            check_ending(self.output)

    @property
    def printed(self) -> str | None:
        """The form of what is printed; None prints nothing, since there is a file."""
        if self.as_json:
            return "json"
        if self.form is not None or self.output is not None:
            return self.form
        return "table" if sys.stdout.isatty() else "tsv"

    def emit(self, records: Records, title: str = "") -> None:
        """Show rows: in a file, and printed."""
        self.check()
        if self.output is not None:
            write_records(self.output, records)
            say(f"{len(records):,} rows written to {escape(str(self.output))}")
        if self.printed == "table":
            console().print(table(records, title))
        elif self.printed is not None:
            sys.stdout.write(as_text(records, self.printed))

    def emit_document(self, document: dict[str, Any], records: Records, shown: Callable[[], None]) -> None:
        """Show a document: whole as JSON, its rows in other files, as `shown()` draws it where people read."""
        self.check()
        if self.output is not None and self.output.suffix.lower() == ".json":
            write_text(self.output, to_json(document) + "\n")
            say(f"written to {escape(str(self.output))}")
        elif self.output is not None:
            write_records(self.output, records)
            say(f"{len(records):,} rows written to {escape(str(self.output))}")
        form = self.printed if self.form is not None or self.as_json or self.output is not None else "table"
        if form == "json":
            print(to_json(document))
        elif form == "table":
            shown()
        elif form is not None:
            sys.stdout.write(as_text(records, form))


def given(**options: Any) -> dict[str, Any]:
    """The options that were given; all others keep the defaults of the model, which stand there and nowhere else."""
    return {name: value for name, value in options.items() if value is not None}


def scaling(text: str | None) -> str | float | None:
    """A number where the text is one."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def refuse_given(context: typer.Context, names: tuple[str, ...], reason: str) -> None:
    """Options that would have no effect are refused, not ignored."""
    sources = {name: context.get_parameter_source(name) for name in names}
    named = [
        f"--{name.replace('_', '-')}"
        for name, source in sources.items()
        if source is not None and source.name == "COMMANDLINE"
    ]
    if named:
        raise typer.BadParameter(f"{reason} leave out {', '.join(named)}")
