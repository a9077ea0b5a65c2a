"""Real ranks on emulated Macs: groups over JACCL form, generate as one rank does, and fail as real ones were seen to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.agent.ranks.hearing import ask
from reconciler.sandbox.world import changes, macs
from reconciler.sandbox.world.state import DOMAINS_MAX, World
from reconciler.wire.generation import Delta
from reconciler.wire.launch import DEVICES_JOINT, ExitCode, Phase, Progress
from tests.ports import free_port
from tests.runner.conftest import TINY, greedy_tokens, write_endless
from tests.runner.ranks import Client, Group, connected, question

from .rig import PHASES, Rig, ends, rig, still

pytestmark = pytest.mark.second_tier

NAMES = ["studio-1", "studio-2", "studio-3", "studio-4"]
PAIR = NAMES[:2]
ATTEMPTS_MAX = 100
"""Requests, at the latest; mostly it is the first."""
DEAF_SECONDS = 1.0
"""A question that is heard is answered in milliseconds, and one that is not has no answer however long one waits."""


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It practically never says the end token."""
    return write_endless(tmp_path_factory.mktemp("endless"))


@pytest.fixture(scope="module")
def studios() -> Iterator[Rig]:
    """Four, each joined to each."""
    with rig(macs.world(NAMES, "studio", macs.MESH, NAMES, time.time() - 600)) as built:
        yield built


@pytest.fixture
def macs4(studios: Rig) -> Iterator[Rig]:
    """The same, and as before afterwards."""
    before = studios.world
    yield studios
    studios.change(lambda world: before)


async def generates_as_one_rank(group: Group) -> None:
    async with connected(group.socket) as client:
        reply = await client.ask("a", "Hello there", tokens_max=12)
    assert reply.tokens == greedy_tokens(TINY, list(reply.prompt), 12)


async def test_a_mesh_of_four_generates_as_one_rank_and_the_end_of_a_rank_is_the_end_of_all(
    macs4: Rig,
) -> None:
    with macs4.running(TINY, NAMES) as group:
        await asyncio.to_thread(group.ready)
        for rank in group.ranks:
            assert list(dict.fromkeys(report.phase for report in rank.reports)) == PHASES
            assert rank.last.verbs
        assert [macs4.verbs.domains(name) for name in NAMES] == [3, 3, 3, 3]
        await generates_as_one_rank(group)
        group.ranks[2].process.kill()
        codes = await asyncio.to_thread(ends, group)
    assert codes == [ExitCode.PEER_LOST, ExitCode.PEER_LOST, -signal.SIGKILL, ExitCode.PEER_LOST]
    await asyncio.to_thread(macs4.wait_free)  # who is gone holds nothing


async def test_two_machines_use_both_cables_between_them(macs4: Rig) -> None:
    macs4.change(lambda world: changes.addressed(changes.plug(world, ("studio-1", 1), ("studio-2", 1))))
    (_, one), (other, _) = macs4.matrix(PAIR)
    second = [macs4.world.machine(name).port(1).device for name in PAIR]
    both = [DEVICES_JOINT.join(sorted(pair)) for pair in zip((one, other), second, strict=True)]
    with macs4.running(TINY, PAIR, devices=(("", both[0]), (both[1], ""))) as group:
        await asyncio.to_thread(group.ready)
        assert [macs4.verbs.domains(name) for name in PAIR] == [2, 2]
        await generates_as_one_rank(group)
    await asyncio.to_thread(macs4.wait_free)


@pytest.mark.parametrize("members", [PAIR, NAMES], ids=["the only cable", "one of a ring"])
async def test_a_cable_that_is_pulled_while_it_is_used_kills_the_ranks_at_both_of_its_ends(
    macs4: Rig, endless: Path, members: list[str]
) -> None:
    cable = macs4.world.machine("studio-1").port_of(macs4.device("studio-1", "studio-2"))
    assert cable is not None
    with macs4.running(endless, members, ring=True) as group:
        await asyncio.to_thread(group.ready)
        async with connected(group.socket) as client:
            client.send(question("a", "Tell me", tokens_max=400))
            while not isinstance(await client.next("a"), Delta):
                pass
            macs4.change(lambda world: changes.unplug(world, ("studio-1", cable.receptacle)))
            client.send(question("b", "Tell me", tokens_max=400))  # the first answer may be out by now
            codes = await asyncio.to_thread(ends, group)
    assert codes == [-signal.SIGSEGV] * 2 + [ExitCode.PEER_LOST] * (len(members) - 2)


