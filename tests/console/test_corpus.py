"""The requests that are replayed at the gateway, replayed at the console: an answer or a refusal, and never a connection out of
step."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

import pytest

from reconciler.console.listener import Listener
from reconciler.wire.gateway import Tls
from tests.certificates import made as made_certificate
from tests.gateway.http.corpus import CORPUS, Endpoint, Entry
from tests.gateway.http.replay import Line

from .doors import doors_of
from .snapshots import recorded
from .test_listener import console

ENDPOINTS = [
    Endpoint("GET", "/static/console.css"),
    Endpoint("POST", "/login", b"secret=x"),
    Endpoint("GET", "/nowhere"),
]
ASKED = b"GET /static/console.css HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def answered(
    made: Listener, entry: Entry, endpoint: Endpoint, tls: ssl.SSLContext | None, parts: list[bytes]
) -> None:
    """Send a request in parts; what comes back is HTTP, no failure, and leaves the connection closed or in step."""
    async with Line(made.address, tls) as line:
        for part in parts:
            line.writer.write(part)
            await asyncio.sleep(0)
        last = None
        for _ in range(entry.times):
            last = await line.answer(entry.asked or endpoint.method)
            assert last is not None or entry.refused or entry.status or entry.refused_body
            if last is None or last.closes:
                break
            assert last.status != 500
        if entry.then or entry.after or last is None or last.closes:
            return
        line.writer.write(ASKED)
        after = await line.answer()
        assert after is not None
        if entry.raw and entry.connection == "closed" and after.status == 400:
            assert after.closes, "bytes that are no request stand behind this one"
            return
        assert after.status == 200
        assert after.headers["content-type"].startswith("text/css")


@pytest.mark.parametrize(
    "sealed", [False, pytest.param(True, marks=pytest.mark.second_tier)], ids=["plain", "TLS"]
)
async def test_the_corpus_is_answered_or_refused_by_the_console(
    sealed: bool, subtests: pytest.Subtests, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls, trusting = None, None
    if sealed:
        tls = Tls(str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem"))
        for path, text in zip((tls.certificate, tls.key), made_certificate(), strict=True):
            Path(path).write_bytes(text)
        trusting = ssl.create_default_context(cafile=tls.certificate)
    async with console(doors_of(recorded("four-macs")), tls) as made:
        for endpoint in ENDPOINTS:
            for entry in CORPUS:
                with subtests.test(f"{entry.name}: {endpoint.path}"):
                    sent = entry.filled(endpoint)
                    middle = len(sent) // 2
                    await answered(made, entry, endpoint, trusting, [sent[:middle], sent[middle:]])
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
