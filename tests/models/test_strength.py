"""What `WALS()` takes from the data: the rules as the docstring has them, and ranges of the guide that do no harm."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import halfstep as hs
from halfstep.models.strength import Strength, penalty_of, rank_of

GUIDE = Path(__file__).parents[2] / "docs" / "wals.md"
SKILLS = hs.datasets.load_sample_skills()


@pytest.mark.parametrize(
    ("shape", "cells", "rank", "reg"),
    [
        ((111, 357), 1_597, 111, 0.05),  # few cells: the smaller side, the strongest penalty
        ((923, 8_768), 32_627, 256, 4500 / (32_627**2 / 923)),
        ((3_008, 13_125), 123_855, 512, 0.0015),
        ((30_000, 41_000), 810_000, 512, 0.0015),
        ((140_000, 20_000), 20_000_000, 128, 0.0015),  # the root would be 6,700; a sweep would take too long
        ((7_606, 5_966), 36_893, 288, 4500 / (36_893**2 / 7_606)),  # short rows
    ],
)
def test_the_rules_are_those_of_the_docstring(shape, cells, rank, reg):
    assert rank_of(shape, cells) == rank
    assert penalty_of(shape, cells) == pytest.approx(reg)


def test_what_is_given_is_taken():
    chosen = Strength.given((100, 100), 1000, 5000.0, 3, 0.5, 0.7, "count")
    assert (chosen.rank, chosen.background, chosen.reg, chosen.unit) == (3, 0.5, 0.7, 1.0)


@pytest.mark.parametrize("scaling", [1.0, 0.5, "count", "constant"])
def test_the_default_does_not_depend_on_the_unit_of_weights(scaling):
    rng = np.random.default_rng(0)
    R = sp.csr_array(rng.integers(1, 6, (40, 30)) * (rng.random((40, 30)) < 0.3) * 1.0)
    options = {"reg_scaling": scaling, "rank": 5, "random_state": 0, "dtype": "float64"}
    one, other = hs.WALS(**options).fit(R), hs.WALS(**options).fit(R * 100)
    assert_allclose(one.score_rows(R), other.score_rows(R * 100), rtol=1e-4, atol=1e-6)
    assert other.background_ == pytest.approx(100 * one.background_, rel=1e-5)
    assert other.objective_ == pytest.approx(100 * one.objective_, rel=1e-4)


@pytest.mark.parametrize("name", ["rank", "background", "reg"])
def test_giving_what_the_data_gave_changes_nothing(name):
    model = hs.WALS(random_state=0, max_iter=2).fit(SKILLS)
    again = hs.WALS(random_state=0, max_iter=2, **{name: getattr(model, f"{name}_")}).fit(SKILLS)
    assert_allclose(again.objective_, model.objective_, rtol=1e-5)


def test_files_keep_the_unit(tmp_path):
    model = hs.WALS(4, random_state=0).fit(SKILLS)
    model.save(tmp_path / "m.safetensors")
    loaded = hs.load(tmp_path / "m.safetensors")
    assert loaded.fitted_.chosen == model.fitted_.chosen
    assert model.fitted_.chosen.unit == pytest.approx(SKILLS.matrix.data.mean(), rel=1e-4)
    assert_allclose(loaded.recommend_for(["Python"]).scores, model.recommend_for(["Python"]).scores, rtol=1e-6)


def ranges():
    """Of the guide: parameter, lowest and highest value, each times what the default is, or plain numbers."""
    row = re.compile(r"^\| `(\w+)`.*\| ([\d.]+) to ([\d.]+)( times the default)?[^|]*\|$", re.MULTILINE)
    return [(name, float(low), float(high), bool(times)) for name, low, high, times in row.findall(GUIDE.read_text())]


def ndcg(cells, **changes):
    """Of cells that were kept from the fit: a fifth of every row."""
    from halfstep.models.held_out import keep_some

    seen, hidden = keep_some(cells, 7)
    rows = np.flatnonzero(np.diff(hidden.indptr))
    model = hs.WALS(random_state=0).fit(seen)
    if changes:
        given = {name: times(getattr(model, f"{name}_", None)) for name, times in changes.items()}
        model = hs.WALS(random_state=0, **given).fit(seen)
    return float(np.mean(hs.metrics.ndcg_at_k(model.rank_items(seen[rows], 10, rows), hidden[rows], 10)))


def harmless(cells, some):
    best, found = ndcg(cells), {}
    for name, low, high, times in ranges():
        for value in (low, (low * high) ** 0.5, high) if some is None else (low, high):
            whole = name in ("rank", "max_iter")
            found[name, value] = ndcg(
                cells,
                **{name: lambda default, v=value, t=times, w=whole: (round if w else float)(v * default if t else v)},
            )
    best = max(best, *found.values())
    assert {k: v for k, v in found.items() if v < 0.8 * best} == {}
    return found


def test_every_value_that_the_guide_recommends_is_harmless_on_the_sample():
    assert {name for name, *_ in ranges()} == {"rank", "background", "reg", "max_iter"}
    harmless(sp.csr_array(SKILLS.matrix), "ends")


@pytest.mark.heavy
def test_every_value_that_the_guide_recommends_is_harmless_on_real_data(real_data):
    for kind in ("technology", "activities"):
        harmless(sp.csr_array(hs.datasets.load_onet(real_data / "onet-29.2", kind).matrix), None)
    esco = sp.csr_array(hs.datasets.load_esco(real_data / "esco-1.1.1").matrix)[::10]
    harmless(sp.csr_array(esco[:, np.asarray(esco.sum(axis=0)).ravel() > 0]), None)
