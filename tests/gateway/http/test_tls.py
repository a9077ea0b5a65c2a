"""HTTPS with the user's certificate: real handshakes, and certificates that change, end or are no good."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from reconciler.errors import Invalid
from reconciler.gateway.routing.timeouts import Timing
from reconciler.inventory.gateway_probe import ask
from reconciler.serving.certificates import load
from reconciler.serving.limiter import ConnectionLimits
from reconciler.state import GatewayAnswer
from reconciler.wire.gateway import Tls
from tests.certificates import made
from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.rank_double import Turn, story, told

LIMITS = ConnectionLimits(in_all=40, of_one=40, leaving=4, leaving_seconds=0.05)
QUICK = Timing(shutdown=0.5, hello=60.0, routes_idle=0.02)
HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Pair:
    """The files of a certificate."""

    def __init__(self, folder: Path) -> None:
        self.tls = Tls(str(folder / "certificate.pem"), str(folder / "key.pem"))

    def put(self, certificate: bytes | None = None, key: bytes | None = None) -> None:
        """Replace one file, or both."""
        for path, text in ((self.tls.certificate, certificate), (self.tls.key, key)):
            if text is not None:
                draft = Path(path + ".new")
                draft.write_bytes(text)
                draft.replace(path)

    def trusting(self) -> ssl.SSLContext:
        """A client that trusts what is in the file now, and nothing else."""
        return ssl.create_default_context(cafile=self.tls.certificate)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    found = Pair(tmp_path)
    found.put(*made())
    return found


async def sealed(cluster: Cluster, pair: Pair) -> None:
    """Have the gateway speak TLS from now on."""
    cluster.front = {"tls": pair.tls}
    await cluster.routed(*cluster.ranks)


def certificate_of(cluster: Cluster) -> dict[str, Any]:
    found = cluster.state()["certificate"]
    assert isinstance(found, dict)
    return found


async def connection(
    cluster: Cluster, context: ssl.SSLContext
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(*cluster.address, ssl=context)


async def rest(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the connection ends, in whichever way, which it does within 10 seconds."""
    read = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        async with asyncio.timeout(10):
            while part := await reader.read(65536):
                read += part
    return read


