"""The gateway as a process: its address, its state file, its routes, its end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import orjson
import pytest

from reconciler.gateway import process, server
from reconciler.gateway.process import watch_identity
from reconciler.inventory.gateway_probe import ask
from reconciler.services.lock import Lock
from reconciler.serving.limiter import ConnectionLimiter, ConnectionLimits
from reconciler.wire.file_identity import FileIdentity
from reconciler.wire.gateway import Tls
from reconciler.wire.generation import Backend, Route, Routes
from reconciler.wire.keys import AccessKey, SecretHash, digest_of, hash_of
from tests.certificates import made
from tests.ports import free_port

from .conftest import HELLO, Start, write_routes
from .rank_double import RankDouble, eventually, silent, story, told

PROGRAM = "import sys, pathlib; from reconciler.gateway.process import run_gateway; "
PROGRAM += "sys.exit(run_gateway(pathlib.Path(sys.argv[1]), sys.argv[2] == 'any'))"


@contextlib.asynccontextmanager
async def gateway(home: Path, any_port: bool = False) -> AsyncIterator[asyncio.subprocess.Process]:
    """The gateway as its own process; killed when the block ends, if it still runs."""
    port_mode = "any" if any_port else "exact"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(home), port_mode, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def routes(listen: str, sequence: int = 1, *backends: Backend) -> Routes:
    return Routes(1, sequence, listen, 20.0, (Route("llama", (), 4096, 1_700_000_000, backends),))


async def ended(process: asyncio.subprocess.Process) -> tuple[int | None, str]:
    async with asyncio.timeout(30):
        _, errors = await process.communicate()
    return process.returncode, errors.decode()


async def test_it_waits_for_routes_says_where_it_listens_and_stops_on_sigterm(home: Path) -> None:
    port = free_port()
    async with gateway(home) as process:
        await asyncio.sleep(0.3)
        assert process.returncode is None
        write_routes(home, routes(f"127.0.0.1:{port}", 7))
        await eventually((home / "gateway.json").exists)
        state = orjson.loads((home / "gateway.json").read_bytes())
        assert state["pid"] == process.pid
        assert state["listen"] == f"127.0.0.1:{port}"
        assert state["endpoint"] == f"http://127.0.0.1:{port}/v1"
        assert state["sequence"] == 7
        assert state["started_at"] > 1_700_000_000
        async with aiohttp.ClientSession() as http, http.get(state["endpoint"] + "/models") as answer:
            assert [model["id"] for model in (await answer.json())["data"]] == ["llama"]
        process.send_signal(signal.SIGTERM)
        assert (await ended(process))[0] == 0
        assert list(home.glob("*.tmp")) == []


async def test_it_says_which_keys_it_has(home: Path) -> None:
    keys = tuple(AccessKey(name, (SecretHash(hash_of(name)),)) for name in ("laptop", "ci"))
    wanted, file = replace(routes(f"127.0.0.1:{free_port()}"), auth="keys", keys=keys), home / "gateway.json"

    async def said(sequence: int) -> str:
        await eventually(lambda: file.exists() and orjson.loads(file.read_bytes())["sequence"] == sequence)
        return str(orjson.loads(file.read_bytes())["keys"])

    async with gateway(home):
        for sequence, now in enumerate([(), keys[:1], keys, (replace(keys[0], revoked=True), keys[1]), ()]):
            write_routes(home, replace(wanted, sequence=sequence, keys=now))
            assert await said(sequence) == digest_of(now)


async def test_a_gateway_whose_lock_is_removed_stops(home: Path) -> None:
    lock, stop = home / "gateway.lock", asyncio.Event()
    lock.touch()
    identity = FileIdentity.at(str(lock))
    lock.unlink()
    async with asyncio.timeout(30):
        await watch_identity(home, stop, identity)
    assert stop.is_set()


async def test_a_gateway_that_looks_after_its_connections_no_more_stops(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = await start(limits=ConnectionLimits(99, 99, 9, leaving_seconds=0.01))

    async def fails(limiter: ConnectionLimiter) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(server, "end_overdue", fails)
    await cluster.until(lambda: not _listens(cluster.listen))


@pytest.mark.parametrize("content", [None, b"", b"\0" * 300, b'{"version": 1, "pid": 1, "endpoint": null}'])
async def test_a_state_file_that_was_removed_or_damaged_is_written_again(
    start: Start, content: bytes | None
) -> None:
    cluster = await start(limits=ConnectionLimits(99, 99, 9, leaving_seconds=0.01))
    file = cluster.home / "gateway.json"
    before = file.read_bytes()
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    await cluster.until(lambda: file.exists() and file.read_bytes() == before)


async def test_a_taken_port_is_a_clear_error_with_status_2(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        write_routes(home, routes(listen))
        async with gateway(home) as process:
            code, errors = await ended(process)
    assert code == 2
    assert listen in errors
    assert "choose another port" in errors
    assert "Traceback" not in errors
    state = orjson.loads((home / "gateway.json").read_bytes())
    assert (state["endpoint"], state["problem"]) == (
        None,
        errors.strip().splitlines()[-1].removeprefix("gateway: "),
    )


async def test_with_any_port_the_next_free_one_is_taken(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        write_routes(home, routes(f"127.0.0.1:{port}"))
        async with gateway(home, any_port=True) as process:
            await eventually(lambda: (home / "gateway.json").exists() or process.returncode is not None)
            state = orjson.loads((home / "gateway.json").read_bytes())
            assert port < int(state["listen"].rpartition(":")[2]) < port + 50


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:8400", "192.168.1.5:8400", "[::]:8400", "nonsense", "127.0.0.1:x"]
)
async def test_an_address_that_is_not_loopback_is_refused(home: Path, listen: str) -> None:
    write_routes(home, routes(listen))
    async with gateway(home) as process:
        code, errors = await ended(process)
    assert code == 2
    assert listen in errors
    assert "Gateway's spec" in errors


async def test_a_stream_that_runs_at_sigterm_is_finished(home: Path) -> None:
    rank = await RankDouble(home / "0.sock", story(20, pause=0.05)).start()
    listen = f"127.0.0.1:{free_port()}"
    write_routes(home, routes(listen, 1, Backend(0, 1, str(rank.path), "node-a")))
    async with gateway(home) as process, aiohttp.ClientSession() as http:
        await eventually((home / "gateway.json").exists)
        body = orjson.dumps({"model": "llama", "messages": HELLO, "stream": True})
        async with http.post(f"http://{listen}/v1/chat/completions", data=body) as answer:
            await answer.content.readline()
            process.send_signal(signal.SIGTERM)
            text = (await answer.read()).decode()
        assert text.endswith("data: [DONE]\n\n")
        assert (await ended(process))[0] == 0
    await rank.stop()


async def test_a_stream_that_outlasts_the_shutdown_ends_with_an_error(start: Start) -> None:
    cluster = await start(story(100_000, pause=0.01))
    asking = asyncio.create_task(cluster.events())
    await cluster.ranks[0].until(lambda rank: bool(rank.asked))
    cluster.stop.set()
    lines = await asking
    assert orjson.loads(lines[-1].removeprefix("data: "))["error"]["code"] == "shutting_down"
    await cluster.ranks[0].until(lambda rank: bool(rank.cancelled) or rank.left)


async def test_an_answer_that_outlasts_the_shutdown_is_503_and_may_be_asked_for_again(start: Start) -> None:
    cluster = await start(silent)
    asking = asyncio.create_task(cluster.post({"model": "llama", "messages": HELLO}))
    await cluster.ranks[0].until(lambda rank: bool(rank.asked))
    cluster.stop.set()
    status, headers, body = await asking
    assert (status, body["error"]["code"]) == (503, "shutting_down")
    assert (headers["retry-after"], headers["x-should-retry"]) == ("2", "true")


async def test_routes_are_read_again_when_they_change(start: Start) -> None:
    cluster = await start(story(1))
    cluster.route(cluster.ranks[0], model="other")
    assert [model.id for model in (await cluster.client.models.list()).data] == ["other", "gpt-4o"]
    reply = await cluster.client.chat.completions.create(model="other", messages=HELLO)
    assert reply.choices[0].message.content == told(1)
    assert (await cluster.post({"model": "llama", "messages": HELLO}))[0] == 404
    await cluster.until(cluster.up)


async def test_a_broken_routes_file_leaves_the_last_good_one_in_force(start: Start) -> None:
    cluster = await start(story(1))
    for broken in [b"", b"{", b'{"version": 1}', b'{"version": 99, "sequence": 2}', b"[]"]:
        (cluster.home / "routes.json").write_bytes(broken)
        assert [model.id for model in (await cluster.client.models.list()).data] == ["llama", "gpt-4o"]
        assert (await cluster.post({"model": "llama", "messages": HELLO}))[0] == 200
    cluster.route(cluster.ranks[0], model="other")
    assert (await cluster.post({"model": "other", "messages": HELLO}))[0] == 200


async def test_routes_of_a_controller_that_was_replaced_are_ignored(start: Start) -> None:
    cluster = await start(story(1))
    cluster.token = 7
    cluster.route(cluster.ranks[0], model="newer")
    await cluster.until(lambda: cluster.up() and cluster.state()["token"] == 7)
    cluster.token = 6
    cluster.route(cluster.ranks[0], model="older")
    assert [model.id for model in (await cluster.client.models.list()).data] == ["newer", "gpt-4o"]
    cluster.token = 8
    cluster.route(cluster.ranks[0], model="newest")
    assert [model.id for model in (await cluster.client.models.list()).data] == ["newest", "gpt-4o"]


async def test_it_moves_to_a_new_address_and_finishes_what_runs_on_the_old(start: Start) -> None:
    cluster = await start(story(20, pause=0.05))
    asking = asyncio.create_task(cluster.events())
    await cluster.ranks[0].until(lambda rank: bool(rank.asked))
    old, cluster.listen = cluster.listen, f"127.0.0.1:{free_port()}"
    cluster.route(cluster.ranks[0])
    await cluster.until(lambda: cluster.state()["listen"] == cluster.listen)
    async with cluster.http.get(cluster.url("/v1/models")) as answer:
        assert answer.status == 200
    assert (await asking)[-1] == "data: [DONE]"
    await cluster.until(lambda: not _listens(old))


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


async def test_a_new_address_that_cannot_be_had_changes_nothing(start: Start) -> None:
    cluster = await start(story(1))
    served, cluster.listen = cluster.listen, "10.1.2.3:8400"
    cluster.route(cluster.ranks[0])
    cluster.listen = served
    await cluster.until(cluster.up)
    assert cluster.state()["listen"] == served
    assert (await cluster.post({"model": "llama", "messages": HELLO}))[0] == 200


async def test_its_own_state_that_cannot_be_written_stops_nothing_and_is_written_later(start: Start) -> None:
    cluster = await start(story(1))
    before = cluster.state()
    obstacle = cluster.home / ".gateway.json.new"
    obstacle.mkdir()
    cluster.route(cluster.ranks[0], model="other")
    assert (await cluster.post({"model": "other", "messages": HELLO}))[0] == 200
    assert cluster.state() == before
    obstacle.rmdir()
    await cluster.until(cluster.up)


async def test_an_address_that_gets_free_is_taken_then(start: Start) -> None:
    cluster = await start(story(1))
    served = cluster.listen
    with socket.create_server(("127.0.0.1", 0)) as taken:
        cluster.listen = f"127.0.0.1:{taken.getsockname()[1]}"
        cluster.route(cluster.ranks[0])
        await cluster.until(lambda: bool(cluster.state()["problem"]))
        assert cluster.state()["listen"] == served
        assert f"{cluster.listen} is taken by another process" in cluster.state()["problem"]
    await cluster.until(lambda: cluster.state()["listen"] == cluster.listen)
    assert cluster.state()["problem"] == ""
    assert (await cluster.post({"model": "llama", "messages": HELLO}))[0] == 200


async def test_an_address_that_is_taken_is_tried_now_and_then(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []
    bound = server._Gateway._bound

    async def noted(gateway: server._Gateway, listen: str) -> socket.socket:
        tried.append(asyncio.get_running_loop().time())
        return await bound(gateway, listen)

    cluster = await start(story(1))
    monkeypatch.setattr(server._Gateway, "_bound", noted)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        cluster.listen = f"127.0.0.1:{taken.getsockname()[1]}"
        cluster.route(cluster.ranks[0])
        await eventually(lambda: len(tried) > 2)
    assert tried[2] - tried[0] > 0.9


async def test_a_rank_that_breaks_the_protocol_is_not_used(start: Start) -> None:
    async def garble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00\x00\x00\x02{]")
        await reader.read()
        writer.close()

    cluster = await start(hold_seconds=0.5)
    path = cluster.home / "g.sock"
    async with await asyncio.start_unix_server(garble, str(path)):
        cluster.route(RankDouble(path, story(1)))
        status, _, body = await cluster.post({"model": "llama", "messages": HELLO})
    assert (status, body["error"]["code"]) == (503, "model_loading")


async def test_with_tls_each_of_many_handshakes_is_answered_also_those_that_come_at_once(home: Path) -> None:
    """Its loop is uvloop's, which reads before any task runs."""
    tls = Tls(f"{home}/certificate.pem", f"{home}/key.pem")
    for path, text in zip((tls.certificate, tls.key), made(), strict=True):
        Path(path).write_bytes(text)
    listen = f"127.0.0.1:{free_port()}"
    async with gateway(home):
        write_routes(home, replace(routes(listen), tls=tls))
        await eventually((home / "gateway.json").exists)
        answers = await asyncio.gather(*(ask(f"https://{listen}/v1") for _ in range(30)))
        answers += [await ask(f"https://{listen}/v1") for _ in range(10)]
    assert {answer.problem for answer in answers} == {""}


class FullDisk(Lock):
    """A lock on a disk that has room at the third attempt."""

    attempts = 0

    def write(self) -> None:
        self.attempts += 1
        if self.attempts < 3:
            raise OSError("no room")
        self.written = True


async def test_a_lock_is_written_when_the_disk_has_room_again(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setattr(process, "WRITE_SECONDS", 0.0)
    path = home / "gateway.lock"
    path.touch()
    lock = FullDisk(path, "")
    await process.write_down(lock)
    assert lock.written
