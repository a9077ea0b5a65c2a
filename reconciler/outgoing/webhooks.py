"""Sends webhooks. Checks certificates, and follows no redirects."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from reconciler.errors import Invalid, Refused, Unreachable
from reconciler.resources import Webhook, is_loopback
from reconciler.secret_files import find_secret

POST_SECONDS_MAX = 10.0
"""Time limit from the name lookup to the first line of the answer."""
URL_CHARACTERS_MAX = 2048
_PLAIN = re.compile(r"[!-~]+")
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])( |\r|\n)")


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Sends messages. Its errors never contain the URL, which is a secret."""

    environment: Mapping[str, str]

    async def post(self, webhook: Webhook, text: str) -> None:
        """Send a text in Slack's format.

        Raises ``Invalid`` without a usable URL, ``Refused`` for an answer other than 2xx, and ``Unreachable`` without
        an answer.
        """
        url = self.url(webhook)
        try:
            async with asyncio.timeout(POST_SECONDS_MAX):
                line = await _exchange(url, body(text))
        except TimeoutError:
            raise Unreachable(f"no answer within {POST_SECONDS_MAX:.0f} s") from None
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(f"its certificate was not accepted: {error.verify_message}") from None
        except ssl.SSLError as error:
            raise Unreachable(f"TLS failed: {error.reason or 'the handshake failed'}") from None
        except socket.gaierror:
            raise Unreachable("its host name cannot be resolved") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise Unreachable(f"cannot connect: {reason}") from None
        _judge(line)

    def url(self, webhook: Webhook) -> SplitResult:
        """Return the URL from the manifest, or from the place that it names. Raises ``Invalid``."""
        where, text = self._written(webhook)
        try:
            url = urlsplit(text)
            port = url.port
        except ValueError:
            raise Invalid(f"{where} does not contain a URL") from None
        if not text or len(text) > URL_CHARACTERS_MAX or not _PLAIN.fullmatch(text) or port == 0:
            raise Invalid(f"{where} does not contain a URL")
        if url.scheme not in ("http", "https") or not url.hostname or url.username is not None:
            raise Invalid(f"{where} does not contain a URL such as https://hooks.example.com/…")
        if url.scheme == "http" and not is_loopback(url.hostname):
            raise Invalid(
                f"{where} contains an http URL of another machine, which others could read in transit; use https"
            )
        return url

    def _written(self, webhook: Webhook) -> tuple[str, str]:
        """Return the place of the URL, for people, and its content."""
        source = webhook.url_from
        if source.env is not None or source.file is not None:
            place = source.env or str(source.file)
            return place, find_secret(source.file, source.env, self.environment)
        return "webhook.url", webhook.url or ""


async def _exchange(url: SplitResult, content: bytes) -> bytes:
    """Return the first line of the answer."""
    assert url.hostname is not None
    tls = await asyncio.to_thread(ssl.create_default_context) if url.scheme == "https" else None
    port = url.port or (443 if tls else 80)
    reader, writer = await asyncio.open_connection(url.hostname, port, ssl=tls)
    try:
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {url.netloc}\r\nUser-Agent: reconciler\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode("ascii") + content)
        await writer.drain()
        return await reader.readline()
    finally:
        writer.close()


def _judge(line: bytes) -> None:
    status = _STATUS.match(line)
    if status is None:
        raise Unreachable("it does not answer in HTTP")
    code = int(status[1])
    if 300 <= code < 400:
        raise Refused(
            "Redirected",
            f"it answered with {code}, but redirects are not followed; use the URL that it redirects to",
        )
    if not 200 <= code < 300:
        raise Refused("NotTaken", f"it answered with {code}")


def body(text: str) -> bytes:
    """Return a message for Slack's incoming webhooks (docs.slack.dev/messaging/formatting-message-text)."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return json.dumps({"text": escaped}, ensure_ascii=True).encode("ascii")
