"""Files that somebody made to do harm: every checksum right, and still nothing but a ModelFileError."""

import numpy as np
import pytest

import halfstep as hs
from halfstep.data.files import ModelFileError

from .zoo import ZOO, answers, fitted, parts_of, put_together

KINDS = list(ZOO)
NAN = {"$codec": "float", "value": "nan"}
LEARNED = ("aggregator.", "member.", "view.")


def spoiled(tmp_path, name, change):
    """A model file whose document and tensors `change` has changed."""
    path = tmp_path / f"{name}.safetensors"
    fitted(name).save(path)
    document, tensors = parts_of(path)
    change(document, tensors)
    put_together(path, document, tensors)
    return path


@pytest.mark.parametrize("name", KINDS)
def test_a_file_that_was_only_taken_apart_still_loads(tmp_path, name):
    path = spoiled(tmp_path, name, lambda document, tensors: None)
    for ours, theirs in zip(answers(name, fitted(name)), answers(name, hs.load(path)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6 if name == "Blend" else 0)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("name", ["WALS", "PLQMF", "BayesMF", "Blend", "EASE"])
def test_offsets_that_fall_are_refused_in_any_dtype(tmp_path, name, mmap):
    """As uint32, differences wrap around, and np.diff(indptr) >= 0 holds whatever they are."""

    def change(document, tensors, dtype=np.uint32):
        tensors["indptr"] = tensors["indptr"].astype(dtype)
        tensors["indptr"][2] = tensors["indptr"][-1]
        tensors["indptr"][3] = 0

    for dtype in (np.uint32, np.int64):
        path = spoiled(tmp_path, name, lambda d, t, dtype=dtype: change(d, t, dtype))
        with pytest.raises(ModelFileError, match="'indptr'"):
            hs.load(path, mmap=mmap)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("value", [-1, 9, 2**31 - 1])
def test_places_outside_the_items_are_refused(tmp_path, value, mmap):
    def change(document, tensors):
        tensors["indices"][0] = value

    with pytest.raises(ModelFileError, match="'indices' must hold places below"):
        hs.load(spoiled(tmp_path, "WALS", change), mmap=mmap)


@pytest.mark.parametrize("name", KINDS)
def test_no_tensor_may_have_another_dtype_shape_or_a_nan(tmp_path, name):
    path = tmp_path / "whole.safetensors"
    fitted(name).save(path)
    for tensor in parts_of(path)[1]:
        for change in (
            lambda t: t.astype(np.float16),
            lambda t: t[..., None],
            lambda t: np.concatenate([t, t[:1]]) if t.ndim and len(t) else t[None],
            lambda t: np.full_like(t, np.inf) if t.dtype.kind == "f" and t.size else t.astype(np.uint16),
            lambda t: np.full_like(t, -7) if t.dtype.kind == "i" and t.size else t.astype(np.int8),
        ):

            def spoil(document, tensors, tensor=tensor, change=change):
                tensors[tensor] = change(tensors[tensor])

            try:
                model = hs.load(spoiled(tmp_path, name, spoil))
            except ModelFileError:
                continue
            assert tensor.startswith(LEARNED), tensor  # a strength may be infinite, and some are broadcast
            assert all(np.isfinite(a).all() for a in answers(name, model))


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("WALS", "item_factors"),
        ("WALS-words", "user_feature_weights"),
        ("ItemGraph", "similar_values"),
        ("PLQMF", "user_rows"),
        ("BayesMF", "users"),
        ("CFEnsembleCV", "member.0.coefficients"),
    ],
)
def test_numbers_whose_products_are_infinite_are_refused(tmp_path, name, tensor):
    """They are finite, and what they answer is infinity less infinity."""

    def change(document, tensors):
        tensors[tensor].reshape(-1)[0] = np.finfo(tensors[tensor].dtype).max

    with pytest.raises(ModelFileError, match=f"'{tensor}' must hold numbers whose products are finite"):
        hs.load(spoiled(tmp_path, name, change))


@pytest.mark.parametrize("name", KINDS)
def test_an_unknown_parameter_or_tensor_is_named(tmp_path, name):
    with pytest.raises(ModelFileError, match="has no parameter 'colour'"):
        hs.load(spoiled(tmp_path, name, lambda document, tensors: document["params"].update(colour=1)))
    with pytest.raises(ModelFileError, match=r"has no tensors \['extra'\]"):
        hs.load(spoiled(tmp_path, name, lambda document, tensors: tensors.update(extra=np.zeros(3))))


@pytest.mark.parametrize("name", [k for k in KINDS if k not in ("Constant", "Biases", "Blend", "Popularity")])
def test_more_threads_than_the_machine_bears_are_cut(tmp_path, name):
    path = spoiled(tmp_path, name, lambda document, tensors: document["params"].update(n_threads=2**31 - 1))
    for ours, theirs in zip(answers(name, fitted(name)), answers(name, hs.load(path)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_parameters_that_make_no_sense_are_refused(tmp_path):
    for value in ("float16", "<U5", 3, None):
        with pytest.raises(ModelFileError, match="dtype"):
            hs.load(spoiled(tmp_path, "WALS", lambda d, t, value=value: d["params"].update(dtype=value)))


@pytest.mark.heavy
@pytest.mark.parametrize("name", KINDS)
def test_random_changes_with_repaired_checksums(tmp_path, name):
    """No crash, no other error than ModelFileError, and no model that answers with NaN."""
    from .mutate import hammer

    assert hammer(tmp_path, name, trials=150, seed=0) > 20


@pytest.mark.parametrize(
    ("part", "value"),
    [
        (("eta",), NAN),
        (("eta",), -1),
        (("share",), NAN),
        (("share",), 7),
        (("features", "blocks", 0, "mean"), NAN),
        (("features", "blocks", 0, "scale"), 0),
        (("features", "blocks", 0, "column"), ["age"]),
        (("features", "blocks", 1, "values"), "ab"),
        (("features", "blocks", 2, "columns"), []),
        (("features", "blocks", 2, "idf"), [1.0]),
        (("features", "blocks", 2, "idf"), [NAN, 1.0, 1.0, 1.0]),
        (("features", "blocks", 2, "words"), ["tram", "tram", "train", "train"]),
    ],
)
def test_features_as_nobody_learned_them_are_refused(tmp_path, part, value):
    """They were taken as they stand, and what was then asked ended in an IndexError, a TypeError or a NaN."""

    def change(document, tensors):
        place = document["meta"]["features"]["user"]
        for key in part[:-1]:
            place = place[key]
        place[part[-1]] = value

    with pytest.raises(ModelFileError, match=r"(features|column|share|idf|eta)"):
        hs.load(spoiled(tmp_path, "WALS-words", change))
