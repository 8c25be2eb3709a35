"""Text files: what would be read as less than it is gets one clear error, and both engines agree on all of it."""

import bz2
import gzip
import io
import lzma
import zipfile

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import halfstep as hs
from halfstep.data.datasets import _archive
from halfstep.data.datasets._columns import numbers_of
from halfstep.data.datasets._delimited import Delimited

ENGINES = ("python", "arrow")


def read(data, engine, **options):
    """Everything that is read, or the text of the error."""
    try:
        text = Delimited(data, "t.csv", **options)
        wanted = {name: numbers_of if k == 2 else None for k, name in enumerate(dict.fromkeys(text.names))}
        found = text.read(wanted, engine)
    except ValueError as error:
        return str(error)
    columns = {
        name: [str(v) for v in c.expand()] if hasattr(c, "expand") else [repr(float(x)) for x in c]
        for name, c in found.columns.items()
    }
    return found.rows, found.broken, columns


LINES = "user,item,n\n" + "".join(f"u{k},i{k},{k}\n" for k in range(10_000))


@pytest.mark.parametrize("engine", ENGINES)
def test_one_stray_quote_does_not_drop_the_rest(engine):
    data = LINES.replace("u10,", 'u10,"', 1).encode()
    said = read(data, engine)
    assert said.startswith("t.csv: line 12 opens a quote that is not closed in that line; close it")
    assert read(data.replace(b"i9000,", b'i9000",'), engine) == said  # even where another one closes it far below


@pytest.mark.parametrize("engine", ENGINES)
def test_ends_of_lines_inside_quotes_are_read_where_asked_for(engine):
    data = b'user,item,n\n"a\nb",x,1\nc,"y ""z""",2\n'
    assert "line 2 opens a quote" in read(data, engine)
    rows, broken, columns = read(data, engine, multiline=True)
    assert (rows, broken, columns["user"], columns["item"]) == (2, 0, ["a\nb", "c"], ["x", 'y "z"'])
    assert "line 2 opens a quote that is not closed; close it" in read(data[:16], engine, multiline=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_carriage_returns_alone(engine):
    assert "carriage returns alone; save it with line feeds" in read(b"user,item,n\ra,b,1\rc,d,2\r", engine)
    assert "line 3 holds a carriage return that is no end of a line" in read(b"user,item,n\na,b,1\nc\r,d,2\n", engine)
    assert read(b"user,item,n\r\na,b,1\r\n", engine) == read(b"user,item,n\na,b,1\n", engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_bytes_that_are_no_text_wherever_they_stand(engine):
    for column in range(3):
        fields = [b"a", b"b", b"1"]
        fields[column] = b"\xe9"
        with pytest.raises(ValueError, match=r"^t\.csv is not utf-8 text \(.* in line 3\); save it as utf-8"):
            Delimited(b"user,item,n\nx,y,2\n" + b",".join(fields) + b"\n", "t.csv").read({"user": None}, engine)
    assert "line 2 holds a zero byte" in read(b"user,item,n\na\0,b,1\n", engine)


fields = st.text(st.sampled_from(list("ab1.5e-+ \"',;\t\r\n\0é\ufeff_x")), max_size=5)
numbers = st.sampled_from(
    [
        "1",
        "-2.5",
        "1e5",
        "",
        " 3",
        "3 ",
        "+4",
        "1_0",
        "0x1",
        "inf",
        "-Infinity",
        "nan",
        "1e400",
        ".5",
        "5.",
        "١",
        '"7"',
        "1e",
    ]
)
rows = st.lists(st.tuples(fields, fields, numbers | fields).map(",".join), max_size=6)


@settings(deadline=None, max_examples=400)
@given(
    rows=rows,
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    multiline=st.booleans(),
    quoted=st.booleans(),
    delimiter=st.sampled_from([",", "\t", ";"]),
)
@example(rows=['a"b,"c,1', "d,e,2"], end="\n", last=True, multiline=False, quoted=True, delimiter=",")
@example(rows=['"a"b"c,d,1', '""""",x,1'], end="\n", last=False, multiline=True, quoted=True, delimiter=",")
@example(rows=["", "  ", ",,"], end="\r\n", last=True, multiline=False, quoted=True, delimiter=",")
def test_both_engines_agree_on_everything(rows, end, last, multiline, quoted, delimiter):
    text = end.join(["user,item,n", *rows]).replace(",", delimiter) + (end if last else "")
    python, arrow = (read(text.encode(), e, multiline=multiline, quoted=quoted, delimiter=delimiter) for e in ENGINES)
    assert python == arrow


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=60))
def test_both_engines_agree_on_any_bytes(data):
    python, arrow = (read(b"user,item,n\n" + data, engine) for engine in ENGINES)
    assert python == arrow


def packed(kind, data):
    if kind == "zip":
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("t.csv", data)
        return stream.getvalue()
    if kind == "zst":
        pyarrow = pytest.importorskip("pyarrow")
        stream = pyarrow.BufferOutputStream()
        with pyarrow.CompressedOutputStream(stream, "zstd") as out:
            out.write(data)
        return stream.getvalue().to_pybytes()
    return {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[kind](data)


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst", "zip"])
def test_a_file_that_unpacks_to_far_more_than_anybody_packs_is_refused(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(_archive, "SURELY_HARMLESS", 100_000)
    path = tmp_path / f"t.csv.{kind}"
    path.write_bytes(packed(kind, LINES.encode()))
    assert hs.datasets.read_interactions(path).matrix.shape == (10_000, 10_000)
    path.write_bytes(packed(kind, b"user,item,n\n" + b"a,b,1\n" * 2_000_000))
    with pytest.raises(ValueError, match=r"cannot be unpacked: it holds more than [\d,]+ bytes, over 100 times"):
        hs.datasets.read_interactions(path)


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst", "zip"])
def test_a_packed_file_that_is_cut_or_changed_is_one_error(tmp_path, kind):
    path, whole = tmp_path / f"t.csv.{kind}", packed(kind, LINES.encode())
    rng = np.random.default_rng(0)
    for trial in range(30):
        raw = bytearray(whole)
        if trial % 2:
            raw = raw[: rng.integers(10, len(raw))]
        else:
            raw[rng.integers(10, len(raw))] ^= 255
        path.write_bytes(raw)
        try:
            hs.datasets.read_interactions(path)
        except (ValueError, FileNotFoundError) as error:
            assert len(str(error).splitlines()) == 1  # noqa: PT017


def test_a_sparse_matrix_in_a_bomb_is_refused(tmp_path, monkeypatch):
    from scipy import sparse

    monkeypatch.setattr(_archive, "SURELY_HARMLESS", 1000)
    sparse.save_npz(tmp_path / "m.npz", sparse.csr_array(np.ones((600, 600))))
    with pytest.raises(ValueError, match=r"m\.npz is no zip of arrays, or holds over 100 times its size"):
        hs.datasets.read_interactions(tmp_path / "m.npz")
