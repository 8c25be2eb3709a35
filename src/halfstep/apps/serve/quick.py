"""The shortest way through `GET /recommend`: no framework, and one scan of the items for all who ask at once.

Scoring every item for one user is bound by reading the items, so sixteen users cost little more than one. Requests
that arrive in the same turn of the event loop, or while an earlier scan is under way, are scored together; nobody
waits for others to come. Knows rankings and ASGI. Whatever is out of the ordinary goes on to the documented route.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qsl

from anyio import to_thread
from pydantic import ValidationError

from halfstep.apps.serve.bodies import RecommendQuery
from halfstep.apps.serve.drawn import DrawnLists
from halfstep.apps.serve.guard import App, Receive, Scope, Send, send_json
from halfstep.apps.serve.problems import Refusal
from halfstep.apps.serve.ranking import RankingAnswers
from halfstep.apps.serve.replies import INLINE, encoded, told
from halfstep.apps.serve.settings import Settings

MAX_BATCH = 64

Lists = RankingAnswers | DrawnLists


class Together:
    """Rankings of single users, worked out for all who are waiting."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._waiting: list[tuple[Lists, RecommendQuery, int, asyncio.Future[bytes]]] = []
        self._busy = False

    async def recommend(self, ranking: Lists, query: RecommendQuery) -> bytes:
        """The JSON answer for one user."""
        ranking.allow(query.n)
        row = ranking.users.row(query.user, "user", text=True)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        self._waiting.append((ranking, query, row, answer))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._start)  # behind everybody else who is ready in this turn
        try:
            async with asyncio.timeout(self._settings.timeout):
                return await answer
        except TimeoutError:
            raise Refusal(503, f"not done within {self._settings.timeout:g} s", retry_after=1) from None

    def _start(self) -> None:
        """Score the largest group of like requests, here if that is quick and in a thread if not."""
        waiting = [entry for entry in self._waiting if not entry[3].done()]
        if not waiting:
            self._waiting, self._busy = [], False
            return
        ranking, query, _, _ = waiting[0]
        like = [e for e in waiting if e[0] is ranking and e[1].plain(query)][:MAX_BATCH]
        chosen = {id(entry[3]) for entry in like}
        self._waiting = [entry for entry in waiting if id(entry[3]) not in chosen]
        loop = asyncio.get_running_loop()
        if ranking.cost(len(like)) <= 4 * INLINE:  # rows scored together cost a quarter of rows scored one by one
            self._finish(like, _score(like))
            loop.call_soon(self._start)
        else:
            self._thread = loop.create_task(self._aside(like))  # kept, since a loop forgets tasks nobody holds

    async def _aside(self, like: list[Any]) -> None:
        self._finish(like, await to_thread.run_sync(_score, like))
        self._start()

    @staticmethod
    def _finish(like: list[Any], scored: list[bytes] | Exception) -> None:
        for place, (*_, answer) in enumerate(like):
            if answer.done():
                continue
            if isinstance(scored, Exception):
                answer.set_exception(scored)
            else:
                answer.set_result(scored[place])


def _score(like: list[tuple[Lists, RecommendQuery, int, Any]]) -> list[bytes] | Exception:
    ranking, query, _, _ = like[0]
    try:
        rows = [row for _, _, row, _ in like]
        options: dict[str, Any] = {"keep_seen": query.keep_seen, "diversity": query.diversity}
        options["strategy"] = query.strategy
        return [encoded(entry) for entry in told(lambda: ranking.recommend_rows(rows, query.n, **options))]
    except Exception as error:  # each of those who wait must hear of it
        return error


class Quick:
    """ASGI layer that answers an ordinary `GET /recommend` and passes everything else on."""

    def __init__(self, app: App, state: Any) -> None:
        self.app = app
        self.state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/recommend" or scope["method"] != "GET":
            return await self.app(scope, receive, send)
        ranking = self.state.store.current.lists
        if self.state.store.current.languages and any(name == b"accept-language" for name, _ in scope["headers"]):
            ranking = None  # names may have to be put into another language
        try:
            query = RecommendQuery.model_validate_strings(dict(parse_qsl(scope["query_string"].decode("ascii"))))
        except (ValidationError, UnicodeDecodeError):
            ranking = None  # the route says what is wrong
        if ranking is None:
            return await self.app(scope, receive, send)
        await send_json(send, 200, await self.state.together.recommend(ranking, query))
