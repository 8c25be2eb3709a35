"""Files are whole or absent, models come back bit for bit, damaged or foreign files raise."""

import hashlib
import json
import os
import stat
import struct
import sys
import types

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file, save_file

from halfstep.data import container
from halfstep.data.files import ModelFileError, atomic_write, read, register_codec, save
from halfstep.data.ids import Index
from halfstep.data.tensors import Tensor
from halfstep.kinds import load

DTYPES = ["float32", "float64", "int32", "int64", "bool", "uint8"]
reuse_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)


def save_example(path):
    arrays = {
        "user_factors": np.arange(6, dtype=np.float32).reshape(3, 2),
        "item_factors": np.linspace(0, 1, 4).reshape(2, 2),
        "empty": np.empty((0, 5), dtype=np.int32),
        "flags": np.array([True, False, True]),
        "scale": np.array(2.5),
    }
    indexes = {"user": Index(["ä", "", "user-3"], name="user"), "item": Index([7, -1]), "row": Index.range(9)}
    save(path, "WALS", {"rank": 2, "reg": 0.1}, arrays, {"history": [{"objective": 1.5}]}, indexes)
    return arrays, indexes


def rewrite(path, change=lambda document: None, tensors=None, sign=True):
    """The file again with a changed document, its checksum made right unless `sign` is False."""
    found = container.read(path, mapped=False)
    document = json.loads(found.texts["halfstep"])
    change(document)
    text = json.dumps(document)
    seal = hashlib.sha256(text.encode()).digest() if sign else found.tensors["seal"].tobytes()
    tensors = {**(tensors or found.tensors), "seal": np.frombuffer(seal, np.uint8)}
    with path.open("wb") as file:
        container.write(file, {"halfstep": text}, tensors, last="seal")


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.safetensors"
    save_example(path)
    return path


@pytest.mark.parametrize("mmap", [False, True])
def test_everything_comes_back(tmp_path, mmap):
    path = tmp_path / "model.safetensors"
    arrays, indexes = save_example(path)
    saved = read(path, kind="WALS", mmap=mmap)
    assert saved.kind == "WALS"
    assert saved.params == {"rank": 2, "reg": 0.1}
    assert saved.meta == {"history": [{"objective": 1.5}]}
    assert saved.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        back = saved.arrays[name]
        assert back.dtype == array.dtype
        assert np.array_equal(back, array)
        assert back.flags.writeable is not mmap
    assert saved.indexes == indexes
    assert saved.index("user").name == "user"
    assert saved.index("row").is_range


@pytest.mark.parametrize("dtype", DTYPES)
@reuse_folder
@given(data=st.data())
def test_tensors_round_trip_bit_for_bit(tmp_path, dtype, data):
    array = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=4)))
    path = tmp_path / "model.safetensors"
    save(
        path,
        "WALS",
        {},
        {"given": array, "transposed": array.T, "reversed": array[..., ::-1] if array.ndim else array},
    )
    for mmap in (False, True):
        saved = read(path, mmap=mmap)
        assert saved.arrays["given"].tobytes() == array.tobytes()
        assert saved.arrays["transposed"].tobytes() == array.T.tobytes()
        assert saved.arrays["given"].shape == array.shape


def test_big_endian_tensors_are_stored_by_value(tmp_path):
    save(tmp_path / "m", "WALS", {}, {"a": np.array([1, 2], dtype=">i4")})
    assert read(tmp_path / "m").arrays["a"].tolist() == [1, 2]


def test_mapped_arrays_are_views_of_the_file(model):
    array = read(model, mmap=True).arrays["user_factors"]
    assert not array.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1


def test_equal_models_give_equal_bytes(tmp_path, model):
    save_example(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == model.read_bytes()


def test_other_tools_read_the_tensors(model):
    assert load_file(model)["user_factors"].tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 2.5, "text", float("inf"), [1, [2]], {"a": {"b": 1}}, (1, (2, "x")), {"t": (1.5,)},
        np.float32(0.1), np.int64(3), np.bool_(True), np.str_("s"), np.eye(2, 3), np.array([np.inf]),
    ],
    ids=repr,
)  # fmt: skip
def test_parameters_come_back_with_their_types(tmp_path, value):
    save(tmp_path / "m", "WALS", {"value": value}, {})
    back = read(tmp_path / "m").params["value"]
    assert type(back) is type(value)
    assert np.array_equal(back, value) if isinstance(value, np.ndarray) else back == value
    if isinstance(value, np.ndarray | np.generic):
        assert back.dtype == value.dtype


