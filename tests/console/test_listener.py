"""Attacks on the console's connections: it stays bounded, and goes on answering. In TLS it shows the newest certificate."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from reconciler.console import listener as listening
from reconciler.console.access.door import Doors
from reconciler.console.app import build_app
from reconciler.console.listener import LIMITS, Listener
from reconciler.serving.addresses import bind
from reconciler.serving.limiter import ConnectionLimits, Stage
from reconciler.wire.gateway import Tls
from tests.certificates import made as made_certificate
from tests.ports import free_port

from .doors import doors_of, key, secret, with_keys
from .snapshots import recorded

SILENT = b""
HALF = b"GET / HTTP/1.1\r\nhost: 127.0.0.1"
GREETING = b"\x16\x03\x01\x02\x00\x01\x00"
"""How a client begins to speak TLS; the rest never comes."""


@asynccontextmanager
async def console(
    doors: Doors, tls: Tls | None = None, limits: ConnectionLimits = LIMITS
) -> AsyncIterator[Listener]:
    """A console that listens on a free port of this machine."""
    sock = bind(f"127.0.0.1:{free_port()}", keys=False, any_port=True)
    made = Listener(build_app(doors.feed, doors, doors.settings()), sock, tls, limits=limits)
    try:
        yield made
    finally:
        await made.end()


def counted(made: Listener) -> int:
    """The connections that count."""
    return sum(made.limiter.count(stage) for stage in Stage if stage is not Stage.LEAVING)


def client_of(made: Listener, tls: ssl.SSLContext | None = None) -> httpx2.AsyncClient:
    """A browser."""
    scheme = "http" if tls is None else "https"
    return httpx2.AsyncClient(base_url=f"{scheme}://{made.address}", verify=tls or False, timeout=10)


@contextlib.contextmanager
def descriptors() -> Iterator[int]:
    """As many as this process may have, meanwhile."""
    given = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65_536 if given[1] == resource.RLIM_INFINITY else given[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, given[1]))
    yield most
    resource.setrlimit(resource.RLIMIT_NOFILE, given)


async def flood(made: Listener, count: int, sent: bytes) -> list[socket.socket]:
    """Open connections that send this, and nothing more."""
    host, _, port = made.address.rpartition(":")
    found = []
    for number in range(count):
        sock = socket.socket()
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            sock.connect((host, int(port)))
        found.append(sock)
        if number % 100 == 99:
            await asyncio.sleep(0.001)
            for each in found[-100:]:
                with contextlib.suppress(OSError):
                    each.send(sent)
    return found


@pytest.mark.parametrize(
    ("count", "sent"),
    [
        (2_000, HALF),
        pytest.param(10_000, SILENT, marks=pytest.mark.nightly),
        pytest.param(10_000, HALF, marks=pytest.mark.nightly),
    ],
)
async def test_thousands_of_connections_that_ask_nothing_keep_nobody_out(count: int, sent: bytes) -> None:
    async with console(doors_of(recorded("four-macs"))) as made:
        with descriptors() as most:
            found = await flood(made, min(count, most - 2 * LIMITS.in_all), sent)
            try:
                async with client_of(made) as client:
                    assert (await client.get("/")).status_code == 200
                assert counted(made) <= LIMITS.in_all
            finally:
                for sock in found:
                    sock.close()


async def test_handshakes_that_stall_make_room_too(tmp_path: Path) -> None:
    tls, trusting = pair(tmp_path)
    few = dataclasses.replace(LIMITS, in_all=50, of_one=50)
    async with console(doors_of(recorded("four-macs")), tls, few) as made:
        found = await flood(made, 400, GREETING)
        try:
            async with client_of(made, trusting) as client:
                assert (await client.get("/")).status_code == 200
            assert counted(made) <= 50
        finally:
            for sock in found:
                sock.close()


@pytest.mark.parametrize("sent", [HALF, SILENT])
async def test_what_asks_nothing_for_long_is_ended(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "SWEEP_SECONDS", 0.05)
    soon = dataclasses.replace(LIMITS, head_seconds=0.2, idle_seconds=0.2)
    async with console(doors_of(recorded("four-macs")), None, soon) as made:
        found = await flood(made, 100, sent)
        await until(lambda: counted(made) > 0)
        await until(lambda: counted(made) == 0)
        for sock in found:
            sock.close()


async def test_who_reads_nothing_is_ended_and_costs_little() -> None:
    soon = dataclasses.replace(LIMITS, unread_seconds=0.1, unread_end_seconds=0.2)
    async with console(doors_of(recorded("four-macs")), None, soon) as made:
        host, _, port = made.address.rpartition(":")
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.connect((host, int(port)))
        sock.send(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" * 60)
        await until(lambda: counted(made) > 0)
        await until(lambda: counted(made) == 0)
        sock.close()


@pytest.mark.parametrize("pause", [0.0, 0.1])
async def test_a_form_whose_body_has_no_end_does_nothing(pause: float) -> None:
    keyed = with_keys(recorded("four-macs"), key("alice", 1, "operate"))
    async with console(doors_of(keyed)) as made:
        host, _, port = made.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        form = f"key={secret(1)}".encode()
        writer.write(
            b"POST /login HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/x-www-form-urlencoded\r\n"
            b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(form), form)
        )
        await asyncio.sleep(pause)
        writer.write(b"no size\r\n")
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 "), head
        assert b"set-cookie" not in head
        writer.transport.abort()


async def test_a_form_that_never_comes_holds_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "BODY_SECONDS", 0.2)
    keyed = with_keys(recorded("four-macs"), key("alice", 1, "operate"))
    async with console(doors_of(keyed)) as made:
        host, _, port = made.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /login HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/x-www-form-urlencoded\r\n"
            b"content-length: 100\r\n\r\nkey="
        )
        async with asyncio.timeout(10):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 408 "), answer
        writer.close()
        await until(lambda: counted(made) == 0)


async def test_an_open_page_hears_that_the_console_ends() -> None:
    async with console(doors_of(recorded("four-macs"))) as made, client_of(made) as client:
        async with client.stream("GET", "/live/") as answer:
            assert answer.status_code == 200
            async with asyncio.timeout(10):
                await made.end()
        with pytest.raises(httpx2.ConnectError):
            await client.get("/")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx: " + b"a" * 200_000 + b"\r\n\r\n", b" 4"),
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", b" 4"),
        (
            b"POST /login HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 900000000000\r\n\r\n"
            + b"a" * 100_000,
            b" 413",
        ),
        (b"POST /login HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: -1\r\n\r\n", b" 400"),
        (b"\x00\xff" * 1000, b" 400"),
        (b"GET /static/../pages.py HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", b" 404"),
        (b"GET /static/..%2f..%2fsettings.py HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", b" 404"),
        (b"GET /static//etc/passwd HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", b" 404"),
        (b"GET /static/%2e%2e/templates/login.html HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", b" 404"),
        (b"GET / HTTP/1.1\r\n\r\n", b" 400"),
        (b"GET / HTTP/1.1\r\nhost: evil.example\r\n\r\n", b" 403"),
    ],
    ids=[
        "large header",
        "large address",
        "large body",
        "odd length",
        "no HTTP",
        *(["traversal"] * 4),
        "no host",
        "rebinding",
    ],
)
async def test_what_is_too_large_or_odd_is_refused(request_: bytes, status: bytes) -> None:
    keyed = with_keys(recorded("four-macs"), key("alice", 1, "operate"))
    async with console(doors_of(keyed)) as made:
        host, _, port = made.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request_)
        async with asyncio.timeout(10):
            line = await reader.readline()
        assert line.startswith(b"HTTP/1.1" + status), line
        writer.transport.abort()


async def test_in_tls_the_console_shows_the_newest_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "SWEEP_SECONDS", 0.05)
    tls, trusting = pair(tmp_path)
    keyed = with_keys(recorded("four-macs"), key("alice", 1, "operate"))
    async with console(doors_of(keyed), tls) as made:
        async with client_of(made, trusting) as client:
            answer = await client.post("/login", data={"key": secret(1)})
            assert "Secure" in answer.headers["set-cookie"]
            assert (await client.get("/")).status_code == 200
        _, other = pair(tmp_path)
        async with asyncio.timeout(10):
            while True:
                with contextlib.suppress(httpx2.TransportError):
                    async with client_of(made, other) as client:
                        assert (await client.get("/login")).status_code == 200
                        break
                await asyncio.sleep(0.05)
        with pytest.raises(httpx2.TransportError):
            async with client_of(made) as client:
                await client.get(f"http://{made.address}/login")


async def test_what_a_request_says_of_a_proxy_is_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    said = {
        "x-forwarded-proto": "https",
        "x-forwarded-for": "192.0.2.7",
        "forwarded": "for=192.0.2.7;proto=https",
    }
    keyed = with_keys(recorded("four-macs"), key("alice", 1, "operate"))
    async with console(doors_of(keyed)) as made, client_of(made) as client:
        answer = await client.post("/login", data={"key": secret(1)}, headers=said)
        assert answer.headers["set-cookie"].startswith("reconciler-")
        assert "Secure" not in answer.headers["set-cookie"]
        await client.post("/login", data={"key": secret(2)}, headers=said)
    assert "refused a key from 127.0.0.1" in caplog.text
    assert "192.0.2.7" not in caplog.text


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a state."""
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it takes more than ten seconds")


def pair(folder: Path) -> tuple[Tls, ssl.SSLContext]:
    """Write a new certificate with its key; and who trusts it alone."""
    certificate, private = made_certificate()
    (folder / "tls.pem").write_bytes(certificate)
    (folder / "tls.key").write_bytes(private)
    trusting = ssl.create_default_context(cadata=certificate.decode())
    return Tls(str(folder / "tls.pem"), str(folder / "tls.key")), trusting
