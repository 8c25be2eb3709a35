"""Report pages from their files: searching, sorting, dark and light, a desk and a phone, for every family."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .access import SIZES, findings, scrolls_sideways

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.browser

FAMILIES = ["skills_model", "ratings_model", "ensemble_model", "average_model"]


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The address of the report of a model, by the name of its fixture."""
    folder: Path = tmp_path_factory.mktemp("reports")

    def made(family: str) -> str:
        path = folder / f"{family}.html"
        if not path.exists():
            request.getfixturevalue(family).report(path)
        return path.as_uri()

    return made


@pytest.fixture
def open_page(open_page: Callable[..., Any]) -> Callable[..., Any]:
    """Reports with everything unfolded."""

    def opened(*args: Any, **options: Any) -> Any:
        page = open_page(*args, **options)
        page.evaluate("document.querySelectorAll('details.folded').forEach((each) => (each.open = true))")
        return page

    return opened


def searchable(page: Any) -> Any:
    return page.locator(".table", has=page.get_by_role("searchbox")).first


def column(table: Any, place: int) -> list[str]:
    """The texts of a column, from top to bottom, of the rows that are shown."""
    return table.locator(f"tbody tr:visible td:nth-child({place})").all_inner_texts()


@pytest.mark.parametrize("family", FAMILIES)
def test_search_narrows_the_table_and_says_so(family: str, report: Any, open_page: Callable[..., Any]) -> None:
    table = searchable(open_page(report(family)))
    names = column(table, 1)
    wanted = names[-1]
    fitting = [
        row for row in (text.lower() for text in table.locator("tbody tr").all_inner_texts()) if wanted.lower() in row
    ]
    box = table.get_by_role("searchbox")
    box.fill(wanted.upper())
    assert 0 < len(fitting) < len(names)
    expect(table.locator("tbody tr:visible")).to_have_count(len(fitting))
    expect(table.get_by_role("status")).to_have_text(f"{len(fitting)} of {len(names)}")
    box.fill("nothing is called like this")
    expect(table.locator("tbody tr:visible")).to_have_count(0)
    expect(table.get_by_role("status")).to_have_text(f"0 of {len(names)}")
    box.fill("")
    assert column(table, 1) == names
    expect(table.get_by_role("status")).to_have_text("")


@pytest.mark.parametrize("family", FAMILIES)
def test_heads_sort_both_ways_by_mouse_and_keyboard(family: str, report: Any, open_page: Callable[..., Any]) -> None:
    page = open_page(report(family))
    table = searchable(page)
    heads = table.get_by_role("columnheader")
    number = next(place for place in range(1, heads.count()) if "n" in (heads.nth(place).get_attribute("class") or ""))

    def values() -> list[float]:
        return [float(text.replace(",", "")) for text in column(table, number + 1)]

    heads.nth(number).get_by_role("button").click()  # numbers: the largest first
    expect(heads.nth(number)).to_have_attribute("aria-sort", "descending")
    assert values() == sorted(values(), reverse=True)
    assert len(set(values())) > 1
    heads.nth(number).get_by_role("button").press("Enter")
    expect(heads.nth(number)).to_have_attribute("aria-sort", "ascending")
    assert values() == sorted(values())

    keys = "rows => rows.map(row => row.cells[0].dataset.k)"
    heads.first.get_by_role("button").click()
    expect(table.locator("th[aria-sort]")).to_have_count(1)
    first = table.locator("tbody tr").evaluate_all(keys)
    heads.first.get_by_role("button").click()
    assert table.locator("tbody tr").evaluate_all(keys) == first[::-1]
    assert len(set(first)) == len(first)


def test_search_and_sort_work_together(report: Any, open_page: Callable[..., Any]) -> None:
    table = searchable(open_page(report("ratings_model")))
    table.get_by_role("searchbox").fill("film 1")
    table.get_by_role("columnheader", name="item").get_by_role("button").click()
    shown = column(table, 1)
    assert shown == sorted(shown)
    assert all(name.startswith("film 1") for name in shown)


@pytest.mark.parametrize("place", [0, 1])
def test_a_map_rings_what_is_searched(place: int, report: Any, open_page: Callable[..., Any]) -> None:
    page = open_page(report("skills_model"))
    figure = page.locator("figure", has=page.get_by_role("searchbox")).nth(place)
    figure.get_by_role("searchbox").fill("python")
    expect(figure.locator("svg:visible circle.hit")).to_have_count(1)
    expect(figure.get_by_role("status")).to_have_text("1 found")
    expect(figure.locator("svg:visible text.halo").last).to_have_text("Python")
    figure.get_by_role("searchbox").fill("")
    expect(figure.locator("circle.hit")).to_have_count(0)


def test_the_contents_open_what_is_folded(report: Any, chromium: Any) -> None:
    page = chromium.new_page()
    page.goto(report("skills_model"))
    facts = page.locator("section:has(> details.folded) dl.facts").last
    expect(facts).to_be_hidden()
    page.get_by_role("link", name="What was fitted").click()
    expect(facts).to_be_visible()
    page.close()


def test_a_phone_has_a_drawing_of_its_own(report: Any, open_page: Callable[..., Any]) -> None:
    page = open_page(report("skills_model"), width=390, height=844)
    drawn = page.locator("figure.twice").first.locator("svg:visible")
    expect(drawn).to_have_count(1)
    assert drawn.get_attribute("viewBox").startswith("0 0 340 ")


def brightness(page: Any, selector: str, what: str) -> float:
    """Of a computed colour, 0 to 255."""
    script = "(element, what) => getComputedStyle(element)[what].match(/\\d+/g).slice(0, 3).map(Number)"
    return sum(page.locator(selector).first.evaluate(script, what)) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("family", FAMILIES)
def test_everybody_can_read_it(
    family: str, report: Any, open_page: Callable[..., Any], width: int, height: int, scheme: str
) -> None:
    page = open_page(report(family), width=width, height=height, scheme=scheme)
    paper, ink = brightness(page, "body", "backgroundColor"), brightness(page, "body", "color")
    assert (paper > 200 and ink < 60) if scheme == "light" else (paper < 60 and ink > 200)
    assert scrolls_sideways(page) <= 0
    heads = page.locator("th.n:not(:first-child) button")
    edges = "heads => heads.map(h => h.getBoundingClientRect().right - h.closest('table').tBodies[0].rows[0]"
    edges += ".cells[h.parentElement.cellIndex].getBoundingClientRect().right)"
    assert max(abs(gap) for gap in heads.evaluate_all(edges)) < 1  # heads stand over their numbers
    assert findings(page) == []


@pytest.mark.heavy
def test_the_demo_is_at_most_eight_screens_of_a_desk(tmp_path: Path, chromium: Any) -> None:
    from rich.console import Console

    from halfstep.apps import demo

    path = demo.run(tmp_path / "demo.html", 7, Console(quiet=True))
    page = chromium.new_page(viewport={"width": 1440, "height": 900})  # folded, as people find it
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollHeight") <= 8 * 900
    page.close()
