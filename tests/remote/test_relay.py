"""The gateway's connections to ranks on other machines: one for each machine, for as long as it is of use."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.agent.relay import EXIT_REFUSED
from reconciler.remote import relay
from reconciler.remote.relay import Relays
from reconciler.wire.paths import RELAY_MARK
from tests.agent.bench import SOON_SECONDS, soon

from .server import Channel, Server, server

NAME = "r-0123456789ab.sock"


class Ear(asyncio.Protocol):
    """What takes a channel for a socket."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.heard = b""
        self.lost = asyncio.Event()
        self.known = asyncio.Event()
        """The relay has started, or ended before."""
        self.reason: Exception | None = None
        self.paused = 0
        self.resumed = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.known.set()

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def pause_writing(self) -> None:
        self.paused += 1

    def resume_writing(self) -> None:
        self.resumed += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.reason = exc
        self.lost.set()
        self.known.set()


@pytest.fixture
async def machine() -> AsyncIterator[Server]:
    async with server() as made:
        yield made


@pytest.fixture
async def relays(tmp_path: Path) -> AsyncIterator[Relays]:
    made = Relays(tmp_path / "gateway")
    yield made
    made.close()


async def opened(relays: Relays, machine: Server) -> Ear:
    ear = Ear()
    async with asyncio.timeout(SOON_SECONDS):
        await relays.open(machine.machine, NAME, ear)
        await ear.known.wait()
    return ear


async def test_channels_of_one_machine_share_its_connection(relays: Relays, machine: Server) -> None:
    ears = [await opened(relays, machine) for _ in range(3)]
    await asyncio.gather(*(opened(relays, machine) for _ in range(3)))
    assert machine.logins == 1
    assert {channel.command for channel in machine.channels} == {f"{NAME} marked"}
    for number, ear in enumerate(ears):
        ear.transport.write(b"%d" % number)
    await soon(lambda: [ear.heard for ear in ears] == [b"0", b"1", b"2"])


async def test_a_machine_that_was_away_is_reached_again(relays: Relays, machine: Server) -> None:
    await machine.stop()
    for _ in range(2):
        with pytest.raises(ConnectionError, match=rf"^ada@127.0.0.1:{machine.port}: "):
            await opened(relays, machine)
    await machine.start()
    ear = await opened(relays, machine)
    await machine.stop()
    await ear.lost.wait()
    await machine.start()
    await opened(relays, machine)
    assert machine.logins == 2


async def test_with_the_gateway_its_channels_end_and_a_login_that_is_on_its_way(
    relays: Relays, machine: Server
) -> None:
    ear = await opened(relays, machine)
    relays.close()
    await asyncio.wait_for(ear.lost.wait(), SOON_SECONDS)
    opening = asyncio.create_task(opened(relays, machine))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    relays.close()
    with pytest.raises((asyncio.CancelledError, ConnectionError)):
        await opening


