"""What is known of the rows of a fit beside their cells: their features, and the weights that say where rows are.

Every row has one feature more than was given, a constant 1: rows of which nothing is known are expected where rows are
on average. Knows sides of a fit and encoded features; solves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.core.problem import Problem, Side
from halfstep.core.regression import HALF, Regression
from halfstep.data.features import Features
from halfstep.data.files import Saved
from halfstep.data.ids import Index
from halfstep.data.table import CellsHere
from halfstep.data.tensors import FACTORS, OFFSETS, PLACES, Tensor
from halfstep.engine.features import FeaturesHere, RowFeatures, encoded_rows, expected_rows, with_constant
from halfstep.engine.protocol import Engine, KeptRows
from halfstep.errors import check_number
from halfstep.models.answers import Parts

Array = NDArray[Any]
Known = TypeVar("Known")

SIDES = ("user", "item")
CONSTANT, INTERACTIONS = "(everybody)", "(interactions)"
"""What the constant feature, and what a row is beside its features, are called where reasons are given."""


@dataclass(frozen=True, eq=False)
class WeighedFeatures:
    """Features of one side of a fit, and what they weigh.

    features : a row for each id of the side, in their order; only how they are encoded, where rows are on a cluster.
    weights : W (p + 1, f) over the free columns of a row, the last row for the constant. eta : how strongly they were
    held. share : of the penalty of rows, that about W'f.
    """

    features: Features
    weights: Array
    eta: float
    share: float = HALF

    @classmethod
    def of(cls, features: RowFeatures | None, side: Side, dtype: Any) -> Self | None:
        """What a fit learned; None where nothing is known of the side."""
        if features is None or side.features is None:
            return None
        weights = side.features.weights
        assert weights is not None, "a fit has solved them"
        return cls(features.known, np.ascontiguousarray(weights, dtype), side.features.eta, side.features.share)

    @property
    def called(self) -> tuple[str, ...]:
        """The p + 1 features by name."""
        return (*self.features.names, CONSTANT)

    def expected(self, features: Features) -> Array:
        """Where rows with these features are held, share * W'f, (k, f)."""
        return expected_rows(features, self.weights, self.share)

    def encoded(self, given: Any, n: int) -> Features:
        """Features of n new rows; None of which stands for rows of which nothing is known."""
        return encoded_rows(self.features, given, n)

    def grown(self, given: Any, index: Index) -> WeighedFeatures:
        """The same over more ids: what is given holds, then what was known, and else nothing is."""
        old = self.features.matrix
        matrix = sp.csr_array(sp.vstack([old, sp.csr_array((len(index) - len(self.features), old.shape[1]))]))
        if given is not None:
            new = self.features.encode(given)
            told = np.ones(len(index), bool) if new.ids is None else new.ids.find(index.ids) >= 0
            matrix = sp.diags_array(told.astype(float)) @ new.aligned(index) + sp.diags_array(1.0 - told) @ matrix
        return replace(self, features=Features(sp.csr_array(matrix), self.features.names, index, self.features.blocks))

    def held(self, side: Side) -> Side:
        """The side, its rows held where these weights say."""
        matrix = with_constant(self.features.matrix)
        lam = np.broadcast_to(np.asarray(side.penalty, np.float64), matrix.shape[0])
        found = Regression.of(matrix, self.eta, lam, self.share)
        return replace(side, features=replace(found, solved=self.weights, fitted=matrix @ self.weights))

    def parts(self, features: Features, along: NDArray[np.float64], whole: float | None = None) -> Parts:
        """What each feature of one row adds to share * W'f . along, largest first; zeros are left out.

        whole : what all parts are to add up to; what features leave of it is a part more, that of interactions.
        """
        row = with_constant(features.matrix[[0]])
        values = self.share * row.data * (self.weights[row.indices].astype(np.float64) @ along)
        names = np.array(self.called, object)[row.indices]
        if whole is not None:
            names, values = np.append(names, INTERACTIONS), np.append(values, whole - values.sum())
        order = np.argsort(-np.abs(values), kind="stable")
        return Parts(names[order], values[order])


