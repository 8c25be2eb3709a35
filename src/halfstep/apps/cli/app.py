"""The table of commands. Each lives in the module that knows its subject."""

from __future__ import annotations

from typing import Annotated

import typer

from halfstep._version import __version__
from halfstep.apps.cli import ask, explain, fit, fit_closed, fit_ensemble, fit_ratings, judge, predict, show, tune

app = typer.Typer(
    name="halfstep",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. HALFSTEP_DEBUG=1 shows tracebacks.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"halfstep {__version__}")
        raise typer.Exit


@app.callback()
def halfstep(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Alternating minimisation of matrices: fix one side, solve the other, exactly and fast.

    Start with `halfstep demo`, or with `halfstep fit wals sample -o skills.safetensors`.
    """


app.command(rich_help_panel="Start")(show.demo)
fit.app.command("ensemble")(fit_ensemble.fit_ensemble)
for kind in ("plq", "bayes", "biases", "constant"):
    fit.app.command(kind)(getattr(fit_ratings, f"fit_{kind}"))
for kind in ("graph", "ease", "knn", "popularity", "blend"):
    fit.app.command(kind)(getattr(fit_closed, f"fit_{kind}"))
app.add_typer(fit.app, name="fit", rich_help_panel="Models")
app.command(rich_help_panel="Models")(judge.evaluate)
app.command(rich_help_panel="Models")(tune.tune)
app.command(rich_help_panel="Questions")(ask.recommend)
app.command(rich_help_panel="Questions")(ask.similar)
app.command(rich_help_panel="Questions")(explain.explain)
app.command(rich_help_panel="Questions")(predict.predict)
app.command(rich_help_panel="Questions")(fit_ensemble.fuse)
app.command(rich_help_panel="Pages")(show.report)
app.command(rich_help_panel="Pages")(show.serve)
app.command(rich_help_panel="This machine")(show.info)
app.command(rich_help_panel="This machine")(judge.bench)
