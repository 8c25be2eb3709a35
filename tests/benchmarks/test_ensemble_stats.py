"""The statistics of the fusion benchmark on inputs small enough to check by hand."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from ensemble import stats
from scipy.stats import wilcoxon

METHODS = ["a", "b", "c"]
SCORES = [[0.9, 0.8, 0.7], [0.6, 0.6, 0.5], [0.3, 0.5, 0.4]]


def test_mean_ranks_by_hand():
    # ranks: 1 2 3 / 1.5 1.5 3 / 3 1 2
    found = stats.mean_ranks(SCORES, METHODS)
    assert list(found) == ["b", "a", "c"]
    assert found == pytest.approx({"b": 1.5, "a": 5.5 / 3, "c": 8 / 3})


def test_lower_is_better_turns_the_ranks_round():
    assert stats.ranks([[1.0, 2.0, 3.0]], higher_is_better=False).tolist() == [[1, 2, 3]]
    assert stats.ranks([[1.0, 2.0, 3.0]]).tolist() == [[3, 2, 1]]


def test_holm_by_hand():
    np.testing.assert_allclose(stats.holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
    np.testing.assert_allclose(stats.holm([0.5, 0.9]), [1.0, 1.0])


def test_compare_counts_wins_ties_losses():
    pair = stats.compare(SCORES, METHODS)[0]
    assert (pair.first, pair.second) == ("a", "b")
    assert (pair.wins, pair.ties, pair.losses) == (1, 1, 1)
    wide = stats.compare(SCORES, METHODS, tie=0.15)[0]
    assert (wide.wins, wide.ties, wide.losses) == (0, 2, 1)
    turned = stats.compare(SCORES, METHODS, higher_is_better=False)[1]
    assert (turned.first, turned.second, turned.wins, turned.losses) == ("a", "c", 1, 2)


def test_compare_against_one_and_its_p_values():
    random = np.random.default_rng(0)
    scores = random.normal(loc=(1.0, 0.0, 0.0), size=(20, 3))
    found = stats.compare(scores, METHODS, against="a")
    assert [c.second for c in found] == ["b", "c"]
    raw = [wilcoxon(scores[:, 0] - scores[:, k]).pvalue for k in (1, 2)]
    assert [c.p for c in found] == pytest.approx(raw)
    assert [c.p_holm for c in found] == pytest.approx(stats.holm(raw).tolist())


def test_equal_methods_have_p_one():
    assert stats.compare(np.ones((5, 2)), ["a", "b"])[0].p == 1.0


def test_critical_difference_is_the_published_one():
    # Demsar (2006): q_0.05 = 2.343 for 3 methods, 2.569 for 4.
    assert stats.critical_difference(3, 10) == pytest.approx(2.343 * np.sqrt(12 / 60), abs=1e-3)
    assert stats.critical_difference(4, 14) == pytest.approx(2.569 * np.sqrt(20 / 84), abs=1e-3)


def test_cliques_are_maximal():
    assert stats.cliques([1.0, 1.5, 2.2, 4.0], 1.0) == [(0, 1), (1, 2)]
    assert stats.cliques([1.0, 1.2, 1.4], 1.0) == [(0, 2)]
    assert stats.cliques([1.0, 3.0], 1.0) == []


def test_diagram_is_svg_with_every_method(tmp_path):
    random = np.random.default_rng(1)
    methods = ["mean", "a < b & c", "third", "fourth"]
    svg = stats.diagram(random.normal(size=(12, 4)), methods, title="PR-AUC")
    root = ET.fromstring(svg)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for name in methods:
        assert any(text.startswith(f"{name} (") for text in texts)
    assert "PR-AUC" in texts
    stats.write_diagram(tmp_path / "cd.svg", svg)
    assert (tmp_path / "cd.svg").read_text() == svg
    assert [p.name for p in tmp_path.iterdir()] == ["cd.svg"]


def test_text_table_aligns():
    text = stats.text_table(["method", "score"], [["mean", 0.5], ["b", 12.25]], digits=2)
    assert text.splitlines() == ["method  score", "------  -----", "mean     0.50", "b       12.25"]


def test_summary_names_the_best_first():
    lines = stats.summary(SCORES, METHODS).splitlines()
    assert "w/t/l against b" in lines[0]
    assert [line.split()[0] for line in lines[2:]] == ["b", "a", "c"]
    assert "1/1/1" in lines[3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: stats.mean_ranks([[1.0, 2.0]], METHODS),
            r"scores has shape \(1, 2\); it must be \(tasks, 3\)",
        ),
        (lambda: stats.mean_ranks([[1.0, np.nan, 2.0]], METHODS), r"scores\[0, 1\] of 'b' is nan; leave out"),
        (lambda: stats.compare(SCORES, METHODS, against="z"), "against='z' is not among the methods"),
        (lambda: stats.text_table(["a"], [[1, 2]]), "every row must have 1 cells"),
    ],
)
def test_messages(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_diagram_leaves_room_for_long_names():
    def width(names: list[str]) -> float:
        svg = stats.diagram(np.random.default_rng(0).normal(size=(12, 3)), names)
        return float(svg.split('width="')[1].split('"')[0])

    assert width(["a", "b", "c"]) < width(["a", "b", "a name as long as that of stacking on imputed scores"])
