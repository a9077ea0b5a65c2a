"""Ranks on another machine: through a real SSH server, with a key that is good for nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import signal
from pathlib import Path

import pytest

from reconciler.remote.relay import Relays
from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, to_wire
from reconciler.wire.frames import encode
from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.rank_double import RankDouble, Turn, eventually, silent, story, told
from tests.sshd import Sshd, make_key

pytestmark = pytest.mark.processes


async def ask(cluster: Cluster) -> str:
    reply = await cluster.client.chat.completions.create(model="llama", messages=HELLO)
    return reply.choices[0].message.content or ""


async def test_many_requests_at_once_go_over_one_channel_of_one_connection(
    start: Start, machine: Sshd
) -> None:
    cluster = await start(story(20, pause=0.01), story(20, pause=0.01), through=machine)
    answers = await asyncio.gather(*(ask(cluster) for _ in range(50)))
    assert set(answers) == {told(20)}
    assert [rank.connections for rank in cluster.ranks] == [1, 1]
    assert machine.logins() == 1


@pytest.mark.parametrize("remote", [False, True])
async def test_a_rank_that_does_not_read_is_given_nothing_new(
    start: Start, machine: Sshd, remote: bool
) -> None:
    cluster = await start(through=machine if remote else None)
    deaf = _Deaf(cluster.home / "r-00000000dead.sock", silent)
    cluster.ranks.append(await deaf.start())
    cluster.route(deaf)
    body = {"model": "llama", "messages": [{"role": "user", "content": "x" * 3 * 1024 * 1024}]}
    asking = [asyncio.create_task(cluster.post(body)) for _ in range(4)]
    await deaf.until(lambda rank: rank.connections == 1)
    await cluster.until_waiting(len(asking))
    other = await cluster.rank(story(2))
    cluster.route(deaf, other)
    await eventually(lambda: any(task.done() for task in asking))
    assert await ask(cluster) == told(2)
    assert not all(task.done() for task in asking)
    await deaf.stop()
    assert [status for status, _, _ in await asyncio.gather(*asking)] == [200] * 4


class _Deaf(RankDouble):
    """Greets, and reads nothing."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        writer.write(encode(to_wire(Hello("rank", SPOKEN))))


async def test_a_slow_client_holds_up_nobody_else_on_the_same_channel(start: Start, machine: Sshd) -> None:
    async def flood(turn: Turn) -> None:
        turn.accept()
        many = turn.generate.tokens_max == 4000
        for number in range(4000 if many else 3):
            turn.say(f"w{number} " + ("x" * 5000 if many else ""), number)
            await asyncio.sleep(0)
        turn.finish()

    cluster = await start(flood, through=machine)
    body = {"model": "llama", "messages": HELLO, "stream": True, "max_tokens": 4000}
    async with cluster.http.post(cluster.url("/v1/chat/completions"), json=body) as slow:
        await slow.content.readline()
        for _ in range(20):
            assert await ask(cluster) == told(3)
        received = await slow.text()
    assert received.count("w3999 ") == 1
    assert received.rstrip().endswith("data: [DONE]")


# --- when SSH breaks -------------------------------------------------------------------------------


async def test_an_answer_goes_on_elsewhere_when_the_connection_to_its_machine_is_cut(
    start: Start, machine: Sshd
) -> None:
    cluster = await start(story(40, pause=0.02), story(40, pause=0.02), through=machine)
    asking = [asyncio.create_task(ask(cluster)) for _ in range(10)]
    await cluster.until(lambda: sum(len(rank.asked) for rank in cluster.ranks) == 10)
    await asyncio.sleep(0.2)
    machine.signal_sessions(signal.SIGKILL)
    assert set(await asyncio.gather(*asking)) == {told(40)}
    assert machine.logins() == 2
    assert any(generate.resume for rank in cluster.ranks for generate in rank.asked)


