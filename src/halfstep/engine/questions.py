"""Questions about instances, answered where they are: arrays here, a DataFrame on its cluster. Knows no estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from numpy.typing import DTypeLike, NDArray

from halfstep.engine.instances import is_spark_frame

Answers = Mapping[str, NDArray[Any]]


class Questions(Protocol):
    """What a caller can say of instances, one row of each array for one of them."""

    def arrays(self, P: Any) -> Any:
        """The answer for arrays."""

    def frame(self) -> tuple[list[str], str, dict[str, tuple[DTypeLike, int]], Callable[[NDArray[Any]], Answers]]:
        """For a DataFrame: its columns of numbers, what is said where one is missing, type and axes of the answers by
        name, and the answers to rows (n, columns)."""


def answered(P: Any, questions: Questions, keep: bool = False) -> Any:
    """Arrays for arrays; a DataFrame with more columns for a DataFrame. keep : whether the numbers stay beside them."""
    if not (keep or is_spark_frame(P)):
        return questions.arrays(P)
    from halfstep.engine.spark.instances import answered_frame

    return answered_frame(P, *questions.frame(), keep=keep)
