"""Endpoints of recommenders. Turns requests into calls of `RankingAnswers`; decides nothing about rankings."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from halfstep.apps.serve import answers as a
from halfstep.apps.serve import bodies as b
from halfstep.apps.serve import comparing
from halfstep.apps.serve.replies import PROBLEMS, answer, current, language_of

router = APIRouter(tags=["recommender"], responses=PROBLEMS)

TextId = Annotated[str, Query(max_length=b.MAX_TEXT, description="Id, or label where the model has them.")]
OptionalId = Annotated[str | None, Query(max_length=b.MAX_TEXT)]
N = Annotated[int, Query(ge=1)]


@router.get("/recommend", response_model=a.ForUser)
async def recommend(request: Request, query: Annotated[b.RecommendQuery, Query()]) -> Response:
    """The best `n` items for one known user."""
    ranking = current(request).need("lists", "/recommend")
    if language_of(request):
        options = query.model_dump(exclude={"user", "n"})
        user = ranking.users.index.take([ranking.users.row(query.user, "user", text=True)]).tolist()
        return await answer(request, lambda: ranking.recommend(user, query.n, **options)[0])
    body = await request.app.state.together.recommend(ranking, query)
    return Response(body, media_type="application/json")


@router.post("/recommend", response_model=a.ForUsers)
async def recommend_many(request: Request, body: b.RecommendBody) -> Response:
    """The best `n` items for each of several known users."""
    ranking = current(request).need("lists", "/recommend")
    options = body.model_dump(exclude={"users", "n"})
    cost = ranking.cost(len(body.users))
    return await answer(request, lambda: {"results": ranking.recommend(body.users, body.n, **options)}, cost)


@router.post("/recommend_for", response_model=a.Items)
async def recommend_for(request: Request, body: b.RecommendForBody) -> Response:
    """The best `n` items for somebody new who has `items`, by exact fold-in."""
    ranking = current(request).need("lists", "/recommend_for")
    cost = ranking.cost() * (1 + 4 * (body.diversity > 0) + 4 * body.n * (body.why > 0))
    return await answer(request, lambda: ranking.recommend_for(**body.model_dump()), cost)


@router.get("/similar", response_model=a.Similar)
async def similar(
    request: Request, item: OptionalId = None, user: OptionalId = None, of: b.Side | None = None, n: N = 10
) -> Response:
    """The items or users whose factors point the same way: cosine similarity, largest first."""
    ranking = current(request).need("ranking", "/similar")
    side = of or ("items" if item is not None else "users")
    return await answer(request, lambda: ranking.similar(side, n, item=item, user=user, text=True), ranking.cost())


@router.post("/similar", response_model=a.Similar)
async def similar_to(request: Request, body: b.SimilarBody) -> Response:
    """The items or users nearest to an item, a user, or somebody new who has `items`."""
    ranking = current(request).need("ranking", "/similar")
    return await answer(request, lambda: ranking.similar(**body.model_dump()), 2 * ranking.cost())


@router.post("/explain", response_model=a.Explained)
async def explain(request: Request, body: b.ExplainBody) -> Response:
    """Why an item scores what it scores: the part of each item somebody has. The parts sum to the score."""
    ranking = current(request).need("ranking", "/explain")
    return await answer(request, lambda: ranking.explain(**body.model_dump()), 4 * ranking.cost())


@router.get("/profile", response_model=a.Profile)
async def profile(request: Request, user: TextId, relation: OptionalId = None) -> Response:
    """What a known user has; with a `relation`, what is related to them that way."""
    ranking = current(request).need("ranking", "/profile")
    return await answer(request, lambda: ranking.profile(user, text=True, relation=relation))


@router.get("/complete", response_model=a.Completed)
async def complete(
    request: Request, q: Annotated[str, Query(max_length=b.MAX_TEXT)] = "", of: b.Side = "items", n: N = 8
) -> Response:
    """Names that begin with, contain or resemble what somebody has typed."""
    served = current(request)
    if served.ranking is None:
        rating = served.need("rating", "/complete")
        return await answer(request, lambda: rating.complete(q, of, n))
    ranking = served.need("ranking", "/complete")
    return await answer(request, lambda: ranking.complete(q, of, n, language_of(request)))


@router.get("/features", response_model=a.CompletedFeatures)
async def features(request: Request, q: Annotated[str, Query(max_length=b.MAX_TEXT)] = "", n: N = 8) -> Response:
    """Features of users by name: what somebody new may be described by, for models that were fitted with some."""
    served = current(request)
    ranking = served.need("ranking", "/features")
    return await answer(request, lambda: ranking.features(q, n))


@router.post("/compare", response_model=a.Compared)
async def compare(request: Request, body: b.CompareBody) -> Response:
    """What somebody and a known user both have, and what is lacking, in the order of what it would bring."""
    ranking = current(request).need("ranking", "/compare")
    cost = ranking.cost() * 50
    return await answer(request, lambda: comparing.compare(ranking, **body.model_dump()), cost)


@router.get("/map", response_model=a.MapAnswer)
async def latent_map(request: Request, n: Annotated[int, Query(ge=1, le=5000)] = 1500) -> Response:
    """The most popular items on a plane: items of like factors stand together, groups are named."""
    ranking = current(request).need("ranking", "/map")
    return await answer(request, lambda: ranking.map(n), ranking.cost())


@router.post("/map", response_model=a.Located)
async def locate(request: Request, body: b.LocateBody) -> Response:
    """Where somebody who has `items` stands on the map, and where other items and users do."""
    ranking = current(request).need("ranking", "/map")
    return await answer(request, lambda: ranking.locate(**body.model_dump()), ranking.cost())
