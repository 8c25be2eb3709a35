"""Numbers that were learned, by name: what a file keeps of an object. Knows no estimator."""

from __future__ import annotations

import numpy as np

from halfstep.core.arrays import Floats


class Learned:
    """A subclass names in `learned` the attributes that learning sets; the others follow from how it was made."""

    learned: tuple[str, ...] = ()

    def state(self) -> dict[str, Floats]:
        """The learned arrays by name; `restore` takes them back."""
        return {name: np.asarray(getattr(self, name)) for name in self.learned}

    def restore(self, state: dict[str, Floats]) -> None:
        for name in self.learned:
            setattr(self, name, state[name] if np.ndim(state[name]) else state[name].item())
