"""One connection to a machine: made when it is needed, shared, noticed when it is lost, and explained when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from reconciler.errors import Barred, Silent
from reconciler.remote.ssh import connection as module
from reconciler.remote.ssh import obstacles
from reconciler.remote.ssh.connection import Connection, ends, fingerprint, keys_tried, trusted_key
from reconciler.remote.ssh.jumps import JumpChain
from reconciler.remote.ssh.last_addresses import LastAddresses
from reconciler.resources import SshAccess
from reconciler.state import Ends
from reconciler.wire.generation import Jump
from tests.agent.bench import SOON_SECONDS

from .server import USER, Server, client_key, server


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the person whose keys and configuration are used."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / ".ssh").mkdir()
    client_key(tmp_path / ".ssh" / "id_ed25519")
    return tmp_path


@pytest.fixture
async def machine() -> AsyncIterator[Server]:
    async with server() as made:
        yield made


def connecting(access: SshAccess, last: LastAddresses | None = None, at_a_time: int = 4) -> Connection:
    return Connection("far", access, asyncio.Semaphore(at_a_time), last)


async def test_one_connection_is_made_for_all_and_again_when_it_was_lost(home: Path, machine: Server) -> None:
    made = connecting(machine.access)
    first, again = await asyncio.gather(made.get(), made.get())
    assert first is again is await made.get()
    machine.connections[0].abort()
    await asyncio.wait_for(first.wait_closed(), SOON_SECONDS)
    assert await made.get() is not first
    assert machine.logins == 2
    await made.close()


async def test_a_machine_that_was_silent_is_tried_again_at_once(home: Path, machine: Server) -> None:
    made = connecting(machine.access)
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    await machine.stop()
    for _ in range(2):
        with pytest.raises(Silent, match=rf"^cannot connect to ada@127.0.0.1:{machine.port}: ") as caught:
            await made.get()
        assert not isinstance(caught.value, Barred)
    await machine.start()
    await made.get()
    assert (machine.logins, faults) == (1, [])
    await made.close()


async def test_one_that_a_person_has_to_let_in_is_not_tried_again_for_a_while(
    home: Path, machine: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = machine.access.model_copy(update={"user": "eve"})
    made = connecting(access)
    attempts = []
    for _ in range(2):
        with pytest.raises(Barred, match="refuses the login of user eve") as caught:
            await made.get()
        attempts.append(len(machine.connections))
    assert caught.value.code == "LoginRefused"
    key = asyncssh.read_private_key(home / ".ssh" / "id_ed25519").get_fingerprint()
    assert f"tried: {key} (ED25519)" in str(caught.value)
    assert attempts[0] == attempts[1], "the machine counts failed logins"
    monkeypatch.setattr(module, "BARRED_SECONDS", 0.0)
    again = connecting(access)
    for _ in range(2):
        with pytest.raises(Barred):
            await again.get()
    assert len(machine.connections) == 3 * attempts[0]


async def test_a_login_without_any_key_says_so(home: Path, machine: Server) -> None:
    (home / ".ssh" / "id_ed25519").unlink()
    with pytest.raises(Barred, match=r"tried: no key, because neither ~/\.ssh nor an SSH agent has one"):
        await connecting(machine.access).get()


async def test_only_the_host_key_of_the_manifest_is_trusted(home: Path, machine: Server) -> None:
    access, expected = machine.access, machine.key
    await machine.stop()
    machine.key = asyncssh.generate_private_key("ssh-ed25519")
    await machine.start()
    with pytest.raises(Barred) as caught:
        await connecting(access).get()
    assert caught.value.code == "HostKeyChanged"
    text = str(caught.value)
    assert f"it is {fingerprint(machine.key)}, expected {fingerprint(expected)};" in text
    assert machine.logins == 0


async def test_a_key_in_the_manifest_that_is_none_is_named(home: Path, machine: Server) -> None:
    access = machine.access.model_copy(update={"host_key": "ssh-ed25519 x"})
    with pytest.raises(ValueError, match=r"^spec\.ssh\.hostKey: "):
        trusted_key(access)
    with pytest.raises(Barred, match=r"does not work: spec\.ssh\.hostKey") as caught:
        await connecting(access).get()
    assert caught.value.code == "SshMisconfigured"


async def test_the_key_of_the_manifest_is_the_only_one_that_is_tried(home: Path, machine: Server) -> None:
    other = client_key(home / "other")
    access = machine.access.model_copy(update={"identity_file": "~/other", "user": "eve"})
    with pytest.raises(Barred) as caught:
        await connecting(access).get()
    assert asyncssh.read_private_key(other).get_fingerprint() in str(caught.value)
    assert asyncssh.read_private_key(home / ".ssh" / "id_ed25519").get_fingerprint() not in str(caught.value)


async def test_a_kept_connection_lasts_beside_the_newest(home: Path, machine: Server) -> None:
    made = connecting(machine.access)
    kept = await made.get()
    await made.keep()
    await made.renew()
    second = await made.get()
    await made.keep()
    assert (kept.is_closed(), second.is_closed()) == (True, False), "what it was kept for is held by another"
    await made.keep()
    assert not second.is_closed()
    await made.renew()
    third = await made.get()
    await made.renew()
    assert (second.is_closed(), third.is_closed()) == (False, True)
    fourth = await made.get()
    await made.close()
    assert (second.is_closed(), fourth.is_closed()) == (True, True)
    await made.close()
    assert machine.logins == 4


async def test_one_that_is_closed_while_it_is_made_is_left(home: Path, machine: Server) -> None:
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    made = connecting(machine.access, at_a_time=1)
    getting = asyncio.create_task(made.get())
    await asyncio.sleep(0)
    await made.close()
    with pytest.raises(asyncio.CancelledError):
        await getting
    await made.get()
    assert (machine.logins, faults) == (1, [])
    await made.close()


async def test_so_many_connections_are_made_at_a_time(home: Path, machine: Server) -> None:
    gate = asyncio.Semaphore(1)
    await gate.acquire()
    made = Connection("far", machine.access, gate)
    getting = asyncio.create_task(made.get())
    await asyncio.sleep(0.02)
    assert machine.connections == []
    gate.release()
    await getting
    await made.close()


async def test_a_server_that_drops_some_is_tried_again(
    home: Path, machine: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ATTEMPT_SPREAD_SECONDS", 0.001)
    await machine.stop()
    dropped: list[int] = []

    async def drop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dropped.append(1)
        writer.close()

    overrun = await asyncio.start_server(drop, "127.0.0.1", machine.port)
    with pytest.raises(Silent, match="cannot connect to"):
        await connecting(machine.access).get()
    overrun.close()
    await overrun.wait_closed()
    assert len(dropped) == 3


async def test_where_a_machine_answered_is_kept_for_when_its_name_is_not_found(
    home: Path, machine: Server
) -> None:
    last = LastAddresses()
    config = home / ".ssh" / "config"
    config.write_text("Host far.local\n  HostName 127.0.0.1\n")
    access = machine.access.model_copy(update={"host": "far.local"})
    made = connecting(access, last)
    await made.get()
    assert last.of(str(made)) == "127.0.0.1"
    await made.renew()
    config.write_text("Host far.local\n  HostName far.invalid\n")
    await made.get()
    assert machine.logins == 2
    await made.close()


async def test_a_connection_is_named_by_user_host_and_port_where_that_is_not_the_usual_one(
    machine: Server,
) -> None:
    usual = machine.access.model_copy(update={"port": 22})
    assert (str(connecting(machine.access)), str(connecting(usual))) == (
        f"{USER}@127.0.0.1:{machine.port}",
        f"{USER}@127.0.0.1",
    )


async def test_both_ends_of_a_direct_connection_are_known_and_the_jump_hosts_of_another(
    home: Path, machine: Server
) -> None:
    made = connecting(machine.access)
    direct = await made.get()
    assert ends(direct, JumpChain()) == Ends("127.0.0.1", "127.0.0.1", machine.port)
    jump = Jump("b1", 22, "ada", "ssh-ed25519 A")
    chain = JumpChain((jump,), (), "far", 2200)
    assert ends(direct, chain) == Ends(jumps=(jump,), inner=("far", 2200))
    await made.close()


# --- why it failed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ecdsa-sha2-nistp256", "ssh-ed25519"])
async def test_of_a_server_with_many_keys_the_one_of_the_manifest_is_asked_for(
    home: Path, machine: Server, kind: str
) -> None:
    await machine.stop()
    machine.other_keys = [asyncssh.generate_private_key(each) for each in ("ssh-rsa", "ecdsa-sha2-nistp256")]
    if kind != "ssh-ed25519":
        machine.key, machine.other_keys[1] = machine.other_keys[1], machine.key
    await machine.start()
    made = connecting(machine.access)
    await made.get()
    await made.close()


async def test_a_server_that_takes_passwords_only_waits_for_its_disk_to_be_unlocked(
    home: Path, machine: Server
) -> None:
    last = LastAddresses()
    access = machine.access.model_copy(update={"host": "far.local"})
    (home / ".ssh" / "config").write_text("Host far.local\n  HostName 127.0.0.1\n")
    machine.passwords_only = True
    made = connecting(access, last)
    with pytest.raises(Barred, match="where its disk is not locked: allow keys there") as caught:
        await made.get()
    assert caught.value.code == "DiskLocked"
    assert f"ssh -p {machine.port} ada@127.0.0.1" in caught.value.remedy
    last.keep(str(made), "10.0.0.9")
    with pytest.raises(Barred) as again:
        await connecting(access, last).get()
    assert "allow keys there" not in str(again.value), "a key has let it in before"


async def test_a_server_of_another_address_that_is_not_found_is_silent(home: Path, machine: Server) -> None:
    last = LastAddresses()
    access = machine.access.model_copy(update={"host": "far.invalid"})
    made = connecting(access, last)
    last.keep(str(made), "")
    with pytest.raises(Silent, match=r"^cannot connect to ada@far\.invalid"):
        await made.get()


@pytest.mark.parametrize(
    ("error", "kind", "code", "text"),
    [
        (asyncssh.KeyExchangeFailed("no match"), Barred, "NoCommonAlgorithm", "have no common algorithm"),
        (asyncssh.DisconnectError(2, "Too many authentication failures"), Barred, "LoginRefused", "refuses the login"),
        (asyncssh.DisconnectError(2, "bye"), Silent, "", "cannot connect to ada@far: "),
        (asyncssh.ConfigParseError("line 3"), Barred, "SshMisconfigured", "does not work: line 3"),
        (OSError(113, "No route to host"), Barred, "LocalNetworkPrivacy", "ssh reaches far"),
        (ConnectionRefusedError(111, "refused"), Silent, "", "cannot connect to ada@far: [Errno 111] refused"),
        (TimeoutError(), Silent, "", "ada@far does not answer within 10 s"),
        (TimeoutError("in the middle"), Silent, "", "cannot connect to ada@far: in the middle"),
        (ConnectionResetError(), Silent, "", "cannot connect to ada@far: ConnectionResetError"),
    ],
)  # fmt: skip
async def test_a_failure_is_told_with_what_to_do_about_it(
    home: Path,
    machine: Server,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    kind: type,
    code: str,
    text: str,
) -> None:
    reaches(home, monkeypatch, "Permission denied (publickey)")
    made = connecting(machine.access.model_copy(update={"host": "far", "port": 22}))
    meaning = await made._meaning(error)
    assert type(meaning) is kind
    assert getattr(meaning, "code", "") == code
    assert text in str(meaning)


def reaches(home: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> Path:
    """The system's ssh says this; what it was asked is written down."""
    ssh = home / "ssh"
    ssh.write_text(f"#!/bin/sh\necho \"$*\" > {home}/asked\necho '{words}' >&2\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setattr(obstacles, "SSH", str(ssh))
    return home / "asked"


@pytest.mark.parametrize(
    ("words", "reached"),
    [("Permission denied (none)", True), ("Host key verification failed.", True), ("refused", False)],
)
async def test_what_only_ssh_reaches_is_asked_without_a_login(
    home: Path, machine: Server, monkeypatch: pytest.MonkeyPatch, words: str, reached: bool
) -> None:
    asked = reaches(home, monkeypatch, words)
    assert await connecting(machine.access)._only_ssh_reaches() is reached
    assert asked.read_text().endswith(f" -p {machine.port} -l ada -- 127.0.0.1 true\n")
    assert "PreferredAuthentications=none" in asked.read_text()
    usual = machine.access.model_copy(update={"port": 22})
    await connecting(usual)._only_ssh_reaches()
    assert " -p " not in asked.read_text()


async def test_a_machine_that_macos_hides_is_tried_again_sooner_than_one_that_counts_logins(
    home: Path, machine: Server
) -> None:
    made: Any = connecting(machine.access)
    current = made._connecting = asyncio.get_running_loop().create_future()
    now = asyncio.get_running_loop().time()
    for error, seconds in ((obstacles.private("far"), 5.0), (Barred("LoginRefused", "no"), 30.0)):
        failed: Any = asyncio.get_running_loop().create_future()
        failed.set_exception(error)
        made._connected(failed)
        assert made._barred is not None
        assert now + seconds <= made._barred[0] < now + seconds + SOON_SECONDS / 5
        assert made._connecting is current, "another one is on its way"
    made._lost(current, None)
    assert made._connecting is current, "it is not made yet"


@pytest.mark.needs("ssh-agent")
async def test_keys_are_named_with_their_comments_those_of_the_agent_first(
    home: Path, machine: Server
) -> None:
    own = asyncssh.generate_private_key("ssh-ed25519", comment="ada@desk")
    (home / ".ssh" / "id_ed25519").write_bytes(own.export_private_key("openssh"))
    kept = asyncssh.generate_private_key("ssh-ed25519", comment="ada@safe")
    path = home / "agent.sock"
    agent = await asyncio.create_subprocess_exec(
        "ssh-agent", "-D", "-a", str(path), stdout=asyncio.subprocess.PIPE
    )
    assert agent.stdout is not None
    try:
        await agent.stdout.readline()  # it listens; its socket's file is there a moment earlier
        async with asyncssh.SSHAgentClient(str(path)) as client:
            await client.add_keys([kept])
        options = {"agent_path": str(path)}
        tried = await keys_tried("127.0.0.1", options)
        assert tried == [
            f"{fingerprint(kept)} ada@safe of the SSH agent",
            f"{fingerprint(own)} ada@desk",
        ]
    finally:
        agent.terminate()
        await agent.communicate()
    assert await keys_tried("127.0.0.1", options) == tried[1:]
    assert await keys_tried("127.0.0.1", {"client_keys": [str(home / "none")]}) == []


async def test_the_operator_s_ssh_agent_is_asked_only_where_no_key_is_named(
    home: Path, machine: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    async def agent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(5))
        writer.write(b"\0\0\0\x05\x0c\0\0\0\0")  # it has no keys
        await writer.drain()
        writer.close()

    listening = await asyncio.start_unix_server(agent, str(home / "agent.sock"))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(home / "agent.sock"))
    named = machine.access.model_copy(update={"identity_file": str(home / ".ssh" / "id_ed25519")})
    for access, expected in ((named, 0), (machine.access, 1)):
        made = connecting(access)
        await made.get()
        await made.close()
        assert len(asked) == expected
    listening.close()
    await listening.wait_closed()


