"""Somebody of whom nothing but features is known, served in the page."""

import contextlib
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from halfstep import WALS

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def jobs(serve: Callable[..., str]) -> str:
    theirs = ("ovens", "dough", "menus"), ("loans", "letters")
    pairs = [(f"job {k}", item) for k in range(12) for item in theirs[k % 2]]
    about = pd.DataFrame({"user": [f"job {k}" for k in range(12)], "sector": ["food", "office"] * 6})
    model = WALS(rank=3, random_state=0, feature_reg=0.1)
    return serve(model.fit(pd.DataFrame(pairs, columns=["user", "item"]), user_features=about))


def test_a_newcomer_known_by_features_alone_is_served(jobs: str, open_page: Callable[..., Any]) -> None:
    page = open_page(jobs)
    page.get_by_role("button", name="Clear").click()
    field = page.get_by_role("combobox", name="Known of you")
    field.press_sequentially("off")
    page.get_by_role("option", name="sector=office").click()
    names = page.locator(".ranking .name")
    expect(names.first).to_be_visible()
    assert set(names.all_inner_texts()[:2]) == {"loans", "letters"}
    expect(page.locator(".because").first).to_contain_text("sector=office")
    field.press_sequentially("foo")
    page.get_by_role("option", name="sector=food").click()  # one group at a time
    expect(page.get_by_label("Known of you").locator(".chip")).to_have_count(1)
    expect(page.locator(".because").first).to_contain_text("sector=food")
    assert set(names.all_inner_texts()[:3]) == {"ovens", "dough", "menus"}
    page.reload()
    expect(page.get_by_role("button", name="Remove sector=food")).to_be_visible()
    page.get_by_role("button", name="Remove sector=food").click()
    expect(names).to_have_count(0)


def test_a_late_list_stays_away_when_nothing_is_asked_any_more(jobs: str, open_page: Callable[..., Any]) -> None:
    page = open_page(jobs)
    page.get_by_role("button", name="Clear").click()
    names = page.locator(".ranking .name")
    expect(names).to_have_count(0)
    held: list[Any] = []
    page.route("**/recommend_for", lambda route: held.append(route))
    page.get_by_role("combobox", name="Known of you").press_sequentially("off")
    page.get_by_role("option", name="sector=office").click()
    page.get_by_role("button", name="Remove sector=office").click()
    assert held
    for route in held:
        with contextlib.suppress(Exception):  # the page has let it go
            route.continue_()
    page.wait_for_timeout(500)
    expect(names).to_have_count(0)
