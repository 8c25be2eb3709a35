"""`demo`, `report`, `serve` and `info`: things to look at. Each is a thin call."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from halfstep.apps.cli import completion
from halfstep.apps.cli.asking import family_of
from halfstep.apps.cli.options import Answer, ModelFile, command, given
from halfstep.apps.cli.sources import RatingTable
from halfstep.apps.cli.wide import read_predictions
from halfstep.apps.console import console, pairs, say, working
from halfstep.kinds import load

UserName = Annotated[str | None, typer.Option("--user-name", help="What a user is called, such as occupation.")]
ItemName = Annotated[str | None, typer.Option("--item-name", help="What an item is called, such as skill.")]
Open = Annotated[
    bool | None, typer.Option("--open/--no-open", help="Open the page; when left out, where there is a screen.")
]


@command
def demo(
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where the page is written.")] = None,
    open_page: Open = None,
    seed: Annotated[int, typer.Option(help="Seed of splits and generated data.")] = 7,
) -> None:
    """The families on built-in data, each against its baselines, then a report page. Under a minute.

    Example:

      halfstep demo -o demo.html
    """
    from halfstep.apps.demo import run

    page = run(output, seed, console())
    show_page(page, open_page)


@command
def report(
    model: ModelFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the page is written.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Ratings to judge a model of them on, or the predictions an ensemble was fitted to, for more charts."
        ),
    ] = None,
    open_page: Open = None,
) -> None:
    """One self-contained page about a model: what was fitted, how it went, what it says, where to be careful.

    Example:

      halfstep report skills.safetensors -o skills.html
    """
    from halfstep.apps.report import write_report

    if output.exists() and output.samefile(model):
        raise ValueError(f"--output {output} is the model itself; name another file")
    fitted = load(model)
    evidence = {} if data is None else read_evidence(fitted, data)
    with working("drawing"):
        write_report(fitted, output, title=title, **evidence)
    show_page(output, open_page)


def read_evidence(fitted: Any, data: Path) -> dict[str, Any]:
    """What the report of this kind of model takes beside the model, from a file."""
    kind = type(fitted).__name__
    family = family_of(kind)
    if family == "ratings":
        ratings = RatingTable(str(data)).read()
        return {"pairs": ratings.pairs, "y": ratings.y}
    if family == "ensemble":
        table = read_predictions(str(data))
        return {"P": table.P, "names": table.names, "ids": table.ids.tolist()}
    raise ValueError(f"--data is for models of ratings and ensembles; a {kind} file holds its own data")


def show_page(page: Path, wanted: bool | None) -> None:
    """Print where the page is, and open it if asked to, or if there is a screen and nobody said no."""
    print(f"report page: {page.resolve()}")
    screen = console().is_terminal and bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if os.name == "nt" or os.uname().sysname == "Darwin":
        screen = console().is_terminal and "SSH_CONNECTION" not in os.environ
    if (screen if wanted is None else wanted) and not webbrowser.open(page.resolve().as_uri()):
        say("no browser could be opened; open the page by hand")


@command
def serve(
    model: ModelFile,
    host: Annotated[str, typer.Option(help="Address to listen on; loopback unless you say otherwise.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(help="Processes; they share the model's memory.", min=1)] = 1,
    api_key: Annotated[
        str | None, typer.Option(envvar="HALFSTEP_API_KEY", help="Key that requests must carry; none when left out.")
    ] = None,
    user_name: UserName = None,
    item_name: ItemName = None,
    about: Annotated[
        Path | None,
        typer.Option(
            help="The ESCO, O*NET or MovieLens folder that the model was fitted to: lists can then be narrowed by what "
            "it says, and names shown in its languages."
        ),
    ] = None,
    item_features: Annotated[
        Path | None,
        typer.Option(help="A table of items that nobody has yet, by id; they enter the lists.", dir_okay=False),
    ] = None,
) -> None:
    """A web server for a model: JSON API with docs, metrics, and a page to explore.

    Example:

      halfstep serve skills.safetensors --port 8080 --user-name occupation --item-name skill

      halfstep serve esco.safetensors --about esco/

      halfstep serve films.safetensors --item-features premieres.csv
    """
    from halfstep.apps.serve import run

    if about is not None and not about.is_dir():
        raise ValueError(f"--about {about} is no folder; give the data set as downloaded")
    folder, new = (None if path is None else str(path) for path in (about, item_features))
    named = given(user_name=user_name, item_name=item_name, about=folder, item_features=new)
    run(model, host=host, port=port, workers=workers, api_key=api_key, **named)


@command
def info(
    answer: Answer,
    model: Annotated[
        Path | None,
        typer.Argument(help="A model file; without one, this build and machine.", autocompletion=completion.files),
    ] = None,
) -> None:
    """What this build can do, or what a model file holds.

    Example:

      halfstep info skills.safetensors
    """
    answer.check()
    facts: dict[str, Any]
    if model is None:
        from halfstep.config import config

        facts = dict(config())
    else:
        facts = model_facts(model)
    answer.emit_document(
        facts, [{"name": name.strip(), "value": value} for name, value in facts.items()], lambda: pairs(facts)
    )


def model_facts(path: Path) -> dict[str, Any]:
    """Kind, version, sizes, parameters and the last sweep of a model file."""
    from halfstep.data import files as persistence
    from halfstep.figures.views import objective

    saved = persistence.read(path, mmap=True)
    fitted = load(path)
    facts: dict[str, Any] = {"file": str(path), "kind": saved.kind, "written by": f"halfstep {saved.version}"}
    facts["size"] = f"{path.stat().st_size / 1e6:.2f} MB"
    facts |= {f"{side}s": len(index) for side, index in saved.indexes.items()}
    history = getattr(fitted, "history_", [])
    if history:
        facts["sweeps"] = len(history)
        if hasattr(fitted, "converged_"):
            facts |= {"objective": objective(history[-1]), "converged": fitted.converged_}
    facts |= {f"  {name}": escape(str(value)) for name, value in saved.params.items()}
    return facts
