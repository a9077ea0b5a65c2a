"""Asks the gateway of this machine for an answer.

The product already uses httpx2: it streams, ends a request with its block, and speaks TLS. It costs some 0.1 ms for each part
of a stream, too little for a reader to notice.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from reconciler.console.snapshot import Snapshot

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 30.0
"""Longest silence of a stream; the gateway sends a comment at least every five seconds."""
ANSWER_SECONDS = 3600.0
"""Longest time for a whole answer without a stream: nothing comes before its end."""
Answer = httpx2.Response
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class NoGateway(Exception):
    """The gateway cannot be asked, or has not answered; the text says why."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """The gateway as this machine reaches it."""

    url: str
    """``http://127.0.0.1:8400/v1``."""
    certificate: str = ""
    """The file with its certificate; empty without TLS."""


def gateway_of(snapshot: Snapshot) -> Gateway:
    """Return the gateway. Raises ``NoGateway`` if none listens."""
    url = snapshot.status.get("localEndpoint")
    if not url:
        raise NoGateway("the gateway is not listening; see: reconciler get gateways")
    tls = snapshot.gateway["spec"].get("tls") if snapshot.gateway else None
    return Gateway(url, tls["certificate"] if tls else "")


@asynccontextmanager
async def asking(
    gateway: Gateway, body: Mapping[str, Any], secret: str, stream: bool
) -> AsyncIterator[Answer]:
    """Ask for a chat completion. ``secret``: of the visitor's key; empty if none is needed. Raises ``NoGateway``.

    The block gets the answer once its head is there. Leaving the block ends the request: the gateway then frees its place.
    """
    headers = {"authorization": f"Bearer {secret}"} if secret else {}
    try:
        # no proxy of the environment may see the conversation: the gateway is on this machine
        async with (
            httpx2.AsyncClient(
                verify=_trusted(gateway),
                trust_env=False,
                timeout=httpx2.Timeout(
                    SILENCE_SECONDS if stream else ANSWER_SECONDS, connect=CONNECT_SECONDS
                ),
            ) as client,
            client.stream("POST", f"{gateway.url}/chat/completions", json=body, headers=headers) as answer,
        ):
            yield answer
    except httpx2.HTTPError as error:
        raise NoGateway(f"the gateway at {gateway.url} does not answer: {said(error)}") from None
    except (OSError, ssl.SSLError) as error:
        raise NoGateway(f"its certificate {gateway.certificate} cannot be read: {error}") from None


async def parts(answer: Answer) -> AsyncIterator[bytes]:
    """Yield the parts of an answer as they come. Raises ``NoGateway`` if it breaks off."""
    try:
        async for part in answer.aiter_raw():
            yield part
    except httpx2.HTTPError as error:
        raise NoGateway(f"the gateway has broken off its answer: {said(error)}") from None


def said(error: httpx2.HTTPError) -> str:
    """Return an error's text for a person, or its type: some errors have no text."""
    return str(error) or type(error).__name__


def error_of(status: int, body: bytes) -> dict[str, Any]:
    """Return the error in an answer of the gateway; it has at least a ``message``."""
    try:
        error = json.loads(body)["error"]
        return {**error, "message": str(error["message"])}
    except (ValueError, KeyError, TypeError):
        return {"message": f"the gateway answered with status {status}"}


def _trusted(gateway: Gateway) -> ssl.SSLContext | bool:
    """Trust only the gateway's own certificate: requests go to its address, for which no certificate is made."""
    if not gateway.certificate:
        return False
    found = _CERTIFICATE.search(Path(gateway.certificate).expanduser().read_text(encoding="utf-8"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=found[0] if found else "")
    return context