async def test_an_unused_connection_is_kept_for_a_while(
    relays: Relays, machine: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await opened(relays, machine)
    first.transport.abort()
    await first.lost.wait()
    await asyncio.sleep(0.02)
    second = await opened(relays, machine)
    assert machine.logins == 1
    monkeypatch.setattr(relay, "IDLE_SECONDS", 0.01)
    other = await opened(relays, machine)
    other.transport.abort()
    await other.lost.wait()
    await asyncio.sleep(0.05)
    assert not second.lost.is_set(), "another channel is on it"
    second.transport.abort()
    await second.lost.wait()
    (connection,) = machine.connections
    await asyncio.wait_for(connection.wait_closed(), SOON_SECONDS)
    await opened(relays, machine)
    assert machine.logins == 2


async def test_a_gateway_that_ends_leaves_no_timer_behind(relays: Relays, machine: Server) -> None:
    ear = await opened(relays, machine)
    ear.transport.abort()
    await ear.lost.wait()
    (trunk,) = relays._trunks.values()
    idle = trunk._idle
    assert idle is not None
    assert not idle.cancelled()
    again = await opened(relays, machine)
    again.transport.abort()
    await again.lost.wait()
    assert idle.cancelled(), "the time begins anew"
    idle = trunk._idle
    assert idle is not None
    relays.close()
    assert idle.cancelled()
    assert relays._trunks == {}


async def test_a_rank_that_cannot_be_reached_from_there_is_told_with_the_last_words_of_the_relay(
    relays: Relays, machine: Server
) -> None:
    def refuse(channel: Channel) -> None:
        channel.say(b"x" * 2000 + b"no such rank\n", error=True)
        channel.chan.exit(1)

    machine.on_command = refuse
    ear = await opened(relays, machine)
    await asyncio.wait_for(ear.lost.wait(), SOON_SECONDS)
    assert isinstance(ear.reason, ConnectionResetError)
    assert str(ear.reason).endswith("xno such rank")
    assert len(str(ear.reason)) < 1001
    assert ear.heard == b""
    machine.on_command = lambda channel: channel.chan.exit(0)
    silent = await opened(relays, machine)
    await asyncio.wait_for(silent.lost.wait(), SOON_SECONDS)
    assert silent.reason is None


async def test_what_a_login_shell_prints_before_the_relay_is_not_the_rank_s(
    relays: Relays, machine: Server
) -> None:
    def greet(channel: Channel) -> None:
        for part in (
            b"Welcome",
            b"x" * 200_000,
            b"\nreconciler",
            RELAY_MARK[:5],
            RELAY_MARK[5:] + b"he",
            b"llo",
        ):
            channel.say(part)

    machine.on_command = greet
    ear = await opened(relays, machine)
    await soon(lambda: ear.heard == b"hello")


async def test_nothing_is_written_before_the_relay_has_started(relays: Relays, machine: Server) -> None:
    machine.on_command = lambda channel: None
    ear = Ear()
    await relays.open(machine.machine, NAME, ear)
    machine.channels[0].say(b"Do you want tmux? [y/n] ")
    await asyncio.sleep(0.02)
    assert (ear.transport, ear.heard) == (None, b"")
    machine.channels[0].begin()
    await asyncio.wait_for(ear.known.wait(), SOON_SECONDS)
    assert machine.channels[0].input == b""


async def test_a_relay_of_an_older_agent_is_asked_without_the_mark_from_the_second_time_on(
    relays: Relays, machine: Server
) -> None:
    def older(channel: Channel) -> None:
        if channel.command != NAME:
            channel.say(b"relay: expected the name of a rank's socket", error=True)
            channel.chan.exit(EXIT_REFUSED)

    machine.on_command = older
    refused = await opened(relays, machine)
    await asyncio.wait_for(refused.lost.wait(), SOON_SECONDS)
    assert refused.transport is None
    for _ in range(2):
        ear = await opened(relays, machine)
        ear.transport.write(b"hello")
        await soon(lambda ear=ear: ear.heard == b"hello")  # type: ignore[misc]
    assert [channel.command for channel in machine.channels] == [f"{NAME} marked", NAME, NAME]


async def test_who_does_not_wait_for_a_channel_any_more_leaves_none_open(
    relays: Relays, machine: Server
) -> None:
    await opened(relays, machine)
    ear = Ear()
    opening = asyncio.create_task(relays.open(machine.machine, NAME, ear))
    for _ in range(3):
        await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await soon(lambda: len(machine.channels) == 2)
    await asyncio.wait_for(machine.channels[1].ended.wait(), SOON_SECONDS)
    assert ear.transport is None, "nobody hears of it"
    (trunk,) = relays._trunks.values()
    assert len(trunk._sessions) == 1


async def test_a_writer_is_paused_while_its_rank_does_not_read(relays: Relays, machine: Server) -> None:
    machine.on_data = lambda channel, data: channel.chan.pause_reading()
    ear = await opened(relays, machine)
    ear.transport.set_write_buffer_limits(high=64 * 1024)
    for _ in range(64):
        ear.transport.write(b"x" * 64 * 1024)
    await soon(lambda: ear.paused and len(machine.channels[0].input))
    assert ear.resumed == 0
    machine.on_data = lambda channel, data: None
    machine.channels[0].chan.resume_reading()
    await soon(lambda: ear.resumed)
    ear.transport.abort()
    await ear.lost.wait()
    ear.transport.write(b"more")  # raises nothing, as with a socket


async def test_an_opening_that_ends_with_its_loop_is_no_error() -> None:
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    task = asyncio.create_task(asyncio.sleep(600))
    task.add_done_callback(relay._see)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert faults == []


async def test_machines_are_told_apart_by_all_that_leads_to_them(relays: Relays, machine: Server) -> None:
    await opened(relays, machine)
    other = dataclasses.replace(machine.machine, user="eve")
    with pytest.raises(ConnectionError, match=r"^eve@127.0.0.1:\d+: Permission denied"):
        await relays.open(other, NAME, Ear())
    assert machine.logins == 1


async def test_a_channel_that_is_refused_keeps_no_connection(
    relays: Relays, machine: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "IDLE_SECONDS", 0.01)
    machine.refuses = True
    with pytest.raises(ConnectionError, match=rf"^ada@127\.0\.0\.1:{machine.port}: "):
        await opened(relays, machine)
    (connection,) = machine.connections
    await asyncio.wait_for(connection.wait_closed(), SOON_SECONDS)


async def test_what_goes_wrong_when_nobody_waits_any_more_is_no_fault(
    relays: Relays, machine: Server
) -> None:
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    await opened(relays, machine)
    machine.refuses = True
    opening = asyncio.create_task(relays.open(machine.machine, NAME, Ear()))
    for _ in range(3):
        await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await soon(lambda: machine.refused)
    await asyncio.sleep(0.02)
    relays.close()
    connecting = asyncio.create_task(relays.open(machine.machine, NAME, Ear()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    (trunk,) = relays._trunks.values()
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert trunk._sessions == set()
    relays.close()
    await asyncio.sleep(0.02)
    gc.collect()
    assert faults == []


async def test_the_end_of_an_earlier_connection_is_not_that_of_the_next(
    relays: Relays, machine: Server, caplog: pytest.LogCaptureFixture
) -> None:
    await opened(relays, machine)
    trunk: Any
    (trunk,) = relays._trunks.values()
    current = trunk._connecting
    earlier: Any = asyncio.get_running_loop().create_future()
    earlier.set_exception(OSError("it was lost"))
    trunk._lost(earlier, None)
    trunk._connected(earlier)
    assert trunk._connecting is current
    trunk._connecting = None
    trunk._lost(None, None)
    assert not caplog.records, "one that was closed from here"
    trunk._connecting = earlier
    trunk.close()
    trunk._connecting = asyncio.get_running_loop().create_future()
    trunk._connecting.cancel()
    trunk.close()
    trunk._connecting = current
