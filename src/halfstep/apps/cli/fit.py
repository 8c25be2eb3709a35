"""`halfstep fit`: a model from a table. Which options there are, and what they make."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from halfstep.apps.cli import sources
from halfstep.apps.cli.running import check_writable, run_average, run_fit
from halfstep.apps.cli.wide import WidePredictions, read_predictions
from halfstep.apps.console import JsonFlag, Records, guarded, listed, say, write_records

app = typer.Typer(no_args_is_help=True, help="Fit a model to a table and save it.")

SavedTo = Annotated[Path, typer.Option("--output", "-o", help="Where the model is written.")]
Rank = Annotated[int, typer.Option(help="Length of the factors.", min=1)]
Background = Annotated[float, typer.Option(help="Weight of every unobserved cell.", min=0)]
Reg = Annotated[float, typer.Option(help="Strength of the penalty.", min=0)]
RegScaling = Annotated[str, typer.Option(help="How the penalty grows with counts: constant, count or a number.")]
Loss = Annotated[str, typer.Option(help="Loss of an observed cell, such as squared or logistic.")]
Weighting = Annotated[
    str, typer.Option(help="What becomes of weights: none, log, sqrt, binary, tfidf, bm25 or popularity.")
]
Sweeps = Annotated[int, typer.Option("--max-iter", help="At most so many sweeps.", min=1)]
Tolerance = Annotated[
    float, typer.Option(help="Stop when the objective falls by less than this part of itself.", min=0)
]
Threads = Annotated[int | None, typer.Option(help="Threads; all cores when left out.", min=1)]
Seed = Annotated[int, typer.Option(help="Seed; the same seed gives the same bits.")]
OF_ONE_FACTORISATION = ("rank", "rho", "reg", "aggregator", "solver")
Seconds = Annotated[float | None, typer.Option(help="No sweep is begun after that many seconds.", min=0)]


@app.command("wals")
@guarded
def fit_wals(
    data: sources.Data,
    output: SavedTo = Path("model.safetensors"),
    user: sources.UserColumn = None,
    item: sources.ItemColumn = None,
    weight: sources.WeightColumn = None,
    duplicates: sources.Duplicates = "sum",
    kind: sources.OnetKind = "activities",
    rank: Rank = 64,
    background: Background = 0.05,
    reg: Reg = 0.01,
    reg_scaling: RegScaling = "1.0",
    loss: Loss = "squared",
    weighting: Weighting = "none",
    max_iter: Sweeps = 15,
    tol: Tolerance = 1e-4,
    threads: Threads = None,
    max_seconds: Seconds = None,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Recommendations from who has what: weighted alternating least squares.

    Examples:

      halfstep fit wals sample -o skills.safetensors --rank 16

      halfstep fit wals clicks.parquet --user user_id --item item_id --weight clicks -o clicks.safetensors
    """
    from halfstep.models.wals import WALS

    check_writable(output)
    interactions = sources.read_interactions(data, user, item, weight, duplicates, kind)
    model = WALS(
        rank,
        background,
        reg,
        scaling(reg_scaling),
        loss=loss,
        weighting=weighting,
        max_iter=max_iter,
        tol=tol,
        n_threads=threads,
        max_seconds=max_seconds,
        random_state=seed,
    )
    run_fit(model, lambda: model.fit(interactions), output, as_json)


