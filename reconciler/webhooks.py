"""Webhooks: the one room that sends something out of the cluster. Certificates are checked, no redirect is followed."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from reconciler.errors import Invalid, Refused, Unreachable
from reconciler.resources import Webhook, is_loopback

POST_SECONDS_MAX = 10.0
"""From looking up the name to the first line of the answer."""
URL_CHARACTERS_MAX = 2048
_PLAIN = re.compile(r"[!-~]+")
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])( |\r|\n)")


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Sends messages. What it raises never names the URL: that is a secret."""

    environment: Mapping[str, str]

    async def post(self, webhook: Webhook, text: str) -> None:
        """Send a text in Slack's form.

        Raises ``Invalid`` where there is no usable URL, ``Refused`` for an answer other than 2xx, and
        ``Unreachable`` where there is none.
        """
        url = self.url(webhook)
        try:
            async with asyncio.timeout(POST_SECONDS_MAX):
                line = await _exchange(url, body(text))
        except TimeoutError:
            raise Unreachable(f"no answer within {POST_SECONDS_MAX:.0f} s") from None
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(f"its certificate is not accepted: {error.verify_message}") from None
        except ssl.SSLError as error:
            raise Unreachable(f"no TLS: {error.reason or 'the handshake failed'}") from None
        except socket.gaierror:
            raise Unreachable("the name of its host is not known") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise Unreachable(f"it cannot be reached: {reason}") from None
        _judge(line)

    def url(self, webhook: Webhook) -> SplitResult:
        """The URL, from where the manifest says that it is. Raises ``Invalid``."""
        where, text = self._written(webhook)
        try:
            url = urlsplit(text)
            port = url.port
        except ValueError:
            raise Invalid(f"{where} holds no URL") from None
        if not text or len(text) > URL_CHARACTERS_MAX or not _PLAIN.fullmatch(text) or port == 0:
            raise Invalid(f"{where} holds no URL")
        if url.scheme not in ("http", "https") or not url.hostname or url.username is not None:
            raise Invalid(f"{where} holds no URL such as https://hooks.example.com/…")
        if url.scheme == "http" and not is_loopback(url.hostname):
            raise Invalid(
                f"{where} holds an http URL of another machine: anybody on the way could read it; use https"
            )
        return url

    def _written(self, webhook: Webhook) -> tuple[str, str]:
        """Where the URL is, for people, and what is there."""
        source = webhook.url_from
        if source.env is not None:
            if source.env not in self.environment:
                raise Invalid(
                    f"the environment of `reconciler up` has no {source.env}; set it, and start it again"
                )
            return source.env, self.environment[source.env].strip()
        if source.file is not None:
            try:
                return source.file, Path(source.file).expanduser().read_text().strip()
            except (OSError, ValueError, RuntimeError) as error:
                reason = getattr(error, "strerror", None) or "it is no text"
                raise Invalid(f"{source.file} cannot be read: {reason}") from None
        return "webhook.url", webhook.url or ""


async def _exchange(url: SplitResult, content: bytes) -> bytes:
    """The first line of the answer."""
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
            "Redirected", f"it answered with {code}: redirects are not followed; take the URL it leads to"
        )
    if not 200 <= code < 300:
        raise Refused("NotTaken", f"it answered with {code}")


def body(text: str) -> bytes:
    """A message as Slack's incoming webhooks take it (docs.slack.dev/messaging/formatting-message-text)."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return json.dumps({"text": escaped}, ensure_ascii=True).encode("ascii")
