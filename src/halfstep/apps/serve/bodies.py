"""What requests look like; pydantic checks and documents them. Knows no model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, StringConstraints

MAX_TEXT = 500  # characters of an id or a query
MAX_VALUES = 100  # of one column that is asked for

Text = Annotated[StrictStr, StringConstraints(max_length=MAX_TEXT)]
Finite = Annotated[StrictFloat, Field(allow_inf_nan=False)]
Id = Text | StrictInt | Finite | list[Text | StrictInt]
Count = Annotated[int, Field(ge=1, strict=True)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Side = Literal["items", "users"]
Strategy = Annotated[
    Literal["mean", "thompson", "upper"] | None,
    Field(description="For models that keep draws: rank by their mean, by one of them, or by mean and spread."),
]

Where = Annotated[
    dict[Text, Annotated[list[Text], Field(min_length=1, max_length=MAX_VALUES)]] | None,
    Field(description="What must be known of them: for each column one of these values. `GET /model` lists them."),
]
Relation = Annotated[Text | None, Field(description="How items must be related to the user, such as essential.")]


class Body(BaseModel):
    """A request: unknown fields are refused, so that a misspelt one is not ignored."""

    model_config = ConfigDict(extra="forbid")


class RecommendQuery(Body):
    user: str = Field(max_length=MAX_TEXT, description="Id, or label where the model has them.")
    n: int = Field(10, ge=1, description="How many items.")
    keep_seen: bool = Field(False, description="Also recommend what the user already has.")
    diversity: float = Field(0.0, ge=0, le=1, description="0 ranks by score; towards 1, unlike items are preferred.")
    strategy: Strategy = None

    def plain(self, other: RecommendQuery) -> bool:
        """Whether the two differ in the user only, so that one scan of the items can serve both."""
        mine, theirs = ((query.n, query.keep_seen, query.diversity, query.strategy) for query in (self, other))
        return mine == theirs


class RecommendBody(Body):
    users: list[Id] = Field(min_length=1, description="Ids, or labels where the model has them.", examples=[[42, 7]])
    n: Count = Field(10, description="How many items for each user.")
    candidates: list[Id] | None = Field(None, description="Only these items may be recommended.")
    exclude: list[Id] | None = Field(None, description="These items may not be recommended.")
    keep_seen: bool = Field(False, description="Also recommend what a user already has.")
    diversity: Share = Field(0.0, description="0 ranks by score; towards 1, items unlike those above are preferred.")
    strategy: Strategy = None
    where: Where = None


class RecommendForBody(Body):
    items: list[Id] | None = Field(
        None, min_length=1, description="What somebody new has.", examples=[["Python", "SQL"]]
    )
    features: dict[Text, Text | StrictBool | StrictInt | Finite | list[Text] | None] | None = Field(
        None,
        min_length=1,
        description="What else is known of them, by the columns that the model was fitted with; may stand alone.",
    )
    n: Count = 10
    weights: list[Annotated[float, Field(ge=0, allow_inf_nan=False)]] | None = Field(
        None, description="How much each of `items` counts; all alike when left out."
    )
    ratings: list[Annotated[float, Field(allow_inf_nan=False)]] | None = Field(
        None, description="For models of ratings: what somebody gave each of `items`."
    )
    how: Literal["fold_in", "average"] = Field("fold_in", description="Exact row problem, or the mean item vector.")
    candidates: list[Id] | None = None
    exclude: list[Id] | None = None
    diversity: Share = 0.0
    why: Annotated[int, Field(ge=0, le=20, strict=True)] = Field(
        0, description="So many of `items` are named for every recommendation, with what they contribute."
    )
    strategy: Strategy = None
    where: Where = None


class SimilarBody(Body):
    of: Side = Field("items", description="What is looked for.")
    item: Id | None = None
    user: Id | None = None
    items: list[Id] | None = Field(None, description="Somebody new who has these items.")
    n: Count = 10
    where: Where = None


class ExplainBody(Body):
    item: Id = Field(description="The item whose score is taken apart.")
    user: Id | None = None
    items: list[Id] | None = Field(None, description="What somebody new has, in place of `user`.")
    n: Count = 10


class CompareBody(Body):
    to: Id = Field(description="The known user to be compared with.")
    user: Id | None = None
    items: list[Id] | None = Field(None, description="What somebody new has, in place of `user`.")
    n: Count = 50
    where: Where = None
    relation: Relation = None


class LocateBody(Body):
    items: list[Id] = Field([], description="What somebody new has.")
    show: list[Id] = Field([], description="Items whose coordinates are wanted.")
    users: list[Id] = Field([], description="Users whose coordinates are wanted.")


class PredictBody(Body):
    pairs: list[tuple[Id, Id]] = Field(min_length=1, description="(user, item) pairs.", examples=[[[42, 7]]])
    unknown: Literal["error", "average"] = Field(
        "error", description="What an unknown id is: a 404, or an average user or item."
    )
    level: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None, description="Level of the intervals; 0.9 when left out. A 422 where the model has none."
    )
    parts: bool = Field(False, description="Also say what each value is made of.")


class NextBody(Body):
    user: Id | None = None
    items: list[Id] | None = Field(None, description="What somebody new has rated, in place of `user`; may be empty.")
    n: Count = 5


class MisfitsBody(Body):
    items: list[Id] = Field(min_length=2, description="What somebody new has rated.")
    ratings: list[Annotated[float, Field(allow_inf_nan=False)]] = Field(description="What they gave each.")


Probability = Annotated[float, Field(ge=0, le=1)]


class FuseBody(Body):
    predictions: (
        list[list[Probability | None]] | list[list[list[Probability] | None]] | list[dict[str, Probability | None]]
    ) = Field(
        min_length=1,
        description="A row for each instance: for each classifier the probability that P held in the fit, or, with "
        "more than two classes, of every class; null where a classifier said nothing. With two classes a row may be "
        "an object with classifiers by name.",
        examples=[[[0.9, 0.7, None]]],
    )
    features: list[list[float]] | None = Field(None, description="A row of features for each instance, if fitted with.")


class LabelEntry(Body):
    number: StrictInt
    label: StrictStr | StrictInt | StrictFloat | bool


class LabelsBody(Body):
    labels: list[LabelEntry] = Field(min_length=1)


TABLE_BODY = {"requestBody": {"required": True, "content": {"text/csv": {"schema": {"type": "string"}}}}}