BothFeatures = tuple[RowFeatures | None, RowFeatures | None]
Sides = tuple[WeighedFeatures | None, WeighedFeatures | None]
NOTHING: Sides = (None, None)


def read_both(engine: Engine, given: Any, user_features: Any, item_features: Any) -> BothFeatures:
    """Features of both sides of what an engine has read, in the order of its ids; None where none are given."""
    users, items = (
        None if told is None else engine.about(given, side, told, role)
        for side, (told, role) in enumerate(zip((user_features, item_features), SIDES, strict=True))
    )
    return users, items


def read_here(ids: tuple[Index, Index], user_features: Any, item_features: Any) -> Sequence[Features | None]:
    """The same for a fit that keeps what is known of its rows on this machine, wherever its cells are."""
    both = zip((user_features, item_features), ids, SIDES, strict=True)
    return [None if told is None else FeaturesHere.of(told, index, role).known for told, index, role in both]


def digests(features: BothFeatures) -> dict[str, str]:
    """By side, for those that have features; the same for the same rows of them."""
    return {name: told.digest() for name, told in zip(SIDES, features, strict=True) if told is not None}


def expecting(problem: Problem, features: BothFeatures, strengths: Sequence[float], share: float = HALF) -> Problem:
    """The problem, rows of a side expected where their features say; see `Side.expecting`."""
    users, items = (
        side if given is None else given.expecting(side, strength, share)
        for side, given, strength in zip(problem.sides, features, strengths, strict=True)
    )
    return replace(problem, sides=(users, items))


def expected_new(
    kept: KeptRows, given: Any, known: WeighedFeatures | None, told: Any, argument: str, by_id: bool
) -> Any:
    """Where new rows of side 0 are held: a prior for them, or None where the fit knew no features.

    by_id : whether features say whose they are, or are in the order of the rows.
    """
    if told is not None:
        need(known, 0, argument)
    if known is None:
        return None
    return kept.about(given, told, known.features, by_id).means(known.weights, known.share)


def held(problem: Problem, known: Sides) -> Problem:
    """The problem, rows of a side held where weights that stay as they are say."""
    users, items = (side if each is None else each.held(side) for side, each in zip(problem.sides, known, strict=True))
    return replace(problem, sides=(users, items))


def grown_known(known: Sides, told: Sequence[Any], ids: tuple[Index, Index]) -> Sides:
    """What is known of more ids; features of a side that the fit knew none of are refused."""
    for side, (each, given) in enumerate(zip(known, told, strict=True)):
        if given is not None:
            need(each, side, f"{SIDES[side]}_features")
    users, items = (
        None if each is None else each.grown(given, index) for each, given, index in zip(known, told, ids, strict=True)
    )
    return users, items


def with_items(
    table: CellsHere, known: WeighedFeatures, given: Any, labels: Iterable[str] | None
) -> tuple[CellsHere, WeighedFeatures]:
    """A table with more items, which nobody has, and what is known of all of them."""
    new, old = known.features.encode(given), table.ids[1]
    if new.ids is None and not old.is_range:
        raise ValueError(
            "features must say whose they are, since the items of the fit have ids: give a frame or a dict."
        )
    if new.ids is not None and (old.find(new.ids.ids) >= 0).any():
        again = new.ids.take(np.flatnonzero(old.find(new.ids.ids) >= 0)[:1]).tolist()[0]
        raise ValueError(f"item {again!r} is in the model already; partial_fit takes other features of it.")
    ids = Index.range(len(old) + len(new), old.name) if new.ids is None else old.extend(new.ids.ids)
    titles = table.labels[1]
    if labels is not None or titles is not None:
        told = list(ids.take(np.arange(len(old), len(ids))) if labels is None else labels)
        if len(told) != len(new):
            raise ValueError(f"labels has {len(told)} entries; it must have {len(new)}, one for each new item.")
        titles = np.array([*(old.ids if titles is None else titles), *told], object)
    features = Features(
        sp.csr_array(sp.vstack([known.features.matrix, new.matrix])), known.features.names, ids, known.features.blocks
    )
    cells = replace(table.cells, shape=(table.cells.shape[0], len(ids)), _transposed=[])
    grown = replace(table, cells=cells, ids=(table.ids[0], ids), labels=(table.labels[0], titles))
    return grown, replace(known, features=features)


