"""Nodes on other machines, on a real OpenSSH server with a home of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import Silent, Unreachable
from reconciler.resources import Access, SshAccess
from reconciler.transport.bundle import write_bundle
from reconciler.transport.ssh import SshNode, bundle_of
from reconciler.wire.node import NodeReport, Observe
from tests.agent.bench import gone
from tests.sshd import Sshd, make_key


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


class Host:
    """A machine: its server, and the home of the user there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.mine = folder / "mine"
        (self.mine / ".ssh").mkdir(parents=True)
        self.key = make_key(self.mine / ".ssh" / "id_ed25519")
        self.sshd = Sshd(folder / "sshd", free_port(), f"SetEnv HOME={self.home}\n")
        self.sshd.authorized.write_text(f"{self.key}\n")
        self.bundle = bundle_of(write_bundle(folder / "bundle"))
        self.nodes: list[SshNode] = []

    def access(self, **changes: Any) -> Access:
        machine = self.sshd.machine
        ssh: dict[str, Any] = {
            "host": machine.host,
            "port": machine.port,
            "user": machine.user,
            "hostKey": machine.host_key,
        }
        return Access(ssh=SshAccess(**{**ssh, **changes}), python=sys.executable)

    def node(self, access: Access | None = None) -> SshNode:
        made = SshNode(
            "far", access or self.access(), self.bundle, asyncio.Semaphore(4), self.folder / "gateway"
        )
        self.nodes.append(made)
        return made

    @property
    def root(self) -> Path:
        return self.home / ".reconciler"

    async def close(self) -> None:
        for node in self.nodes:
            await node.close()
        for lock in self.root.glob("nodes/*/agent.lock"):
            pid = int(lock.read_text())
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            await gone(pid)
        await self.sshd.stop()
        shutil.rmtree(self.folder)


@pytest.fixture
async def host(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    made = Host(Path(tempfile.mkdtemp(prefix="ssh-")))
    monkeypatch.setenv("HOME", str(made.mine))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    await made.sshd.start()
    yield made
    await made.close()


async def test_a_command_has_its_output_its_status_and_no_input_of_ours(host: Host) -> None:
    done = await host.node().run(
        ("sh", "-c", 'cat; echo "$LC_ALL $1" >&2; exit 7', "x", "it's $HOME"), timeout=20
    )
    assert (done.status, done.out, done.err) == (7, "", "C it's $HOME\n")


async def test_an_agent_is_put_there_and_started(host: Host) -> None:
    node = host.node()
    with pytest.raises(Unreachable) as down:
        await node.dial()
    assert not isinstance(down.value, Silent), "the machine answers: its agent is down"
    await node.start_agent()
    link = await node.dial()
    report = await link.request(Observe(), timeout=20)
    assert isinstance(report, NodeReport)
    assert (link.ends.here, link.ends.there) == ("127.0.0.1", "127.0.0.1")
    await link.close()


async def test_the_gateway_s_key_is_let_in_with_the_agent_and_taken_back(host: Host) -> None:
    theirs = host.home / ".ssh" / "authorized_keys"
    theirs.parent.mkdir(mode=0o700)
    theirs.write_text("ssh-ed25519 AAAAtheirs laptop\n")
    node = host.node()
    for _ in range(2):
        await node.start_agent()
    lines = theirs.read_text().splitlines()
    assert lines[0] == "ssh-ed25519 AAAAtheirs laptop"
    assert [line.split(",")[0] for line in lines[1:]] == ["restrict"]
    for _ in range(2):
        await node.withdraw()
    assert theirs.read_text() == "ssh-ed25519 AAAAtheirs laptop\n"