def test_nan_parameters_come_back(tmp_path):
    save(tmp_path / "m", "WALS", {"missing": float("nan")}, {})
    assert np.isnan(read(tmp_path / "m").params["missing"])


class Huber:
    def __init__(self, delta):
        self.delta = delta


def test_codecs_save_objects_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr("halfstep.data.codecs._codecs", dict(persistence_codecs()))
    with pytest.raises(ValueError, match=r"params\['loss'\] of type Huber cannot be saved.*register_codec"):
        save(tmp_path / "m", "WALS", {"loss": Huber(2.0)}, {})
    assert not list(tmp_path.iterdir())
    register_codec(Huber, "loss", lambda loss: {"delta": loss.delta}, lambda stored: Huber(**stored))
    save(tmp_path / "m", "WALS", {"losses": [Huber(2.0)]}, {})
    assert read(tmp_path / "m").params["losses"][0].delta == 2.0
    del persistence_codecs()["loss"]
    saved = read(tmp_path / "m")  # its tensors are still readable
    with pytest.raises(ModelFileError, match="the codec 'loss', which is not registered"):
        _ = saved.params


def persistence_codecs():
    return sys.modules["halfstep.data.codecs"]._codecs


def test_what_cannot_be_saved_raises_before_a_file_appears(tmp_path):
    path = tmp_path / "m"
    with pytest.raises(ValueError, match="the array 'a' has dtype object; files keep float, int, uint and bool"):
        save(path, "WALS", {}, {"a": np.array([None])})
    with pytest.raises(ValueError, match=r"a tensor cannot be called 'ids\.user'"):
        save(path, "WALS", {}, {"ids.user": np.zeros(1)})
    with pytest.raises(ValueError, match=r"id b'x' of type bytes cannot be saved"):
        save(path, "WALS", {}, {}, indexes={"user": Index([b"x"])})
    with pytest.raises(ValueError, match="dtype object cannot be saved among the parameters"):
        save(path, "WALS", {"a": np.array([None])}, {})
    assert not list(tmp_path.iterdir())


def test_missing_parts_and_shapes_are_named(model):
    saved = read(model)
    with pytest.raises(ModelFileError, match=r"model\.safetensors: the tensor 'bias' is missing; .*'empty'"):
        saved.tensors({"bias": Tensor("users")})
    with pytest.raises(
        ModelFileError, match=r"'user_factors' has shape \(3, 2\), not \(users, rank\) with .*'rank': 4"
    ):
        saved.tensors({"user_factors": Tensor("users rank")}, rank=4)
    with pytest.raises(ModelFileError, match=r"'user_factors' has shape \(3, 2\), not \(users\)"):
        saved.tensors({"user_factors": Tensor("users")}, users=3)
    with pytest.raises(ModelFileError, match=r"the ids 'classifier' are missing; .*'item'"):
        saved.index("classifier")


def test_wrong_kind_and_missing_file(tmp_path, model):
    with pytest.raises(ModelFileError, match=r"model\.safetensors holds a WALS, not a PLQMF"):
        read(model, kind="PLQMF")
    with pytest.raises(FileNotFoundError, match=r"absent\.safetensors does not exist"):
        read(tmp_path / "absent.safetensors")
    with pytest.raises(ModelFileError, match="is not a file"):
        read(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b"{}" * 50, b"\xff" * 100])
def test_foreign_files(tmp_path, content):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ModelFileError, match="m is not a safetensors file, or is cut off"):
        read(tmp_path / "m")


def test_safetensors_of_another_program(tmp_path):
    save_file({"weight": np.zeros(3)}, tmp_path / "m")
    with pytest.raises(ModelFileError, match="but not a model saved by halfstep"):
        read(tmp_path / "m")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(schema=99), "schema 99, newer than this version's 2; upgrade halfstep"),
        (lambda d: d.update(schema="old"), "unknown schema 'old'"),
        (lambda d: d.pop("kind"), "its metadata must hold"),
        (lambda d: d.update(tensors=[]), "its metadata must hold"),
        (lambda d: d["tensors"].update(more=["<f4", [1], 0]), "the tensor 'more' is missing"),
        (lambda d: d["tensors"].pop("flags"), r"unexpected tensors \['flags'\]"),
        (lambda d: d["tensors"].update(flags=["|b1", [4], 0]), r"'flags' is bool \(3,\), not"),
        (lambda d: d["tensors"].update(flags=["|b1", [3], 0]), "'flags' is damaged"),
        (lambda d: d["tensors"].update(flags="x"), "model.safetensors: "),
        (lambda d: d["indexes"]["user"].update(length=5), "3 ids where 5 are announced"),
        (lambda d: d["indexes"].update(row=None), "model.safetensors: "),
        (lambda d: d["indexes"].update(other={"kind": "int", "length": 1}), "need a 1-D int64 tensor 'ids'"),
    ],
)
def test_inconsistent_documents(model, change, message):
    rewrite(model, change)
    with pytest.raises(ModelFileError, match=message):
        read(model)


