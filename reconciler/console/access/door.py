"""The door of the console: finds out who sends a request, and sends people without a key to the login."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reconciler.console.exposition import is_scrape
from reconciler.console.feed import Feed
from reconciler.console.settings import Settings
from reconciler.source.git.repository import Author

from .attempts import Attempts
from .rights import Admitted, Refusal, Rights, rights_of
from .sessions import Session, Sessions
from .visitor import SCOPE_KEY, Visitor

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Time between two looks at sessions: their time may be over."""
LOGIN, LOGOUT, STATIC = "/login", "/logout", "/static/"


@dataclass(slots=True)
class Doors:
    """Keys and logins; outlives a listener. ``clock`` returns seconds since the Unix epoch."""

    feed: Feed
    clock: Callable[[], float]
    owner: Callable[[], Author]
    """The author of commits if nobody has to log in: the account that the console runs in."""
    settings: Callable[[], Settings]
    """The settings that are declared now."""
    sessions: Sessions
    attempts: Attempts = field(default_factory=Attempts)
    _rights: Rights | None = None
    _of: object = None
    """The objects from which ``_rights`` was made."""

    @property
    def rights(self) -> Rights:
        snapshot = self.feed.snapshot
        if self._rights is None or self._of is not snapshot.objects:
            self._rights, self._of = rights_of(snapshot), snapshot.objects
        return self._rights

    def show(self, secret: str, address: str, scrape: bool = False) -> Admitted | Refusal | int:
        """Return the right of a secret, its refusal, or after too many wrong ones the seconds until the next gets an answer.
        Counts and logs wrong secrets. ``scrape``: the request is for metrics only."""
        now = self.clock()
        answer = self.rights.admit(secret, now, scrape)
        if isinstance(answer, Refusal):
            if wait := self.attempts.wait(address, now):
                return wait
            self.attempts.wrong(address, now)
            log.warning(
                "refused a key%s from %s: %s", f" ({answer.key})" * bool(answer.key), address, answer.text
            )
        return answer

    async def watch(self) -> None:
        """End each session when its key or its time ends, for ever."""
        while True:
            seen = self.feed.snapshot
            self.sessions.look(lambda hashed: self.rights.look(hashed, self.clock()), self.clock())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    while self.feed.snapshot.objects is seen.objects:
                        await self.feed.changed(self.feed.snapshot.number)


class Door:
    """ASGI: puts a ``Visitor`` into the scope of every request. If keys are needed, a request must have a session, or a key's
    secret as ``Authorization: Bearer``; others are sent to the login."""

    def __init__(self, app: ASGIApp, doors: Doors) -> None:
        self._app = app
        self._doors = doors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on if its sender may send it; else refuse it or lead to the login."""
        if scope["type"] != "http" or scope["path"].startswith(STATIC):
            await self._app(scope, receive, send)
            return
        if not self._doors.settings().keys:
            read_only = self._doors.settings().read_only
            scope[SCOPE_KEY] = Visitor(self._doors.owner, operate=not read_only, read_only=read_only)
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        found = self._session(connection)
        if isinstance(found, Response):
            open_to_all = scope["path"] == LOGIN
            await (self._app if open_to_all else found)(scope, receive, send)
            return
        if is_scrape(connection):  # it is over before a key could end, and is no part of a session
            await self._app(scope, receive, send)
            return
        session, admitted = found
        read_only = self._doors.settings().read_only
        scope[SCOPE_KEY] = _visitor(admitted, session.secret, read_only)
        with self._doors.sessions.used(session):
            await _until_over(self._app, scope, receive, send, session)

    def _session(self, connection: HTTPConnection) -> tuple[Session, Admitted] | Response:
        """Return the session of a request and its right, or the answer to a request without one."""
        doors, now = self._doors, self._doors.clock()
        scheme, _, secret = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            answer = doors.show(secret.strip(), address_of(connection), is_scrape(connection))
            if isinstance(answer, int):
                return PlainTextResponse(
                    "too many wrong keys from this address\n", 429, {"retry-after": str(answer)}
                )
            if isinstance(answer, Refusal):
                return PlainTextResponse(
                    answer.text + "\n", 401, {"www-authenticate": 'Bearer realm="reconciler"'}
                )
            return Session(answer.hash, secret.strip(), float("inf")), answer
        session = doors.sessions.find(
            connection.cookies.get(cookie_name(connection, doors.settings()), ""), now
        )
        if session is not None:
            standing = doors.rights.look(session.hash, now)
            if isinstance(standing, Admitted):
                return session, standing
        page = not connection.url.path.startswith("/live/") and not is_scrape(connection)
        if connection.scope["method"] == "GET" and page:
            target = connection.url.path + (f"?{connection.url.query}" if connection.url.query else "")
            return RedirectResponse(f"{LOGIN}?next={quote(target, safe='')}", 303)
        return PlainTextResponse("log in first\n", 401, {"www-authenticate": 'Bearer realm="reconciler"'})


def address_of(connection: HTTPConnection) -> str:
    return connection.client.host if connection.client else ""


def by_tls(connection: HTTPConnection, settings: Settings) -> bool:
    """Return whether the browser speaks TLS: with the console, or with a declared proxy, if it calls one of ``hosts``. A
    browser that calls that name without TLS is not refused, but keeps no cookie that requires TLS."""
    proxied = settings.tls_proxy and (connection.url.hostname or "") in settings.hosts
    return connection.url.scheme == "https" or proxied


def cookie_name(connection: HTTPConnection, settings: Settings) -> str:
    """Return the name of the cookie with a session's id: browsers send a host's cookies to all of its ports, and each may have
    a console. With TLS, the prefix of the name makes browsers refuse a cookie that was set without it."""
    tls = by_tls(connection, settings)
    port = connection.url.port or (443 if tls else 80)
    return f"__Host-reconciler-{port}" if tls else f"reconciler-{port}"


def _visitor(admitted: Admitted, secret: str, read_only: bool) -> Visitor:
    author = Author(admitted.key, f"{admitted.key}@apikey.invalid")
    return Visitor(lambda: author, admitted.operate and not read_only, admitted.key, secret, read_only)


async def _until_over(app: ASGIApp, scope: Scope, receive: Receive, send: Send, session: Session) -> None:
    """Answer a request until its session ends: an answer that has begun is then closed, and no other follows."""
    began = complete = False

    async def sent(message: Message) -> None:
        nonlocal began, complete
        began = True
        complete = message["type"] == "http.response.body" and not message.get("more_body")
        await send(message)

    answering = asyncio.ensure_future(app(scope, receive, sent))
    ending = asyncio.ensure_future(session.over.wait())
    try:
        await asyncio.wait((answering, ending), return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            answering.result()
            return
        answering.cancel()  # wait for its end before sending anything: else both could answer
        await asyncio.wait((answering,))
        if not answering.cancelled():
            answering.result()
        if not began:
            await PlainTextResponse("log in first\n", 401)(scope, receive, send)
        elif not complete:
            await send({"type": "http.response.body", "body": b""})
    finally:
        answering.cancel()
        ending.cancel()
        await asyncio.wait((answering, ending))
