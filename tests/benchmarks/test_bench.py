"""`make bench` and `make bench-full`: which commands they run, and that those exist and know what they are asked."""

import shlex
from pathlib import Path

import bench
import pytest

FOLDER = Path(bench.__file__).parent


def test_the_quick_ones_are_the_main_ratios_and_the_full_ones_are_more():
    quick, full = bench.chosen([], False), bench.chosen([], True)
    names = {name for name, _ in quick}
    assert {"sweep", "ranking race", "PLQ race", "recommend", "fresh process", "tune"} <= names
    assert names < {name for name, _ in full}
    assert len(full) == len(bench.PARTS)


def test_words_choose_parts_and_unknown_ones_are_refused():
    assert [name for name, _ in bench.chosen(["race", "tune"], False)] == ["ranking race", "PLQ race", "tune"]
    with pytest.raises(SystemExit, match="races: no such part; there are sweep,"):
        bench.chosen(["tune", "races"], False)


@pytest.mark.parametrize("script", sorted({shlex.split(command)[0] for _, command in bench.chosen([], True)}))
def test_parts_are_scripts(script):
    assert (FOLDER / script).exists()


def test_a_part_that_fails_is_said_and_the_others_run(monkeypatch, capsys, tmp_path):
    (tmp_path / "good.py").write_text("import sys; print(sys.argv[1:])")
    (tmp_path / "bad.py").write_text("raise SystemExit(3)")
    monkeypatch.setattr(bench, "FOLDER", tmp_path)
    parts = (bench.Part("bad", "bad.py", "bad.py"), bench.Part("good", "good.py --a 'b c'", None))
    monkeypatch.setattr(bench, "PARTS", parts)
    assert bench.main([]) == 1
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said if line.endswith("FAILED")] == ["bad"]
    assert said[-2].startswith("good")
    assert bench.main(["good"]) == 0
    assert bench.main(["--list"]) == 0
    assert "good            python benchmarks/good.py --a 'b c'" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command", sorted({command for full in (False, True) for _, command in bench.chosen([], full)})
)
def test_scripts_know_what_they_are_asked(command):
    """Sections, cases and options stand in a script as they are given."""
    script, *arguments = shlex.split(command)
    files = sorted((FOLDER / script).glob("*.py")) if (FOLDER / script).is_dir() else [FOLDER / script]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    assert not [word for word in arguments if not word.isdecimal() and f'"{word}"' not in text]
