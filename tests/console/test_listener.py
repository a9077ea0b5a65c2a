"""Attacks on the console's connections: it stays bounded, and goes on answering. In TLS it shows the newest certificate."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from reconciler.console import listener as listening
from reconciler.console.access.door import Doors
from reconciler.console.app import build_app
from reconciler.console.listener import OPEN_MAX, WAITING_SECONDS, Listener
from reconciler.listening import bind
from reconciler.wire.front import Tls
from tests.certificates import made as made_certificate
from tests.ports import free_port

from .doors import doors_of, key, secret, with_keys
from .snapshots import recorded

SILENT = b""
HALF = b"GET / HTTP/1.1\r\nhost: 127.0.0.1"
GREETING = b"\x16\x03\x01\x02\x00\x01\x00"
"""How a client begins to speak TLS; the rest never comes."""


@asynccontextmanager
async def console(doors: Doors, tls: Tls | None = None) -> AsyncIterator[Listener]:
    """A console that listens on a free port of this machine."""
    sock = bind(f"127.0.0.1:{free_port()}", keys=False, any_port=True)
    made = Listener(build_app(doors.feed, doors, doors.settings()), sock, tls)
    try:
        yield made
    finally:
        await made.end()


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
            found = await flood(made, min(count, most - 2 * OPEN_MAX), sent)
            try:
                async with client_of(made) as client:
                    began = time.monotonic()
                    assert (await client.get("/")).status_code == 200
                    assert time.monotonic() - began < 5
                assert len(made.open) <= made.open_max <= OPEN_MAX
            finally:
                for sock in found:
                    sock.close()


async def test_handshakes_that_stall_make_room_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "OPEN_MAX", 50)
    tls, trusting = pair(tmp_path)
    async with console(doors_of(recorded("four-macs")), tls) as made:
        found = await flood(made, 400, GREETING)
        try:
            async with client_of(made, trusting) as client:
                assert (await client.get("/")).status_code == 200
            assert len(made.open) <= 50
        finally:
            for sock in found:
                sock.close()


async def test_a_handshake_that_makes_room_gives_its_descriptor_up_when_nothing_watches_it_any_more(
    tmp_path: Path,
) -> None:
    tls, _ = pair(tmp_path)
    async with console(doors_of(recorded("four-macs")), tls) as made:
        watched = asyncio.get_running_loop()._selector.get_map()  # type: ignore[attr-defined]
        (sock,) = await flood(made, 1, GREETING)
        with sock:
            await until(lambda: any(connection.sock.fileno() in watched for connection in made.open))
            (connection,) = made.open
            number = connection.sock.fileno()
            assert made._make_room()
            assert not made.open
            assert connection.sock.fileno() == number
            await until(lambda: connection.sock.fileno() == -1)
            assert number not in watched


async def test_what_asks_nothing_for_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "WAITING_SECONDS", 0.2)
    monkeypatch.setattr(listening, "SWEEP_SECONDS", 0.05)
    async with console(doors_of(recorded("four-macs"))) as made:
        found = await flood(made, 100, HALF)
        await until(lambda: bool(made.open))
        await until(lambda: not made.open)
        for sock in found:
            sock.close()


async def test_a_connection_may_wait_as_long_after_each_of_its_requests() -> None:
    async with console(doors_of(recorded("four-macs"))) as made, client_of(made) as client:
        clock = asyncio.get_running_loop().time
        await client.get("/static/console.css")
        asked = clock()
        await client.get("/static/console.css")
        answered = clock()
        (connection,) = made.open
        assert not connection.overdue(asked + WAITING_SECONDS)
        assert connection.overdue(answered + WAITING_SECONDS + 1)


async def test_who_reads_nothing_is_ended_and_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "UNREAD_SECONDS", 0.2)
    monkeypatch.setattr(listening, "SWEEP_SECONDS", 0.05)
    async with console(doors_of(recorded("four-macs"))) as made:
        host, _, port = made.address.rpartition(":")
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.connect((host, int(port)))
        sock.send(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" * 60)
        await until(lambda: bool(made.open))
        await until(lambda: not made.open)
        sock.close()


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
