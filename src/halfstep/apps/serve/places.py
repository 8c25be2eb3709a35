"""The map of a recommender: where items, users and somebody new stand. Laid out once, kept beside the model file."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any, Protocol
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from halfstep.apps.serve.names import NamesAsked
from halfstep.apps.serve.observe import log
from halfstep.core.arrays import Floats
from halfstep.data.files import atomic_write
from halfstep.figures.neighbours import NeighbourMap
from halfstep.figures.plane import LatentMap

Point = dict[str, Any]


class Plane(Protocol):
    def place(self, vectors: NDArray[Any]) -> Floats: ...


class Places:
    """Points of a map, and where vectors stand on it.

    A plane of principal components serves until the better map, by neighbours, is laid out in the background; that one
    is kept in a file beside the model (its name with `.map` behind it), so that it is laid out once.
    """

    def __init__(self, factors: NDArray[Any], names: NamesAsked, path: Path | None) -> None:
        self.factors = factors
        self.names = names
        self.path = None if path is None else path.with_name(path.name + ".map")
        self._near: NeighbourMap | None = None
        self._plane: Plane | None = None
        self._under_way: threading.Thread | None = None

    def prepare(self) -> None:
        """A map at once: the kept one, or a plain plane while the better one is laid out in the background."""
        self._near = self._kept()
        if self._near is None:
            self._plane = LatentMap(self.factors)
            self._under_way = threading.Thread(target=self.lay_out, name="map", daemon=True)
            self._under_way.start()

    def wait(self) -> None:
        """Until the map is laid out."""
        if self._under_way is not None:
            self._under_way.join()

    def lay_out(self) -> None:
        """Lay the map out by neighbours and keep it; takes seconds."""
        near = NeighbourMap.of(self.factors, self.names.popularity)
        self._near = near
        if self.path is None:
            return
        try:
            with atomic_write(self.path) as temporary, open(temporary, "wb") as file:
                np.savez(file, allow_pickle=False, fingerprint=self._fingerprint(), **near.to_arrays())
        except OSError as error:  # a folder that cannot be written to; the map is made anew at the next start
            log.warning("map not kept", extra={"facts": {"path": str(self.path), "reason": str(error)}})

    @property
    def plane(self) -> Plane:
        plane = self._near or self._plane
        if plane is None:
            plane = self._plane = LatentMap(self.factors)
        return plane

    @property
    def groups(self) -> list[Point]:
        """The names of groups of items and where they stand; none while there is only the plain plane."""
        near = self._near
        if near is None:
            return []
        named = self.names.describe(near.rows[near.heads])
        return [entry | _at(near.centre(group)) for group, entry in enumerate(named)]

    @property
    def method(self) -> str:
        return "PCA" if self._near is None else "t-SNE"

    def points(self, names: NamesAsked, rows: NDArray[Any], factors: NDArray[Any]) -> list[Point]:
        """Rows of a side with their coordinates."""
        if not len(rows):
            return []
        places = self.plane.place(factors[rows])
        return [entry | _at(place) for entry, place in zip(names.describe(rows), places, strict=True)]

    def _kept(self) -> NeighbourMap | None:
        """The map beside the model file, where it is one of these very factors."""
        if self.path is None or not self.path.is_file():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as kept:
                if str(kept["fingerprint"]) == self._fingerprint():
                    return NeighbourMap.from_arrays(kept, self.factors)
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            log.warning("map not read", extra={"facts": {"path": str(self.path), "reason": str(error)}})
        return None

    def _fingerprint(self) -> str:
        return hashlib.sha256(np.ascontiguousarray(self.factors).tobytes()).hexdigest()


def _at(place: Floats) -> dict[str, float]:
    x, y = np.round(place, 4).tolist()
    return {"x": x, "y": y}