async def test_a_machine_that_hangs_stands_still_for_all_and_one_whose_links_decayed_fails_at_rest(
    macs4: Rig, endless: Path
) -> None:
    with macs4.running(endless, PAIR, keep_alive_seconds=0.3) as group:
        await asyncio.to_thread(group.ready)
        async with connected(group.socket) as client:
            macs4.change(lambda world: changes.fault(world, "studio-2", hung=True))
            client.send(question("a", "Tell me", tokens_max=200))
            await asyncio.to_thread(_stands_still, group)
            macs4.change(lambda world: changes.fault(world, "studio-2", hung=False))
            assert len((await client.reply("a")).tokens) == 200
            macs4.change(lambda world: changes.fault(world, "studio-1", mute="silent"))
            assert await _computes_in_silence(group, client, 200)
        macs4.change(lambda world: changes.fault(world, "studio-1", mute="deaf"))
        assert await _takes_no_request(group)
        macs4.change(lambda world: changes.fault(world, "studio-1", mute="broken"))
        assert await _breaks_off(group)
        macs4.change(lambda world: changes.fault(world, "studio-1", decayed=True))
        codes = await asyncio.to_thread(ends, group)
    assert codes == [ExitCode.VERBS, ExitCode.PEER_LOST]
    assert "[jaccl] Send failed with error code" in group.ranks[0].last.detail


async def _computes_in_silence(group: Group, client: Client, tokens: int) -> bool:
    """Whether rank 0, after so many tokens, comes to compute what nobody hears of: it is told so beside its work."""
    for name in map(str, range(ATTEMPTS_MAX)):
        tokens += 5
        client.send(question(name, "Tell me", tokens_max=5))
        await asyncio.to_thread(group.ranks[0].wait_until, _has_made(tokens))
        try:
            await client.next(name, 0.5)
        except TimeoutError:
            return True
    return False


def _has_made(tokens: int) -> Callable[[Progress], bool]:
    return lambda last: last.tokens >= tokens


async def _takes_no_request(group: Group) -> bool:
    """Whether rank 0 comes to leave a question unanswered: it is told so beside its work."""
    for _ in range(ATTEMPTS_MAX):
        try:
            await asyncio.wait_for(ask(str(group.socket)), DEAF_SECONDS)
        except TimeoutError:
            return True
    return False


async def _breaks_off(group: Group) -> bool:
    """Whether rank 0 comes to close the connection of whoever asks."""
    for _ in range(ATTEMPTS_MAX):
        async with connected(group.socket) as client:
            client.send(question("c", "Tell me", tokens_max=5))
            with contextlib.suppress(TimeoutError):  # it may take no requests yet
                if await asyncio.wait_for(client.closed("c"), DEAF_SECONDS):
                    return True
    return False


def _stands_still(group: Group) -> None:
    """A request is owed, and no step is done for it for a second, while everybody lives."""
    deadline = time.monotonic() + 60
    steps, since = -1, time.monotonic()
    while time.monotonic() - since < 1.0:
        last = group.ranks[0].last
        assert time.monotonic() < deadline
        if last.steps != steps or not last.demand:
            steps, since = last.steps, time.monotonic()
        time.sleep(0.05)
    assert still(group, 0.0)


def exhausted(world: World) -> World:
    return changes.exhaust_pd(world, "studio-2", DOMAINS_MAX)


def without_consent(world: World) -> World:
    return changes.fault(world, "studio-2", privacy=True)


def alone(world: World) -> World:
    return changes.fault(world, "studio-2", alone=True)