@app.command("ensemble")
@guarded
def fit_ensemble(
    context: typer.Context,
    predictions: Annotated[
        Path, typer.Argument(help="A table: a row for each instance, a column of probabilities for each classifier.")
    ],
    labels: Annotated[Path | None, typer.Option(help="A second table with an id and a label column.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of labels; detected when left out.")] = None,
    id: Annotated[str | None, typer.Option("--id", help="Column of ids; detected when left out.")] = None,
    classifiers: Annotated[str | None, typer.Option(help="Columns to fuse, separated by commas.")] = None,
    fused: Annotated[Path, typer.Option(help="Where the fused probabilities are written.")] = Path("fused.csv"),
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Also write the model here.")] = None,
    positive: Annotated[
        str | None, typer.Option(help="The label whose probability the table holds; labels that are text need it.")
    ] = None,
    single: Annotated[
        bool, typer.Option("--single", help="One factorisation, CFEnsemble, in place of the average of a family.")
    ] = False,
    average: Annotated[
        bool, typer.Option("--average", help="The average of a family of factorisations: what happens anyway.")
    ] = False,
    rank: Annotated[int | None, typer.Option(help="Latent factors; the root of the classifiers when left out.")] = None,
    rho: Annotated[float, typer.Option(help="Weight of reconstruction against labels, 0 to 1.", min=0, max=1)] = 0.9,
    reg: Reg = 2.0,
    aggregator: Annotated[str, typer.Option(help="weighted, mean or attention.")] = "weighted",
    solver: Annotated[str, typer.Option(help="exact (the combined loss) or als (label-aware).")] = "exact",
    threads: Threads = None,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """One calibrated probability for each instance from many classifiers and few labels.

    Examples:

      halfstep fit ensemble predictions.csv --labels labels.csv --fused fused.csv -o fused.safetensors

      halfstep fit ensemble predictions.csv --labels labels.csv --positive sick

      halfstep fit ensemble predictions.csv --labels labels.csv --single --rho 0.5
    """
    from halfstep.ensemble import CFEnsemble, CFEnsembleCV

    if single and average:
        raise typer.BadParameter("--single and --average are two things; leave out one of them")
    if not single:
        refuse_given(context, OF_ONE_FACTORISATION, "the average tries a family of factorisations; add --single, or")
    for path in filter(None, (fused, output)):
        check_writable(path)
    table = read_predictions(predictions, id, label, labels, list(listed(classifiers)) or None)
    common: dict[str, Any] = {"n_threads": threads, "random_state": seed, "positive": table.label(positive)}
    if single:
        model: Any = CFEnsemble(rank, rho, reg, aggregator=aggregator, solver=solver, **common)
    else:
        model = CFEnsembleCV(**common)

    def write_fused() -> None:
        write_records(fused, fused_records(model, table))
        say(f"fused probabilities written to {escape(str(fused))}")

    run = run_fit if single else run_average
    P = dict(zip(table.names, table.P.T, strict=True))
    run(model, lambda: model.fit(P, table.y, ids=table.ids), output, as_json, write_fused)


def refuse_given(context: typer.Context, names: tuple[str, ...], reason: str) -> None:
    """Options that would have no effect are refused, not ignored."""
    sources = {name: context.get_parameter_source(name) for name in names}
    given = [f"--{name}" for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if given:
        raise typer.BadParameter(f"{reason} leave out {', '.join(given)}")


def fused_records(model: Any, table: WidePredictions) -> Records:
    """What is said of each instance: its id, probabilities, the answer, its label if given, and how far to trust it.

    That is the novelty of the instance for one factorisation, the spread of the members for an average.
    """
    probabilities = model.predict_proba()
    answers = model.classes_[probabilities.argmax(axis=1)]
    given = [None] * len(table.ids) if table.y is None else table.y.tolist()
    if len(model.classes_) == 2:
        second = 1 if model.positive is None else model.classes_.tolist().index(model.positive)
        columns = {f"p_{model.classes_[second]}": probabilities[:, second]}
    else:
        columns = {f"p_{name}": probabilities[:, k] for k, name in enumerate(model.classes_)}
    trust, values = ("novelty", model.novelty_) if hasattr(model, "novelty_") else ("uncertainty", model.uncertainty_)
    return [
        {
            "id": id,
            **{name: float(column[k]) for name, column in columns.items()},
            "answer": answers[k],
            "label": given[k],
            trust: float(values[k]),
        }
        for k, id in enumerate(table.ids.tolist())
    ]


def scaling(text: str) -> str | float:
    """A number where the text is one."""
    try:
        return float(text)
    except ValueError:
        return text
