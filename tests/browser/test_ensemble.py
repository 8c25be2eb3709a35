"""Looking at an ensemble: instances by difficulty, votes, labels, a refit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.browser


def numbers(page: Any) -> list[str]:
    return page.locator("#list-title ~ ol button").all_inner_texts()


def test_instances_are_browsed_by_difficulty_and_otherwise(ensemble: str, open_page: Callable[..., Any]) -> None:
    page = open_page(ensemble)
    page.locator("#list-title ~ ol li").nth(14).wait_for()
    hardest = numbers(page)
    page.get_by_label("Order").select_option("number")
    expect(page.locator("#list-title ~ ol button").first).to_have_text("No. 0")
    assert hardest != numbers(page) == [f"No. {k}" for k in range(15)]
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#list-title ~ ol button").first).to_have_text("No. 15")
    page.get_by_label("Show").select_option("labelled")
    page.get_by_text("1 to 15 of 24", exact=True).wait_for()
    assert page.locator("#list-title ~ ol .tag").count() == 15


def test_every_vote_is_shown_with_the_fused_answer(ensemble: str, open_page: Callable[..., Any]) -> None:
    page = open_page(ensemble)
    row = page.locator("#list-title ~ ol li").nth(3)
    row.wait_for()
    name = row.get_by_role("button").inner_text().removeprefix("No. ")
    row.get_by_role("button").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=f"Instance {name}").wait_for()
    assert page.locator("#one-title ~ .scroll tbody tr").count() == 9
    shares = [int(text.removesuffix(" %")) for text in page.locator(".fused-row b").all_inner_texts()]
    assert 99 <= sum(shares) <= 101


def test_suggested_instances_are_labelled_and_the_model_refitted(ensemble: str, open_page: Callable[..., Any]) -> None:
    page = open_page(ensemble)
    queue = page.locator("#next-title ~ ol li")
    queue.nth(4).wait_for()
    refit = page.get_by_role("button", name="Refit")
    assert refit.is_disabled()
    known = page.request.get(f"{ensemble}/labels").json()["labels"]
    for place, label in ((0, "ham"), (1, "spam")):
        button = queue.nth(place).get_by_role("button")
        number = button.inner_text().removeprefix("No. ")
        button.click()
        group = page.get_by_role("group", name=f"Label of instance {number}")
        group.get_by_role("button", name=label).click()
        page.get_by_role("button", name=f"Refit with {place + 1} new label").wait_for()
    before = [button.inner_text() for button in queue.get_by_role("button").all()]
    page.get_by_role("button", name="Refit with 2 new labels").click()
    page.get_by_text(f"Refitted with {len(known) + 2} labels").wait_for()
    expect(queue.get_by_role("button").first).not_to_have_text(before[0])
    after = [button.inner_text() for button in queue.get_by_role("button").all()]
    assert not set(before[:2]) & set(after)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the labels as CSV").click()
    lines = saved.value.path().read_text(encoding="utf-8-sig").splitlines()
    assert lines[0] == "id,label"
    assert len(lines) == 1 + len(known) + 2


def test_the_average_shows_ids_and_names_everywhere(named_average: str, open_page: Callable[..., Any]) -> None:
    page = open_page(named_average)
    page.locator("#list-title ~ ol li").nth(14).wait_for()
    assert all(name.startswith("message ") for name in numbers(page))
    page.get_by_label("Order").select_option("number")
    expect(page.locator("#list-title ~ ol button").first).to_have_text("message 0")
    page.locator("#list-title ~ ol button").first.click()
    page.get_by_role("heading", name="message 0").wait_for()
    said = page.locator("#one-title ~ .scroll tbody tr").all_inner_texts()
    assert len(said) == 9
    assert all(f"filter {j}" in text for j, text in enumerate(sorted(said)))
    shares = [int(text.removesuffix(" %")) for text in page.locator(".fused-row b").all_inner_texts()]
    assert 99 <= sum(shares) <= 101


def test_the_average_takes_labels_and_is_refitted(named_average: str, open_page: Callable[..., Any]) -> None:
    page = open_page(named_average)
    queue = page.locator("#next-title ~ ol li")
    queue.nth(4).wait_for()
    known = page.request.get(f"{named_average}/labels").json()["labels"]
    button = queue.nth(0).get_by_role("button")
    name = button.inner_text()
    assert name.startswith("message ")
    button.click()
    page.get_by_role("group", name="Label of").get_by_role("button", name="spam").click()
    page.get_by_role("button", name="Refit with 1 new label").click()
    page.get_by_text(f"Refitted with {len(known) + 1} labels").wait_for()
    expect(queue.get_by_role("button").first).not_to_have_text(name)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the labels as CSV").click()
    lines = saved.value.path().read_text(encoding="utf-8-sig").splitlines()
    assert lines[0] == "id,label"
    assert f"{name},spam" in lines


def test_keys_label_the_queue_one_after_another(average: str, open_page: Callable[..., Any]) -> None:
    page = open_page(average)
    queue = page.locator("#next-title ~ ol li")
    queue.nth(4).wait_for()
    queue.first.get_by_role("button").click()
    page.locator("#next-title ~ ol li[aria-current]").wait_for()
    page.keyboard.press("1")
    page.get_by_role("button", name="Refit with 1 new label").wait_for()
    expect(queue.first.locator(".tag")).to_have_text("label spam")
    page.keyboard.press("s")
    page.keyboard.press("0")
    page.get_by_role("button", name="Refit with 2 new labels").wait_for()


def test_a_table_of_ones_own_is_fused_and_saved(average: str, open_page: Callable[..., Any], tmp_path: Path) -> None:
    page = open_page(average, allow="422")
    page.locator(".heat i").first.wait_for()
    assert page.locator(".heat i").count() == 81
    own = tmp_path / "mine.csv"
    names = page.request.get(f"{average}/classifiers").json()["names"]
    own.write_text("id,label\nno such instance,spam\n")
    page.get_by_label("File").set_input_files(own)
    page.get_by_text("there is no fitted instance").wait_for()
    own.write_text(",".join(sorted(names)) + "\n" + "\n".join(["0.9,0.8,,0.7,0.9,0.9,0.8,0.7,0.9"] * 3) + "\n")
    page.get_by_label("File").set_input_files(own)
    page.get_by_role("heading", name="3 fused answers").wait_for()
    assert page.get_by_text("there is no fitted instance").count() == 0
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the fused answers as CSV").click()
    lines = saved.value.path().read_text(encoding="utf-8-sig").splitlines()
    assert lines[0] == "id,answer,p(ham),p(spam)"
    assert [line.split(",")[1] for line in lines[1:]] == ["spam"] * 3


@pytest.mark.parametrize("kind", ["ensemble", "average"])
def test_the_keyboard_alone_labels_refits_and_measures(
    kind: str, request: pytest.FixtureRequest, open_page: Callable[..., Any]
) -> None:
    page = open_page(request.getfixturevalue(kind))
    queue = page.locator("#next-title ~ ol li")
    queue.nth(4).wait_for()
    page.locator(".heat i").first.wait_for()
    queue.first.get_by_role("button").focus()
    page.keyboard.press("Enter")
    page.locator("#next-title ~ ol li[aria-current]").wait_for()
    page.keyboard.press("0")
    page.get_by_role("button", name="Refit with 1 new label").press("Enter")
    page.get_by_text("Refitted with").wait_for()
    page.get_by_role("button", name="Measure it").press("Enter")
    picture = page.get_by_role("img", name="the next 10 are expected to bring it to")
    picture.wait_for(timeout=60_000)
    assert picture.locator("circle").count() == 4
    page.get_by_text("In numbers").focus()
    page.keyboard.press("Enter")
    assert page.locator("#curve-title ~ div tbody tr").count() == 4
    assert page.locator(".heat span").count() == 9
