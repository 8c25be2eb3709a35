"""What answers look like; pydantic documents them. Knows no model."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from halfstep.apps.serve.bodies import Side


class ValueParts(BaseModel):
    average: float = Field(description="What an average user is expected to give an average item.")
    user: float = Field(description="What this user adds to that.")
    item: float = Field(description="What this item adds to that.")
    taste: float = Field(description="What is left: how this user and this item go together.")


class Predicted(BaseModel):
    values: list[Any] = Field(description="What is expected of each pair.")
    level: float | None = Field(None, description="The probability with which a value lies in its interval.")
    intervals: list[tuple[float, float]] | None = Field(
        None, description="Low and high for each pair, doubt and noise of a single rating together."
    )
    doubt: list[float] | None = Field(
        None, description="Standard deviation of each expected value, the noise of a single rating left out."
    )
    parts: list[ValueParts] | None = Field(None, description="The parts of each value; they sum to it.")


class Fused(BaseModel):
    classes: list[Any]
    probabilities: list[list[float]] = Field(description="(instances, classes), in the order of `classes`.")
    labels: list[Any] = Field(description="The most probable class of each instance.")


class Judged(BaseModel):
    labelled: int
    fused_log_loss: float
    mean_log_loss: float = Field(description="Of the plain mean of the predictions.")


class TableAnswer(Fused):
    ids: list[Any]
    novel: float | None = Field(
        description="Share of rows farther from the fit than 95% of the fitted instances; 0.05 is as usual."
    )
    chance: float | None = Field(description="How often as many rows or more would be so far by chance alone.")
    judged: Judged | None = Field(description="Where rows have labels.")


class Classifiers(BaseModel):
    names: list[str] = Field(description="Alike ones side by side.")
    weights: list[float] | None
    similarity: list[list[float]] = Field(description="Between every two of them, in the order of `names`.")


class CurvePoint(BaseModel):
    labels: int
    log_loss: float = Field(description="On labels that were hidden.")
    error: float = Field(description="Standard deviation over draws of the labels.")


class Curve(BaseModel):
    points: list[CurvePoint]
    labelled: int
    now: float = Field(description="Log loss expected with all labels, by level + slope / labels through the points.")
    more: int
    then: float = Field(description="Log loss expected with so many more.")
    level: float
    slope: float


class Instance(BaseModel):
    number: int
    id: Any = Field(description="What the instance was called in the fit; its number where it had no name.")
    answer: Any
    probabilities: list[float]
    label: Any | None
    difficulty: float
    novelty: float
    top_votes: list[int | None] = Field(description="For each classifier the place of its class in `classes`.")
    vote_strengths: list[float | None] = Field(description="For each classifier the probability of that class.")


class Vote(BaseModel):
    classifier: int
    name: str
    probabilities: list[float] | None
    weight: float | None = None


class OneInstance(Instance):
    votes: list[Vote]


class InstancePage(BaseModel):
    total: int
    results: list[Instance]


class LabelledInstance(BaseModel):
    number: int
    id: Any
    label: Any


class LabelList(BaseModel):
    labels: list[LabelledInstance]


class Refitted(BaseModel):
    labelled: int
    changed: int = Field(description="Instances whose most probable class is now another one.")
    sweeps: int = Field(description="0 for an average, which has none.")


class Named(BaseModel):
    id: Any = Field(description="As it was given when the model was fitted.")
    label: str


class Reason(Named):
    contribution: float = Field(description="Part of the score; the parts of all given items sum to it.")


class Scored(Named):
    score: float
    why: list[Reason] | None = None


class ForUser(BaseModel):
    user: Named
    items: list[Scored]


class ForUsers(BaseModel):
    results: list[ForUser]


class Items(BaseModel):
    items: list[Scored]


class Similar(BaseModel):
    of: Side
    results: list[Scored]


class Explained(BaseModel):
    item: Named
    score: float
    contributions: list[Reason]


class Gained(Named):
    gain: float = Field(description="What this item would add to the likeness.")


class Compared(BaseModel):
    to: Named
    likeness: float = Field(description="Cosine of the two positions.")
    both: list[Named]
    lacking: list[Gained] = Field(description="What the other one has besides, largest gain first.")
    only_you: list[Named]


class ToRate(BaseModel):
    results: list[Gained] = Field(description="gain: share of what is uncertain of all ratings that it would resolve.")


class Misfit(Named):
    given: float
    expected: float = Field(description="What the other ratings make the model expect.")
    surprise: float = Field(description="The difference in standard deviations.")


class Misfits(BaseModel):
    results: list[Misfit] = Field(description="Least expected first.")


class RatedPair(BaseModel):
    user: Named
    item: Named
    given: float
    expected: float
    surprise: float = Field(description="The difference in half widths of the interval, or in standard deviations.")
    interval: tuple[float, float] | None = None


class RatedTable(BaseModel):
    rows: int
    unknown: int = Field(description="Rows of which an id is unknown; they are not judged.")
    mae: float = Field(description="Mean absolute difference of the others.")
    covered: float | None = Field(description="Share inside their interval, where the model has intervals.")
    level: float | None
    results: list[RatedPair] = Field(description="The least expected ones.")


class Weighted(Named):
    weight: float


class Profile(BaseModel):
    user: Named
    items: list[Weighted]


class Completed(BaseModel):
    results: list[Named]


class NamedFeature(Named):
    column: str = Field(description="The column of `features` in `POST /recommend_for`.")
    kind: Literal["categories", "lists", "words", "flags"]
    value: str = Field(description="What stands there: a group, an element of a list, a word, true.")


class CompletedFeatures(BaseModel):
    results: list[NamedFeature]


class Point(Named):
    x: float
    y: float


class MapAnswer(BaseModel):
    points: list[Point]
    groups: list[Point] = Field(description="Groups of like items: the item that stands for each, where most of it is.")
    method: str = Field(description="t-SNE; PCA for the seconds until that is laid out.")
    total: int


class Located(BaseModel):
    position: list[float] | None
    items: list[Point]
    users: list[Point]


class FacetValue(BaseModel):
    value: str
    title: str
    count: int


class FacetAnswer(BaseModel):
    name: str
    values: list[FacetValue]


class Filters(BaseModel):
    users: list[FacetAnswer]
    items: list[FacetAnswer]
    relations: list[str] = Field(description="Kinds of relations between users and items.")


class ModelFacts(BaseModel):
    kind: str
    version: str
    answers: list[str] = Field(description="Endpoints that this model serves.")
    sizes: dict[str, int]
    fold_in: Literal["items", "ratings"] | None = Field(
        None, description="What somebody new is described by: the items they have, or their ratings of items."
    )
    classes: list[Any] | None = None
    names: dict[str, str] = Field(description="What one row and one column are called.")
    filters: Filters | None = Field(None, description="What lists can be narrowed by.")
    intervals: bool = Field(False, description="Whether predicted values come with intervals.")
    middle: float | None = Field(
        None, description="What an average pair is expected to be worth, in a model of ratings."
    )
    parts: bool = Field(False, description="Whether predicted values can be taken apart.")
    languages: list[str] = Field([], description="For the header Accept-Language: names come in that language.")
    example: Named | None = Field(None, description="A known user worth a first look.")
    parameters: dict[str, Any]
    limits: dict[str, float]
    loaded_at: float


class State(BaseModel):
    status: str


class Reloaded(BaseModel):
    reloaded: bool
    kind: str
    loaded_at: float


class FieldProblem(BaseModel):
    field: str
    message: str


class ProblemAnswer(BaseModel):
    error: str
    field: str | None = None
    suggestions: list[Any] | None = None
    errors: list[FieldProblem] | None = None
    request: str = Field(description="The id of the request, as in the log and in the header X-Request-ID.")
