"""Every `halfstep` line of the README and the guides is one the command understands: its name, options and values.

Lines that make sense on small files are also run, by `test_cli_docs.py` and `test_cli_readme.py`.
"""

import re
import shlex
from pathlib import Path

import pytest

from .command import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = pytest.importorskip("typer").main.get_command(app)


def lines(page: Path) -> list[str]:
    """Commands in fenced or indented blocks, one each: without comments and prompts, cut at semicolons and pipes."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```[a-z]*\n(.*?)```", text, re.DOTALL) + re.findall(
        r"^    (halfstep .*)$", text, re.MULTILINE
    )
    found = []
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        for part in re.split(r";|&&|\|(?=\s)", line.split(" #")[0]):
            said = part.strip().removeprefix("$ ")
            if said.startswith("halfstep ") and " / " not in said:
                found.append(said)
    return found


CASES = [pytest.param(line, id=f"{page.name}: {line}") for page in PAGES for line in lines(page)]


def test_there_are_commands_to_look_at():
    assert len(CASES) > 20


def understood(line: str) -> None:
    """Raises what the command would say. Classes by name: whose click it is depends on the version of typer."""
    command, (_, *words) = COMMAND, shlex.split(line)
    while hasattr(command, "commands"):
        name, *words = words
        assert name in command.commands, f"there is no command {name}"
        command = command.commands[name]
    try:
        command.make_context(command.name, words)
    except Exception as error:
        if type(error).__name__ != "Exit" and "does not exist" not in str(error):  # --help; files of the reader
            raise


@pytest.mark.parametrize("line", CASES)
def test_the_command_understands_what_the_guides_tell_people_to_type(line: str) -> None:
    if line.split()[1:] != ["--help"]:
        understood(line)


@pytest.mark.parametrize("line", ["halfstep fitt wals", "halfstep fit plq x.csv --nope 3", "halfstep serve m --port x"])
def test_a_line_that_is_wrong_is_found(line: str) -> None:
    with pytest.raises(Exception, match=r"no command|No such option|valid integer"):
        understood(line)
