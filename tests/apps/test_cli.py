"""The command as people and scripts use it: results, exit codes, one-line errors, pipes and Ctrl-C."""

import csv
import json
import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")

import halfstep
from halfstep.apps.console import listed
from halfstep.apps.written import plain

from .command import HALFSTEP, one_line, run, shell


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "skills.safetensors"
    result = run("fit", "wals", "sample", "-o", path, "--rank", 8)
    assert result.exit_code == 0, result.output
    return path


def test_help_of_every_command_has_an_example():
    text = run("--help").output
    for command in ("demo", "fit", "recommend", "similar", "explain", "evaluate", "tune", "report", "serve", "bench"):
        assert command in text
        pages = [("fit", kind) for kind in ("wals", "plq", "ensemble")] if command == "fit" else [(command,)]
        for page in pages:
            result = run(*page, "--help")
            assert result.exit_code == 0
            assert f"halfstep {' '.join(page)} " in result.output, page


def test_fit_says_what_it_read_and_writes_a_model(model, tmp_path):
    result = run("fit", "wals", "sample", "-o", tmp_path / "m.safetensors", "--rank", 4, "--json")
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    fitted = halfstep.load(tmp_path / "m.safetensors")
    assert facts["sweeps"] == fitted.n_iter_
    assert facts["objective"] == pytest.approx(fitted.objective_)
    assert fitted.rank == 4
    assert "111 occupations" in result.stderr


def test_fit_detects_columns_and_says_so(tmp_path):
    table = tmp_path / "clicks.csv"
    table.write_text("customer_id,sku,clicks,note\n1,a,2,x\n1,b,1,y\n2,a,5,z\n2,c,1,w\n")
    result = run("fit", "wals", table, "-o", tmp_path / "m.safetensors", "--rank", 2)
    assert result.exit_code == 0, result.output
    assert "'customer_id' as user, 'sku' as item, 'clicks' as weight" in result.stderr
    assert halfstep.load(tmp_path / "m.safetensors").user_ids_.tolist() == [1, 2]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_fit_reads_binary_tables(tmp_path, suffix):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"user": ["u", "u", "v"], "item": ["a", "b", "a"]})
    path = tmp_path / f"t{suffix}"
    if suffix == ".parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    else:
        pytest.importorskip("pyarrow.feather").write_feather(table, path)
    assert run("fit", "wals", path, "-o", tmp_path / "m.safetensors", "--rank", 1).exit_code == 0
    assert halfstep.load(tmp_path / "m.safetensors").user_ids_.tolist() == ["u", "v"]


def test_recommend_in_a_pipe_is_tab_separated_and_equals_the_model(model):
    result = run("recommend", model, "--user", "data scientist", "-n", 3)
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(result.stdout.splitlines(), delimiter="\t"))
    expected = halfstep.load(model).recommend("Data scientist", 3)
    assert [row["item"] for row in rows] == expected.ids.tolist()
    assert [float(row["score"]) for row in rows] == pytest.approx(expected.scores.tolist())


def test_recommend_for_somebody_new_with_reasons(model):
    result = run("recommend", model, "--items", "Python, SQL", "--why", "--json", "-n", 4, "--exclude", "R")
    rows = json.loads(result.stdout)
    assert len(rows) == 4
    assert all(row["item"] not in ("Python", "SQL", "R") for row in rows)
    assert {part for row in rows for part in row["why"].split(", ")} == {"Python", "SQL"}


def test_several_users_are_told_apart(model):
    result = run("recommend", model, "-u", "Accountant", "-u", "Data scientist", "-n", 2, "--json")
    assert [row["user"] for row in json.loads(result.stdout)] == ["Accountant"] * 2 + ["Data scientist"] * 2


