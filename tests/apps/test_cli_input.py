"""What the command reads and refuses: forms of tables, standard input, names with commas, memory, completion."""

import bz2
import csv
import gzip
import io
import json
import lzma
import os

import pytest
from scipy import sparse

import halfstep

from .command import HALFSTEP, one_line, run, shell

ROWS = [("ann", "x", 2), ("ann", "y", 1), ("bob", "x", 5), ("bob", "z", 1), ("cid", "y", 3)]
TEXT = "customer,sku,clicks,qty\n" + "".join(f"{u},{i},{w},9\n" for u, i, w in ROWS)
LINES = "".join(json.dumps({"customer": u, "sku": i, "clicks": w}) + "\n" for u, i, w in ROWS)
FORMS = {
    "t.csv": TEXT.encode(),
    "t.csv.gz": gzip.compress(TEXT.encode()),
    "t.csv.bz2": bz2.compress(TEXT.encode()),
    "t.tsv.xz": lzma.compress(TEXT.replace(",", "\t").encode()),
    "t.jsonl": LINES.encode(),
    "t.jsonl.gz": gzip.compress(LINES.encode()),
    "utf16.csv": TEXT.encode("utf-16"),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("piped", [False, True], ids=["file", "stdin"])
def test_the_same_table_in_any_form(name, piped, tmp_path):
    path, model = tmp_path / name, tmp_path / "m.safetensors"
    path.write_bytes(FORMS[name])
    words = ("fit", "popularity", "-" if piped else path, "-o", model)
    result = run(*words, input=FORMS[name]) if piped else run(*words)
    assert result.exit_code == 0, result.output
    fitted = halfstep.load(model)
    assert fitted.user_ids_.tolist() == ["ann", "bob", "cid"]
    assert fitted.item_ids_.tolist() == ["x", "y", "z"]


def test_a_zstd_file_and_a_parquet_pipe(tmp_path):
    pa = pytest.importorskip("pyarrow")
    with pa.CompressedOutputStream(str(tmp_path / "t.csv.zst"), "zstd") as stream:
        stream.write(TEXT.encode())
    assert run("fit", "popularity", tmp_path / "t.csv.zst", "-o", tmp_path / "a.safetensors").exit_code == 0
    sink = io.BytesIO()
    pytest.importorskip("pyarrow.parquet").write_table(pa.table({"user": ["u", "v"], "item": [1, 2]}), sink)
    result = run("fit", "popularity", "-", "-o", tmp_path / "b.safetensors", input=sink.getvalue())
    assert result.exit_code == 0, result.output
    assert halfstep.load(tmp_path / "b.safetensors").item_ids_.tolist() == [1, 2]


@pytest.mark.parametrize("piped", [False, True], ids=["file", "stdin"])
def test_a_sparse_matrix_has_row_and_column_numbers_as_ids(piped, tmp_path):
    path = tmp_path / "cells.npz"
    sparse.save_npz(path, sparse.csr_array([[0, 2.0, 1.0], [3.0, 0, 0]]))
    words = ("fit", "popularity", "-" if piped else path, "-o", tmp_path / "m.safetensors")
    result = run(*words, input=path.read_bytes()) if piped else run(*words)
    assert result.exit_code == 0, result.output
    assert halfstep.load(tmp_path / "m.safetensors").item_ids_.tolist() == [0, 1, 2]


def test_other_encodings_are_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("user,item\nJürgen,Öl\n".encode("cp1252"))
    refused = run("fit", "popularity", path, "-o", tmp_path / "m.safetensors")
    assert "is not utf-8 text" in one_line(refused.stderr)
    assert "--encoding 'cp1252'" in one_line(refused.stderr)
    assert run("fit", "popularity", path, "--encoding", "cp1252", "-o", tmp_path / "m.safetensors").exit_code == 0
    assert halfstep.load(tmp_path / "m.safetensors").user_ids_.tolist() == ["Jürgen"]
    unknown = run("fit", "popularity", path, "--encoding", "cp9", "-o", tmp_path / "m.safetensors")
    assert "--encoding 'cp9' is not known" in one_line(unknown.stderr)


def test_nothing_in_a_pipe_is_said(tmp_path):
    result = run("fit", "popularity", "-", "-o", tmp_path / "m.safetensors", input=b"")
    assert "standard input is empty" in one_line(result.stderr)


def test_columns_that_are_not_used_are_named(tmp_path):
    (tmp_path / "t.csv").write_text(TEXT)
    result = run("fit", "popularity", tmp_path / "t.csv", "-o", tmp_path / "m.safetensors")
    assert "'clicks' as weight; 'qty' not used" in result.stderr


def test_ratings_that_are_taken_as_weights_are_mentioned_unless_asked_for(tmp_path):
    table, model = tmp_path / "t.csv", tmp_path / "m.safetensors"
    table.write_text("user,item,rating\na,x,1\na,y,5\nb,x,4\n")
    detected = run("fit", "popularity", table, "-o", model)
    assert "warning: the ratings in 'rating' are taken as weights" in detected.stderr
    assert "`halfstep fit plq`" in detected.stderr
    assert "warning" not in run("fit", "popularity", table, "--weight", "rating", "-o", model).stderr
    assert "warning" not in run("fit", "popularity", table, "--weight", "none", "-o", model).stderr


def test_a_model_is_never_written_over_its_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(TEXT)
    (tmp_path / "plain").write_text(TEXT)
    refused = run("fit", "popularity", "t.csv", "-o", "t.csv")
    assert "is the file that is read" in one_line(refused.stderr)
    assert "is the file that is read" in one_line(run("fit", "popularity", "plain", "-o", "./plain").stderr)
    other = run("fit", "popularity", "t.csv", "-o", "model.parquet")
    assert "a model is no .parquet file; call it model.safetensors" in one_line(other.stderr)
    assert (tmp_path / "t.csv").read_text() == TEXT
    assert not (tmp_path / "model.parquet").exists()


@pytest.mark.parametrize("kind", ["wals", "plq", "bayes"])
def test_a_rank_beyond_this_machine_states_its_memory_before_trying(kind, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("user,item,rating\na,x,1\na,y,5\nb,x,4\n")
    result = run("fit", kind, table, "--rank", 300_000_000, "-o", tmp_path / "m.safetensors")
    assert result.exit_code == 1
    assert "a fit at rank 300,000,000 needs" in one_line(result.stderr)
    assert "this machine has" in one_line(result.stderr)


@pytest.fixture(scope="module")
def commas(tmp_path_factory):
    """A model whose items have commas in their names."""
    folder = tmp_path_factory.mktemp("commas")
    rows = [(f"u{k % 5}", item) for k, item in enumerate(["plan, budget", "sell", "read; write", "plan, budget"] * 4)]
    with open(folder / "t.csv", "w", newline="") as stream:
        csv.writer(stream).writerows([("user", "item"), *rows])
    path = folder / "m.safetensors"
    assert run("fit", "knn", folder / "t.csv", "-o", path).exit_code == 0
    return path


def test_names_with_commas_are_given_one_by_one_or_in_a_file(commas, tmp_path):
    names = tmp_path / "has.txt"
    names.write_text("plan, budget\n\nsell\n")
    one = run("recommend", commas, "--item", "plan, budget", "--item", "sell", "--json")
    assert one.exit_code == 0, one.output
    assert [row["item"] for row in json.loads(one.stdout)] == ["read; write"]
    assert run("recommend", commas, "--items-file", names, "--json").stdout == one.stdout
    assert run("recommend", commas, "--items", '"plan, budget", sell', "--json").stdout == one.stdout
    out = run("recommend", commas, "--user", "u1", "--exclude", f"@{names}", "--json")
    assert {row["item"] for row in json.loads(out.stdout)} <= {"read; write"}
    assert run("explain", commas, "--item", "read; write", "--items-file", names).exit_code == 0


@pytest.mark.parametrize("form", ["table", "csv", "tsv", "json", "jsonl"])
@pytest.mark.parametrize("words", [("similar", "{model}", "--item", "sell"), ("info", "{model}"), ("info",)])
def test_every_answer_is_printed_in_every_form(form, words, commas):
    result = run(*(str(word).format(model=commas) for word in words), "--format", form)
    assert result.exit_code == 0, result.output
    if form == "json":
        assert json.loads(result.stdout)
    elif form == "jsonl":
        assert all(json.loads(line) for line in result.stdout.splitlines())
    elif form in ("csv", "tsv"):
        assert (
            len({len(row) for row in csv.reader(result.stdout.splitlines(), delimiter={"csv": ","}.get(form, "\t"))})
            == 1
        )
    assert run("similar", commas, "--item", "sell", "--format", "yaml").exit_code == 1


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_an_evaluation_is_written_in_any_form(ending, tmp_path):
    pytest.importorskip("pyarrow")
    out = tmp_path / f"result.{ending}"
    words = ("--rank", 4, "--protocol", "leave_k_out", "--leave-out", 2, "--metrics", "ndcg")
    assert run("evaluate", "sample", *words, "-o", out).exit_code == 0
    if ending == "csv":
        rows = list(csv.DictReader(out.read_text().splitlines()))
        assert [row["model"] for row in rows] == ["Popularity", "ItemKNN", "WALS"]


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "wals", "t.csv", "--user", "usr"),
        ("fit", "wals", "t.csv", "--loss", "squard"),
        ("fit", "wals", "t.csv", "--weighting", "lg"),
        ("fit", "wals", "t.csv", "--duplicates", "add"),
        ("fit", "wals", "t.csv", "--reg-scaling", "counts"),
        ("fit", "knn", "t.csv", "--similarity", "cos"),
        ("fit", "plq", "t.csv", "--rating", "stars"),
        ("fit", "bayes", "t.csv", "--rating", "clicks", "--likelihood", "normal"),
        ("evaluate", "t.csv", "--protocol", "random_split"),
        ("evaluate", "t.csv", "--metrics", "nddcg"),
        ("fit", "ensemble", "t.csv", "--label", "lbl"),
        ("fit", "ensemble", "t.csv"),
    ],
)
def test_errors_have_no_python_in_them(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(TEXT)
    result = run(*words)
    assert result.exit_code == 1
    text = one_line(result.stderr)
    for spelling in ("=", "['", "']", "None", "path_or_frame", "random_state"):
        assert spelling not in text, text


def complete(*words: str, **options: object) -> list[str]:
    """What bash would offer after these words."""
    line = " ".join(["halfstep", *words])
    asked = {"_HALFSTEP_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    found = shell(env=os.environ | asked, **options)
    return [each.strip() for each in found.stdout.split("\n") if each.strip()]


@pytest.mark.heavy
def test_values_are_completed(commas, tmp_path):
    (tmp_path / "t.csv").write_text(TEXT)
    assert HALFSTEP
    assert "huber" in complete("fit", "plq", "r.csv", "--loss", "hub")
    assert complete("fit", "wals", "t.csv", "--user", "cust", cwd=tmp_path) == ["customer"]
    assert complete("recommend", str(commas), "--user", "u1") == ["u1"]
    assert "m.safetensors" in complete("recommend", "m", cwd=commas.parent)
