"""``POST /hooks/git``: a forge says that something was pushed. The rest of the message is not used.

A sender that knows the secret gets its answer before anything is done. A repeated message is accepted too, because
some senders always send the same one. But all repeats together make the controller look once in ``AGAIN_SECONDS``.
Without a secret, the path does not exist.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response

from reconciler.errors import Invalid
from reconciler.gateway.dialects.table import DEFAULT
from reconciler.gateway.errors import ApiError, ClientGone
from reconciler.gateway.http.request_body import read_body
from reconciler.secret_files import find_secret
from reconciler.wire.gateway import HookSecret

from .signature import sent_by_who_knows

log = logging.getLogger(__name__)

PATH = "/hooks/git"
BODY_BYTES_MAX = 1024 * 1024
BODY_SECONDS_MAX = 10.0
SECRET_CHARACTERS_MIN = 16
REMEMBERED_SECONDS, REMEMBERED_MAX = 3600.0, 4096
"""The time that accepted messages are remembered, and the most of them."""
AGAIN_SECONDS = 10.0
"""The interval at which repeats make the controller look: a sender of recorded messages cannot cause more."""


class Receiver:
    """Takes messages, and calls ``announce`` with the time for each new one. ``place`` returns the place of the
    secret; None if there is no webhook."""

    def __init__(
        self,
        place: Callable[[], HookSecret | None],
        announce: Callable[[float], None],
        now: Callable[[], float],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._place = place
        self._announce = announce
        self._now = now
        self._environ = environ
        self._complaint = ""
        self._taken: OrderedDict[bytes, float] = OrderedDict()
        self._again: asyncio.TimerHandle | None = None
        """Set for ``AGAIN_SECONDS`` after a look for a repeat."""
        self._due = False
        """True if another repeat has come meanwhile."""

    async def receive(self, request: Request) -> Response:
        """Answer 202 to a message that is signed; 401, 404, 408 or 413 to others."""
        try:
            return await self._received(request)
        except ApiError as error:
            rendered = DEFAULT.rendered(error, request.scope.get("request_id", ""))
            return Response(rendered.body, rendered.status, media_type="application/json")

    async def _received(self, request: Request) -> Response:
        secret = self._secret()
        if not secret:
            raise ApiError(404, "invalid_request_error", "unknown_url", f"no such endpoint: {PATH}")
        try:
            body = await read_body(request.scope, request.receive, BODY_SECONDS_MAX, BODY_BYTES_MAX)
        except ClientGone:
            raise ApiError(400, "invalid_request_error", "incomplete", "the message has no end") from None
        headers = {name.lower(): value for name, value in request.headers.items()}
        now = self._now()
        if not sent_by_who_knows(secret, headers, body, now):
            text = "the signature is missing or wrong: the sender and this gateway need the same secret"
            raise ApiError(401, "authentication_error", "bad_signature", text)
        if self._new(hashlib.sha256(body).digest(), now):
            self._announce(now)
        else:
            self._repeated()
        return Response(b'{"status": "accepted"}', 202, media_type="application/json")

    def _repeated(self) -> None:
        """Make the controller look because of a repeated message: now, or ``AGAIN_SECONDS`` after the last such
        look."""
        if self._again is not None:
            self._due = True
            return
        self._due = False
        self._announce(self._now())
        self._again = asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._may_again)

    def _may_again(self) -> None:
        self._again = None
        if self._due:
            self._repeated()

    def _new(self, message: bytes, now: float) -> bool:
        """Return whether a message is new, and remember it. Its content identifies it, because its id is not
        signed."""
        while self._taken and (
            next(iter(self._taken.values())) < now - REMEMBERED_SECONDS or len(self._taken) >= REMEMBERED_MAX
        ):
            self._taken.popitem(last=False)
        if message in self._taken:
            return False
        self._taken[message] = now
        return True

    def _secret(self) -> str:
        """Return the secret as it is now; empty if none can be used. The reason is logged once."""
        place = self._place()
        if place is None:
            return ""
        secret, problem = _read(place, self._environ)
        if problem and problem != self._complaint:
            log.error("%s does not exist: %s", PATH, problem)
        self._complaint = problem
        return "" if problem else secret


def _read(place: HookSecret, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the secret, and its fault."""
    where = place.file or place.env
    try:
        secret = find_secret(place.file or None, place.env, environ)
    except Invalid as error:
        return "", str(error)
    short = len(secret) < SECRET_CHARACTERS_MIN
    return secret, f"{where} has no secret of at least {SECRET_CHARACTERS_MIN} characters" if short else ""
