"""Ratings on the command line: fit, predict, evaluate, tune; errors in one line that say what to do."""

import csv
import json

import numpy as np
import pytest

import halfstep
from halfstep import PLQMF, load
from halfstep.data.datasets import make_ratings
from halfstep.losses import Huber

from .command import one_line, run


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    """A table with times, and one with pairs to ask for, the last of an unseen user."""
    folder = tmp_path_factory.mktemp("ratings")
    pairs, y, _ = make_ratings(80, 50, 1500, random_state=2)
    rows = [f"u{u},{i},{v:g},{k}" for k, ((u, i), v) in enumerate(zip(pairs.tolist(), y, strict=True))]
    (folder / "r.csv").write_text("user,item,rating,timestamp\n" + "\n".join(rows) + "\n")
    (folder / "p.csv").write_text("item,user\n" + "\n".join(f"{i},u{u}" for u, i in pairs[:4].tolist()) + "\n3,new\n")
    return folder


@pytest.fixture(scope="module")
def drawn(ratings):
    saved = ratings / "bayes.safetensors"
    result = run("fit", "bayes", ratings / "r.csv", "--sweeps", 12, "--keep", 4, "-o", saved, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["model"], told["sweeps"]) == ("BayesMF", 12)
    return saved


def test_a_loss_takes_its_parameters_on_the_command_line(ratings, tmp_path):
    saved = tmp_path / "m.safetensors"
    result = run("fit", "plq", ratings / "r.csv", "--loss", "huber:0.5", "-o", saved)
    assert result.exit_code == 0, result.output
    model = load(saved)
    assert model.loss == Huber(0.5)
    assert model.user_factors_.shape[1] == 16  # from the data


def test_what_is_left_out_keeps_the_defaults_of_the_model(ratings, tmp_path):
    """`fit wals` had rank 64, background .05 and reg .01 of its own, `fit bayes` 400 sweeps."""
    table, saved = ratings / "r.csv", tmp_path / "m.safetensors"
    for kind, own in (("wals", halfstep.WALS()), ("plq", PLQMF()), ("bayes", halfstep.BayesMF())):
        assert run("fit", kind, table, "-o", saved).exit_code == 0
        told, wanted = load(saved).get_params(), own.set_params(random_state=0).get_params()
        assert {k: v for k, v in told.items() if k != "loss"} == {k: v for k, v in wanted.items() if k != "loss"}
    assert run("fit", "wals", table, "-o", saved, "--reg-scaling", "count", "--max-iter", 2).exit_code == 0
    assert (load(saved).reg_scaling, load(saved).n_iter_) == ("count", 2)


def test_predictions_of_a_file_have_intervals_where_the_model_has(ratings, drawn, tmp_path):
    out = tmp_path / "out.csv"
    result = run("predict", drawn, ratings / "p.csv", "--level", 0.8, "-o", out)
    assert result.exit_code == 0, result.output
    assert "1 users among 5 pairs were not in the fit" in result.stderr
    rows = list(csv.DictReader(out.open()))
    assert list(rows[0]) == ["user", "item", "prediction", "low", "high"]
    model = load(drawn)
    asked = np.array([[r["user"], int(r["item"])] for r in rows], object)
    with pytest.warns(UserWarning, match="not in the fit"):
        np.testing.assert_allclose(
            [float(r["high"]) for r in rows], model.predict_interval(asked, 0.8)[:, 1], rtol=1e-6
        )
    assert all(float(r["low"]) < float(r["prediction"]) < float(r["high"]) for r in rows)


def test_classes_come_with_probabilities(ratings, tmp_path):
    table, saved = tmp_path / "likes.csv", tmp_path / "m.safetensors"
    rows = [line.split(",") for line in (ratings / "r.csv").read_text().splitlines()[1:]]
    table.write_text("user,item,liked\n" + "\n".join(f"{u},{i},{int(float(v) > 3)}" for u, i, v, _ in rows) + "\n")
    assert run("fit", "plq", table, "--rating", "liked", "--loss", "logistic", "-o", saved).exit_code == 0
    result = run("predict", saved, ratings / "p.csv", "--json")
    first = json.loads(result.stdout)[0]
    assert first["p_0.0"] + first["p_1.0"] == pytest.approx(1)
    assert "has no intervals" in one_line(run("predict", saved, ratings / "p.csv", "--level", 0.5).stderr)


