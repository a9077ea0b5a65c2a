"""Ranks on a machine that is reached over others: each a real SSH server that the gateway's key opens for one thing."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import pytest

from reconciler.errors import Unreachable
from reconciler.remote.ssh.jumps import JumpChain, authorize, revoke
from reconciler.wire.generation import Jump, jump_key_name
from tests.gateway.conftest import Cluster, Start
from tests.gateway.rank_double import eventually, story, told
from tests.needs import needing
from tests.ports import free_port
from tests.processes import command_of, descendants
from tests.sshd import Sshd, make_key

from .test_remote_ranks import ask

pytestmark = pytest.mark.processes

NAME = jump_key_name("node-a")


class Bastion:
    """A machine on the way, and a person's connection to it."""

    def __init__(self, server: Sshd, connection: asyncssh.SSHClientConnection) -> None:
        self.server = server
        self.connection = connection

    @property
    def jump(self) -> Jump:
        return Jump(*dataclasses.astuple(self.server.machine)[:4])

    @property
    def authorized(self) -> str:
        return (self.server.place / ".ssh" / "authorized_keys").read_text()


@pytest.fixture
@needing("sshd")
async def bastions(tmp_path: Path) -> AsyncIterator[list[Bastion]]:
    """Two, which a person may log in to."""
    mine = make_key(tmp_path / "mine")
    found = []
    for name in ("first", "second"):
        file = tmp_path / name / ".ssh" / "authorized_keys"
        server = Sshd(tmp_path / name, free_port(), f"AuthorizedKeysFile {file}\n")
        file.parent.mkdir()
        file.write_text(f"{mine}\n")
        await server.start()
        connection = await asyncssh.connect(
            "127.0.0.1", server.port, client_keys=[str(tmp_path / "mine")], known_hosts=None, config=None
        )
        found.append(Bastion(server, connection))
    yield found
    for bastion in found:
        bastion.connection.abort()
        await bastion.server.stop()


def way(machine: Sshd, bastions: list[Bastion]) -> JumpChain:
    jumps = tuple(each.jump for each in bastions)
    return JumpChain(jumps, tuple(each.connection for each in bastions), "127.0.0.1", machine.port)


async def behind(start: Start, machine: Sshd, bastions: list[Bastion], hold_seconds: float = 20.0) -> Cluster:
    """A gateway with a rank on a machine that it is told to reach over these."""
    cluster = await start(through=machine, hold_seconds=hold_seconds)
    await cluster.rank(story(20))
    await authorize(way(machine, bastions), cluster.home / "keys" / NAME)
    jumps = tuple(each.jump for each in bastions)
    cluster.machine = dataclasses.replace(machine.machine, jumps=jumps, key=NAME)
    cluster.route(*cluster.ranks)
    return cluster


@pytest.mark.parametrize("hops", [1, 2])
async def test_a_rank_behind_other_machines_answers(
    start: Start, machine: Sshd, bastions: list[Bastion], hops: int
) -> None:
    cluster = await behind(start, machine, bastions[:hops])
    assert [await ask(cluster) for _ in range(3)] == [told(20)] * 3
    assert [each.server.logins() for each in bastions[:hops]] == [2] * hops, "the person's, and the gateway's"
    assert machine.logins() == 1


async def test_the_way_is_taken_again_when_it_was_cut(
    start: Start, machine: Sshd, bastions: list[Bastion]
) -> None:
    (first, *_) = bastions
    cluster = await behind(start, machine, [first])
    assert await ask(cluster) == told(20)
    first.server.signal_sessions(9)
    assert await ask(cluster) == told(20)
    assert first.server.logins() == 3


async def test_a_machine_on_the_way_that_shows_another_key_is_refused(
    start: Start, machine: Sshd, bastions: list[Bastion], tmp_path: Path
) -> None:
    (first, *_) = bastions
    cluster = await behind(start, machine, [first], hold_seconds=1.0)
    other = " ".join(make_key(tmp_path / "other").split()[:2])
    assert cluster.machine is not None
    changed = dataclasses.replace(first.jump, host_key=other)
    cluster.machine = dataclasses.replace(cluster.machine, jumps=(changed,))
    cluster.route(*cluster.ranks)
    body = {"model": "llama", "messages": [{"role": "user", "content": "hi"}]}
    status, _, _ = await cluster.post(body)
    assert status >= 500
    assert first.server.logins() == 1, "the person's"


async def test_its_key_opens_one_port_of_one_machine_and_nothing_else(
    start: Start, machine: Sshd, bastions: list[Bastion]
) -> None:
    (first, *_) = bastions
    cluster = await behind(start, machine, [first])
    assert first.authorized.count("\n") == 2, "the person's line is as it was"
    await authorize(way(machine, [first]), cluster.home / "keys" / NAME)
    assert first.authorized.count("\n") == 2
    async with asyncssh.connect(
        "127.0.0.1", first.server.port, client_keys=[str(cluster.home / "keys" / NAME)],
        known_hosts=None, config=None, agent_path=None,
    ) as thief:  # fmt: skip
        for asked in ("id", "127.0.0.1 22", ""):
            async with thief.create_process(asked, encoding=None) as process:
                assert (await process.stdout.readline()).startswith(b"SSH-2.0-"), (
                    "its server, whatever is asked for"
                )
        with pytest.raises(asyncssh.ChannelOpenError):
            await thief.open_connection("127.0.0.1", machine.port)
        with pytest.raises(asyncssh.ChannelOpenError):
            await thief.open_unix_connection(str(cluster.ranks[0].path))
    await revoke(way(machine, [first]), cluster.home / "keys" / NAME)
    assert first.authorized.count("\n") == 1


async def test_a_machine_without_a_shell_says_which_line_is_missing_and_keeps_nobody(
    machine: Sshd, bastions: list[Bastion], tmp_path: Path
) -> None:
    (first, *_) = bastions
    before = first.authorized
    config = first.server.place / "config"
    config.write_text(f"ForceCommand false\n{config.read_text()}")
    await first.server.stop()
    await first.server.start()
    async with asyncssh.connect(
        "127.0.0.1", first.server.port, client_keys=[str(tmp_path / "mine")], known_hosts=None, config=None
    ) as connection:
        taken = JumpChain((first.jump,), (connection,), "127.0.0.1", machine.port)
        with pytest.raises(Unreachable, match=r'add to its authorized_keys: restrict,command="nc 127.0.0.1 '):
            await authorize(taken, tmp_path / NAME)
        await revoke(taken, tmp_path / NAME)
    assert first.authorized == before


async def test_the_way_is_left_with_the_connection(
    start: Start, machine: Sshd, bastions: list[Bastion]
) -> None:
    (first, *_) = bastions
    cluster = await behind(start, machine, [first])
    assert await ask(cluster) == told(20)
    assert len(splices(first, machine)) > 0
    await machine.stop()
    await eventually(lambda: splices(first, machine) == [])


def splices(bastion: Bastion, machine: Sshd) -> list[int]:
    """The processes that lead on from a machine."""
    assert bastion.server.process is not None
    pids = descendants(bastion.server.process.pid)
    return [pid for pid in pids if str(machine.port) in command_of(pid)]
