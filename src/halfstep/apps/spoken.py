"""Errors and warnings of the library in the words of the command: `rank=0` is `--rank 0`, ['a', 'b'] is a, b.

One place, so that no check is written twice. Knows how Python spells things; not what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

RENAMED = {
    "n_threads": "--threads",
    "random_state": "--seed",
    "n_sweeps": "--sweeps",
    "n_trials": "--trials",
    "n_splits": "--splits",
    "path_or_frame": "",
    "path": "",
    "encoding": "--encoding",
    "positive": "--positive",
}
"""Parameters whose option has another name; an empty one is an argument, whose value speaks for itself."""
_VALUE = r"('(?:[^'\\]|\\.)*'|\"[^\"]*\"|[^\s,;:()\[\]]*[^\s,;:.()\[\]]|\[[^\]]*\])?"
_QUOTED = re.compile(r"'([^',\s]+)'|\"([^\",\s]+)\"")


def spoken(text: str, options: Mapping[str, str]) -> str:
    """The text without Python in it. options : names of parameters to the options of the command under way."""
    names = RENAMED | dict(options)

    def as_option(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        option = name if name.startswith("--") else names.get(name)
        return found[0] if option is None else f"{option} {value or ''}".strip()

    text = re.sub(rf"((?:--|\b)[A-Za-z_][\w-]*)={_VALUE}", as_option, text)
    text = re.sub(
        r"\[((?:'[^']*'|\"[^\"]*\"|-?[\d.]+|None)(?:, (?:'[^']*'|\"[^\"]*\"|-?[\d.]+|None))*)\]", _listed, text
    )
    text = re.sub(r"(--[\w-]+ \S+) \(\1\)", r"\1", text)
    return re.sub(r" See `report`\.?| \(--[\w-]+ on the command line\)", "", text)


def _listed(found: re.Match[str]) -> str:
    """The values of a list, quoted only where a blank or a comma stands in one."""
    bare = _QUOTED.sub(lambda each: each[1] or each[2], found[1])
    return re.sub(r"\bNone\b", "none", bare)
