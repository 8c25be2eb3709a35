"""Real occupations and skills: type "data sci", Enter, read ten skills with reasons; compare in two clicks.

Seconds are printed, not asserted: `pytest -m browser -s tests/browser/test_esco.py`.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from halfstep import WALS
from halfstep.data.datasets import load_esco

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::halfstep.datasets.DataWarning")]


@pytest.fixture(scope="module")
def esco(serve: Callable[..., str], real_data: Path) -> str:
    """The default model of ESCO behind a server that knows its files."""
    folder = real_data / "esco-1.1.1"
    return serve(WALS(random_state=0).fit(load_esco(folder)), json.dumps({"port": 0, "about": str(folder)}))


def start_from(page: Any, text: str) -> None:
    page.get_by_role("combobox", name="Start from an occupation").press_sequentially(text)
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("Enter")


def test_ten_skills_with_reasons_and_a_comparison_in_two_clicks(esco: str, open_page: Callable[..., Any]) -> None:
    begun = time.perf_counter()
    page = open_page(esco)
    page.get_by_role("combobox", name="Start from an occupation").wait_for()
    loaded = time.perf_counter()
    start_from(page, "data sci")
    page.get_by_role("heading", name="For data scientist").wait_for()
    page.locator(".because").nth(9).wait_for()
    read = time.perf_counter()
    print(f"loaded in {loaded - begun:.2f} s; ten skills with reasons {read - begun:.2f} s after the page was opened")
    assert page.locator(".ranking li").count() == 10
    page.get_by_role("button", name="Compare with data analyst").click()
    page.locator(".compare .gap li").first.wait_for()


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("Pyton", "Python (computer programming)"),
        ("statist", "statistics"),
        ("comunication", "communication"),
    ],
)
def test_what_people_type_finds_the_skill(esco: str, open_page: Callable[..., Any], typed: str, found: str) -> None:
    page = open_page(esco)
    page.get_by_role("combobox", name="Your skills").press_sequentially(typed)
    expect(page.get_by_role("option").get_by_text(found).first).to_be_visible()


def test_another_name_finds_the_occupation(esco: str, open_page: Callable[..., Any]) -> None:
    page = open_page(esco)
    start_from(page, "research data scientist")  # an alternative label in the files
    page.get_by_role("heading", name="For data scientist").wait_for()


def test_recommended_skills_are_narrowed_by_type_and_reuse(esco: str, open_page: Callable[..., Any]) -> None:
    page = open_page(esco)
    start_from(page, "data sci")
    page.get_by_role("heading", name="For data scientist").wait_for()
    before = page.locator(".ranking .name").all_inner_texts()
    page.locator("summary", has_text="Narrow the lists").click()
    page.get_by_role("checkbox", name="knowledge", exact=False).check()
    changed = "before => [...document.querySelectorAll('.ranking .name')].some((e, k) => e.innerText !== before[k])"
    page.wait_for_function(changed, arg=before)
    page.get_by_label("Skills of occupations that count").select_option("essential")
    page.get_by_text("Narrowed by 2 choices").wait_for()
    page.get_by_label("Group of similar occupations").select_option(label="2 Professionals (847)")
    page.locator(".neighbours li").first.wait_for()


def test_the_map_has_names_of_groups(esco: str, open_page: Callable[..., Any]) -> None:
    page = open_page(esco)
    page.locator(".ranking li").first.wait_for()
    for _ in range(60):
        told = page.request.get(f"{esco}/map?n=10").json()
        if told["method"] == "t-SNE":
            break
        page.wait_for_timeout(1000)
    assert told["method"] == "t-SNE"
    assert len(told["groups"]) >= 5
