"""What keeps the controller out of a Mac whose SSH server is there: it is named, with the one thing to do."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from reconciler.errors import Barred, Silent
from reconciler.remote.nodes.introduction import host_key
from reconciler.remote.ssh import obstacles
from reconciler.remote.ssh.last_addresses import MACHINES_MAX, LastAddresses

from .test_ssh import Host, host

__all__ = ["host"]

LOCKED = "PubkeyAuthentication no\nPasswordAuthentication yes\n"


def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """As macOS treats programs that it forbids the local network; others, such as ssh, go on."""

    async def refuse(*_: object) -> None:
        raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))

    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", refuse)


async def test_a_disk_that_waits_for_its_password_is_recognised_with_the_line_to_type(host: Host) -> None:
    node = host.node()
    await node.run(("true",), timeout=60)
    await host.restart(LOCKED)
    await node.reconnect()
    with pytest.raises(Barred, match="FileVault") as caught:
        await node.run(("true",), timeout=60)
    machine = host.sshd.machine
    assert caught.value.code == "DiskLocked"
    assert caught.value.remedy == (
        f"ssh -p {machine.port} {machine.user}@127.0.0.1 and type the password of that user"
    )
    assert "PubkeyAuthentication" not in str(caught.value), "a key has let it in before"
    with pytest.raises(Barred, match="PubkeyAuthentication"):
        await host.node().run(("true",), timeout=60)


@pytest.mark.parametrize("controller_restarts", [False, True])
async def test_a_name_that_is_not_found_before_the_unlock_is_reached_where_it_answered_last(
    host: Host, controller_restarts: bool
) -> None:
    config = host.mine / ".ssh" / "config"
    config.write_text("Host far.local\n  HostName 127.0.0.1\n")
    access, kept = host.access(host="far.local"), host.mine / "addresses.json"
    node = host.node(access, LastAddresses(kept))
    await node.run(("true",), timeout=60)
    config.write_text("Host far.local\n  HostName far.invalid\n")
    await host.restart(LOCKED)
    if controller_restarts:
        node = host.node(access, LastAddresses(kept))
    await node.reconnect()
    with pytest.raises(Barred) as caught:
        await node.run(("true",), timeout=60)
    assert "PubkeyAuthentication" not in str(caught.value), "a key has let it in before"
    machine = host.sshd.machine
    assert caught.value.remedy == (
        f"ssh -p {machine.port} {machine.user}@far.local and type the password of that user; where that name is not"
        f" found: ssh -p {machine.port} {machine.user}@127.0.0.1"
    )


async def test_a_name_that_was_never_found_is_told_as_it_is(host: Host) -> None:
    with pytest.raises(Silent, match="cannot connect to"):
        await host.node(host.access(host="far.invalid")).run(("true",), timeout=60)


@pytest.mark.needs("ssh")
async def test_a_host_that_only_ssh_reaches_is_local_network_privacy(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = host.sshd.machine
    no_network(monkeypatch)
    for meeting in (host.node().run(("true",), timeout=60), host_key("127.0.0.1", machine.port)):
        with pytest.raises(Barred, match="Local Network Privacy") as caught:
            await meeting
        assert caught.value.code == "LocalNetworkPrivacy"
        assert "Privacy & Security, Local Network" in caught.value.remedy


@pytest.mark.needs("ssh")
async def test_a_host_that_nobody_reaches_is_silent(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    await host.sshd.stop()
    no_network(monkeypatch)
    with pytest.raises(Silent) as caught:
        await host.node().run(("true",), timeout=60)
    assert not isinstance(caught.value, Barred)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.EHOSTUNREACH, "No route to host"), True),
        (
            OSError(f"Multiple exceptions: [Errno {errno.EHOSTUNREACH}] a, [Errno {errno.EHOSTUNREACH}] b"),
            True,
        ),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), False),
        (TimeoutError(), False),
        (ValueError("[Errno 65]"), False),
    ],
)
def test_no_route_is_told_from_other_failures(error: Exception, expected: bool) -> None:
    assert obstacles.no_route(error) is expected


@pytest.mark.parametrize(
    ("methods", "expected"),
    [(["password"], True), (["publickey", "password"], False), (["publickey"], False), ([], False)],
)
def test_only_a_server_without_keys_and_with_passwords_waits_for_one(
    methods: list[str], expected: bool
) -> None:
    assert obstacles.only_passwords(methods) is expected


async def test_without_ssh_nothing_is_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(obstacles, "SSH", str(tmp_path / "none"))
    assert await obstacles.ssh_reaches("127.0.0.1", 22) is False


def test_addresses_are_kept_of_the_newest_machines_and_a_file_that_cannot_be_read_is_none(
    tmp_path: Path,
) -> None:
    path = tmp_path / "addresses.json"
    path.write_text("[]")
    last = LastAddresses(path)
    for number in range(MACHINES_MAX + 1):
        last.keep(f"ada@n{number}", "")
    last.keep("ada@n1", "10.0.0.1")
    assert path.stat().st_mode & 0o077 == 0
    again = LastAddresses(path)
    assert [again.of(f"ada@n{number}") for number in (0, 1, 2)] == [None, "10.0.0.1", ""]
    path.write_text("{")
    assert LastAddresses(path).of("ada@n1") is None


def test_an_address_that_cannot_be_written_is_known_all_the_same(tmp_path: Path) -> None:
    last = LastAddresses(tmp_path / "missing" / "addresses.json")
    last.keep("ada@n1", "10.0.0.1")
    assert last.of("ada@n1") == "10.0.0.1"
