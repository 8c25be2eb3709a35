"""The one loop over models: fit, ask, measure. Knows that something is judged; not what.

What is judged is a `Judge`: `RankingJudge` for matrices of who has what, `RatingJudge` for ratings. The data say which.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from sklearn.utils import check_random_state

from halfstep.data.datasets.ratings import Ratings
from halfstep.errors import check_number
from halfstep.judge.rankings import RankingJudge
from halfstep.judge.rating_splits import RatingSplit
from halfstep.judge.ratings import RatingJudge
from halfstep.judge.result import Measured, Result


class Judge(Protocol):
    """How one kind of data is judged: its splits, what a model must offer, who stands beside it, what is measured.

    contract, offers : what a model must have, as a type and in words. answering : what it does, "rank" or "predict".
    """

    contract: Any
    offers: str
    answering: str
    splits: list[Any]

    def baselines(self, models: Mapping[str, Any]) -> dict[str, Any]:
        """What stands beside these models in every table."""

    def prepare(self, models: Mapping[str, Any]) -> None:
        """Look at all models before any is fitted."""

    def measure(self, name: str, model: Any, split: Any) -> Measured:
        """The metrics of one model, fitted on one split."""

    def check(self, measured: Mapping[str, Measured]) -> None:
        """Raise where what was measured makes no table."""

    def facts(self, measured: Measured) -> dict[str, Any]:
        """What the `Result` says of the data."""


def evaluate(
    models: Any,
    data: Any,
    protocol: str | None = None,
    metrics: Iterable[str] | None = None,
    k: int | Iterable[int] | None = None,
    *,
    user_features: Any = None,
    item_features: Any = None,
    protocol_options: Mapping[str, Any] | None = None,
    baselines: bool = True,
    n_splits: int = 1,
    n_bootstrap: int = 1000,
    confidence: float = 0.95,
    random_state: Any = None,
) -> Result:
    """Fit every model on the same training cells and judge what it says of the same held-out ones.

    Rankings: data are a sparse matrix users x items, an `Interactions`, or a `Split`. Models are `Ranker`s, judged by
    their full ranking. Ratings: data are `Ratings` or a `RatingSplit`. Models are `Predictor`s, judged by what they
    predict for pairs.

    models            a model, a list of them, or a dict of name to model; they are cloned, never changed
    protocol          rankings: "strong_generalisation" (default), "leave_k_out", "time_split", "few", "cold_users" or
                      "cold_items"; ratings: "random" (default), "per_user", "by_time", "cold_users" or
                      "cold_items"; None for a split made beforehand
    metrics           names in `METRICS`, "ndcg" at every `k` and "ndcg@100" at 100 alone; or in `RATING_METRICS`, such
                      as "rmse", "pinball@0.9" and "coverage@0.9". None chooses the usual ones
    k                 rankings: how many of the best items are judged, one number or several; 10 when left out
    user_features, item_features  rankings: whatever `Features.of` takes, for models that know features
                      (`FeatureRanker`); cold protocols take what they need from the data where none are given
    protocol_options  arguments of the split function, such as `{"holdout_users": 1000}` or `{"share": 0.2}`
    baselines         whether `Popularity` and `ItemKNN` stand in the table, unless the models hold one of them; for
                      ratings `Constant` and `Biases` under the loss of every model; for cold protocols those that
                      know features
    n_splits          so many splits, one after the other; sums of a user are added
    n_bootstrap       resamples of the users for the intervals
    confidence        probability mass of an interval
    random_state      decides the splits and the resamples; models keep their own
    """
    check_number("n_bootstrap", n_bootstrap, at_least=1, whole=True)
    check_number("n_splits", n_splits, at_least=1, whole=True)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence!r}; expected a number between 0 and 1, such as 0.95.")
    random = check_random_state(random_state)
    features = {"user_features": user_features, "item_features": item_features}
    judge = _judge(data, protocol, protocol_options or {}, metrics, k, n_splits, random, random_state, features)
    named = _named(models, judge, baselines)
    judge.prepare(named)
    measured = {
        name: Measured.together([judge.measure(name, model, split) for split in judge.splits])
        for name, model in named.items()
    }
    judge.check(measured)
    return Result(
        measured,
        **judge.facts(next(iter(measured.values()))),
        answering=judge.answering,
        confidence=confidence,
        n_bootstrap=n_bootstrap,
        seed=int(random.randint(2**31 - 1)),
    )


def _judge(
    data: Any,
    protocol: str | None,
    options: Mapping[str, Any],
    metrics: Iterable[str] | None,
    k: int | Iterable[int] | None,
    n_splits: int,
    random: Any,
    random_state: Any,
    features: Mapping[str, Any],
) -> Judge:
    """Who judges these data. Splits of ratings are named by their seed, those of matrices are drawn in turn."""
    if isinstance(data, Ratings | RatingSplit):
        if any(given is not None for given in features.values()):
            raise ValueError("user_features and item_features are for rankings; data are ratings. Leave them out.")
        return RatingJudge(data, protocol, options, metrics, k, n_splits, random_state)
    return RankingJudge(data, protocol, options, metrics, k, n_splits, random, **features)


def _named(models: Any, judge: Judge, baselines: bool) -> dict[str, Any]:
    """Models by name, the missing baselines first."""
    if isinstance(models, Mapping):
        named = {str(name): model for name, model in models.items()}
    else:
        several = list(models) if isinstance(models, list | tuple) else [models]
        classes = [type(model).__name__ for model in several]
        names = [
            each if classes.count(each) == 1 else " ".join(repr(model).split())
            for each, model in zip(classes, several, strict=True)
        ]
        named = dict(zip(names, several, strict=True))
        if len(named) < len(several):
            raise ValueError(f"models has two entries named {max(names, key=names.count)!r}; give a dict of names.")
    for name, model in named.items():
        if isinstance(model, type) or not isinstance(model, judge.contract):
            what = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
            raise TypeError(f"models: {name!r} is {what}; expected an object with {judge.offers}.")
    added = judge.baselines(named) if baselines else {}
    clash = added.keys() & named.keys()
    if clash:
        raise ValueError(f"models: the name {min(clash)!r} is a baseline's; choose another or set baselines=False.")
    if not added and not named:
        raise ValueError("models is empty and baselines=False; there is nothing to evaluate.")
    return added | named
