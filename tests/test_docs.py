"""The examples of the README and of every guide run as written; those that need downloads are fenced as `py`."""

import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    if not blocks:
        pytest.skip(f"{page.name} has no examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks:
            exec(compile(block, str(page), "exec"), names)


@pytest.mark.heavy
def test_outputs_in_the_readme_are_what_its_commands_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    first = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    shown = re.search(r"```pycon\n>>> (.*?)\n(.*?)\n```", text, re.DOTALL)
    assert first is not None
    assert shown is not None
    exec(compile(first[1], "README.md", "exec"), names)
    assert repr(eval(shown[1], names)) == shown[2]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [
        t.split("#")[0] for t in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in t and not t.startswith("#")
    ]
    missing = [target for target in targets if target and not (page.parent / target).exists()]
    assert not missing
