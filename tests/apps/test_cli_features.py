"""Features on the command line: files beside interactions, and protocols that need them."""

import json

import pytest

from .command import one_line, run


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    pairs = [(u, i) for u in range(40) for i in range(12) if (u + i) % 2 == 0 and (u * i) % 7 != 1]
    (folder / "clicks.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in pairs))
    films = "".join(
        f"{i},{'Crime|Drama' if i % 2 else 'Comedy'},film of {'love' if i % 2 else 'fun'}\n" for i in range(12)
    )
    (folder / "films.csv").write_text("item,genres,title\n" + films)
    return folder


def test_new_items_are_judged_by_a_file_of_features(files):
    options = ("--item-features", files / "films.csv", "--lists", "genres", "--text", "title", "-k", 2, "--json")
    result = run("evaluate", files / "clicks.csv", "--protocol", "cold_items", *options)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["protocol"] == "cold_items"
    assert {"FeatureRidge", "WALS"} < set(told["models"])
    assert "features of 12 items" in result.stderr


def test_few_cells_are_shown(files):
    result = run("evaluate", files / "clicks.csv", "--protocol", "few", "--given", 2, "-k", 3, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["protocol"] == "few"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--text", "title"), "Give --user-features or --item-features too"),
        (("--item-features", "films.csv", "--text", "titel"), "Did you mean 'title'"),
        (("--item-features", "nothing.csv"), "there is no file nothing.csv"),
        (("--protocol", "cold_users"), "nothing is known of the users; pass --user-features"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(files, options, text, monkeypatch):
    monkeypatch.chdir(files)
    assert text in one_line(run("evaluate", "clicks.csv", *options).stderr)
