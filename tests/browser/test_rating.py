"""Ratings: what to expect and how sure it is, what it is made of, what to rate next, what does not fit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.browser


def test_a_value_comes_with_its_interval_and_its_parts(drawn: str, open_page: Callable[..., Any]) -> None:
    page = open_page(drawn)
    page.get_by_text("An example.").wait_for()
    page.get_by_role("combobox", name="User").press_sequentially("user 7")
    page.get_by_role("option", name="user 7", exact=True).click()
    page.get_by_role("heading", name="For user 7").wait_for()
    row = page.locator(".ranking li").first
    row.get_by_text("90 % sure").wait_for()
    row.locator("summary").click()
    assert row.locator(".parts dt").all_inner_texts()[0] == "An average pair"
    parts = [
        float(text.replace("−", "-"))
        for text in row.locator(".parts dd:last-of-type, .parts dd").all_inner_texts()
        if text
    ]
    assert sum(parts) == pytest.approx(float(row.locator(".score").inner_text()), abs=0.03)
    wide = row.locator(".between").inner_text()
    page.get_by_role("slider", name="Sure by").fill("0.5")
    row.get_by_text("50 % sure").wait_for()
    assert row.locator(".between").inner_text() != wide


def test_one_pair_is_asked_for_by_name_and_kept_in_the_address(drawn: str, open_page: Callable[..., Any]) -> None:
    page = open_page(drawn)
    page.locator(".ranking li").first.wait_for()
    page.get_by_role("combobox", name="Item").press_sequentially("film 3")
    page.get_by_role("option", name="film 3", exact=True).click()
    page.locator(".value").wait_for()
    page.get_by_role("combobox", name="User").press_sequentially("user 11")
    page.get_by_role("option", name="user 11", exact=True).click()
    page.get_by_role("heading", name="For user 11").wait_for()
    told = page.locator(".value").inner_text()
    assert "film 3" in told
    again = open_page(page.url)
    again.get_by_role("heading", name="For user 11").wait_for()
    expect(again.locator(".value")).to_have_text(told)


@pytest.mark.parametrize("kind", ["drawn", "ratings"])
def test_somebody_new_tells_ratings_by_keyboard_and_is_asked_for_more(
    kind: str, request: pytest.FixtureRequest, open_page: Callable[..., Any]
) -> None:
    page = open_page(request.getfixturevalue(kind))
    page.locator(".ranking li").first.wait_for()
    page.get_by_role("combobox", name="Or tell ratings of your own").focus()
    for film, value in (("film 3", "5"), ("film 4", "1"), ("film 5", "4")):
        page.keyboard.type(film)
        page.get_by_role("option", name=film, exact=True).wait_for()
        page.keyboard.press("Enter")
        expect(page.get_by_label(f"Your rating of {film}")).to_be_focused()
        page.keyboard.press("Control+a")
        page.keyboard.type(value)
        page.get_by_role("combobox", name="Or tell ratings of your own").focus()
    page.get_by_role("heading", name="For you").wait_for()
    table = page.get_by_role("region", name="Ratings beside what is expected")
    expect(table.locator("tbody tr")).to_have_count(3)
    expect(table).to_contain_text("1.00")
    asked = page.locator("#next-title ~ ol li")
    asked.nth(4).wait_for()
    expect(page.locator("main")).not_to_have_attribute("aria-busy", "true")  # lists may still change under the hand
    first = asked.first.locator(".name").inner_text()
    page.get_by_role("button", name=f"Rate {first}", exact=True).focus()
    page.keyboard.press("Enter")
    page.get_by_label(f"Your rating of {first}", exact=True).wait_for()
    expect(table.locator("tbody tr")).to_have_count(4)
    expect(asked.get_by_text(first, exact=True)).to_have_count(0)


def test_a_table_of_ratings_is_judged_and_nothing_stale_stays(
    drawn: str, open_page: Callable[..., Any], tmp_path: Path
) -> None:
    page = open_page(drawn, allow="422")
    page.locator(".ranking li").first.wait_for()
    own = tmp_path / "mine.csv"
    own.write_text("user,item,rating\nuser 1,film 1,3\nuser 2,film 2,-40\nnobody,film 1,3\n")
    page.get_by_label("File").set_input_files(own)
    page.get_by_text("2 of 3 ratings are of known ids").wait_for()
    rows = page.get_by_role("region", name="Ratings beside what is expected").locator("tbody tr")
    assert rows.first.inner_text().startswith("user 2")
    own.write_text("user,item\nuser 1,film 1\n")
    page.get_by_label("File").set_input_files(own)
    page.get_by_role("alert").get_by_text("no column looks like rating").wait_for()
    assert page.get_by_text("of known ids").count() == 0


def test_like_users_lead_on_where_there_are_factors(ratings: str, open_page: Callable[..., Any]) -> None:
    page = open_page(ratings)
    page.get_by_role("combobox", name="User").press_sequentially("user 7")
    page.get_by_role("option", name="user 7", exact=True).click()
    page.get_by_role("heading", name="For user 7").wait_for()
    page.locator(".neighbours button").first.click()
    expect(page.locator("#best-title")).not_to_contain_text("For user 7")
    assert page.locator("canvas").count() == 1


def test_lists_of_ratings_are_saved_with_their_intervals(drawn: str, open_page: Callable[..., Any]) -> None:
    page = open_page(drawn)
    page.locator(".ranking li").first.wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the expected ratings as CSV").click()
    lines = download.value.path().read_text(encoding="utf-8-sig").splitlines()
    assert lines[0] == "rank,item,id,expected,low,high"
    _, _, _, value, low, high = lines[1].split(",")
    assert float(low) <= float(value) <= float(high)