async def test_a_connection_whose_addresses_are_not_known_has_no_ends() -> None:
    half: Any = type("Half", (), {"get_extra_info": lambda self, name: self.known.get(name)})()
    for known in ({}, {"sockname": ("10.0.0.1", 5)}, {"peername": ("10.0.0.2", 22)}):
        half.known = known
        assert ends(half, JumpChain()) == Ends()
    half.known = {"sockname": ("10.0.0.1", 5), "peername": ("10.0.0.2", 22)}
    assert ends(half, JumpChain()) == Ends("10.0.0.1", "10.0.0.2", 22)


@pytest.mark.parametrize(
    "asked", [(), ("password",), ("publickey",), ("publickey", "password"), ("password", "publickey")]
)
def test_a_server_takes_only_passwords_where_it_asks_for_one_and_for_no_key(asked: tuple[str, ...]) -> None:
    lost: list[Exception | None] = []
    client = module._Client(lost.append)
    requests = {"password": client.password_auth_requested, "publickey": client.public_key_auth_requested}
    assert [requests[method]() for method in asked] == [None] * len(asked), "nothing is sent"
    assert client.methods == set(asked)
    assert obstacles.only_passwords(client.methods) is (asked == ("password",))
    assert lost == []


def test_a_host_key_that_nobody_expected_is_kept_and_not_accepted(home: Path) -> None:
    client = module._Client(lambda _: None)
    key = asyncssh.read_private_key(client_key(home / "another"))
    assert client.validate_host_public_key("far", "192.0.2.1", 22, key) is False
    assert client.presented is key
