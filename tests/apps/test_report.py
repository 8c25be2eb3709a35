"""Report pages: self-contained, accessible, small, and saying what the model says."""

import re
import subprocess
import sys
import time
from html.parser import HTMLParser

import numpy as np
import pytest

pytest.importorskip("jinja2")

import halfstep
from halfstep.apps.report import Figure, Page, Prose, Table, chapter, write_report
from halfstep.apps.report.build import _risen
from halfstep.apps.report.charts import estimates, histogram, lines, point_map
from halfstep.apps.report.svg import AxisScale
from halfstep.data.datasets import load_sample_skills, make_predictions, make_ratings
from halfstep.ensemble import CFEnsemble
from halfstep.figures.plane import flat_map
from halfstep.figures.views import clustered_order, in_bins
from halfstep.judge import evaluate
from halfstep.models.plqmf import PLQMF


class Outline(HTMLParser):
    """Tags that were left open, addresses that would be fetched, and charts without words."""

    VOID = ("meta", "link", "input", "br", "circle", "path", "rect")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.ids: list[str] = []
        self.anchors: list[str] = []
        self.charts: list[dict] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        for name in ("src", "href"):
            if name in attrs and not attrs[name].startswith(("#", "data:")):
                self.fetched.append(attrs[name])
        if tag == "a" and attrs.get("href", "").startswith("#"):
            self.anchors.append(attrs["href"][1:])
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if attrs.get("role") == "img":
            self.charts.append(attrs)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def skills():
    return halfstep.WALS(rank=8, max_iter=4, random_state=0).fit(load_sample_skills())


@pytest.fixture(scope="module")
def ratings():
    pairs, y, _ = make_ratings(200, 100, 4000, outliers=0.05)
    return PLQMF(rank=3, loss="absolute", max_iter=8, random_state=0).fit(pairs, y), pairs, y


@pytest.fixture(scope="module")
def ensemble():
    P, y, y_true = make_predictions(300, 8)
    return CFEnsemble(random_state=0).fit(P, y), P, y, y_true