async def test_a_machine_that_is_gone_is_left_for_another_and_found_again(
    start: Start, machine: Sshd
) -> None:
    cluster = await start(story(40, pause=0.02), through=machine)
    away = cluster.ranks[0]
    asking = asyncio.create_task(ask(cluster))
    await away.until(lambda rank: bool(rank.asked))
    await machine.stop()
    cluster.machine = None
    here = await cluster.rank(story(40))
    cluster.route(here)
    assert await asking == told(40)
    cluster.machine = machine.machine
    cluster.route(away)
    asking = asyncio.create_task(ask(cluster))
    await asyncio.sleep(0.5)
    await machine.start()
    assert await asking == told(40)


async def test_a_relay_ends_with_the_connection_and_with_the_rank(start: Start, machine: Sshd) -> None:
    cluster = await start(story(1), through=machine)
    assert await ask(cluster) == told(1)
    assert len(machine.relays()) == 1
    await cluster.ranks[0].stop()
    await cluster.until(lambda: not machine.relays())
    cluster.route(await cluster.rank(story(1), epoch=2))
    assert await ask(cluster) == told(1)
    (led,) = machine.relays()
    machine.signal_sessions(signal.SIGKILL)
    await cluster.until(lambda: led not in machine.relays())


class _Ear(asyncio.Protocol):
    """What a link would be told."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        self.reason: Exception | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.reason = exc
        self.lost.set()


async def test_a_machine_that_says_nothing_any_more_is_noticed(
    start: Start, machine: Sshd, tmp_path: Path
) -> None:
    cluster = await start(silent, through=machine)
    relays = Relays(cluster.home / "keys" / "gateway", keepalive=0.2)
    ear = await _opened(relays, machine, cluster.ranks[0].path.name)
    machine.signal_sessions(signal.SIGSTOP)
    async with asyncio.timeout(60):
        await ear.lost.wait()
    assert "keepalive" in str(ear.reason)
    relays.close()


async def test_a_gateway_that_ends_closes_the_channels_that_are_in_use(
    start: Start, machine: Sshd, tmp_path: Path
) -> None:
    cluster = await start(silent, through=machine)
    relays = Relays(cluster.home / "keys" / "gateway")
    ear = await _opened(relays, machine, cluster.ranks[0].path.name)
    relays.close()
    async with asyncio.timeout(60):
        await ear.lost.wait()


async def _opened(relays: Relays, machine: Sshd, name: str) -> _Ear:
    """A channel; where the machine is slow, its beginning is taken for silence as well."""
    async with asyncio.timeout(60):
        while True:
            ear = _Ear()
            with contextlib.suppress(ConnectionError):
                await relays.open(machine.machine, name, ear)
                return ear


async def test_no_other_host_key_is_accepted(start: Start, machine: Sshd, tmp_path: Path) -> None:
    cluster = await start(story(1), through=machine)
    other = " ".join(make_key(tmp_path / "other").split()[:2])
    relays = Relays(cluster.home / "keys" / "gateway")
    with pytest.raises(ConnectionError, match=r"[Hh]ost key"):
        await relays.open(dataclasses.replace(machine.machine, host_key=other), "r-0", _Ear())
    relays.close()


async def test_a_key_that_is_not_let_in_is_said_to_be_so(start: Start, machine: Sshd) -> None:
    cluster = await start(story(1), through=machine)
    machine.authorized.write_text("")
    relays = Relays(cluster.home / "keys" / "gateway")
    with pytest.raises(ConnectionError, match="Permission denied"):
        await relays.open(machine.machine, "r-0", _Ear())
    relays.close()


async def test_a_rank_that_is_not_there_is_told_with_the_relay_s_words(start: Start, machine: Sshd) -> None:
    cluster = await start(story(1), through=machine)
    relays = Relays(cluster.home / "keys" / "gateway")
    ear = _Ear()
    await relays.open(machine.machine, "r-ffffffffffff.sock", ear)
    async with asyncio.timeout(60):
        await ear.lost.wait()
    assert "No such file" in str(ear.reason)
    relays.close()
