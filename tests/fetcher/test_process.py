"""The fetcher as its agent has it: a process of its own that may be killed, and that ends with the agent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.agent.local_host import Settings
from reconciler.agent.weights.fetches import Fetches
from reconciler.errors import Unreachable
from reconciler.execution import Tools
from reconciler.execution.handlers import carry_out
from reconciler.fetcher.folder import is_right
from reconciler.fetcher.peer import Peer, serve
from reconciler.remote.agent_connection import AgentConnection
from reconciler.state import NodeName
from reconciler.state.machine.weights import FetchWeights
from reconciler.store import Store
from reconciler.wire.node import FetchWeights as Request
from reconciler.wire.node import ModelReport, NodeReport, Observe
from reconciler.wire.paths import giving_socket, taking_socket
from reconciler.wire.weights import FetchPhase, FetchProblem, FetchSource, hub_path, partial_folder
from tests.agent.bench import Bench, until
from tests.machines import LocalMachines

from .conftest import SHARDS, repository
from .hub import COMMIT, REPO, Fault, Hub

pytestmark = pytest.mark.processes

PATH = hub_path(REPO, COMMIT)
FIRST = SHARDS[0]
WAIT_SECONDS = 60.0
WAITS_MAX = 1200
TOKEN = "hf_s3cr3t"


def content(path: Path) -> bytes:
    """Of a file that may be gone by now."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return path.read_bytes()
    return b""


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench.make()
    made.models.mkdir()
    yield made
    await made.close()


class Node:
    """A bench's agent, and what it says of the weights."""

    def __init__(self, bench: Bench, hub: Hub) -> None:
        self.bench = bench
        self.hub = hub

    async def fetch(
        self, secret: str = "", from_peer: bool = False, only: tuple[str, ...] | None = None
    ) -> None:
        source = FetchSource(REPO, COMMIT, self.hub.endpoint)
        request = Request(1, PATH, source, "w", from_peer=from_peer, secret=secret, only=only)
        await self.bench.links[-1].request(request, timeout=WAIT_SECONDS)

    async def weights(self) -> ModelReport:
        report = await self.bench.links[-1].request(Observe((PATH,)), timeout=WAIT_SECONDS)
        assert isinstance(report, NodeReport)
        return report.models[0]

    async def until(self, true: Callable[[ModelReport], object]) -> ModelReport:
        for _ in range(WAITS_MAX):
            report = await self.weights()
            if true(report):
                return report
            await asyncio.sleep(WAIT_SECONDS / WAITS_MAX)
        raise AssertionError(f"waited in vain; the last was {report}")

    def came(self) -> int:
        """Bytes of the first file that are on the disk and not yet weights."""
        part = partial_folder(self.bench.models / PATH) / f"{FIRST}.part"
        return part.stat().st_size if part.exists() else 0

    def fetchers(self) -> list[int]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                line = (folder / "cmdline").read_bytes()
                there = (folder / "cwd").readlink()
            except OSError:
                continue
            if b"reconciler.fetcher" in line and there == self.bench.directory:
                found.append(int(folder.name))
        return found


@pytest.fixture
async def node(bench: Bench, hub: Hub) -> Node:
    await bench.agent()
    return Node(bench, hub)


async def test_weights_appear_and_how_they_came_is_reported(node: Node) -> None:
    assert not (await node.weights()).present
    await node.fetch()
    arrived = await node.until(
        lambda weights: weights.verified and weights.fetch and not weights.fetch.running
    )
    assert arrived.fetch is not None
    assert (arrived.fetch.progress.phase, arrived.fetch.wish) == (FetchPhase.DONE, "w")
    assert arrived.weights_bytes == sum(len(repository()[name]) for name in SHARDS)


@pytest.mark.needs("linux")
async def test_one_fetcher_runs_however_often_it_is_asked_for(node: Node) -> None:
    node.hub.faults[FIRST] = Fault(trickles_after=0)
    for _ in range(3):
        await node.fetch()
    await node.until(lambda weights: weights.fetch and weights.fetch.progress.file == FIRST)
    assert len(node.fetchers()) == 1
    node.hub.go_on.set()
    await node.until(lambda weights: weights.verified)
    assert node.hub.requests[FIRST] == 1


@pytest.mark.needs("linux")
async def test_a_fetcher_that_is_killed_leaves_what_came(node: Node) -> None:
    node.hub.faults[FIRST] = Fault(trickles_after=400_000, times=1)
    await node.fetch()
    await until(lambda: node.came() > 200_000)
    (pid,) = node.fetchers()
    os.kill(pid, signal.SIGKILL)
    arrived = await node.until(lambda weights: weights.fetch and not weights.fetch.running)
    assert arrived.fetch is not None
    assert arrived.fetch.progress.problem == FetchProblem.INTERRUPTED
    assert not arrived.present
    await node.fetch()
    await node.until(lambda weights: weights.verified)
    assert node.hub.requests[FIRST] == 2
    assert node.hub.sent[FIRST] < 2 * len(repository()[FIRST])


