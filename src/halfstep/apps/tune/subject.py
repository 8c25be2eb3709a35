"""What is tuned, as a search sees it. Knows neither rankings nor ratings.

`WalsSubject` searches for rankings, `RatingSubject` for predictions of ratings; the data say which.
"""

from __future__ import annotations

from typing import Any, Protocol

from halfstep.judge import Result


class Subject(Protocol):
    """Where a search looks, what a trial is worth, and what its winner is.

    metric : what is searched for. sign : 1 where larger is better, -1 where smaller is. names : what is searched.
    first : settings that are tried before any other. warmup : reports of a trial before it may be given up.
    fingerprint : data and choices; a study is about one of them.
    """

    metric: str
    sign: int
    names: tuple[str, ...]
    first: list[dict[str, Any]]
    warmup: int
    fingerprint: str

    def __call__(self, trial: Any) -> float:
        """The value of one trial of Optuna."""

    def params(self, trial: dict[str, Any]) -> dict[str, Any]:
        """What a finished trial says to set."""

    def model(self, params: dict[str, Any]) -> Any:
        """An unfitted model with these parameters, for all data."""

    def test(self, params: dict[str, Any]) -> Result:
        """The model of these parameters, the default and the baselines on cells that no trial has seen."""