def test_ratings_are_evaluated_beside_constant_and_biases(ratings, drawn):
    result = run(
        *("evaluate", ratings / "r.csv", "--ratings", "-m", drawn, "--estimators", "plq", "--loss", "absolute"),
        *("--metrics", "mae,coverage@0.8", "--splits", 2, "--json"),
    )
    assert result.exit_code == 0, result.output
    models = json.loads(result.stdout)["models"]
    assert {"Biases, absolute", "Constant, squared", "bayes", "PLQMF"} <= models.keys()
    assert set(models["bayes"]["metrics"]) == {"mae", "coverage@0.8"}
    assert len(models["PLQMF"]["splits"]) == 2


def test_a_table_of_ratings_says_what_was_judged(ratings):
    result = run(
        "evaluate", ratings / "r.csv", "--ratings", "--estimators", "plq", "--protocol", "by_time", "--share", 0.2
    )
    assert result.exit_code == 0, result.output
    assert "by_time: 300 ratings of" in result.stdout
    assert "took 'user' as user, 'item' as item, 'rating' as rating, 'timestamp' as timestamp" in result.stderr


def test_ratings_are_tuned_and_the_winner_saved(ratings, tmp_path):
    pytest.importorskip("optuna")
    saved = tmp_path / "best.safetensors"
    result = run(
        *("tune", ratings / "r.csv", "--ratings", "--loss", "quantile:0.9", "--trials", 2, "--protocol", "by_time"),
        *("--save", saved, "--json"),
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["metric"] == "pinball@0.9"
    assert list(told["test"]["models"]) == ["Constant", "Biases", "PLQMF default", "PLQMF tuned"]
    assert isinstance(load(saved), PLQMF)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fit", "plq", "r.csv", "--loss", "hubr:0.5"), "--loss 'hubr' is not known.* Did you mean 'huber'"),
        (
            ("fit", "plq", "r.csv", "--loss", "huber:much"),
            "'much' is not a number; write .*'huber:delta=0.5'",
        ),
        (("fit", "bayes", "r.csv", "--likelihood", "gausian"), "Did you mean 'gaussian'"),
        (("evaluate", "r.csv", "--ratings", "--estimators", "plqm"), "--estimators 'plqm' is not known.*'plq'"),
        (("evaluate", "r.csv", "--ratings", "--protocol", "by_tim"), "Did you mean 'by_time'"),
        (("evaluate", "r.csv", "--ratings", "--metrics", "rsme"), "Did you mean 'rmse'"),
        (("evaluate", "r.csv", "--loss", "absolute"), "for predictions add --ratings; leave out --loss"),
        (("evaluate", "r.csv", "--ratings", "-k", "5"), "--ratings judges predictions, not rankings; leave out --k"),
        (("tune", "r.csv", "--ratings", "--estimators", "plq,bayes"), "one model is tuned at a time"),
        (("predict", "bayes.safetensors", "p.csv", "--level", "1.5"), "--level 1.5 must lie between 0 and 1"),
        (("predict", "bayes.safetensors", "p.csv", "--unknown", "eror"), "Did you mean 'error'"),
        (("predict", "bayes.safetensors", "p.csv", "--unknown", "error"), "1 users that the fit has not seen"),
        (
            ("predict", "bayes.safetensors", "p.csv", "--user", "usr"),
            "--user 'usr' is not a column.*Did you mean 'user'",
        ),
    ],
)
def test_wrong_words_are_one_line(ratings, drawn, monkeypatch, words, message):
    import re

    monkeypatch.chdir(ratings)
    result = run(*words)
    assert result.exit_code in (1, 2)
    assert re.search(message, " ".join(re.sub(r"[│╭╮╰╯─\n]", " ", result.output).split())), result.output
