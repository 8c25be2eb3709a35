"""Which published data set a folder holds, and its loader. Knows names of files, not what is in them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .esco import load_esco
from .interactions import Interactions
from .movielens import load_movielens
from .onet import load_onet

_LOADERS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "occupationSkillRelations*.csv": (load_esco, ("weights", "language")),
    "Technology Skills.txt": (load_onet, ("kind",)),
    "ratings.csv": (load_movielens, ()),
    "ratings.dat": (load_movielens, ()),
    "u.data": (load_movielens, ()),
}
"""A file that gives a folder away, its loader, and the options of that loader that are passed on."""


def load_published(folder: str | os.PathLike[str], **options: Any) -> Interactions:
    """Interactions of a folder as downloaded. options : for the loader that has them; others do without."""
    for pattern, (loader, takes) in _LOADERS.items():
        if any(Path(folder).glob(f"**/{pattern}")):
            found: Interactions = loader(folder, **{name: options[name] for name in takes if name in options})
            return found
    names = sorted(p.name for p in Path(folder).iterdir())[:8]
    raise ValueError(
        f"{folder} is a folder, but not one of ESCO, O*NET or MovieLens (it holds {names}); give the file to read"
    )