@pytest.mark.needs("linux")
async def test_a_fetcher_ends_with_its_agent_and_the_next_goes_on(node: Node, bench: Bench) -> None:
    node.hub.faults[FIRST] = Fault(trickles_after=400_000, times=1)
    await node.fetch()
    await until(lambda: node.came() > 200_000)
    await bench.kill_agent()
    await bench.agent()
    assert (await node.weights()).fetch is None
    await node.until(lambda weights: not node.fetchers())
    await node.fetch()
    await node.until(lambda weights: weights.verified)
    assert node.hub.sent[FIRST] < 2 * len(repository()[FIRST])


@pytest.mark.needs("linux")
async def test_the_token_goes_to_the_hub_and_is_nowhere_else(node: Node, bench: Bench) -> None:
    node.hub.token = TOKEN
    node.hub.faults[FIRST] = Fault(trickles_after=0)
    await node.fetch(secret=TOKEN)
    await node.until(lambda weights: weights.fetch and weights.fetch.progress.file == FIRST)
    lines = b"".join(content(path) for path in Path("/proc").glob("[0-9]*/cmdline"))
    assert b"reconciler.fetcher" in lines
    assert TOKEN.encode() not in lines
    node.hub.go_on.set()
    arrived = await node.until(lambda weights: weights.verified)
    assert TOKEN not in repr(arrived)
    assert node.hub.tokens == {TOKEN}
    kept = [path for path in bench.home.rglob("*") if path.is_file()]
    assert [path for path in kept if TOKEN.encode() in content(path)] == []


async def test_an_interpreter_that_is_not_there_is_a_problem_of_its_own(hub: Hub, tmp_path: Path) -> None:
    news: list[bool] = []
    place = Settings("n", tmp_path, tmp_path, tmp_path, str(tmp_path / "no-python"), ())
    fetches = Fetches(place, news.append)
    fetches.start(Request(1, PATH, FetchSource(REPO, COMMIT, hub.endpoint)))
    report = fetches.report(PATH)
    assert report is not None
    assert report.progress.problem == FetchProblem.NO_CLIENT
    assert report.attempts == 1
    assert news == [True]


