"""The endpoints of a dialect's paths: from a request's body to the end of its answer."""

from __future__ import annotations

import functools

from starlette.types import Receive, Scope, Send

from reconciler.gateway.dialects.dialect import Dialect, Generation, Lookup, Sources, is_stream
from reconciler.gateway.dialects.replaced import Head
from reconciler.gateway.errors import ApiError, ClientGone
from reconciler.gateway.records.entry import note_error, note_runs, noting
from reconciler.gateway.routing.pool import Pool
from reconciler.gateway.routing.runs import Runs
from reconciler.serving.exchange import exchange_of
from reconciler.serving.reading import told_of_client

from .answer import send_error, send_json, send_reply, send_stream
from .authentication import caller_of, catalog_for
from .request_body import read_body

SESSION_HEADER = b"x-session-affinity"
"""The header of clients that want requests with the same value to go to the same group."""


class GenerationEndpoint:
    """A path for which rank 0 reads a prompt."""

    def __init__(self, dialect: Dialect, path: Generation, pool: Pool, sources: Sources) -> None:
        self._dialect = dialect
        self._path = path
        self._pool = pool
        self._sources = sources

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        timing, caller = self._pool.timing, caller_of(scope)
        failed = functools.partial(note_error, scope)
        try:
            catalog = catalog_for(caller, self._pool)
            parsed = self._path.parse(await read_body(scope, receive, timing.body), self._sources, catalog)
            route = catalog.find(parsed.model)
            name = "run-" + self._sources.new_id()
            request = scope.get("request_id", name)
            session = parsed.session or _session(scope)
            client = caller.client
            runs = Runs(
                self._pool, parsed.model, parsed.choices, name, client, request, session, parsed.reports
            )
            note_runs(scope, route.model if route else parsed.model, runs)
            ticket = await self._pool.desk.admit(caller, parsed.choices, parsed.answers, runs)
            with ticket, runs, told_of_client(scope, runs.read, runs.abandon):
                headers = (*parsed.headers, *self._dialect.left(ticket.figures))
                head = Head(headers, parsed.choices[0].replaced)
                if is_stream(parsed.answer):
                    exchange = exchange_of(scope)
                    exchange.told = noting(scope)
                    comments = self._pool.file.comments
                    await send_stream(send, runs, parsed.answer, timing, head, failed, exchange, comments)
                else:
                    await send_reply(send, runs, parsed.answer, timing, head)
        except ApiError as error:
            failed(error)
            await send_error(send, self._dialect.rendered(error, scope.get("request_id", "")))
        except ClientGone:
            return


def _session(scope: Scope) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == SESSION_HEADER), "")


class LookupEndpoint:
    """A path that answers from the catalog of models."""

    def __init__(self, dialect: Dialect, path: Lookup, pool: Pool) -> None:
        self._dialect = dialect
        self._path = path
        self._pool = pool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            caller = caller_of(scope)
            self._pool.desk.seen(caller)
            body = self._path.answer(catalog_for(caller, self._pool), scope.get("path_params", {}))
        except ApiError as error:
            note_error(scope, error)
            await send_error(send, self._dialect.rendered(error, scope.get("request_id", "")))
            return
        await send_json(send, 200, body)
