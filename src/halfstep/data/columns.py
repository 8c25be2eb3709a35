"""Which column is the user, the item, the weight, the time: one table of names, one choice, for every door.

Files, frames and clusters ask here, so that they cannot differ. Must not know where the columns lie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from halfstep.errors import one_of

# Names that are recognised, best first, compared in lower case by their letters and digits alone.
RECOGNISED: dict[str, tuple[str, ...]] = {
    "user": (
        *("user", "userid", "useridx", "users", "uid", "username", "customer", "customerid", "client", "clientid"),
        *("member", "memberid", "visitor", "visitorid", "account", "accountid", "session", "sessionid"),
        *("reviewer", "reviewerid", "reader", "readerid", "occupation", "occupationid", "occupationuri"),
        *("occupationtitle", "onetsoccode", "soccode", "position", "positionid", "job", "jobid", "jobtitle"),
        *("person", "personid", "instance", "instanceid"),
    ),
    "item": (
        *("item", "itemid", "itemidx", "items", "iid", "movie", "movieid", "product", "productid", "asin", "sku"),
        *("article", "articleid", "book", "bookid", "isbn", "song", "songid", "track", "trackid", "artist"),
        *("artistid", "listing", "listingid", "page", "content", "contentid", "skill", "skillid", "skilluri"),
        *("skillname", "technology", "activity", "task", "taskid", "element", "elementid", "elementname"),
        *("classifier", "classifierid"),
    ),
    "weight": (
        *("weight", "weights", "rating", "ratings", "score", "stars", "importance", "count", "counts", "clicks"),
        *("views", "plays", "playcount", "listens", "purchases", "quantity", "value", "confidence", "datavalue"),
        *("strength",),
    ),
    "timestamp": ("timestamp", "time", "datetime", "date", "unixtime", "createdat", "eventtime", "ts"),
}
# The same for tables with a row for each instance, where an instance is no user.
OF_INSTANCES: dict[str, tuple[str, ...]] = {
    "id": ("id", "instance", "instanceid", "row", "rowid", "sample", "sampleid", "index", "key", "uid"),
    "label": ("label", "y", "target", "class", "truth", "ytrue", "gold"),
}

# Words for one row of a side that a page may use; a column of any other name leaves it at its role.
NOUNS = {
    *("customer", "client", "member", "visitor", "account", "session", "reviewer", "reader", "occupation", "position"),
    *("job", "person", "movie", "film", "product", "article", "book", "song", "track", "artist", "listing", "page"),
    *("skill", "technology", "activity", "task"),
}
ENDINGS = ("ids", "id", "idx", "uri", "code", "title", "name", "s")


def choose_columns(
    asked: Mapping[str, Any], found: Sequence[Any], said: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """The column of each role among those `found`; a weight or a timestamp that is absent is left out.

    asked : for each role the name of its column, None to detect one, or False for none. said : what errors call a role.

    A column named for one role is not detected for another. Columns without names, which are positions 0, 1, ...,
    are taken in the order of the roles.
    """
    chosen: dict[str, Any] = {}
    for role, column in asked.items():
        if column is None or column is False:
            continue
        one_of(said.get(role, role), column, found, "is not a column; the columns are")
        taken = next((other for other, name in chosen.items() if name == column), None)
        if taken is not None:
            raise ValueError(f"{said.get(role, role)}={column!r} is also the {taken}; name two different columns")
        chosen[role] = column
    for place, (role, column) in enumerate(asked.items()):
        if column is not None:
            continue
        free = [name for name in found if name not in chosen.values()]
        without_names = all(isinstance(name, int) for name in found)
        column = (place if place in free else None) if without_names else detect(role, free)
        if column is not None:
            chosen[role] = column
        elif role in ("user", "item"):
            raise ValueError(
                f"no column looks like the {role}; the columns are {list(found)}: pass {role}= with one of them"
            )
    return {role: chosen[role] for role in asked if role in chosen}


def noun(role: str, column: Any) -> str:
    """What one id of a column is called, where its name says so: "occupation" for occupation_uri; else the role."""
    plain = "".join(filter(str.isalnum, str(column).casefold()))
    for ending in ("", *ENDINGS):
        word = plain.removesuffix(ending).removesuffix("s") if ending else plain
        if plain.endswith(ending) and word in NOUNS:
            return word
    return role


def plural(word: str) -> str:
    """ "occupations", "activities"; enough for the nouns of tables and pages."""
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"


def a(word: str) -> str:
    """ "an item", "a skill"."""
    vowel = word[:1].casefold() in "aeiou" and not word.casefold().startswith(("us", "uni", "eu"))
    return f"{'an' if vowel else 'a'} {word}"


def detect(role: str, columns: Sequence[Any]) -> Any:
    """The column with the best recognised name, the first one of equals; None where no name is recognised."""
    plain = {"".join(filter(str.isalnum, str(name).casefold())): name for name in reversed(columns)}
    return next((plain[name] for name in (RECOGNISED | OF_INSTANCES)[role] if name in plain), None)
