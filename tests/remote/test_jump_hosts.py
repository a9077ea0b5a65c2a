"""Machines that are reached over others: each jump host is known by its key, and opens one way to the gateway."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from reconciler.errors import Barred, Unreachable
from reconciler.remote.gateway_key import public_key
from reconciler.remote.ssh import jumps
from reconciler.remote.ssh.jumps import JumpChain
from reconciler.remote.ssh.last_addresses import LastAddresses
from reconciler.wire.generation import Jump
from tests.agent.bench import SOON_SECONDS, soon

from .server import USER, Channel, Server, shell
from .test_ssh_connection import connecting, home, machine

__all__ = ["home", "machine"]


def jump_hosts(home: Path, machine: Server, config: str) -> None:
    """A configuration in which every name is this server, which is known."""
    port = machine.port
    (home / ".ssh" / "config").write_text(
        f"{config}\nHost *\n  HostName 127.0.0.1\n  Port {port}\n  User {USER}\n"
    )
    (home / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{port} {machine.host_key}\n")


async def chain_to(host: str, machine: Server) -> JumpChain:
    options = connecting(machine.access)._options() | {"port": (), "username": ()}
    async with asyncio.timeout(SOON_SECONDS):
        return await jumps.connect(host, options)


def test_a_chain_ends_with_its_last_jump_host() -> None:
    first, second = object(), object()
    chain: Any = JumpChain(connections=(first, second))  # type: ignore[arg-type]
    assert chain.last is second
    assert JumpChain().last == (), "so asyncssh looks for none itself"


async def test_a_machine_without_jump_hosts_is_reached_as_it_is(home: Path, machine: Server) -> None:
    jump_hosts(home, machine, "Host far\n  ProxyJump none\n")
    assert await chain_to("far", machine) == JumpChain()
    assert await chain_to("near", machine) == JumpChain()
    assert machine.logins == 0


async def test_jump_hosts_are_connected_to_in_their_order(home: Path, machine: Server) -> None:
    jump_hosts(home, machine, f"Host far\n  ProxyJump b1,eva@b2,b3:{machine.port}\n")
    machine.on_command = lambda channel: None
    with pytest.raises(asyncssh.PermissionDenied):
        await chain_to("far", machine)
    await soon(lambda: all(each.is_closed() for each in machine.connections))
    jump_hosts(home, machine, f'Host far\n  ProxyJump "b1, ada@b2, b3:{machine.port}"\nHost b3\n  Port 1\n')
    chain = await chain_to("far", machine)
    jump = Jump("127.0.0.1", machine.port, USER, machine.host_key)
    assert (chain.jumps, chain.host, chain.port) == ((jump,) * 3, "127.0.0.1", machine.port)
    assert chain.last is chain.connections[2]
    chain.connections[2].close()
    await soon(lambda: all(each.is_closed() for each in chain.connections))


async def test_jump_hosts_that_are_reached_over_others_are_followed_to_a_depth_of_four(
    home: Path, machine: Server
) -> None:
    nested = "".join(f"Host b{number}\n  ProxyJump b{number + 1}\n" for number in range(6))
    jump_hosts(home, machine, nested)
    chain = await chain_to("b0", machine)
    assert len(chain.jumps) == 4
    chain.close()
    await soon(lambda: all(each.is_closed() for each in chain.connections))


async def test_a_machine_behind_a_jump_host_is_reached_and_its_connection_ends_with_it(
    home: Path, machine: Server
) -> None:
    jump_hosts(home, machine, "Host far\n  ProxyJump b1\n")
    last = LastAddresses()
    made = connecting(machine.access.model_copy(update={"host": "far", "port": 22}), last)
    connection = await made.get()
    assert machine.logins == 2
    assert made.jump_chain.jumps == (Jump("127.0.0.1", machine.port, USER, machine.host_key),)
    assert last.of(str(made)) == "", "its own address is not known"
    for each in made.jump_chain.connections:
        each.abort()
    await asyncio.wait_for(connection.wait_closed(), SOON_SECONDS)
    await made.get()
    assert machine.logins == 4
    (jump_host,) = made.jump_chain.connections
    await made.close()
    await asyncio.wait_for(jump_host.wait_closed(), SOON_SECONDS)


async def test_jump_hosts_are_left_where_the_machine_behind_them_does_not_answer(
    home: Path, machine: Server
) -> None:
    jump_hosts(home, machine, "Host far\n  ProxyJump b1\n")
    access = machine.access.model_copy(update={"host": "far", "port": 22, "user": "eve"})
    with pytest.raises(Barred, match="refuses the login of user eve"):
        await connecting(access).get()
    assert machine.logins == 1
    for each in machine.connections:
        await asyncio.wait_for(each.wait_closed(), SOON_SECONDS)


async def test_a_jump_host_that_is_not_known_is_for_a_person_to_look_at(home: Path, machine: Server) -> None:
    jump_hosts(home, machine, "Host far\n  ProxyJump b1\n")
    (home / ".ssh" / "known_hosts").unlink()
    made = connecting(machine.access.model_copy(update={"host": "far", "port": 22}))
    with pytest.raises(Barred, match="a jump host of far") as caught:
        await made.get()
    assert caught.value.code == "HostKeyUnknown"


async def test_the_gateway_is_let_through_each_jump_host_to_the_next_and_nowhere_else(
    home: Path, machine: Server, tmp_path: Path
) -> None:
    far = tmp_path / "there"
    far.mkdir()
    authorized = far / ".ssh" / "authorized_keys"
    machine.on_command, machine.on_data = shell(far), lambda channel, data: None
    jump_hosts(home, machine, "Host far\n  ProxyJump b1\n")
    chain, key = await chain_to("far", machine), tmp_path / "gateway"
    await jumps.authorize(chain, key)
    (line,) = authorized.read_text().splitlines()
    assert line.startswith('restrict,command="')
    assert f' 127.0.0.1 {machine.port}" {public_key(key)} ' in line
    assert authorized.stat().st_mode & 0o077 == 0
    authorized.write_text(f"# mine\n{line}\n")
    before = authorized.stat().st_ino
    await jumps.authorize(chain, key)
    assert authorized.stat().st_ino == before, "what is right is left as it is"
    await jumps.revoke(chain, key)
    assert authorized.read_text() == "# mine\n"
    chain.close()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("nc", "cannot connect through ada@127.0.0.1: its authorized_keys cannot be changed: no room;"),
        ("", "cannot connect through ada@127.0.0.1: neither nc nor python3 can be run there;"),
    ],
    ids=["a full disk", "no tools"],
)
async def test_a_jump_host_that_cannot_be_changed_is_named_with_the_line_that_is_missing(
    home: Path, machine: Server, tmp_path: Path, command: str, words: str
) -> None:
    def answer(channel: Channel) -> None:
        channel.begin()
        if "command -v" in channel.script:
            channel.say(f"/usr/bin/{command}\n".encode() if command else b"")
            channel.chan.exit(0 if command else 127)
        elif "cat >" in channel.script:
            channel.say(b"no room\n", error=True)
            channel.chan.exit(1)
        else:
            channel.say(f"ssh-ed25519 AAAA other\n{public_key(key)}\n".encode())
            channel.chan.exit(0)

    jump_hosts(home, machine, "Host far\n  ProxyJump b1\n")
    machine.on_command, machine.on_data = answer, lambda channel, data: None
    chain, key = await chain_to("far", machine), tmp_path / "gateway"
    with pytest.raises(Unreachable) as caught:
        await jumps.authorize(chain, key)
    assert words in str(caught.value)
    assert f"nc 127.0.0.1 {machine.port}" in str(caught.value)
    await jumps.revoke(chain, key)  # keeps no node from leaving
    machine.refuses = True
    with pytest.raises(Unreachable, match="it cannot run commands: "):
        await jumps._output(chain.connections[0], "true")
    chain.close()


def test_without_netcat_python_splices_to_a_port() -> None:
    assert jumps._splice("/usr/bin/nc", "far", 22) == ("/usr/bin/nc", "far", "22")
    python = jumps._splice("/usr/bin/python3", "far", 22)
    assert (python[:3], python[4:]) == (("/usr/bin/python3", "-I", "-c"), ("far", "22"))
