"""What a kind of model can be asked, and where to turn with what it cannot; names and ids as people type them.

A capability is a method of the model. Knows commands and kinds; computes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from halfstep.data import files as persistence
from halfstep.data.names import Names
from halfstep.errors import UnknownIdError, did_you_mean
from halfstep.kinds import ESTIMATORS, load

OF_RATINGS = ("PLQMF", "BayesMF", "Biases", "Constant")
"""Kinds of models that predict ratings."""
WHAT = {
    "recommender": "a recommender of items to users",
    "ratings": "a model of ratings",
    "ensemble": "an ensemble of classifiers",
}
INSTEAD = {
    ("recommender", "fuse"): "`halfstep recommend` and `halfstep predict` answer for users and pairs",
    ("recommender", "similar users"): "users have no factors there: `halfstep similar --item` answers, and a model of "
    "`halfstep fit wals` compares users",
    ("recommender", "tune"): "`halfstep tune DATA --seconds 120` searches all recommenders; wals alone is tuned by "
    "itself",
    ("ratings", "fuse"): "`halfstep predict` answers for pairs in a file",
    ("ratings", "recommend"): "it has no taste of users to go by; a model of `halfstep fit plq` or `fit bayes` has, "
    "and `halfstep predict` answers here",
    ("ratings", "similar"): "it has no factors to compare; a model of `halfstep fit plq` has",
    ("ratings", "similar users"): "it has no factors to compare; a model of `halfstep fit plq` has",
    ("ratings", "tune"): "it has nothing to tune; `halfstep tune DATA --ratings --estimators plq` or bayes searches",
    ("ensemble", "predict"): "`halfstep fuse` answers for new instances in a file",
    ("ensemble", "recommend"): "it knows instances and classifiers, no users and items; `halfstep fuse` answers",
    ("ensemble", "similar"): "it knows instances and classifiers, no users and items; `halfstep explain` shows what "
    "each classifier counts",
    ("ensemble", "similar users"): "it knows instances and classifiers, no users and items; `halfstep explain` shows "
    "what each classifier counts",
    (
        "ensemble",
        "tune",
    ): "`halfstep tune DATA --ensemble` searches among fusions; `halfstep fit ensemble` weighs a family by itself",
}
"""What to do where a family of models has no answer to a command."""


def family_of(kind: str) -> str:
    """Which of the families of `WHAT` a kind belongs to."""
    if ESTIMATORS[kind].startswith("halfstep.ensemble"):
        return "ensemble"
    return "ratings" if kind in OF_RATINGS else "recommender"


def family_in(path: Path) -> str:
    """The family of the model in a file, which is not loaded."""
    kind = persistence.read(path, mmap=True).kind
    return family_of(kind) if kind in ESTIMATORS else ""


def model_for(path: Path, asked: str, *methods: str) -> Any:
    """A saved model that has one of these methods; else an error says what to do in place of what was `asked`."""
    fitted = load(path)
    if not any(hasattr(fitted, method) for method in methods):
        raise no_answer(path, type(fitted).__name__, asked)
    return fitted


def no_answer(path: Path, kind: str, asked: str) -> ValueError:
    """The error about a model that cannot be asked this."""
    family = family_of(kind)
    article = "an" if kind[0] in "AEIOU" else "a"
    return ValueError(f"{path} holds {article} {kind}, {WHAT[family]}: {INSTEAD[family, asked]}")


def by_name(paths: Sequence[Path], taken: Sequence[str] = ()) -> dict[str, Any]:
    """Saved models by the names of their files; by the whole path where a name comes twice or is taken."""
    stems = [path.stem for path in paths]
    unclear = {stem for stem in stems if stems.count(stem) > 1} | set(taken)
    return {str(path) if path.stem in unclear else path.stem: load(path) for path in paths}


def names_of(fitted: Any, side: int) -> Names:
    """Users (0) or items (1) of a model, by id or title."""
    fit = fitted.fitted_
    known: Names = fit.names[side] if hasattr(fit, "names") else Names(fit.ids[side])
    return known


def find_id(fitted: Any, side: str, text: str) -> tuple[Any, str]:
    """The id that people mean by `text`, and its title: an id as written, or a title, case ignored."""
    names = names_of(fitted, int(side == "item"))
    row = int(names.find([text], text=True)[0])
    if row < 0:
        near = names.near(text)
        raise UnknownIdError(f"{side} {text!r} is not in this model.{did_you_mean(near)}", near)
    return names.index.take([row]).tolist()[0], names.label(row)
