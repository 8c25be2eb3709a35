"""Models with features on the command line: fitted from files, asked about what nobody has seen."""

import json

import pytest

from .command import one_line, run

JOBS = [(f"job{k}", skill) for k in range(12) for skill in (("ovens", "dough", "menus"), ("letters", "loans"))[k % 2]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("newcomers")
    (folder / "jobs.csv").write_text("user,item\n" + "".join(f"{job},{skill}\n" for job, skill in JOBS))
    about = "".join(f"job{k},{('food', 'office')[k % 2]},title {k % 3}\n" for k in range(12))
    (folder / "about.csv").write_text("user,sector,words\n" + about)
    (folder / "skills.csv").write_text("item,kind\novens,food\ndough,food\nmenus,food\nletters,paper\nloans,paper\n")
    (folder / "people.csv").write_text("user,sector\nann,food\nbob,office\n")
    (folder / "more.csv").write_text("item,kind\ntongs,food\n")
    files = ("--user-features", folder / "about.csv", "--item-features", folder / "skills.csv", "--text", "words")
    result = run(
        "fit", "wals", folder / "jobs.csv", *files, "--rank", 3, "--feature-reg", 0.1, "-o", folder / "m.safetensors"
    )
    assert result.exit_code == 0, result.output
    return folder


def asked(folder, *options):
    result = run("recommend", folder / "m.safetensors", *options, "-n", 2, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_somebody_new_is_described_by_features(folder):
    best = asked(folder, "--feature", "sector=food", "--why")
    assert {row["item"] for row in best} <= {"ovens", "dough", "menus"}
    assert "sector=food" in best[0]["why"]


def test_a_table_of_newcomers_has_a_list_for_each(folder):
    best = asked(folder, "--user-features", folder / "people.csv")
    assert {row["user"] for row in best} == {"ann", "bob"}
    assert {row["item"] for row in best if row["user"] == "bob"} == {"letters", "loans"}


def test_items_and_features_go_together_and_new_items_enter_lists(folder):
    alone = asked(folder, "--items", "letters")
    both = asked(folder, "--items", "letters", "--feature", "sector=food")
    assert alone != both
    found = run(
        "recommend", folder / "m.safetensors", "--user", "job0", "--item-features", folder / "more.csv", "--json"
    )
    assert "tongs" in {row["item"] for row in json.loads(found.stdout)}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--feature", "sector"), "must be NAME=VALUE"),
        (("--feature", "colour=red"), "is none of the columns that features were made of"),
        (("--feature", "sector=food", "--user", "job1"), "give one of --user"),
    ],
)
def test_features_that_cannot_be_used_are_refused(folder, options, text):
    result = run("recommend", folder / "m.safetensors", *options)
    assert result.exit_code in (1, 2)
    assert text in " ".join(result.output.replace("│", " ").split()) or text in one_line(result.output)