def test_a_changed_document_fails_its_checksum(model):
    rewrite(model, lambda d: d["params"].update(rank=3), sign=False)
    with pytest.raises(ModelFileError, match="its metadata is damaged, the checksum differs"):
        read(model)


def test_deeply_nested_documents_raise(model):
    save_file({}, model, metadata={"halfstep": "[" * 100_000})
    with pytest.raises(ModelFileError, match="its metadata cannot be read"):
        read(model)


@pytest.mark.parametrize("mmap", [False, True])
def test_random_damage_raises_or_changes_nothing(tmp_path, model, mmap):
    whole = model.read_bytes()
    good = read(model)
    rng = np.random.default_rng(0)
    damaged = tmp_path / "damaged.safetensors"
    raised = 0
    for trial in range(400):
        raw = bytearray(whole)
        if trial % 5 == 0:
            raw = raw[: rng.integers(len(raw))]
        else:
            for place in rng.integers(len(raw), size=rng.integers(1, 4)):
                raw[place] ^= 1 << rng.integers(8)
        damaged.write_bytes(raw)
        try:
            saved = read(damaged, mmap=mmap)
        except ModelFileError:
            raised += 1
            continue
        assert {n: (a.shape, a.dtype) for n, a in saved.arrays.items()} == {
            n: (a.shape, a.dtype) for n, a in good.arrays.items()
        }
        assert list(map(len, saved.indexes.values())) == list(map(len, good.indexes.values()))
        assert saved.params == good.params
        if not mmap:  # checksums vouch for the values too
            assert all(np.array_equal(saved.arrays[n], a) for n, a in good.arrays.items())
            assert saved.indexes == good.indexes
    assert raised > 300 if not mmap else raised > 200


@reuse_folder
@given(content=st.binary(max_size=200))
@example(content=struct.pack("<Q", 2) + b"{}")
def test_random_bytes_raise(tmp_path, content):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ModelFileError):
        read(tmp_path / "m")


def test_load_finds_the_estimator_in_the_fixed_table(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    save(path, "WALS", {"rank": 2}, {})
    module = types.ModuleType("halfstep.models.wals")

    class WALS:
        @classmethod
        def from_saved(cls, saved):
            return types.SimpleNamespace(found=(cls.__name__, saved.params["rank"]))

    module.WALS = WALS
    monkeypatch.setitem(sys.modules, "halfstep.models.wals", module)
    assert load(path).found == load(path, mmap=True).found == ("WALS", 2)
    rewrite(path, lambda d: d.update(kind="os:system"))
    with pytest.raises(ModelFileError, match=r"holds a 'os:system'; known estimators are \['WALS'"):
        load(path)


def test_atomic_write_replaces_only_at_the_end(tmp_path):
    target = tmp_path / "file.txt"
    target.write_text("old")
    with atomic_write(target) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".txt"
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_atomic_write_leaves_the_old_file_on_error(tmp_path):
    target = tmp_path / "file.txt"
    target.write_text("old")
    with pytest.raises(TypeError, match="must be str"), atomic_write(target) as temporary:
        temporary.write_text(b"not text")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_atomic_write_writes_through_links(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_write(tmp_path / "link") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_atomic_write_says_what_is_wrong_with_the_folder(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"the folder .*absent does not exist; create it first"):
        atomic_write(tmp_path / "absent" / "m").__enter__()
    with pytest.raises(IsADirectoryError, match="it is a folder; name a file in it"):
        atomic_write(tmp_path).__enter__()

    def refuse(*args, **kwargs):
        raise PermissionError

    monkeypatch.setattr("halfstep.data.atomic.os.open", refuse)  # root may write anywhere, so it is simulated
    with pytest.raises(PermissionError, match=r"the folder .* is not writable"):
        atomic_write(tmp_path / "m").__enter__()
    assert os.listdir(tmp_path) == []
