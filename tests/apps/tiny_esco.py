"""A very small ESCO in two languages, as files in a folder."""

from pathlib import Path

SKILLS = ("drama", "speak", "sing", "dance", "write", "lead")


def write_esco(folder: Path) -> Path:
    """Six occupations and six skills in the layout of ESCO, in English and German."""
    relations = [
        f"o/{o},{'essential' if (o + s) % 2 else 'optional'},s/{s}\n"
        for o in range(6)
        for s in range(6)
        if (o + 2 * s) % 5
    ]
    tables = {
        "occupationSkillRelations": "occupationUri,relationType,skillUri\n" + "".join(relations),
        "occupations_en": "conceptUri,iscoGroup,preferredLabel,altLabels\n"
        + "".join(f"o/{o},{26 + o % 2}5{o % 2},occupation {o},job {o}\n" for o in range(6)),
        "occupations_de": "conceptUri,iscoGroup,preferredLabel\n"
        + "".join(f"o/{o},2654,Beruf {o}\n" for o in range(6)),
        "skills_en": "conceptUri,skillType,reuseLevel,preferredLabel,altLabels\n"
        + "".join(
            f"s/{k},{'knowledge' if k % 2 else 'skill'},{'transversal' if k < 3 else 'sector-specific'},{s},{s}ing\n"
            for k, s in enumerate(SKILLS)
        ),
        "skills_de": "conceptUri,preferredLabel\n" + "".join(f"s/{k},Fertigkeit {k}\n" for k in range(6)),
    }
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return folder
