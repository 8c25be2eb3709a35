"""A blend: one scale for each user, weights chosen by ranking, explanations and files through its parts."""

import numpy as np
import pytest
import scipy.sparse as sp

import halfstep as hs
from halfstep.models.baselines import ItemKNN, Popularity

from ..contract.refusal import refused

SKILLS = hs.datasets.load_sample_skills()
CELLS = sp.csr_array(SKILLS.matrix)


def parts():
    return [hs.WALS(4, max_iter=3, random_state=0, n_threads=1), hs.ItemGraph(n_threads=1), Popularity()]


def test_scores_are_the_weighted_sum_of_parts_on_one_scale():
    blend = hs.Blend(parts(), [2, 1, 1]).fit(SKILLS)
    assert blend.weights_.tolist() == [0.5, 0.25, 0.25]
    expected = 0
    for part, weight in zip(parts(), blend.weights_, strict=True):
        scores = part.fit(SKILLS).score_rows(CELLS[:7], np.arange(7)).astype(float)
        expected = expected + weight * scores / scores.std(axis=1, keepdims=True)
    np.testing.assert_allclose(blend.score_rows(CELLS[:7], np.arange(7)), expected, rtol=1e-5)
    best = blend.recommend(SKILLS.user_ids[:7].tolist(), 4)
    masked = np.where(CELLS[:7].toarray() > 0, -np.inf, expected)
    np.testing.assert_allclose(best.scores, -np.sort(-masked, axis=1)[:, :4], rtol=1e-5)


def test_a_blend_of_one_ranks_as_that_one():
    model = hs.ItemGraph().fit(SKILLS)
    blend = hs.Blend([hs.ItemGraph()]).fit(SKILLS)
    np.testing.assert_array_equal(blend.rank_items(CELLS[:9], 5), model.rank_items(CELLS[:9], 5))


def test_explanations_sum_to_the_score_through_all_parts():
    blend = hs.Blend(parts(), [1, 2, 0.5]).fit(SKILLS)
    best = blend.recommend("Registered nurse", 2)
    why = blend.explain("Registered nurse", best.ids[0])
    np.testing.assert_allclose([why.score, why.contributions.sum()], best.scores[0], rtol=1e-4)
    assert "popularity" in why.ids.tolist()
    new = blend.recommend_for(["Python", "SQL"], 2)
    np.testing.assert_allclose(blend.explain(items=["Python", "SQL"], item=new.ids[1]).score, new.scores[1], rtol=1e-4)


def test_weights_follow_the_cells_kept_apart():
    blend = hs.Blend([Popularity(), hs.ItemGraph(), ItemKNN()], metric="recall@10").fit(SKILLS)
    assert blend.weights_.sum() == pytest.approx(1)
    tried = [trial["recall@10"] for trial in blend.trials_]
    single = tried[:3]
    chosen = max(blend.trials_, key=lambda trial: trial["recall@10"])
    assert max(tried) >= max(single) > single[0]
    assert np.allclose(chosen["weights"], blend.weights_)
    again = hs.Blend([Popularity(), hs.ItemGraph(), ItemKNN()], metric="recall@10").fit(SKILLS)
    assert again.weights_.tolist() == blend.weights_.tolist()


def test_a_blend_is_one_file(tmp_path):
    blend = hs.Blend([*parts(), hs.EASE()]).fit(SKILLS)
    blend.save(tmp_path / "blend.safetensors")
    again = hs.load(tmp_path / "blend.safetensors")
    assert again.weights_.tolist() == blend.weights_.tolist()
    assert again.trials_ == blend.trials_
    for ask in (
        lambda m: m.recommend("Registered nurse", 4),
        lambda m: m.recommend_for(["Python", "SQL"], 4, diversity=0.2),
        lambda m: m.similar_items("Python", 4),
        lambda m: (m.explain("Registered nurse", "Python").contributions,),
    ):
        *ids, numbers = zip(ask(blend), ask(again), strict=True)
        np.testing.assert_allclose(*numbers, rtol=1e-6)
        assert all(before.tolist() == after.tolist() for before, after in ids)


def test_a_refused_blend_changes_nothing():
    def fitted():
        return hs.Blend(parts()[1:], [1, 1]).fit(CELLS)

    ask = lambda m: (m.recommend([0, 3], 4), m.explain(1, 5), m.weights_)  # noqa: E731
    assert refused(fitted, lambda m: m.fit(CELLS[:20]), ask) > 20


@pytest.mark.parametrize(
    ("blend", "message"),
    [
        (hs.Blend(), "models is empty"),
        (hs.Blend([hs.PLQMF()]), "models holds a PLQMF, which has no score_rows"),
        (hs.Blend([Popularity()], [1, 2]), "must be 1 numbers >= 0"),
        (hs.Blend([Popularity()], [0.0]), "every weight is zero"),
        (hs.Blend([Popularity()], metric="rmse@3"), "metric='rmse' is not known"),
    ],
)
def test_what_cannot_be_blended_is_named(blend, message):
    with pytest.raises((ValueError, TypeError), match=message):
        blend.fit(CELLS)


def test_no_list_of_models_is_named():
    with pytest.raises(ValueError, match=r"models is empty or no list"):
        hs.Blend(None).fit(hs.datasets.load_sample_skills())


@pytest.mark.parametrize("weight", [3.4e38, 1e-40])
def test_likeness_does_not_depend_on_the_unit_of_weights(weight):
    X = sp.random(40, 12, 0.3, random_state=0, format="csr")
    X.data[:] = 1 + np.arange(X.nnz) % 3
    plain, scaled = (
        hs.Blend([ItemKNN(), Popularity()], weights=[1, 1]).fit(X * unit).similar_items(0, 5) for unit in (1.0, weight)
    )
    np.testing.assert_allclose(scaled.scores, plain.scores, rtol=1e-9)
    assert scaled.ids.tolist() == plain.ids.tolist()
