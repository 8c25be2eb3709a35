"""The small table of occupations and skills that ships with the package, for examples and tests."""

from __future__ import annotations

from importlib import resources

from ._assemble import assemble
from ._columns import numbers_of
from ._delimited import Delimited
from .interactions import Interactions


def load_sample_skills() -> Interactions:
    """Occupations x skills, weights their importance from 1 to 5; ids are the names themselves.

    Written by hand to be plausible and to have structure: related occupations share skills. Illustrative
    only; not measured, not taken from any classification.
    """
    file = "sample_skills.csv"
    text = Delimited(resources.files(__package__).joinpath(file).read_bytes(), file, comment="#")
    table = text.read({"occupation": None, "skill": None, "importance": numbers_of})
    return assemble(
        table["occupation"],
        table["skill"],
        table["importance"],
        duplicates="error",
        name="sample occupations x skills",
        source="illustrative: written by hand for halfstep, not measured",
        licence="Apache-2.0, part of halfstep",
        report=table.report(),
        nouns=("occupation", "skill"),
    )