async def events(cluster: Cluster, context: ssl.SSLContext, session: aiohttp.ClientSession) -> str:
    """The text of a streamed answer."""
    body = {"model": "llama", "messages": HELLO, "stream": True}
    url = f"https://{cluster.listen}/v1/chat/completions"
    async with session.post(url, json=body, ssl=context) as answer:
        assert answer.status == 200
        lines = [line[6:] for line in (await answer.text()).split("\n") if line.startswith("data: {")]
    deltas = [choice["delta"] for line in lines for choice in orjson.loads(line)["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


async def test_a_gateway_that_begins_to_declare_tls_keeps_its_address_and_speaks_nothing_else(
    start: Start, pair: Pair
) -> None:
    cluster = await start(story(4), limits=LIMITS, timing=QUICK)
    await sealed(cluster, pair)
    state = cluster.state()
    assert state["endpoint"] == f"https://{cluster.listen}/v1"
    assert state["certificate"]["names"] == ["localhost", "127.0.0.1"]
    assert state["certificate"]["problem"] == ""
    async with aiohttp.ClientSession() as session:
        assert await events(cluster, pair.trusting(), session) == told(4)
    assert await ask(state["endpoint"]) == GatewayAnswer(True)
    reader, writer = await asyncio.open_connection(*cluster.address)
    writer.write(HEALTH)
    assert b"HTTP" not in await rest(reader)
    writer.close()
    cluster.front = {}
    await cluster.routed(*cluster.ranks)
    assert (await cluster.samples())['reconciler_connections_ended_total{reason="handshake"}'] == 1


async def test_no_version_before_1_2_is_spoken(start: Start, pair: Pair) -> None:
    cluster = await start(limits=LIMITS, timing=QUICK)
    await sealed(cluster, pair)
    assert load(pair.tls)[0].minimum_version is ssl.TLSVersion.TLSv1_2
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = pair.trusting()
        context.minimum_version = context.maximum_version = version
        _, writer = await connection(cluster, context)
        assert writer.get_extra_info("ssl_object").version() == version.name.replace("_", ".")
        writer.close()


async def test_a_new_certificate_is_shown_at_once_and_ends_no_stream(start: Start, pair: Pair) -> None:
    cluster = await start(story(60, pause=0.02), limits=LIMITS, timing=QUICK)
    await sealed(cluster, pair)
    first = pair.trusting()
    async with aiohttp.ClientSession() as session:
        streaming = asyncio.create_task(events(cluster, first, session))
        await cluster.ranks[0].until(lambda rank: bool(rank.asked))
        expires = certificate_of(cluster)["expires_at"]
        pair.put(*made(days=200))
        await cluster.until(lambda: certificate_of(cluster)["expires_at"] > expires)
        _, writer = await connection(cluster, pair.trusting())
        writer.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            await connection(cluster, first)
        assert await streaming == told(60)


async def test_a_pair_that_cannot_be_used_leaves_the_last_good_one_in_use(start: Start, pair: Pair) -> None:
    cluster = await start(limits=LIMITS, timing=QUICK)
    await sealed(cluster, pair)
    good = pair.trusting()
    _, other = made()
    for key, problem in (
        (other, "is not that of the first certificate"),
        (b"no key", "has no private key in PEM form"),
        (made(password=b"secret")[1], "needs a password; write it without one"),
    ):
        pair.put(key=key)
        await cluster.until(lambda: problem in certificate_of(cluster)["problem"])  # noqa: B023
        _, writer = await connection(cluster, good)
        writer.close()
    Path(pair.tls.certificate).unlink()
    await cluster.until(lambda: "cannot be read: No such file" in certificate_of(cluster)["problem"])
    (await connection(cluster, good))[1].close()
    pair.put(*made())
    await cluster.until(lambda: certificate_of(cluster)["problem"] == "")
    (await connection(cluster, pair.trusting()))[1].close()


async def test_without_any_good_pair_nobody_connects_and_nothing_is_said_in_the_clear(
    start: Start, pair: Pair
) -> None:
    pair.put(certificate=b"nothing")
    cluster = await start(limits=LIMITS, timing=QUICK)
    await sealed(cluster, pair)
    assert certificate_of(cluster) == {
        "names": [],
        "expires_at": None,
        "problem": f"{pair.tls.certificate} has no certificate in PEM form",
    }
    reader, writer = await asyncio.open_connection(*cluster.address)
    writer.write(HEALTH)
    assert await rest(reader) == b""
    writer.close()
    pair.put(*made())
    await cluster.until(lambda: certificate_of(cluster)["problem"] == "")
    assert (await ask(cluster.state()["endpoint"])).problem == ""


async def test_the_endpoint_has_a_declared_name_of_the_certificate(start: Start, pair: Pair) -> None:
    pair.put(*made(("ai.example.com", "*.example.com")))
    cluster = await start(limits=LIMITS, timing=QUICK)
    cluster.front = {"tls": pair.tls, "hosts": ("other.example.org", "ai.example.com")}
    await cluster.routed()
    port = cluster.listen.rpartition(":")[2]
    assert cluster.state()["endpoint"] == f"https://ai.example.com:{port}/v1"


async def test_handshakes_that_stall_are_unfinished_make_room_for_others_and_end_in_time(
    start: Start, pair: Pair
) -> None:
    cluster = await start(
        limits=dataclasses.replace(LIMITS, in_all=10, of_one=10, head_seconds=1.0), timing=QUICK
    )
    await sealed(cluster, pair)
    stalled = [await asyncio.open_connection(*cluster.address) for _ in range(30)]
    for _, writer in stalled[::2]:
        writer.write(b"\x16\x03\x01\x02\x00\x01")  # the first bytes of a greeting
    reader, writer = await connection(cluster, pair.trusting())
    writer.write(HEALTH)
    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
    counts = await _connections(cluster, pair)
    assert counts['reconciler_connections_ended_total{reason="displaced"}'] >= 20
    assert (
        counts['reconciler_connections{state="unfinished"}']
        + counts['reconciler_connections{state="idle"}']
        + counts['reconciler_connections{state="busy"}']
        <= 10
    )
    for other, _ in stalled:
        assert await rest(other) == b""
    for _, each in [*stalled, (reader, writer)]:
        each.close()


async def test_a_refusal_reaches_a_client_that_still_sends(start: Start, pair: Pair) -> None:
    cluster = await start(limits=dataclasses.replace(LIMITS, leaving_seconds=10.0), timing=QUICK)
    await sealed(cluster, pair)
    reader, writer = await connection(cluster, pair.trusting())
    writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-much: " + b"x" * (1 << 20))
    assert (await rest(reader)).startswith(b"HTTP/1.1 431")
    writer.close()


@pytest.mark.second_tier
async def test_who_reads_nothing_is_noticed_below_tls_too_and_who_reads_slowly_is_not_ended(
    start: Start, pair: Pair
) -> None:
    limits = dataclasses.replace(LIMITS, unread_seconds=0.2, unread_end_seconds=2.0)
    cluster = await start(at_length, limits=limits, timing=QUICK)
    await sealed(cluster, pair)
    body = orjson.dumps({"model": "llama", "messages": HELLO, "stream": True})
    request = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(
        body
    )
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, cluster.address)
    reader, writer = await asyncio.open_connection(
        sock=raw, ssl=pair.trusting(), server_hostname="localhost", limit=32_768
    )
    writer.write(request + body)
    await reader.readuntil(b"www")
    for _ in range(25):  # 3 seconds, in which it reads little but something
        await reader.read(32_768)
        await asyncio.sleep(0.12)
    unread = 'reconciler_connections_ended_total{reason="unread"}'
    assert (await _connections(cluster, pair))[unread] == 0
    for _ in range(300):
        if (await _connections(cluster, pair))[unread]:
            break
        await asyncio.sleep(0.1)
    assert (await _connections(cluster, pair))[unread] == 1
    writer.transport.abort()


async def at_length(turn: Turn) -> None:
    """Say 12 MB, more than all buffers on the way to a client hold: Linux takes up to 4 MB for a socket by itself."""
    turn.accept()
    for number in range(len(turn.generate.resume), 6000):
        if turn.cancelled.is_set():
            return
        turn.say(2000 * "w", number)
        await asyncio.sleep(0)
    turn.finish()


async def _connections(cluster: Cluster, pair: Pair) -> dict[str, int]:
    """The metrics of connections."""
    async with aiohttp.ClientSession() as session:
        text = await (await session.get(f"https://{cluster.listen}/metrics", ssl=pair.trusting())).text()
    samples = [line.split() for line in text.splitlines() if line.startswith("reconciler_connections")]
    return {name: int(float(value)) for name, value in samples}


def test_what_is_wrong_with_files_is_said(tmp_path: Path) -> None:
    certificate, key = made()
    for name, text in {"c": certificate, "k": key, "empty": b""}.items():
        (tmp_path / name).write_bytes(text)
    for tls, problem in (
        (Tls(f"{tmp_path}/none", f"{tmp_path}/k"), "none cannot be read: No such file or directory"),
        (Tls(f"{tmp_path}/c", "~nobody-here/k"), "k cannot be read: No such file or directory"),
        (Tls(f"{tmp_path}/empty", f"{tmp_path}/k"), "empty has no certificate in PEM form"),
        (Tls(f"{tmp_path}/c", f"{tmp_path}/empty"), "empty has no private key in PEM form"),
    ):
        with pytest.raises(Invalid, match=problem):
            load(tls)
