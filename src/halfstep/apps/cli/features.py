"""What the command is told about users and items beside interactions: files with a row for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from halfstep.apps.console import listed, say, working
from halfstep.data.datasets import read_features
from halfstep.data.datasets._delimited import Delimited
from halfstep.data.datasets._sources import ARROW, PARQUET, whole_file
from halfstep.data.features import Features
from halfstep.errors import one_of

PANEL = "Features"
SEPARATOR = "|"


@dataclass
class FeatureFiles:
    """Tables about users and items, and how columns of them are to be read."""

    user_features: Annotated[
        Path | None,
        typer.Option(
            help="A CSV, TSV, Parquet or Arrow file with an id and a row for each user.", rich_help_panel=PANEL
        ),
    ] = None
    item_features: Annotated[Path | None, typer.Option(help="The same about items.", rich_help_panel=PANEL)] = None
    text: Annotated[
        str | None, typer.Option(help="Their columns to be read word by word, by commas.", rich_help_panel=PANEL)
    ] = None
    lists: Annotated[
        str | None, typer.Option(help="Their columns of lists such as Crime|Drama, by commas.", rich_help_panel=PANEL)
    ] = None
    categories: Annotated[
        str | None, typer.Option(help="Their columns of numbers that name groups, by commas.", rich_help_panel=PANEL)
    ] = None

    def read(self) -> dict[str, Features]:
        """`user_features` and `item_features`, as far as they are given. A column is taken of every file with it."""
        files = {"user": self.user_features, "item": self.item_features}
        columns = {side: _columns(path) for side, path in files.items() if path is not None}
        asked = {name: listed(getattr(self, name)) for name in ("text", "lists", "categories")}
        if not columns and any(asked.values()):
            given = " and ".join(f"--{name}" for name, names in asked.items() if names)
            raise ValueError(f"{given}: of which file? Give --user-features or --item-features too")
        for option, names in asked.items():
            for name in names:
                known = [each for found in columns.values() for each in found]
                one_of(f"--{option}", name, known, "is not a column of the features; these are")
        return {f"{side}_features": self._of(side, files[side], found, asked) for side, found in columns.items()}

    def _of(self, side: str, path: Path | None, columns: list[str], asked: Mapping[str, Sequence[str]]) -> Features:
        assert path is not None
        text, lists, categories = ([name for name in names if name in columns] for names in asked.values())
        with working(f"reading {path.name}"):
            separated = dict.fromkeys(lists, SEPARATOR)
            features = read_features(path, side, text=text, lists=separated, categories=categories)
        say(f"{path.name}: {features.shape[1]:,} features of {features.shape[0]:,} {side}s")
        return features


def _columns(path: Path) -> list[str]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix.lower() in PARQUET + ARROW:
        return list(whole_file(path).schema.names)
    return Delimited.open(path).names
