"""Asks the gateway whether it is ready, at the address that clients use.

Its own file says only that its process lives: a gateway without free connections, or with a blocked loop, has the same
file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlsplit

from reconciler.state import GatewayAnswer, GatewayObservation

ANSWER_SECONDS = 2.0
AGAIN_SECONDS = 5.0
"""The interval of questions; a gateway that has just begun to listen is asked at once."""
UNREADY_SECONDS = 0.5
"""The same while it is not ready: it connects to a new group in less time, and a client waits for that."""
ANSWER_BYTES_MAX = 4 * 1024 * 1024
"""Enough for the names of ten thousand models."""

Asked = tuple[int, str | None]
"""The identity of a gateway: its process, and its address."""


class GatewayProbe:
    """The gateway, as its file and its last answer describe it. ``observe`` reads the file."""

    def __init__(self, observe: Callable[[], GatewayObservation | None]) -> None:
        self._observe = observe
        self._asked: Asked | None = None
        self._door: GatewayAnswer | None = None
        self._changed = asyncio.Event()

    def __call__(self) -> GatewayObservation | None:
        """Return the gateway now, with its last answer if it is still the same one; None if it is not running."""
        seen = self._observe()
        if seen is None or seen.endpoint is None:
            return seen
        if _which(seen) != self._asked:
            self._changed.set()
            return seen
        return replace(seen, door=self._door)

    async def run(self) -> None:
        """Ask regularly, and at once after a change of the gateway, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                ready = self._door is None or self._door.ready
                async with asyncio.timeout(AGAIN_SECONDS if ready else UNREADY_SECONDS):
                    await self._changed.wait()
            await self.look()

    async def look(self) -> None:
        """Ask once, for at most ``ANSWER_SECONDS``."""
        self._changed.clear()
        seen = self._observe()
        if seen is not None and seen.local_endpoint is not None:
            door = await ask(seen.local_endpoint)
            self._asked, self._door = _which(seen), door


def _which(seen: GatewayObservation) -> Asked:
    return seen.pid, seen.endpoint


async def ask(endpoint: str) -> GatewayAnswer:
    """Ask the gateway at ``endpoint`` (``http://127.0.0.1:8400/v1``) over a separate connection.

    It does not check the certificate, which has no such address: it asks any process that has this port of this
    machine.
    """
    url = urlsplit(endpoint)
    sealed = _any_certificate() if url.scheme == "https" else None
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = await _get(url.hostname or "", url.port or 80, url.netloc, sealed)
        return _door(answer)
    except TimeoutError:
        return GatewayAnswer(False, problem=f"no answer within {ANSWER_SECONDS:g} s")
    except OSError as error:
        return GatewayAnswer(False, problem=f"no answer: {error or type(error).__name__}")
    except ValueError:
        return GatewayAnswer(False, problem="what answers there is no gateway")


def _any_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _get(host: str, port: int, authority: str, sealed: ssl.SSLContext | None) -> bytes:
    reader, writer = await asyncio.open_connection(host, port, ssl=sealed)
    try:
        writer.write(f"GET /ready HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n".encode())
        answer = b""
        while len(answer) < ANSWER_BYTES_MAX and (part := await reader.read(65536)):
            answer += part
        if not answer:
            raise ConnectionResetError("it closed the connection")
        return answer
    finally:
        writer.close()


def _door(answer: bytes) -> GatewayAnswer:
    """Return the contents of an HTTP answer. Raises ``ValueError`` for an answer that no gateway gives."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    said = json.loads(body)
    if not isinstance(said, dict) or status not in ([b"200"], [b"503"]):
        raise ValueError("no answer of a gateway")
    if status == [b"200"]:
        return GatewayAnswer(True)
    models = said.get("models")
    if not isinstance(models, dict):
        return GatewayAnswer(False, problem="it refuses connections: it has as many as it may have")
    if said.get("status") == "stopping":
        return GatewayAnswer(False, problem="it is being stopped")
    return GatewayAnswer(False, tuple(sorted(map(str, models))))
