"""`halfstep fit ensemble` and `fuse`: one probability from many classifiers, for the instances of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.markup import escape

from halfstep.apps.cli import completion, options
from halfstep.apps.cli.asking import model_for
from halfstep.apps.cli.options import Answer, command
from halfstep.apps.cli.running import check_writable, run_average, run_fit
from halfstep.apps.cli.sources import Encoding, check_model_path
from halfstep.apps.cli.wide import WidePredictions, read_predictions
from halfstep.apps.console import listed, say, working
from halfstep.apps.written import Records, check_ending, write_records

OF_ONE_FACTORISATION = ("rank", "rho", "reg", "aggregator", "solver")

Predictions = Annotated[
    str,
    typer.Argument(
        help="A table: a row for each instance, a column of probabilities for each classifier; - for standard input."
    ),
]
Labels = Annotated[Path | None, typer.Option(help="A second table with an id and a label column.")]
LabelColumn = Annotated[str | None, typer.Option("--label", help="Column of labels; detected when left out.")]
IdColumn = Annotated[str | None, typer.Option("--id", help="Column of ids; detected when left out.")]
Positive = Annotated[
    str | None, typer.Option(help="The label whose probability the table holds; labels that are text need it.")
]


@dataclass
class FusedTable:
    """A table of predictions, and which columns of it are meant."""

    predictions: Predictions
    label: LabelColumn = None
    id: IdColumn = None
    classifiers: Annotated[str | None, typer.Option(help="Columns to fuse, separated by commas.")] = None
    encoding: Encoding = None

    def read(self, labels: Path | None = None) -> WidePredictions:
        chosen = list(listed(self.classifiers)) or None
        return read_predictions(self.predictions, self.id, self.label, labels, chosen, self.encoding)


@dataclass
class AboutLabels:
    """Where the labels of instances are, and what they are about."""

    labels: Labels = None
    label: LabelColumn = None
    id: IdColumn = None
    positive: Positive = None

    def read(self, data: str, encoding: str | None) -> WidePredictions:
        """The predictions of a file that was named as a table of pairs, with these labels."""
        return FusedTable(data, self.label, self.id, encoding=encoding).read(self.labels)


@command
def fit_ensemble(
    context: typer.Context,
    table: FusedTable,
    labels: Labels = None,
    fused: Annotated[Path, typer.Option(help="Where the fused probabilities are written.")] = Path("fused.csv"),
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Also write the model here.")] = None,
    positive: Positive = None,
    single: Annotated[
        bool, typer.Option("--single", help="One factorisation, CFEnsemble, in place of the average of a family.")
    ] = False,
    average: Annotated[
        bool, typer.Option("--average", help="The average of a family of factorisations: what happens anyway.")
    ] = False,
    rank: Annotated[int | None, typer.Option(help="Latent factors; the root of the classifiers when left out.")] = None,
    rho: Annotated[float, typer.Option(help="Weight of reconstruction against labels, 0 to 1.", min=0, max=1)] = 0.9,
    reg: options.Reg = 2.0,
    aggregator: Annotated[
        str,
        typer.Option(
            help="weighted, mean or attention.", autocompletion=completion.words("weighted", "mean", "attention")
        ),
    ] = "weighted",
    solver: Annotated[
        str,
        typer.Option(
            help="exact (the combined loss) or als (label-aware).", autocompletion=completion.words("exact", "als")
        ),
    ] = "exact",
    threads: options.Threads = None,
    seed: options.Seed = 0,
    as_json: options.JsonFlag = False,
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
        options.refuse_given(
            context, OF_ONE_FACTORISATION, "the average tries a family of factorisations; add --single, or"
        )
    if output is not None:
        check_model_path(output, table.predictions, labels)
    check_ending(fused)
    for path in filter(None, (fused, output)):
        check_writable(path)
    found = table.read(labels)
    common: dict[str, Any] = {"n_threads": threads, "random_state": seed, "positive": found.typed(positive)}
    if single:
        model: Any = CFEnsemble(rank, rho, reg, aggregator=aggregator, solver=solver, **common)
    else:
        model = CFEnsembleCV(**common)

    def write_fused() -> None:
        trust = ("novelty", model.novelty_) if hasattr(model, "novelty_") else ("uncertainty", model.uncertainty_)
        write_records(fused, fused_records(model, found, model.predict_proba(), dict([trust])))
        say(f"fused probabilities written to {escape(str(fused))}")

    run = run_fit if single else run_average
    run(model, lambda: model.fit(found.by_name(), found.y, ids=found.ids), output, as_json, write_fused)


@command
def fuse(model: options.ModelFile, table: FusedTable, answer: Answer) -> None:
    """One probability for each new instance of a file, by a fitted ensemble. Columns may come in any order.

    Example:

      halfstep fuse fused.safetensors tomorrow.csv -o answers.csv
    """
    answer.check()
    fitted = model_for(model, "fuse", "novelty")
    found = table.read()
    with working("fusing"):
        P = found.by_name()
        trust: dict[str, NDArray[Any]] = {"novelty": np.asarray(fitted.novelty(P))}
        if hasattr(fitted, "uncertainty"):
            trust["uncertainty"] = np.asarray(fitted.uncertainty(P))
        records = fused_records(fitted, found, fitted.predict_proba(P), trust)
    answer.emit(records, title="Fused")


def fused_records(
    model: Any, table: WidePredictions, probabilities: NDArray[Any], trust: dict[str, NDArray[Any]]
) -> Records:
    """What is said of each instance: its id, probabilities, the answer, its label if given, and how far to trust it.

    trust : the novelty of the instances, or how far members differ over them.
    """
    answers = model.classes_[probabilities.argmax(axis=1)]
    if len(model.classes_) == 2:
        second = 1 if model.positive is None else model.classes_.tolist().index(model.positive)
        columns = {f"p_{model.classes_[second]}": probabilities[:, second]}
    else:
        columns = {f"p_{name}": probabilities[:, k] for k, name in enumerate(model.classes_)}
    labels = {} if table.y is None else {"label": table.y.tolist()}
    lists = {
        "id": table.ids.tolist(),
        **{name: values.tolist() for name, values in columns.items()},
        "answer": answers.tolist(),
        **labels,
        **{name: np.asarray(values).tolist() for name, values in trust.items()},
    }
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
