"""Fits that are killed and resumed have the bits of fits that were left alone; files of other fits are refused."""

from pathlib import Path

import numpy as np
import pytest

import halfstep as hs
from halfstep.data.sweeps import digest_of, seconds_of
from halfstep.errors import CheckpointError

from .kills import FITS, interactions, predictions, ratings, survive


@pytest.mark.heavy
@pytest.mark.parametrize("name", FITS)
def test_killed_fits_go_on_with_the_same_bits(name: str, tmp_path: Path) -> None:
    assert survive(name, 3, tmp_path)[0] == 3


class Lost(Exception):
    pass


def lost_at(sweep: int):
    def callback(record):
        if record["iteration"] == sweep:
            raise Lost

    return callback


MODELS = {
    "WALS": (hs.WALS(rank=4, max_iter=8, tol=0.0, random_state=0), lambda: (interactions()[:40, :30],)),
    "WALS in float64 half way": (
        hs.WALS(rank=40, reg=1e-7, background=1.0, max_iter=8, tol=0.0, random_state=0),
        lambda: (interactions()[:40, :30],),
    ),
    "PLQMF": (hs.PLQMF(3, "absolute", max_iter=8, tol=0.0, random_state=0), lambda: tuple(v[:500] for v in ratings())),
    "CFEnsemble": (hs.CFEnsemble(rank=2, max_iter=8, tol=0.0), lambda: tuple(v[:200] for v in predictions())),
}


def bits(model) -> list[np.ndarray]:
    rows = [model.classifier_factors_, model.instance_factors_] if hasattr(model, "classifier_factors_") else None
    return rows or [model.user_factors_, model.item_factors_]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("every", [1, 3, "0s"])
def test_a_lost_fit_goes_on(name: str, every: int | str, tmp_path: Path) -> None:
    from sklearn.base import clone

    model, data = MODELS[name]
    expected = bits(clone(model).fit(*data()))
    path = tmp_path / "fit.safetensors"
    kept = clone(model).set_params(checkpoint=path, every=every)
    with pytest.raises(Lost):
        clone(kept).set_params(callbacks=[lost_at(6)]).fit(*data())
    with pytest.raises(CheckpointError, match="pass resume=True to continue from it"):
        clone(kept).fit(*data())
    seen = []
    again = clone(kept).set_params(resume=True, callbacks=[lambda record: seen.append(record["iteration"])])
    again.fit(*data())
    assert seen == ([4, 5, 6, 7, 8] if every == 3 else [6, 7, 8])
    for got, wanted in zip(bits(again), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    third = bits(clone(kept).set_params(resume=True, callbacks=[lost_at(1)]).fit(*data()))  # nothing is left to do
    np.testing.assert_array_equal(third[0], expected[0])


def test_the_checkpoint_of_another_fit_is_refused(tmp_path: Path) -> None:
    path, X = tmp_path / "fit.safetensors", interactions()[:40, :30]
    hs.WALS(rank=4, max_iter=2, random_state=0, checkpoint=path).fit(X)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match="is of another fit: parameters differ"):
        hs.WALS(rank=5, max_iter=2, random_state=0, checkpoint=path, resume=True).fit(X)
    with pytest.raises(CheckpointError, match="is of another fit: data differ"):
        hs.WALS(rank=4, max_iter=2, random_state=0, checkpoint=path, resume=True).fit(X + 1)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resume": True}, "resume=True needs `checkpoint`"),
        ({"checkpoint": "x", "random_state": None}, "does not go with checkpoint"),
        ({"every": 0}, "every=0 must be a whole number of at least 1"),
        ({"every": "soon"}, "every='soon' must be a whole number of sweeps, or seconds such as '60s'"),
        ({"checkpoint": "x", "warm_start": True}, "warm_start=True does not go with checkpoint"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        hs.WALS(rank=2, **{"random_state": 0} | settings).fit(interactions()[:10, :10])
    assert not list(tmp_path.iterdir())


def test_a_model_file_does_not_say_where_its_fit_was_kept(tmp_path: Path) -> None:
    model = hs.WALS(rank=2, random_state=0, checkpoint=tmp_path / "kept.safetensors").fit(interactions()[:20, :10])
    model.save(tmp_path / "model.safetensors")
    assert hs.load(tmp_path / "model.safetensors").checkpoint is None


def test_restarts_and_quantiles_are_kept_beside_each_other(tmp_path: Path) -> None:
    pairs, y = (values[:800] for values in ratings())
    loss = hs.losses.Quantiles((0.1, 0.5, 0.9))
    settings = {"rank": 2, "loss": loss, "max_iter": 3, "random_state": 0}
    plain = hs.PLQMF(**settings).fit(pairs, y)
    kept = hs.PLQMF(**settings, checkpoint=tmp_path / "q.safetensors").fit(pairs, y)
    assert len(list(tmp_path.iterdir())) == 5  # the middle, and both others with and without what is held apart
    again = hs.PLQMF(**settings, checkpoint=tmp_path / "q.safetensors", resume=True).fit(pairs, y)
    for model in (kept, again):
        np.testing.assert_array_equal(model.predict_quantiles(pairs), plain.predict_quantiles(pairs))


def test_digests_are_the_same_in_every_process() -> None:
    assert digest_of({"a": hs.losses.Huber(2.0), "f": digest_of}) == digest_of(
        {"f": digest_of, "a": hs.losses.Huber(2.0)}
    )
    assert digest_of(hs.losses.Huber(2.0)) != digest_of(hs.losses.Huber(1.0))
    assert "0x" not in repr(digest_of(lambda x: x))
    assert seconds_of("1.5 s") == 1.5
    assert seconds_of(3) is None
