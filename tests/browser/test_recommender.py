"""Finding skills: type, choose, read the reasons, move the sliders, jump to an occupation; by mouse and by keyboard."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.browser


def names(page: Any) -> list[str]:
    return page.locator(".ranking .name").all_inner_texts()


def address(base: str, **state: Any) -> str:
    return f"{base}/#{quote(json.dumps(state))}"


def chosen(page: Any) -> list[str]:
    return page.locator(".chip span").all_inner_texts()


def test_enter_takes_what_was_typed_though_answers_are_late(skills: str, open_page: Callable[..., Any]) -> None:
    page = open_page(skills)
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("combobox", name="Your skills").focus()
    page.keyboard.type("p")
    page.get_by_role("option").first.wait_for()
    page.keyboard.type("ython")
    page.keyboard.press("Enter")  # before anything was found for it
    expect(page.locator(".chip")).to_have_count(1)
    assert chosen(page) == ["Python"]


def test_the_keyboard_alone_finds_and_removes_skills(skills: str, open_page: Callable[..., Any]) -> None:
    page = open_page(skills)
    field = page.get_by_role("combobox", name="Your skills")
    field.focus()
    page.keyboard.type("pyt")
    expect(page.locator("[role=option][aria-selected=true]")).to_have_text("Python")
    assert field.get_attribute("aria-expanded") == "true"
    active = field.get_attribute("aria-activedescendant")
    assert page.locator(f"#{active}").inner_text() == "Python"
    page.keyboard.press("Enter")
    page.locator(".ranking li").first.wait_for()
    page.keyboard.type("sql")
    page.get_by_role("option", name="SQL", exact=True).wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page.locator(".chip")).to_have_count(2)
    assert chosen(page) == ["Python", "SQL"]
    page.keyboard.press("ArrowDown")
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("Escape")
    assert field.get_attribute("aria-expanded") == "false"
    page.keyboard.press("Backspace")
    expect(page.locator(".chip")).to_have_count(1)
    assert chosen(page) == ["Python"]


def test_typing_errors_still_find_something(skills: str, open_page: Callable[..., Any]) -> None:
    page = open_page(skills)
    page.get_by_role("combobox", name="Your skills").press_sequentially("comunication")
    expect(page.get_by_role("option").first).to_contain_text("communication")


def test_recommendations_come_with_reasons_that_follow_the_choice(skills: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address(skills, have=["Python", "SQL"], n=5))
    page.locator(".because").first.wait_for()
    assert len(names(page)) == 5
    assert "because of" in page.locator(".because").first.inner_text()
    before = names(page)
    added = before[2]
    page.get_by_role("button", name=f"Add {added}").click()
    expect(page.locator(".ranking .name").get_by_text(added, exact=True)).to_have_count(0)
    assert chosen(page) == ["Python", "SQL", added]
    page.locator(".ranking summary").first.click()
    page.locator(".parts dt").first.wait_for()
    assert set(page.locator(".parts dt").all_inner_texts()) == {"Python", "SQL", added}


def test_the_sliders_change_length_and_order(skills: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address(skills, have=["Python", "SQL"], n=6))
    page.locator(".ranking li").nth(5).wait_for()
    plain = names(page)
    count = page.get_by_role("slider", name="How many skills")
    count.focus()
    page.keyboard.press("ArrowRight")
    page.locator(".ranking li").nth(6).wait_for()
    assert names(page)[:6] == plain
    page.get_by_role("slider", name="Diversity").fill("0.9")
    expect(page.locator(".ranking .name")).not_to_have_text(names(page))
    assert names(page)[0] == plain[0]
    assert names(page)[:6] != plain


def test_similar_occupations_can_be_jumped_to(skills: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address(skills, have=["Python", "SQL", "statistics"]))
    similar = page.locator(".neighbours button").first
    similar.wait_for()
    name = similar.inner_text()
    similar.click()
    page.get_by_role("heading", name=f"For {name}").wait_for()
    assert len(chosen(page)) > 3


def test_starting_from_a_known_occupation(skills: str, open_page: Callable[..., Any]) -> None:
    page = open_page(skills)
    page.get_by_role("combobox", name="Start from an occupation").press_sequentially("econom")
    page.get_by_role("option", name="Economist").click()
    page.get_by_role("heading", name="For Economist").wait_for()
    page.get_by_role("button", name="Clear").click()
    page.get_by_text("Add a skill to begin").wait_for()
    assert chosen(page) == []


def test_the_map_shows_where_you_are_and_takes_clicks(skills: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address(skills, have=["Python", "SQL"]))
    page.locator(".ranking li").first.wait_for()
    canvas = page.get_by_role("img", name="nearest recommendations")
    drawn = canvas.evaluate(
        """canvas => {
            const ink = getComputedStyle(document.documentElement).getPropertyValue('--warm').trim();
            const [r, g, b] = [1, 3, 5].map(k => parseInt(ink.slice(k, k + 2), 16));
            const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            let count = 0;
            for (let k = 0; k < data.length; k += 4) count += data[k] === r && data[k + 1] === g && data[k + 2] === b;
            return count;
        }"""
    )
    assert drawn > 100  # two squares of ten by ten pixels, less what lies above them
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="Whole map").click()
    before = len(chosen(page))
    box = canvas.bounding_box()
    for x in range(5, 100, 5):  # somewhere on the way across there is an item
        for y in (35, 45, 55, 65):
            canvas.click(position={"x": box["width"] * x / 100, "y": box["height"] * y / 100})
            if len(chosen(page)) > before or page.get_by_role("heading", name="For ").count():
                return
    raise AssertionError("no click on the map did anything")


def test_an_address_can_be_kept_and_a_strange_one_does_no_harm(skills: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address(skills, have=["Python"], n=3, diversity=0.5))
    page.locator(".ranking li").nth(2).wait_for()
    kept = page.url
    again = open_page(kept)
    again.locator(".ranking li").nth(2).wait_for()
    assert names(again) == names(page)
    strange = open_page(address(skills, have=["no such skill"]), allow="404")
    strange.get_by_text("Add a skill to begin").wait_for()


def test_a_kept_address_asks_once_so_that_an_opened_answer_stays_open(
    skills: str, open_page: Callable[..., Any]
) -> None:
    page = open_page(skills)
    page.locator(".empty p").wait_for()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(skills)))
    page.goto("about:blank")
    page.goto(address(skills, have=["Python", "SQL"], n=5))
    page.locator(".ranking li").first.wait_for()
    page.wait_for_timeout(300)  # a slider that was moved would have asked again by now
    assert asked.count("/recommend_for") == 1


def test_the_first_screen_shows_an_example_that_makes_room(skills: str, open_page: Callable[..., Any]) -> None:
    page = open_page(skills)
    page.get_by_text("An example. Search an occupation of your own").wait_for()
    assert len(names(page)) == 10
    page.get_by_role("combobox", name="Your skills").press_sequentially("pyth")
    page.get_by_role("option", name="Python").click()
    expect(page.locator(".chip")).to_have_count(1)
    expect(page.get_by_text("An example.")).to_have_count(0)


def test_the_skills_of_an_occupation_are_folded_and_those_of_ones_own_in_the_open(
    skills: str, open_page: Callable[..., Any]
) -> None:
    page = open_page(address(skills, user="Data scientist"))
    page.get_by_role("heading", name="For Data scientist").wait_for()
    profile = page.locator(".card:has(#given-title)")
    assert profile.locator(".chip:visible").count() == 0
    profile.locator("summary", has_text="skills of Data scientist").click()
    folded = profile.locator(".chip:visible").count()
    assert folded > 6
    page.get_by_role("button", name="Add", exact=False).first.click()
    expect(profile.locator(".chip:visible")).to_have_count(folded + 1)  # own ones from here on: six of them in the open
    profile.locator("summary", has_text="more skills").click()
    assert profile.locator(".chip:visible").count() == 6


def test_on_a_phone_the_answer_is_near_the_top(skills: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address(skills, user="Data scientist"), width=360, height=780)
    page.locator(".ranking li").first.wait_for()
    assert page.locator("#best-title").bounding_box()["y"] < 780
    assert not page.get_by_role("slider", name="Diversity").is_visible()


def test_lists_are_narrowed_and_the_address_keeps_it(narrowed: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address(narrowed, have=["lead"], n=6))
    page.locator(".ranking li").nth(4).wait_for()
    page.locator("summary", has_text="Narrow the lists").click()
    page.get_by_role("checkbox", name="knowledge").check()
    expect(page.locator(".ranking li")).to_have_count(2)
    assert set(names(page)) == {"speak", "dance"}
    page.get_by_role("checkbox", name="transversal").check()
    expect(page.locator(".ranking li")).to_have_count(1)
    page.get_by_label("Group of similar occupations").select_option("26")
    expect(page.locator(".neighbours li")).to_have_count(3)
    again = open_page(page.url)
    again.get_by_text("Narrowed by 3 choices").wait_for()
    expect(again.locator(".ranking li")).to_have_count(1)
    again.get_by_text("Narrowed by 3 choices").click()
    again.get_by_role("button", name="Show all").click()
    expect(again.locator(".ranking li")).to_have_count(5)


def test_essential_skills_alone_count_where_that_is_asked(narrowed: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address(narrowed, user="occupation 1"))
    said = page.locator("summary", has_text="skills of occupation 1")
    every = int(said.inner_text().split()[0])
    page.locator("summary", has_text="Narrow the lists").click()
    page.get_by_label("Skills of occupations that count").select_option("essential")
    page.get_by_text("Narrowed by 1 choice").wait_for()
    expect(page.locator(".chip")).not_to_have_count(every)
    page.get_by_role("button", name="Compare with").first.click()
    page.locator(".compare h3, .compare p").first.wait_for()


def test_names_change_their_language(narrowed: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address(narrowed, user="occupation 1", n=3))
    page.get_by_role("heading", name="For occupation 1").wait_for()
    page.locator("summary", has_text="Narrow the lists").click()
    page.get_by_label("Language of names").select_option("de")
    page.get_by_role("heading", name="For Beruf 1").wait_for()
    assert all(name.startswith("Fertigkeit") for name in names(page))
    page.get_by_role("combobox", name="Start from an occupation").press_sequentially("beruf 2")
    page.get_by_role("option", name="Beruf 2").click()
    page.get_by_role("heading", name="For Beruf 2").wait_for()
    again = open_page(page.url)
    again.get_by_role("heading", name="For Beruf 2").wait_for()


def test_two_occupations_are_compared_in_two_clicks(skills: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address(skills, user="Data scientist"))
    button = page.get_by_role("button", name="Compare with").first
    button.wait_for()
    other = button.get_attribute("aria-label").removeprefix("Compare with ")
    button.click()
    page.get_by_role("heading", name=f"Compared with {other}").wait_for()
    gap = page.locator(".compare .gap li")
    gap.first.wait_for()
    lacking, first = gap.count(), gap.first.locator(".name").inner_text()
    kept = page.url
    gap.first.get_by_role("button", name=f"Add {first}").click()
    expect(page.locator(".compare .gap li")).to_have_count(lacking - 1)
    again = open_page(kept)
    again.get_by_role("heading", name=f"Compared with {other}").wait_for()
    expect(again.locator(".compare .gap li")).to_have_count(lacking)
    again.get_by_role("button", name="Close").click()
    assert again.locator(".compare:visible").count() == 0


def test_lists_are_saved_as_csv(skills: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address(skills, have=["Python", "SQL"], n=4))
    page.locator(".ranking li").first.wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the recommendations as CSV").click()
    assert download.value.suggested_filename == "skills-for-you.csv"
    lines = download.value.path().read_text(encoding="utf-8-sig").splitlines()
    assert lines[0] == "rank,skill,id,score"
    assert [line.split(",")[1] for line in lines[1:]] == names(page)


def test_a_recommender_without_factors_has_a_page_without_a_map(graph: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address(graph, have=["Python", "SQL"], n=4))
    page.locator(".ranking li").nth(3).wait_for()
    assert page.locator("canvas").count() == 0
    page.locator(".ranking summary").first.click()
    page.locator(".parts dt").first.wait_for()
    page.get_by_role("combobox", name="Start from an occupation").press_sequentially("econom")
    page.get_by_role("option", name="Economist").click()
    page.get_by_role("heading", name="For Economist").wait_for()


def test_a_key_is_asked_for_and_remembered(locked: str, open_page: Callable[..., Any]) -> None:
    page = open_page(locked, allow="401")
    page.get_by_label("Key").fill("wrong")
    page.get_by_role("button", name="Open").click()
    page.get_by_text("That key was not accepted").wait_for()
    page.get_by_label("Key").fill("open sesame")
    page.get_by_role("button", name="Open").click()
    page.get_by_role("combobox", name="Your skills").wait_for()
    page.reload()
    page.get_by_role("combobox", name="Your skills").wait_for()


def test_a_late_refusal_of_a_key_leaves_what_is_being_typed(locked: str, open_page: Callable[..., Any]) -> None:
    page = open_page(locked, allow="401")
    held: list[Any] = []
    page.route("**/model", lambda route: held.append(route), times=1)
    page.get_by_label("Key").fill("wrong")
    with page.expect_request("**/model"):
        page.get_by_role("button", name="Open").click()
    page.get_by_label("Key").fill("open sesame")
    assert page.get_by_role("button", name="Open").is_disabled()
    held[0].continue_()
    page.get_by_text("That key was not accepted").wait_for()
    assert page.get_by_label("Key").input_value() == "open sesame"
    page.get_by_role("button", name="Open").click()
    page.get_by_role("combobox", name="Your skills").wait_for()


def test_the_page_of_the_api_sends_requests(skills: str, open_page: Callable[..., Any]) -> None:
    page = open_page(f"{skills}/docs", allow="404")
    page.locator("summary", has_text="/recommend_for").click()
    form = page.locator("details[open]")
    form.get_by_role("button", name="Send").click()
    form.locator("pre").wait_for()
    assert form.locator("pre").inner_text().startswith("200 in ")
    form.get_by_label("Body").fill('{"items": ["Pyton"]}')
    form.get_by_role("button", name="Send").click()
    form.locator("pre", has_text="404 in ").wait_for()
    assert "Did you mean 'Python'?" in form.locator("pre").inner_text()
