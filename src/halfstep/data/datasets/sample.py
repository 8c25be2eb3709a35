"""The small table of occupations and skills that ships with the package, for examples and tests."""

from __future__ import annotations

from importlib import resources

from ._assemble import assemble
from ._delimited import read_delimited
from .interactions import Interactions


def load_sample_skills() -> Interactions:
    """Occupations x skills, weights their importance from 1 to 5; ids are the names themselves.

    Written by hand to be plausible and to have structure: related occupations share skills. Illustrative
    only; not measured, not taken from any classification.
    """
    file = "sample_skills.csv"
    table = read_delimited(
        resources.files(__package__).joinpath(file).read_bytes(),
        file=file,
        text=("occupation", "skill"),
        numbers=("importance",),
        comment="#",
    )
    return assemble(
        table.text["occupation"],
        table.text["skill"],
        table.numbers["importance"],
        duplicates="error",
        name="sample occupations x skills",
        source="illustrative: written by hand for halfstep, not measured",
        licence="Apache-2.0, part of halfstep",
        report={"rows": table.rows, "broken_rows": table.broken},
    )
