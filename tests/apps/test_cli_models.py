"""`halfstep fit` for ratings and ensembles: what is read, written and refused."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import halfstep

from .command import one_line, run


def test_fit_plq_counts_repeated_ratings_and_predicts(tmp_path):
    table = tmp_path / "ratings.csv"
    rng = np.random.default_rng(0)
    rows = [(f"u{u}", int(i), int(rng.integers(1, 6))) for u in range(12) for i in rng.choice(9, 5, replace=False)]
    table.write_text("user,movie,stars\n" + "".join(f"{u},{i},{s}\n" for u, i, s in [*rows, rows[0]]))
    result = run("fit", "plq", table, "-o", tmp_path / "m.safetensors", "--rank", 2, "--loss", "absolute", "--json")
    assert result.exit_code == 0, result.output
    assert "'stars' as rating" in result.stderr
    assert "61 ratings, 12 users, 9 items" in result.stderr
    fitted = halfstep.load(tmp_path / "m.safetensors")
    assert np.isfinite(fitted.predict(np.array([rows[0][:2]], dtype=object))).all()
    page = run("report", tmp_path / "m.safetensors", "-o", tmp_path / "r.html", "--data", table, "--no-open")
    assert page.exit_code == 0, page.output
    assert "61 ratings, as given" in (tmp_path / "r.html").read_text()


def test_fit_plq_names_the_losses(tmp_path):
    (tmp_path / "r.csv").write_text("user,item,rating\n1,1,2\n1,2,3\n2,1,4\n2,2,1\n")
    result = run("fit", "plq", tmp_path / "r.csv", "-o", tmp_path / "m.safetensors", "--rank", 1, "--loss", "absolut")
    assert result.exit_code == 1
    assert "'absolute'" in one_line(result.stderr)


@pytest.fixture
def predictions(tmp_path) -> tuple[Path, Path, np.ndarray]:
    """A table of 80 instances and 4 classifiers, and labels of 30 of them in another order."""
    P, _, truth = halfstep.data.datasets.make_predictions(80, 4, missing=0.1, labels=0.0)
    table, labels = tmp_path / "predictions.csv", tmp_path / "labels.csv"
    lines = [",".join(["" if np.isnan(p) else f"{p:.6f}" for p in row]) for row in P]
    table.write_text("id,tree,bayes,svm,net\n" + "".join(f"case-{k},{line}\n" for k, line in enumerate(lines)))
    labels.write_text("id,label\n" + "".join(f"case-{k},{'yes' if truth[k] else 'no'}\n" for k in range(29, -1, -1)))
    return table, labels, truth


def test_fit_ensemble_writes_probabilities_beside_the_ids(predictions, tmp_path):
    table, labels, truth = predictions
    fused, saved = tmp_path / "fused.csv", tmp_path / "m.safetensors"
    result = run(
        "fit", "ensemble", table, "--labels", labels, "--fused", fused, "-o", saved, "--positive", "yes", "--single"
    )
    assert result.exit_code == 0, result.output
    assert "80 instances, 4 classifiers, 30 labels" in result.stderr
    rows = list(csv.DictReader(fused.read_text().splitlines()))
    assert [row["id"] for row in rows] == [f"case-{k}" for k in range(80)]
    assert [row["label"] for row in rows[:30]] == ["yes" if t else "no" for t in truth[:30]]
    probability = np.array([float(row["p_yes"]) for row in rows])
    np.testing.assert_allclose(probability, halfstep.load(saved).predict_proba()[:, 1], rtol=1e-6)
    assert [row["answer"] for row in rows] == ["yes" if p > 0.5 else "no" for p in probability]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (("case-3,", "case-4,"), (), "the id 'case-4' comes 2 times; ids must differ"),
        (("id,tree", "id,name"), ("--classifiers", "tree,svm"), "'tree' is not a column of"),
        (("case-7,0.", "case-7,x0."), (), "column 'tree' holds 'x0."),
        (("case-3,", "other,"), (), "ids, such as 'case-3', are not among the predictions"),
    ],
)
def test_tables_of_predictions_that_cannot_be_used(predictions, tmp_path, change, options, message):
    table, labels, _ = predictions
    text = table.read_text().replace(*change, 1)
    table.write_text(text if "x0." not in change[1] else _spoiled(text))
    result = run(
        "fit", "ensemble", table, "--labels", labels, "--fused", tmp_path / "f.csv", "--positive=yes", *options
    )
    assert result.exit_code == 1
    assert message in one_line(result.stderr)
    assert not (tmp_path / "f.csv").exists()


def _spoiled(text: str) -> str:
    """The first number of the first classifier, made unreadable."""
    lines = text.splitlines()
    row = next(k for k, line in enumerate(lines[1:], 1) if line.split(",")[1].startswith("0."))
    lines[row] = lines[row].replace(",0.", ",x0.", 1)
    return "\n".join(lines) + "\n"


@pytest.mark.filterwarnings("ignore::halfstep.ensemble.predictions.PredictionWarning")
def test_fit_ensemble_averages_a_family(predictions, tmp_path):
    table, labels, _ = predictions
    fused, saved, page = tmp_path / "fused.csv", tmp_path / "m.safetensors", tmp_path / "r.html"
    result = run(
        "fit", "ensemble", table, "--labels", labels, "--fused", fused, "-o", saved, "--positive=yes", "--json"
    )
    assert result.exit_code == 0, result.output
    fitted = halfstep.load(saved)
    assert type(fitted) is halfstep.CFEnsembleCV
    told = json.loads(result.stdout)
    assert (told["model"], told["file"]) == ("CFEnsembleCV", str(saved))
    assert told["members"] == len(fitted.members_)
    assert told["heaviest"] == fitted.members_[0]["name"]
    assert told["out-of-fold log loss"] == pytest.approx(fitted.log_loss_)
    rows = list(csv.DictReader(fused.read_text().splitlines()))
    np.testing.assert_allclose([float(row["p_yes"]) for row in rows], fitted.predict_proba()[:, 1], rtol=1e-6)
    np.testing.assert_allclose([float(row["uncertainty"]) for row in rows], fitted.uncertainty_, rtol=1e-6)
    assert run("report", saved, "-o", page, "--data", table, "--no-open").exit_code == 0
    assert fitted.members_[0]["name"] in page.read_text()
    assert "case-" in page.read_text()  # ids of the table, not row numbers
    assert run("info", saved).exit_code == 0
    assert fitted.instance_ids_.tolist() == [f"case-{k}" for k in range(80)]
    assert fitted.feature_names_in_.tolist() == ["tree", "bayes", "svm", "net"]


@pytest.mark.filterwarnings("ignore::halfstep.ensemble.predictions.PredictionWarning")
def test_labels_that_are_text_must_say_which_one_is_meant(predictions, tmp_path):
    table, labels, _ = predictions
    asked = run("fit", "ensemble", table, "--labels", labels, "--fused", tmp_path / "f.csv")
    assert asked.exit_code == 1
    assert "of which of the two? Say so: --positive 'no' or --positive 'yes'" in one_line(asked.stderr)
    turned = run("fit", "ensemble", table, "--labels", labels, "--fused", tmp_path / "f.csv", "--positive", "no")
    assert turned.exit_code == 0, turned.output
    assert "p_no" in (tmp_path / "f.csv").read_text().splitlines()[0]


def test_options_of_one_factorisation_are_refused_beside_average(predictions, tmp_path):
    table, labels, _ = predictions
    result = run("fit", "ensemble", table, "--labels", labels, "--positive=yes", "--rank", 3, "--reg", 2.0)
    assert result.exit_code == 2
    told = " ".join(result.stderr.replace("│", " ").split())
    assert "the average tries a family of factorisations; add --single, or leave out --rank, --reg" in told


@pytest.mark.parametrize(
    ("kind", "options"), [("graph", ("--neighbours", 9)), ("ease", ("--reg", 5)), ("knn", ()), ("popularity", ())]
)
def test_closed_forms_are_fitted_and_asked_from_the_command_line(kind, options, tmp_path):
    path = tmp_path / "m.safetensors"
    result = run("fit", kind, "sample", "-o", path, *options, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["users"] == 111
    asked = run("recommend", path, "--items", "Python, SQL", "-n", 3, "--why", "--json")
    assert asked.exit_code == 0, asked.output
    assert len(json.loads(asked.stdout)) == 3
    assert run("similar", path, "--item", "Python").exit_code == 0
    assert run("explain", path, "--items", "Python, SQL", "--item", "statistics").exit_code == 0