class Late(subprocess.Popen[bytes]):
    """A process that has ended before anybody says anything to it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize("process", [subprocess.Popen, Late])
async def test_an_interpreter_that_has_no_fetcher_is_reported_in_its_own_words(
    process: type[subprocess.Popen[bytes]], hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.agent.weights.fetches.subprocess.Popen", process)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'No module named reconciler' >&2; exit 1\n")
    python.chmod(0o755)
    fetches = Fetches(Settings("n", tmp_path, tmp_path, tmp_path, str(python), ()), lambda urgent: None)
    fetches.start(Request(1, PATH, FetchSource(REPO, COMMIT, hub.endpoint)))
    for _ in range(WAITS_MAX):
        report = fetches.report(PATH)
        if report is not None and not report.running:
            break
        await asyncio.sleep(WAIT_SECONDS / WAITS_MAX)
    assert report is not None
    assert report.progress.problem == FetchProblem.INTERRUPTED
    assert report.progress.text.endswith("before it was done: No module named reconciler")


@pytest.mark.parametrize("path", ["tiny", "hub/../tiny", "hub/a/b/c", "/hub/a"])
async def test_nothing_is_fetched_to_elsewhere(path: str, hub: Hub, tmp_path: Path) -> None:
    fetches = Fetches(Settings("n", tmp_path, tmp_path, tmp_path, "python", ()), lambda urgent: None)
    with pytest.raises(ValueError, match="expected hub/<repository>/<revision>"):
        fetches.start(Request(1, path, FetchSource(REPO, COMMIT, hub.endpoint)))


class Links:
    """The agents of two benches, as the collector has them."""

    def __init__(self, benches: dict[NodeName, Bench]) -> None:
        self.benches = benches

    def link(self, name: NodeName) -> tuple[AgentConnection, int]:
        return self.benches[name].links[-1], 1

    def look(self, name: NodeName) -> None:
        """The tests look."""

    async def reach(self, name: NodeName, starts: bool = True) -> None:
        raise Unreachable(name)

    async def lose(self, name: NodeName) -> None:
        raise Unreachable(name)

    async def renew(self, name: NodeName) -> None:
        raise Unreachable(name)

    def token(self, name: NodeName) -> int:
        raise Unreachable(name)


@pytest.fixture
async def other(bench: Bench) -> AsyncIterator[Bench]:
    """Another node."""
    made = Bench.make()
    made.models.mkdir()
    await made.agent()
    yield made
    await made.close()


async def copy(bench: Bench, other: Bench, place: Path, only: tuple[str, ...] | None = None) -> None:
    """Have the other node take from the first one."""
    store = Store(place / "store.db")
    giving, taking = NodeName("giving"), NodeName("taking")
    try:
        benches = {giving: bench, taking: other}
        machines = LocalMachines(lambda name: benches[name].node())
        tools = Tools(store, Links(benches), machines, time.time)
        sockets = (
            giving_socket(str(bench.run_directory), "bench", PATH),
            taking_socket(str(other.run_directory), "bench", PATH),
        )
        source = FetchSource(REPO, COMMIT)
        step = FetchWeights("tiny", taking, PATH, source, None, "w", giving, sockets, only)
        async with asyncio.timeout(WAIT_SECONDS):
            await carry_out(step, tools)
    finally:
        store.close()


async def test_another_node_copies_what_one_has_fetched_and_verifies_it(
    node: Node, bench: Bench, other: Bench, tmp_path: Path
) -> None:
    await node.fetch()
    await node.until(lambda weights: weights.verified)
    node.hub.requests.clear()
    await copy(bench, other, tmp_path)
    await Node(other, node.hub).until(lambda weights: weights.verified)
    assert node.hub.requests == {}
    for name in SHARDS:
        assert (other.models / PATH / name).read_bytes() == repository()[name]


async def test_who_has_a_part_gives_that_and_outlines_of_the_rest(
    node: Node, bench: Bench, other: Bench, tmp_path: Path
) -> None:
    await node.fetch(only=(FIRST,))
    await node.until(lambda weights: weights.verified)
    node.hub.requests.clear()
    node.hub.outlined.clear()
    await copy(bench, other, tmp_path, only=(FIRST,))
    taker = Node(other, node.hub)
    assert (await taker.until(lambda weights: weights.verified)).lacking == (SHARDS[1],)
    await copy(bench, other, tmp_path, only=(SHARDS[1],))
    report = await taker.until(lambda weights: weights.fetch and weights.fetch.progress.problem)
    assert report.fetch is not None
    assert (report.fetch.progress.problem, report.verified) == (FetchProblem.TRUNCATED, True)
    assert (node.hub.requests, node.hub.outlined) == ({}, {})
    assert (other.models / PATH / FIRST).read_bytes() == repository()[FIRST]


async def test_a_copy_that_fills_the_disk_goes_on_when_there_is_room(
    node: Node, bench: Bench, other: Bench, tmp_path: Path
) -> None:
    await node.fetch()
    await node.until(lambda weights: weights.verified)
    node.hub.requests.clear()
    coming = partial_folder(other.models / PATH)
    coming.mkdir(parents=True)
    (coming / f"{SHARDS[1]}.part").symlink_to("/dev/full")  # takes nothing, as a disk that has no room
    await copy(bench, other, tmp_path)
    taker = Node(other, node.hub)
    report = await taker.until(lambda weights: weights.fetch and weights.fetch.progress.problem)
    assert report.fetch is not None
    assert (report.fetch.progress.problem, report.present) == (FetchProblem.DISK_FULL, False)
    came = (coming / FIRST).stat().st_ino
    (coming / f"{SHARDS[1]}.part").unlink()
    await copy(bench, other, tmp_path)
    await taker.until(lambda weights: weights.verified)
    assert node.hub.requests == {}
    assert (other.models / PATH / FIRST).stat().st_ino == came, "what had come stays"


async def test_a_damaged_copy_is_no_weights(node: Node, bench: Bench, tmp_path: Path) -> None:
    """Whoever gives them, every file is compared with the hub's digest."""
    await node.fetch()
    await node.until(lambda weights: weights.verified)
    (bench.models / PATH / FIRST).write_bytes(b"x" * len(repository()[FIRST]))
    listening = str(bench.run_directory / "t.sock")
    source = FetchSource(REPO, COMMIT)
    with socket.socket(socket.AF_UNIX) as giving:
        peer = Peer(source, listening)
        giving.connect(listening)
        thread = threading.Thread(target=serve, args=(bench.models / PATH, giving), daemon=True)
        thread.start()
        wanted = next(file for file in peer.files() if file.name == FIRST)
        peer.download(wanted, tmp_path / "part", lambda size: None)
        peer.close()
        thread.join(WAIT_SECONDS)
    assert not is_right(tmp_path / "part", wanted, lambda size: None)
