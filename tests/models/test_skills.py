"""From files to a defended answer: the sample on every machine, ESCO and O*NET where their files are."""

import warnings

import numpy as np
import pytest

import halfstep
from halfstep import WALS
from halfstep.baselines import ItemKNN, Popularity
from halfstep.data.datasets import load_esco, load_onet, load_sample_skills
from halfstep.errors import UnknownIdError
from halfstep.judge import evaluate, leave_k_out


def test_the_sample_from_fit_to_explanation(tmp_path):
    skills = load_sample_skills()
    model = WALS(rank=16, reg=0.03, random_state=0).fit(skills)
    assert all(r["error_reduction"] == 1 - r["rmse"] for r in model.history_)
    ranking = model.recommend_for(["Python", "SQL"], n=5)
    assert len(ranking.ids) == 5
    assert not {"Python", "SQL"} & set(ranking.ids)
    why = model.explain(items=["Python", "SQL"], item=ranking.ids[0])
    assert why.score == pytest.approx(ranking.scores[0], rel=1e-3)
    assert why.contributions.sum() == pytest.approx(why.score)
    with pytest.raises(UnknownIdError, match="Did you mean 'Python'"):
        model.recommend_for(["Pyton"])
    model.save(tmp_path / "skills.safetensors")
    again = halfstep.load(tmp_path / "skills.safetensors").recommend_for(["Python", "SQL"], n=5)
    assert again.ids.tolist() == ranking.ids.tolist()


@pytest.fixture(scope="module")
def esco(real_data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_esco(real_data / "esco-1.1.1")


@pytest.fixture(scope="module")
def esco_model(esco):
    return WALS(rank=32, background=0.02, reg=0.01, max_iter=4, random_state=0).fit(esco)


def test_esco_answers_by_title_and_carries_titles(esco, esco_model, tmp_path):
    best = esco_model.recommend("Data Scientist", 10)
    row = esco.user_labels.tolist().index("data scientist")
    assert not set(best.ids) & set(esco.item_ids[esco.matrix[[row]].indices])
    title = dict(zip(esco.item_ids, esco.item_labels, strict=True))
    assert best.labels.tolist() == [title[i] for i in best.ids]
    why = esco_model.explain("data scientist", best.ids[0])
    assert why.contributions.sum() == pytest.approx(why.score)
    assert why.score == pytest.approx(best.scores[0], rel=1e-3)
    with pytest.raises(UnknownIdError) as caught:
        esco_model.recommend_for(["Pythn"])
    assert "Python (computer programming)" in caught.value.suggestions
    parquet = pytest.importorskip("pyarrow.parquet")
    assert esco_model.recommend_to_file(tmp_path / "best.parquet", ["data scientist"], n=3) == 3
    rows = parquet.read_table(tmp_path / "best.parquet").to_pylist()
    assert [r["item_label"] for r in rows] == best.labels[:3].tolist()
    assert {r["user_label"] for r in rows} == {"data scientist"}


def test_wals_beats_the_baselines_on_real_technology(real_data):
    """Settings near those that a search on other cells found; see benchmarks/skills.py."""
    data = load_onet(real_data / "onet-29.2", "technology")
    data.matrix.data[:] = 1.0
    split = leave_k_out(data.matrix, 5, random_state=7)
    wals = WALS(rank=96, background=0.03, reg=0.016, max_iter=8, random_state=0)
    models = {"WALS": wals, "Popularity": Popularity(), "KNN": ItemKNN(20, shrink=1.0)}
    result = evaluate(models, split, metrics=["ndcg@10"], n_bootstrap=300, random_state=0)
    for baseline in ("Popularity", "KNN"):
        assert result.compare("WALS", baseline).verdict("ndcg@10") == "a"
    assert np.isfinite(result.table["WALS"]["ndcg@10"].mean)