def known_of(features: BothFeatures, session: Any, dtype: Any) -> Sides:
    """What a fit learned of both sides, from where its loop has ended.

    In the only sweep of a short fit rows may still have been zero when weights were due. These are solved now; the
    objective of that sweep does not know them.
    """
    for side, held in enumerate(session.problem.sides):
        if held.features is not None and held.features.weights is None:
            session.learn(side)
    both = zip(features, session.problem.sides, strict=True)
    users, items = (WeighedFeatures.of(given, side, dtype) for given, side in both)
    return users, items


def collected(known: Sides, kept: KeptRows) -> Sides:
    """The same with the features of all rows on this machine."""
    users, items = (
        None if each is None else replace(each, features=kept.known(side, each.features))
        for side, each in enumerate(known)
    )
    return users, items


def need(known: Known | None, side: int, argument: str) -> Known:
    """What is known of a side; raises where the fit had no features of it."""
    if known is None:
        name = f"{SIDES[side]}_features"
        raise ValueError(f"{argument} needs a model that was fitted with {name}=; this one was not.")
    return known


# ---------------------------------------------------------------------- in a model file


def to_file(known: Sides) -> tuple[dict[str, Any], dict[str, Array]]:
    """What a file keeps: in terms of JSON, and tensors. Ids are those of the sides."""
    meta: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    for name, each in zip(SIDES, known, strict=True):
        if each is not None:
            state, tensors = each.features.to_state()
            meta[name] = {"eta": each.eta, "share": each.share, "features": state}
            kinds = {"data": np.float64, "indices": np.int32, "indptr": np.int64}
            arrays |= {f"{name}_features_{part}": tensors[part].astype(kind) for part, kind in kinds.items()}
            arrays[f"{name}_feature_weights"] = each.weights
    return meta, arrays


def from_file(saved: Saved, ids: tuple[Index, Index], free: int) -> Sides:
    """What `to_file` took apart; every length checked. free : columns of a row that features speak of."""
    found: list[WeighedFeatures | None] = []
    for name, index in zip(SIDES, ids, strict=True):
        kept = saved.meta.get("features", {}).get(name)
        if kept is None:
            found.append(None)
            continue
        declared = {
            f"{name}_features_indptr": Tensor("rows+1", OFFSETS, of="values"),
            f"{name}_features_indices": Tensor("values", PLACES, of="columns"),
            f"{name}_features_data": Tensor("values"),
            f"{name}_feature_weights": Tensor("columns+1 free", FACTORS),
        }
        sizes = {"rows": len(index), "columns": len(kept["features"]["names"]), "free": free}
        indptr, indices, data, weights = saved.tensors(declared, **sizes).values()
        # copies: SciPy puts a matrix in order in place, which a mapped file does not bear
        arrays = {"indptr": indptr.copy(), "indices": indices.copy(), "data": data.copy()}
        features = Features.from_state(kept["features"], arrays, index)
        eta, share = kept["eta"], kept.get("share", HALF)
        check_number("eta", eta, above=0)
        check_number("share", share, above=0)
        check_number("what share leaves of 1", 1 - share, at_least=0)
        found.append(WeighedFeatures(features, weights, float(eta), float(share)))
    return found[0], found[1]