FAILS = {
    exhausted: (1, ExitCode.KERNEL_OBJECTS, "[jaccl] Couldn't allocate protection domain"),
    without_consent: (1, ExitCode.NO_ROUTE, "No route to host"),
    alone: (1, ExitCode.WRONG_GROUP, "rank 0 of a group of 1, expected 1 of 2"),
}


@pytest.mark.parametrize("happens", FAILS, ids=lambda happens: happens.__name__)
def test_a_machine_that_is_not_fit_says_why_itself(macs4: Rig, happens: object) -> None:
    guilty, code, text = FAILS[happens]  # type: ignore[index]
    macs4.change(happens)  # type: ignore[arg-type]
    # Who has no way tries for all of this time. Everybody else has to have started within it.
    seconds = 8.0 if happens is without_consent else 60.0
    with macs4.running(TINY, PAIR, rendezvous_seconds=seconds) as group:
        codes = ends(group)
    assert (codes[guilty], text in group.ranks[guilty].last.detail) == (code, True), group.ranks[
        guilty
    ].text()
    assert codes[1 - guilty] in (ExitCode.PEER_LOST, ExitCode.RENDEZVOUS)
    verbs = (ExitCode.KERNEL_OBJECTS, ExitCode.WRONG_GROUP)
    assert group.ranks[guilty].last.verbs == (code in verbs), "an attempt counts once it takes kernel objects"


def test_a_matrix_that_names_two_cables_never_serves(macs4: Rig) -> None:
    matrix = (("", macs4.device("studio-1", "studio-3")), macs4.matrix(PAIR)[1])
    with macs4.running(TINY, PAIR, devices=matrix) as group:
        codes = ends(group, 60)
        assert not any(report.phase == Phase.LOADING for rank in group.ranks for report in rank.reports)
    errors = [
        rank.last.detail
        for rank, code in zip(group.ranks, codes, strict=True)
        if code == ExitCode.GID_UNREACHED
    ]
    assert errors
    assert all("[jaccl] Changing queue pair to RTR failed with errno 60" in text for text in errors)
    assert set(codes) <= {ExitCode.GID_UNREACHED, ExitCode.PEER_LOST}


def test_a_fault_of_the_gpu_ends_the_rank_with_metals_words(macs4: Rig) -> None:
    macs4.change(lambda world: changes.fault(world, "studio-1", gpu="oom"))
    with macs4.running(TINY, ["studio-1"], backend="ring", devices=()) as group:
        assert ends(group) == [ExitCode.MEMORY]
    assert "kIOGPUCommandBufferCallbackErrorOutOfMemory" in group.ranks[0].last.detail


def test_a_driver_that_does_not_come_back_keeps_the_rank_in_its_phase_until_it_is_told_to_end(
    macs4: Rig,
) -> None:
    macs4.change(lambda world: changes.fault(world, "studio-2", verbs_wedged=True))
    with macs4.running(TINY, PAIR, verbs_seconds=60.0) as group:
        for rank in group.ranks:
            rank.wait_for(Phase.VERBS)
        assert still(group, 1.0)
        for rank in group.ranks:
            os.kill(rank.process.pid, signal.SIGTERM)
        assert ends(group) == [ExitCode.OK, ExitCode.OK]


async def test_tcp_over_a_cable_stops_while_that_is_out_and_goes_on_when_it_is_back(
    macs4: Rig, endless: Path
) -> None:
    ports = {
        name: macs4.world.machine(name).port_of(macs4.device(name, other))
        for name, other in (PAIR, PAIR[::-1])
    }
    addresses = tuple(f"{port.ip}:{free_port()}" for port in ports.values() if port)
    cable = ports["studio-1"]
    assert cable is not None
    end = ("studio-1", cable.receptacle)
    with macs4.running(endless, PAIR, backend="ring", devices=(), addresses=addresses) as group:
        await asyncio.to_thread(group.ready)
        async with connected(group.socket) as client:
            macs4.change(lambda world: changes.unplug(world, end))
            client.send(question("a", "Tell me", tokens_max=30))
            await asyncio.to_thread(_stands_still, group)
            macs4.change(lambda world: changes.plug(world, end))
            assert len((await client.reply("a")).tokens) == 30
