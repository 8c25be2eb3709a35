"""Endpoints of rating models and ensembles. Turns requests into calls of their answers; decides nothing."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from halfstep.apps.serve import answers as a
from halfstep.apps.serve import bodies as b
from halfstep.apps.serve import given_ratings, uploads
from halfstep.apps.serve.instances import Order, Which
from halfstep.apps.serve.problems import FieldError
from halfstep.apps.serve.replies import ALWAYS_ASIDE, PROBLEMS, answer, current

ratings = APIRouter(tags=["ratings"], responses=PROBLEMS)
ensemble = APIRouter(tags=["ensemble"], responses=PROBLEMS)


@ratings.post("/predict", response_model=a.Predicted)
async def predict(request: Request, body: b.PredictBody) -> Response:
    """The value the model expects for each (user, item) pair, with intervals where the model has them."""
    rating = current(request).need("rating", "/predict")
    return await answer(request, lambda: rating.predict(body.pairs, body.unknown, body.level, body.parts))


@ratings.post("/rate_next", response_model=a.ToRate)
async def rate_next(request: Request, body: b.NextBody) -> Response:
    """The items whose rating would say most about all others, for a known user or somebody new."""
    rating = current(request).need("rating", "/rate_next")
    if (body.user is None) == (body.items is None):
        raise FieldError("user", "give either `user` (an id) or `items` (what somebody new has rated)")
    return await answer(request, lambda: given_ratings.what_next(rating, **body.model_dump()), ALWAYS_ASIDE)


@ratings.post("/misfits", response_model=a.Misfits)
async def misfits(request: Request, body: b.MisfitsBody) -> Response:
    """Ratings of somebody new, each beside what the others make the model expect; least expected first."""
    rating = current(request).need("rating", "/misfits")
    return await answer(request, lambda: given_ratings.do_not_fit(rating, body.items, body.ratings), ALWAYS_ASIDE)


@ensemble.post("/fuse", response_model=a.Fused)
async def fuse(request: Request, body: b.FuseBody) -> Response:
    """One calibrated probability for each class of each new instance, from the predictions of the classifiers."""
    fusion = current(request).need("fusion", "/fuse")
    return await answer(request, lambda: fusion.fuse(body.predictions, body.features), ALWAYS_ASIDE)


@ensemble.post("/table", response_model=a.TableAnswer | a.LabelList | a.RatedTable, openapi_extra=b.TABLE_BODY)
async def judge_table(request: Request) -> Response:
    """A CSV of one's own: predictions are fused, labels are read, ratings are judged. Nothing is stored.

    Ensembles take a header line, then a row for each instance: a column for each classifier by its name, and `id` and
    `label` where there are any. With nothing but an id and a label, they are labels of fitted instances, for
    `POST /labels`. Models of ratings take a row for each rating: user, item, rating.
    """
    served, data = current(request), await request.body()
    if served.rating:
        rating = served.need("rating", "/table")
        seconds = request.app.state.settings.fit_timeout
        return await answer(request, lambda: uploads.rated(rating, data), ALWAYS_ASIDE, timeout=seconds)
    fusion = served.need("fusion", "/table")
    return await answer(request, lambda: uploads.answer(fusion, served.instances, data), ALWAYS_ASIDE)


@ensemble.get("/classifiers", response_model=a.Classifiers)
async def classifiers(request: Request) -> Response:
    """The classifiers of the fit: what each counts, and how alike their predictions are, the alike side by side."""
    fitted = current(request).need("instances", "/classifiers")
    return await answer(request, fitted.classifiers, ALWAYS_ASIDE)


@ensemble.get("/curve", response_model=a.Curve)
async def curve(request: Request) -> Response:
    """What labels bring: log loss on hidden labels by the number of labels, and what ten more are expected to do.

    Sixteen fits; takes as long.
    """
    fitted, seconds = current(request).need("instances", "/curve"), request.app.state.settings.fit_timeout
    return await answer(request, fitted.curve, ALWAYS_ASIDE, timeout=seconds)


@ensemble.get("/instances", response_model=a.InstancePage)
async def instances(
    request: Request,
    order: Order = "difficulty",
    which: Which = "all",
    offset: Annotated[int, Query(ge=0)] = 0,
    n: Annotated[int, Query(ge=1)] = 20,
) -> Response:
    """The fitted instances with their fused answer and how the classifiers voted."""
    fitted = current(request).need("instances", "/instances")
    return await answer(request, lambda: fitted.page(order, which, offset, n), ALWAYS_ASIDE)


@ensemble.get("/instance", response_model=a.OneInstance)
async def instance(request: Request, number: int) -> Response:
    """One fitted instance with the vote of every classifier."""
    fitted = current(request).need("instances", "/instance")
    return await answer(request, lambda: fitted.one(number))


@ensemble.get("/suggestions", response_model=a.InstancePage)
async def suggestions(request: Request, n: Annotated[int, Query(ge=1, le=100)] = 5) -> Response:
    """The unlabelled instances whose labels would help the model most."""
    fitted = current(request).need("instances", "/suggestions")
    return await answer(request, lambda: fitted.suggestions(n), ALWAYS_ASIDE)


@ensemble.get("/labels", response_model=a.LabelList)
async def labels(request: Request) -> Response:
    """Every label the model knows, those given to this server included."""
    fitted = current(request).need("instances", "/labels")
    return await answer(request, fitted.labels)


@ensemble.post("/labels", response_model=a.Refitted)
async def add_labels(request: Request, body: b.LabelsBody) -> Response:
    """Add labels and refit. The new model serves as soon as it is ready; the model file is left as it is."""
    state = request.app.state
    fitted = current(request).need("instances", "/labels")

    def refit() -> dict[str, Any]:
        model, facts = fitted.relabelled([(entry.number, entry.label) for entry in body.labels])
        state.store.replace(model)
        changes: dict[str, Any] = facts
        return changes

    return await answer(request, refit, ALWAYS_ASIDE, timeout=state.settings.fit_timeout)
