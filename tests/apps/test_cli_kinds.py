"""Every kind of model beside every command: it answers what it can, and says what it cannot and what to use instead."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import halfstep
from halfstep.data.datasets import make_predictions, make_reviews
from halfstep.kinds import ESTIMATORS

from .command import one_line, run

pytestmark = [
    pytest.mark.filterwarnings("ignore::halfstep.ensemble.predictions.PredictionWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

FITS = {
    "WALS": ("wals", "{pairs}", "--rank", 4),
    "ItemGraph": ("graph", "{pairs}"),
    "EASE": ("ease", "{pairs}"),
    "ItemKNN": ("knn", "{pairs}"),
    "Popularity": ("popularity", "{pairs}"),
    "Blend": ("blend", "{pairs}"),
    "PLQMF": ("plq", "{ratings}", "--rank", 2),
    "BayesMF": ("bayes", "{ratings}", "--rank", 2, "--sweeps", 24),
    "Biases": ("biases", "{ratings}"),
    "Constant": ("constant", "{ratings}"),
    "CFEnsemble": ("ensemble", "{wide}", "--single", "--fused", "{folder}/fused.csv"),
    "CFEnsembleCV": ("ensemble", "{wide}", "--fused", "{folder}/fused.csv"),
}
RECOMMENDERS = ("WALS", "ItemGraph", "EASE", "ItemKNN", "Popularity", "Blend")
RATINGS = ("PLQMF", "BayesMF", "Biases", "Constant")
ENSEMBLES = ("CFEnsemble", "CFEnsembleCV")
WITH_LISTS = (*RECOMMENDERS, "PLQMF", "BayesMF")
WITH_FACTORS = ("WALS", "PLQMF")

ANSWERS = {
    "predict": {
        RECOMMENDERS + RATINGS: ("predict", "{model}", "{asked}", "--json"),
        ENSEMBLES: "`halfstep fuse` answers",
    },
    "fuse": {
        ENSEMBLES: ("fuse", "{model}", "{new}", "--json"),
        RECOMMENDERS: "`halfstep recommend` and `halfstep predict`",
        RATINGS: "`halfstep predict` answers",
    },
    "recommend": {
        WITH_LISTS: ("recommend", "{model}", "--user", "u1", "--json"),
        ("Biases", "Constant"): "`halfstep fit plq` or `fit bayes`",
        ENSEMBLES: "`halfstep fuse` answers",
    },
    "similar items": {
        (*RECOMMENDERS, "PLQMF"): ("similar", "{model}", "--item", "i2", "--json"),
        ("BayesMF", "Biases", "Constant"): "a model of `halfstep fit plq` has",
        ENSEMBLES: "`halfstep explain` shows what each classifier counts",
    },
    "similar users": {
        WITH_FACTORS: ("similar", "{model}", "--user", "u1", "--json"),
        RECOMMENDERS[1:]: "`halfstep similar --item` answers",
        ("BayesMF", "Biases", "Constant"): "a model of `halfstep fit plq` has",
        ENSEMBLES: "`halfstep explain` shows what each classifier counts",
    },
    "explain": {
        RECOMMENDERS + RATINGS: ("explain", "{model}", "--user", "u1", "--item", "i2", "--json"),
        ENSEMBLES: ("explain", "{model}", "--json"),
    },
    "evaluate": {
        RECOMMENDERS: ("evaluate", "{pairs}", "-m", "{model}", "--protocol", "leave_k_out", "--leave-out", 1, "--json"),
        RATINGS: ("evaluate", "{ratings}", "-m", "{model}", "--json"),
        ENSEMBLES: ("evaluate", "{wide}", "-m", "{model}", "--json"),
    },
    "tune": {
        ("WALS",): ("tune", "{pairs}", "-m", "{model}", "--trials", 1, "--json"),
        ("PLQMF", "BayesMF"): ("tune", "{ratings}", "-m", "{model}", "--trials", 1, "--json"),
        RECOMMENDERS[1:]: "`halfstep tune DATA --seconds 120`",
        ("Biases", "Constant"): "`halfstep tune DATA --ratings --estimators plq`",
        ENSEMBLES: "`halfstep tune DATA --ensemble`",
    },
    "report": {(*RECOMMENDERS, *RATINGS, *ENSEMBLES): ("report", "{model}", "-o", "{folder}/page.html", "--no-open")},
    "info": {(*RECOMMENDERS, *RATINGS, *ENSEMBLES): ("info", "{model}", "--json")},
}
"""Command to kinds that answer it, with what is typed, or that say what to use instead."""
SLOW = {("evaluate", "CFEnsembleCV"), ("evaluate", "CFEnsemble")}


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> dict[str, object]:
    """Tables to read, in a folder of their own."""
    folder = tmp_path_factory.mktemp("kinds")
    data = make_reviews(30, 20, 300, random_state=0).ratings
    users, items = (np.unique(data.pairs[:, side], return_inverse=True)[1] for side in (0, 1))
    rows = [f"u{u},i{i},{v:g}\n" for u, i, v in zip(users, items, data.y, strict=True)]
    (folder / "ratings.csv").write_text("user,item,rating\n" + "".join(rows))
    (folder / "pairs.csv").write_text("user,item\n" + "".join(row.rsplit(",", 1)[0] + "\n" for row in rows))
    (folder / "asked.csv").write_text("user,item\nu1,i2\nu1,i3\n")
    P, _, truth = make_predictions(60, 4, missing=0.0, labels=0.0, random_state=0)
    head = "id,a,b,c,d,label\n"
    lines = [",".join([f"case{k}", *(f"{p:.4f}" for p in row), str(truth[k])]) + "\n" for k, row in enumerate(P)]
    (folder / "wide.csv").write_text(head + "".join(lines))
    (folder / "new.csv").write_text("id,d,c,b,a\nx,0.9,0.8,0.7,0.9\ny,0.1,0.2,0.3,0.1\n")
    names = {name: folder / f"{name}.csv" for name in ("ratings", "pairs", "asked", "wide", "new")}
    return {**names, "folder": folder}


@pytest.fixture(scope="module")
def model(places):
    """The file of a kind, fitted once through the command."""

    def fitted(kind: str) -> Path:
        path = places["folder"] / f"{kind}.safetensors"
        if not path.exists():
            result = run("fit", *_filled(FITS[kind], places), "-o", path)
            assert result.exit_code == 0, result.output
            assert type(halfstep.load(path)).__name__ == kind
        return path

    return fitted


def _filled(words, places) -> list[str]:
    return [str(word).format(**places) for word in words]


def _cases():
    for command, kinds in ANSWERS.items():
        for group, expected in kinds.items():
            for kind in group:
                marks = pytest.mark.heavy if (command, kind) in SLOW else ()
                yield pytest.param(command, kind, expected, id=f"{command}-{kind}", marks=marks)


def test_every_kind_stands_beside_every_command():
    assert set(FITS) == set(ESTIMATORS)
    for command, kinds in ANSWERS.items():
        assert sorted(kind for group in kinds for kind in group) == sorted(FITS), command


@pytest.mark.parametrize(("command", "kind", "expected"), list(_cases()))
def test_each_kind_answers_what_it_can_and_says_what_to_use_instead(command, kind, expected, model, places):
    if command == "tune":
        pytest.importorskip("optuna")
    path = model(kind)
    words = expected if isinstance(expected, tuple) else next(w for w in ANSWERS[command].values() if type(w) is tuple)
    result = run(*_filled(words, {**places, "model": path}))
    if isinstance(expected, tuple):
        assert result.exit_code == 0, result.output
        if "--json" in words:
            assert json.loads(result.stdout)
    else:
        assert result.exit_code == 1, result.output
        text = one_line(result.stderr)
        assert re.search(rf"holds an? {kind}, ", text)
        assert expected in text


def test_scores_of_pairs_are_those_of_the_lists(model, places):
    rows = json.loads(run("predict", model("WALS"), places["asked"], "--json").stdout)
    fitted = halfstep.load(model("WALS"))
    expected = fitted.recommend("u1", 2, candidates=["i2", "i3"], keep_seen=True)
    found = {row["item"]: row["score"] for row in rows}
    assert found == pytest.approx(dict(zip(*(each.tolist() for each in expected), strict=True)), rel=1e-5)


def test_fused_answers_of_a_file_follow_the_names_of_its_columns(model, places):
    path = model("CFEnsembleCV")
    rows = json.loads(run("fuse", path, places["new"], "--json").stdout)
    table = np.array([[0.9, 0.7, 0.8, 0.9], [0.1, 0.3, 0.2, 0.1]])
    expected = halfstep.load(path).predict_proba(dict(zip("abcd", table.T, strict=True)))[:, 1]
    assert [row["id"] for row in rows] == ["x", "y"]
    np.testing.assert_allclose([row["p_1"] for row in rows], expected, rtol=1e-6)


@pytest.mark.parametrize("kind", RATINGS)
def test_the_parts_of_a_rating_sum_to_it(kind, model, places):
    told = run("explain", model(kind), "--user", "u1", "--item", "i2", "--json")
    value = halfstep.load(model(kind)).predict(np.array([["u1", "i2"]], dtype=object))[0]
    assert sum(row["contribution"] for row in json.loads(told.stdout)) == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("kind", ["PLQMF", "BayesMF"])
def test_somebody_new_tells_a_model_of_ratings_what_they_gave(kind, model):
    asked = run("recommend", model(kind), "--items", "i2,i3", "--values", "5,1", "--json")
    assert asked.exit_code == 0, asked.output
    assert run("recommend", model(kind), "--items", "i2,i3").exit_code == 2
    lost = run("recommend", model(kind), "--items", "i2,i3", "--values", "5")
    assert "--values has 1 numbers for 2 items" in one_line(lost.stderr)


def test_lists_for_everybody_take_all_forms_and_wishes(model, tmp_path):
    path = model("WALS")
    wishes = ("--all", "-n", 2, "--exclude", "i2", "--diversity", 0.3, "--why")
    for ending in (".csv", ".jsonl"):
        out = tmp_path / f"all{ending}"
        assert run("recommend", path, *wishes, "-o", out).exit_code == 0
    rows = list(csv.DictReader((tmp_path / "all.csv").read_text().splitlines()))
    users = halfstep.load(path).user_ids_.tolist()
    assert {row["user"] for row in rows} == set(users)
    assert all(row["item"] != "i2" and row["why"] for row in rows)
    assert [json.loads(line)["item"] for line in (tmp_path / "all.jsonl").read_text().splitlines()] == [
        row["item"] for row in rows
    ]


@pytest.mark.heavy
def test_a_search_over_all_recommenders_writes_the_winner(places, tmp_path):
    path = tmp_path / "best.safetensors"
    result = run("tune", places["pairs"], "--seconds", 20, "--trials", 6, "--save", path, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert type(halfstep.load(path)).__name__ == told["winner"]
    assert run("recommend", path, "--user", "u1").exit_code == 0
    refused = run("tune", places["pairs"], "--seconds", 20, "--study", tmp_path / "s.db")
    assert refused.exit_code == 2