def test_recommend_everybody_to_parquet(model, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run("recommend", model, "--all", "-n", 2, "-o", tmp_path / "all.parquet").exit_code == 0
    assert parquet.read_table(tmp_path / "all.parquet").num_rows == 222


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".json", ".jsonl", ".parquet", ".arrow"])
def test_output_formats_hold_the_same_rows(model, tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    if suffix in (".parquet", ".arrow"):
        pytest.importorskip("pyarrow")
    assert run("similar", model, "--item", "Python", "-n", 3, "-o", path).exit_code == 0
    expected = halfstep.load(model).similar_items("Python", 3).ids.tolist()
    if suffix in (".csv", ".tsv"):
        rows = list(csv.DictReader(path.read_text().splitlines(), delimiter="," if suffix == ".csv" else "\t"))
    elif suffix == ".json":
        rows = json.loads(path.read_text())
    elif suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    elif suffix == ".parquet":
        rows = pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    else:
        rows = pytest.importorskip("pyarrow.feather").read_table(path).to_pylist()
    assert [row["item"] for row in rows] == expected


def test_explanation_sums_to_the_score(model):
    result = run("explain", model, "--items", "Python,SQL", "--item", "R", "--json")
    parts = [row["contribution"] for row in json.loads(result.stdout)]
    score = halfstep.load(model).recommend_for(["Python", "SQL"], 1, candidates=["R"]).scores[0]
    assert sum(parts) == pytest.approx(score, rel=1e-4)


def test_evaluate_as_json_has_the_baselines(model):
    result = run("evaluate", "sample", "--rank", 8, "--protocol", "leave_k_out", "--leave-out", 3, "--json")
    assert result.exit_code == 0, result.output
    assert list(json.loads(result.stdout)["models"]) == ["Popularity", "ItemKNN", "WALS"]


def test_evaluate_takes_the_parameters_of_a_saved_model(model):
    options = ("--protocol", "leave_k_out", "--leave-out", 3, "--json", "--metrics", "ndcg")
    by_file = json.loads(run("evaluate", "sample", "-m", model, *options).stdout)["models"]["skills"]["metrics"]
    by_hand = json.loads(run("evaluate", "sample", "--rank", 8, *options).stdout)["models"]["WALS"]["metrics"]
    assert by_file == by_hand


def test_info_of_the_build_and_of_a_model(model):
    assert json.loads(run("info", "--json").stdout)["halfstep"] == halfstep.__version__
    facts = json.loads(run("info", model, "--json").stdout)
    assert facts["kind"] == "WALS"
    assert facts["users"] == 111


def test_bench_measures_four_things():
    options = ("--users", 300, "--items", 200, "--cells", 4000, "--rank", 4, "--sweeps", 1, "--threads", 1)
    result = run("bench", *options, "--json")
    assert result.exit_code == 0, result.output
    assert all(row["seconds"] > 0 for row in json.loads(result.stdout))
    assert len(json.loads(result.stdout)) == 4


# ---------------------------------------------------------------------- bad input


def test_a_misspelt_item_gets_a_suggestion(model):
    result = run("recommend", model, "--items", "Pyton")
    assert result.exit_code == 1
    assert one_line(result.stderr) == "halfstep: item 'Pyton' is not in this model. Did you mean 'Python'?"


@pytest.mark.parametrize("damage", ["foreign", "truncated", "missing"])
def test_files_that_are_no_models(model, tmp_path, damage):
    path = tmp_path / "broken.safetensors"
    if damage == "foreign":
        path.write_text("a,b\n1,2\n")
    elif damage == "truncated":
        path.write_bytes(model.read_bytes()[:2000])
    done = shell("recommend", path, "--items", "Python")
    assert done.returncode == 1
    assert done.stdout == ""
    text = "does not exist" if damage == "missing" else "is not a safetensors file, or is cut off"
    assert text in one_line(done.stderr)


def test_missing_columns_are_listed(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("alpha,beta\n1,2\n")
    result = run("fit", "wals", table, "-o", tmp_path / "m.safetensors")
    assert result.exit_code == 1
    assert "the columns are alpha, beta" in one_line(result.stderr)
    result = run("fit", "wals", table, "--user", "alfa", "-o", tmp_path / "m.safetensors")
    assert "Did you mean 'alpha'?" in one_line(result.stderr)


def test_a_file_that_is_not_there_gets_a_suggestion(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("clicks.csv").write_text("user,item\n1,2\n")
    result = run("fit", "wals", "click.csv")
    assert result.exit_code == 1
    assert one_line(result.stderr) == "halfstep: there is no file or folder click.csv; did you mean clicks.csv?"


@pytest.mark.parametrize("where", ["no/such/folder/m.safetensors", "."])
def test_output_that_cannot_be_written_fails_before_the_work(tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    result = run("fit", "wals", "sample", "-o", where)
    assert result.exit_code == 1
    assert "cannot write" in one_line(result.stderr)
    assert "111 occupations" not in result.stderr


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder nobody may write to")
def test_no_write_permission(model):
    done = shell("similar", model, "--item", "Python", "-o", "/proc/out.csv")
    assert done.returncode == 1
    assert "/proc" in one_line(done.stderr)


def test_unknown_output_format(model, tmp_path):
    result = run("similar", model, "--item", "Python", "-o", tmp_path / "x.xlsx")
    assert result.exit_code == 1
    assert "the ending '.xlsx' is not known" in one_line(result.stderr)


@pytest.mark.parametrize(
    "arguments", [("recommend", "m"), ("nonsense",), ("fit", "wals", "sample", "--rank", "0"), ("similar", "m")]
)
def test_wrong_usage_is_code_2(arguments):
    assert run(*arguments).exit_code == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [["--help"], ["recommend", "{model}", "--user", "Economist"], ["similar", "-h"]])
def test_output_that_is_full_is_one_line(model, arguments):
    with open("/dev/full", "w") as full:
        command = [*HALFSTEP, *(part.format(model=model) for part in arguments)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stderr.strip()) == (1, "halfstep: No space left on device")


def test_output_that_was_closed_is_nobody_s_loss(model):
    close = {"preexec_fn": lambda: os.close(1), "stderr": subprocess.PIPE, "text": True, "timeout": 120}
    done = subprocess.run([*HALFSTEP, "recommend", str(model), "--user", "Economist"], **close)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pipe_that_is_gone(model):
    process = subprocess.Popen(
        [*HALFSTEP, "recommend", str(model), "--items", "Python", "-n", "300"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    error = process.stderr.read()
    assert process.wait(60) == 1
    assert one_line(error) == "halfstep: the reader of the output has gone away; the rest was not written"


@pytest.mark.heavy
def test_ctrl_c_keeps_the_last_finished_sweep(tmp_path):
    path = tmp_path / "m.safetensors"
    command = [
        *HALFSTEP,
        "fit",
        "wals",
        "sample",
        "-o",
        str(path),
        "--rank",
        "4",
        "--max-iter",
        "10000000",
        "--tol",
        "0",
    ]
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert "111 occupations" in process.stderr.readline()
            assert "Ctrl-C keeps the last finished one" in process.stderr.readline()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(5.0)  # it would go on for hours; a busy machine needs time for the first sweep
            process.send_signal(signal.SIGINT)
            error = process.stderr.read()
            assert process.wait(60) == 130
        finally:
            process.kill()
    assert "is kept as" in error
    assert "Traceback" not in error
    fitted = halfstep.load(path)
    assert fitted.n_iter_ >= 1
    assert np.isfinite(fitted.user_factors_).all()


def test_tracebacks_on_request(tmp_path):
    done = shell("info", tmp_path / "none", env={**os.environ, "HALFSTEP_DEBUG": "1"})
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_values_become_plain_json():
    assert plain({"a": np.float32(0.1), "b": float("nan"), "c": np.arange(2), "d": np.int64(3)}) == {
        "a": 0.1,
        "b": None,
        "c": [0, 1],
        "d": 3,
    }


def test_lists_keep_quoted_commas():
    assert listed('Python, "plan, do, check" ,SQL') == ["Python", "plan, do, check", "SQL"]