@pytest.fixture(scope="module")
def pages(skills, ratings, ensemble, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    result = evaluate(halfstep.WALS(8, random_state=0), load_sample_skills(), "leave_k_out", ["ndcg"], random_state=0)
    made = {
        "wals": skills.report(folder / "wals.html", result=result),
        "plq": ratings[0].report(folder / "plq.html"),
        "ensemble": ensemble[0].report(folder / "ensemble.html", P=ensemble[1], y_true=ensemble[3]),
    }
    return {name: path.read_text(encoding="utf-8") for name, path in made.items()}


@pytest.mark.parametrize("kind", ["wals", "plq", "ensemble"])
def test_page_is_whole_and_fetches_nothing(pages, kind):
    outline = Outline(pages[kind])
    assert outline.open == []
    assert outline.fetched == []
    assert not re.search(r"(src|href)\s*=\s*[\"']https?:|@import|url\(", pages[kind])
    assert len(pages[kind]) < 1_000_000


@pytest.mark.parametrize("kind", ["wals", "plq", "ensemble"])
def test_every_link_of_the_contents_leads_to_one_place(pages, kind):
    outline = Outline(pages[kind])
    assert set(outline.anchors) <= set(outline.ids)
    assert len(set(outline.ids)) == len(outline.ids)


@pytest.mark.parametrize("kind", ["wals", "plq", "ensemble"])
def test_every_chart_has_words_and_no_number_is_broken(pages, kind):
    charts = Outline(pages[kind]).charts
    assert len(charts) >= 4
    assert all(len(chart["aria-label"]) > 30 for chart in charts)
    assert not re.search(r"\bnan\b|\binf\b", pages[kind].split("<script>")[0].split("</style>")[1], re.IGNORECASE)


@pytest.mark.parametrize("kind", ["wals", "plq", "ensemble"])
def test_light_dark_and_paper(pages, kind):
    assert "prefers-color-scheme: dark" in pages[kind]
    assert "@media print" in pages[kind]


def test_wals_page_shows_what_the_model_recommends(pages, skills):
    user = re.search(r"For ([^,<]+), with", pages["wals"]).group(1)
    for item in skills.recommend(user, 3).ids:
        assert f">{item}</td>" in pages["wals"]
    assert "ndcg@10" in pages["wals"]
    assert "still falling" in pages["wals"]  # four sweeps do not converge


def test_the_verdict_comes_first_and_parameters_last_and_folded(skills):
    result = evaluate(halfstep.WALS(8, random_state=0), load_sample_skills(), "leave_k_out", ["ndcg"], random_state=0)
    sections = chapter(skills, result=result).sections
    assert [s.title for s in sections if not s.folded] == ["How good it is", "What it recommends", "Map of skills"]
    assert sections[0].title == "How good it is"
    assert sections[-1].title == "What was fitted"
    assert [s.folded for s in sections] == sorted(s.folded for s in sections)


def test_pages_speak_the_words_of_the_data(pages):
    text = re.sub(r"<[^>]*>", " ", pages["wals"].split("</style>")[1].split("<script>")[0])
    text = re.sub(r"user (interface|research|support)", "", text)  # skills of the sample
    assert re.findall(r"\b(?:users?|items?)\b", text) == []
    assert "Every occupation and every skill has a vector" in text


def test_a_column_has_one_number_of_decimals():
    table = Table(["name", "score", "count", "level"], [["a", 0.70823, 30, 0.5], ["b", 0.366, 4, 0.95]])
    assert [[cell["text"] for cell in row] for row in table.cells] == [
        ["a", "0.7082", "30", "0.50"],
        ["b", "0.3660", "4", "0.95"],
    ]


def test_charts_are_drawn_anew_for_the_width_of_a_phone():
    bars = estimates("t", ["one", "other"], [0.1, 0.4], x_label="x", wide=True)
    assert 'viewBox="0 0 340' in bars.narrow
    assert "other  0.4" in bars.narrow
    dots = point_map("t", [0, 1], [0, 1], ["a", "b"], alt="two points")
    assert dots.points["x"][0] < dots.points["x"][1]
    assert dots.points["y"][0] > dots.points["y"][1]
    assert 'data-plot="8 28 324 304"' in dots.narrow


def test_plq_page_states_the_quantile_it_meets(pages, ratings):
    model, pairs, y = ratings
    below = (y < model.predict(pairs)).mean() + 0.5 * (y == model.predict(pairs)).mean()
    assert f"{below:.1%} of the ratings lie below" in pages["plq"]


def test_plq_model_from_a_file_is_judged_on_its_ratings(ratings, tmp_path):
    model, pairs, y = ratings
    model.save(tmp_path / "m.safetensors")
    loaded = halfstep.load(tmp_path / "m.safetensors")
    assert "4,000 ratings, those of the fit" in loaded.report(tmp_path / "r.html").read_text()
    assert "4,000 ratings, as given" in loaded.report(tmp_path / "r.html", pairs=pairs, y=y).read_text()


def test_plq_classes_have_a_table_of_confusions(tmp_path):
    pairs, y, _ = make_ratings(100, 60, 1500)
    model = PLQMF(rank=2, loss="hinge", max_iter=5, random_state=0).fit(pairs, np.where(y > 3, "good", "bad"))
    page = model.report(tmp_path / "r.html").read_text()
    assert "predicted good" in page
    assert "truly bad" in page


def test_ensemble_page_asks_for_the_labels_that_help(pages, ensemble):
    first = int(ensemble[0].query(1)[0])
    table = pages["ensemble"].split("What to label next</h3>")[1].split("</table>")[0]
    assert re.search(r"<td[^>]*>(\d+)</td>", table).group(1) == str(first)
    assert "LogisticStacking" in pages["ensemble"]
    assert "refits on random halves" in pages["ensemble"]


def test_ensemble_from_a_file(ensemble, tmp_path):
    ensemble[0].save(tmp_path / "m.safetensors")
    page = halfstep.load(tmp_path / "m.safetensors").report(tmp_path / "r.html").read_text()
    assert "Weights of the classifiers" in page


def test_report_of_a_large_ensemble_is_quick_and_small(tmp_path):
    P, y, _ = make_predictions(10_000, 20, labels=0.05)
    model = CFEnsemble(random_state=0, max_iter=5).fit(P, y)
    begun = time.process_time()
    page = model.report(tmp_path / "r.html", P=P)
    assert (
        time.process_time() - begun < 30
    )  # processor time: a loose guard that does not depend on how busy the machine is
    assert page.stat().st_size < 5_000_000


def test_labels_cannot_break_the_page(tmp_path):
    nasty = "</script><b onload='x'>&\"é"
    matrix = np.eye(6)[:, [0, 1, 2, 3, 4, 5]] + np.roll(np.eye(6), 1, axis=1)
    data = halfstep.data.datasets.read_interactions(
        [(u, nasty if i == 0 else f"item {i}") for u, i in np.argwhere(matrix)], user=0, item=1
    )
    page = halfstep.WALS(2, random_state=0).fit(data).report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<b onload" not in page
    assert Outline(page).open == []


def test_models_without_a_fit_and_other_things(tmp_path):
    with pytest.raises(ValueError, match="this WALS is not fitted yet; call fit first"):
        write_report(halfstep.WALS(), tmp_path / "r.html")
    with pytest.raises(TypeError, match="model is a int; a report can be made of WALS, "):
        chapter(3)


def test_command_writes_the_page_and_prints_its_path(skills, tmp_path):
    skills.save(tmp_path / "m.safetensors")
    command = [
        sys.executable,
        "-c",
        "from halfstep.apps.cli import main; main()",
        "report",
        str(tmp_path / "m.safetensors"),
    ]
    done = subprocess.run([*command, "-o", str(tmp_path / "r.html")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"report page: {(tmp_path / 'r.html').resolve()}"
    assert "<title>WALS report</title>" in (tmp_path / "r.html").read_text()


# ---------------------------------------------------------------------- charts and numbers


def test_text_alternatives_hold_the_numbers():
    figure = estimates("t", ["a", "b"], [0.25, 0.5], [0.2, 0.4], [0.3, 0.6], x_label="score")
    assert figure.alt == "score: a 0.25 (0.2 to 0.3), b 0.5 (0.4 to 0.6)."
    assert (
        "objective goes from 9 to 1 over 3 points"
        in lines("t", {"objective": ([1, 2, 3], [9, 4, 1])}, x_label="x", y_label="y").alt
    )
    assert "4 values, median 2.5" in histogram("t", {"n": [1, 2, 3, 4]}, x_label="n").alt


def test_large_maps_are_thinned_and_say_so():
    n = 7000
    figure = point_map("t", np.arange(n), np.arange(n), [str(k) for k in range(n)], alt="dots")
    assert len(figure.points["x"]) == 6000
    assert "A random 6,000 of 7,000 points are drawn" in figure.caption


@pytest.mark.parametrize(("low", "high", "log"), [(0, 1, False), (-3, 1234, False), (1, 30, True), (1e-3, 1e4, True)])
def test_ticks_are_round_and_within(low, high, log):
    ticks = AxisScale(low, high, log).ticks()
    assert 2 <= len(ticks) <= 12
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in ticks)
    assert all(float(f"{tick:.3g}") == pytest.approx(tick) for tick in ticks)


def test_tables_mark_the_best_row_and_sort_by_value():
    table = Table(["m", "s"], [["a", "0.9 [0.8, 1.0]"], ["b", "0.95 [0.9, 1.0]"]], best="s")
    assert [row[0]["best"] for row in table.cells] == [False, True]
    assert table.cells[0][1]["key"] == 0.9
    assert table.cells[0][1]["number"]


def test_prose_is_escaped_and_backticks_are_code():
    page = Page("t", [])
    page.lead = "a <b> and `x < 1`"
    assert "a &lt;b&gt; and <code>x &lt; 1</code>" in page.html()
    assert Prose("x").kind == "prose"
    assert Figure("", "", "").points is None


def test_bins_report_the_share_below():
    rng = np.random.default_rng(1)
    p = rng.normal(size=5000)
    assert np.allclose(in_bins(p, p + rng.normal(size=5000))["below"], 0.5, atol=0.07)


def test_clusters_stand_side_by_side():
    group = np.array([0, 1, 0, 1, 0, 1])
    order = clustered_order((group[:, None] == group).astype(float))
    assert group[order].tolist() in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])


@pytest.mark.parametrize("shape", [(1, 3), (2, 3), (5, 1), (5, 2), (40, 4)])
def test_maps_of_any_size(shape):
    place, _ = flat_map(np.random.default_rng(0).normal(size=shape))
    assert place.shape == (shape[0], 2)
    assert np.isfinite(place).all()


def test_a_rising_objective_is_noticed():
    assert _risen([{"objective": v} for v in (3.0, 2.0, 2.5)]) == 3
    assert _risen([{"objective": v} for v in (3.0, 2.0, 2.0)]) == 0
