"""Everybody can use the pages: axe-core finds nothing serious, in light and dark, on a desk and on a phone."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from .access import SIZES, findings, scrolls_sideways

pytestmark = pytest.mark.browser

HAVE = quote(json.dumps({"have": ["Python", "SQL"], "n": 5}))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize(
    ("server", "path", "ready"),
    [
        ("skills", f"/#{HAVE}", ".ranking li"),
        ("skills", "/docs", "details summary"),
        ("narrowed", "/", ".ranking li"),
        ("drawn", "/", ".ranking li"),
        ("ratings", "/", ".ranking li"),
        ("ensemble", "/", ".heat i"),
        ("average", "/", ".heat i"),
    ],
)
def test_nothing_serious(
    request: pytest.FixtureRequest,
    open_page: Callable[..., Any],
    server: str,
    path: str,
    ready: str,
    width: int,
    height: int,
    scheme: str,
) -> None:
    page = open_page(request.getfixturevalue(server) + path, width=width, height=height, scheme=scheme)
    page.locator(ready).first.wait_for()
    if server == "narrowed":
        page.locator(".narrow summary", has_text="Narrow").click()
        with page.expect_response("**/similar"):
            page.get_by_role("checkbox").first.check()
        page.locator(".card:not(.busy) .ranking").wait_for()
    if ready == ".ranking li":
        page.locator(".ranking summary").first.click()
        page.locator(".parts dt").first.wait_for()
        page.get_by_role("combobox").first.click()
        page.get_by_role("option").first.wait_for()
    if ready == "details summary":
        page.locator("summary", has_text="/recommend_for").click()
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert findings(page) == []
    assert scrolls_sideways(page) <= 0


def test_the_theme_can_be_changed_and_is_kept(skills: str, open_page: Callable[..., Any]) -> None:
    page = open_page(skills)
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    page.get_by_role("button", name="Light").wait_for()
