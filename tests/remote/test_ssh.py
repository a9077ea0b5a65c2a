"""Nodes on other machines, on a real OpenSSH server with a home of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from reconciler.errors import Barred, Refused, Silent, Unreachable
from reconciler.remote.gateway_key import public_key
from reconciler.remote.nodes.node_over_ssh import SshNode
from reconciler.remote.nodes.pool import MachinePool
from reconciler.remote.runtime.agent_file import bundle_of, write_bundle
from reconciler.remote.ssh.last_addresses import LastAddresses
from reconciler.resources import Access, SshAccess
from reconciler.state import Ends, NodeName
from reconciler.wire.generation import Jump
from reconciler.wire.node import NodeReport, Observe, Shutdown
from tests.agent.bench import gone, until
from tests.needs import needing
from tests.ports import free_port
from tests.sshd import Sshd, make_key

pytestmark = pytest.mark.processes


def fingerprint(key: Path) -> str:
    listing = ["ssh-keygen", "-lf", str(key)]
    return subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()[1]


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

    async def restart(self, more: str) -> None:
        """Its server with another configuration."""
        await self.sshd.stop()
        config = self.sshd.place / "config"
        config.write_text(more + config.read_text().partition("\n")[2])
        await self.sshd.start()

    def node(self, access: Access | None = None, last: LastAddresses | None = None) -> SshNode:
        gate, gateway_key = asyncio.Semaphore(4), self.folder / "gateway"
        made = SshNode("far", access or self.access(), self.bundle, gate, gateway_key, last)
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
@needing("sshd", "ssh-keygen")
async def host(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    made = Host(Path(tempfile.mkdtemp(prefix="ssh-")))
    monkeypatch.setenv("HOME", str(made.mine))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    await made.sshd.start()
    yield made
    await made.close()


async def test_a_command_has_its_output_its_status_and_no_input_of_ours(host: Host) -> None:
    words = ("sh", "-c", 'cat; echo "$LC_ALL $1" >&2; exit 7', "x", "it's $HOME")
    done = await host.node().run(words, timeout=60)
    assert (done.status, done.out, done.err) == (7, "", "C it's $HOME\n")
    given = await host.node().run(("cat",), stdin=b"given", timeout=60)
    assert given.out == "given"


async def test_a_command_that_does_not_end_is_given_up_on(host: Host) -> None:
    node = host.node()
    await node.run(("true",), timeout=60)
    with pytest.raises(Silent, match=r"sh on far: .*within 0\.5 s"):
        await node.run(("sh", "-c", f"echo $$ > {host.folder}/pid; exec sleep 600"), timeout=0.5)
    with contextlib.suppress(FileNotFoundError, ValueError):  # on a busy machine it has not even begun
        os.kill(int((host.folder / "pid").read_text()), signal.SIGKILL)  # sshd signals no commands of root
    assert (await node.run(("echo", "next"), timeout=60)).out == "next\n"


async def test_a_command_that_prints_without_end_is_stopped(host: Host) -> None:
    with pytest.raises(Refused, match="it printed more than 1048576 bytes"):
        await host.node().run(("yes",), timeout=60)


async def test_a_file_is_put_whole_with_its_folders_and_its_mode(host: Host) -> None:
    node, path = host.node(), host.home / "a folder" / "it's"
    content = os.urandom(300_000)
    await node.put(PurePosixPath(path), content, 0o640)
    assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [each.name for each in path.parent.iterdir()] == ["it's"]
    with pytest.raises(Unreachable, match="cannot be written"):
        await node.put(PurePosixPath(path / "below a file"), b"", 0o600)


async def test_an_agent_is_put_there_started_and_left_as_it_is(host: Host) -> None:
    node = host.node()
    with pytest.raises(Unreachable) as down:
        await node.dial()
    assert not isinstance(down.value, Silent), "the machine answers: its agent is down"
    await node.start_agent()
    link = await node.dial()
    report = await link.request(Observe(token=7), timeout=60)
    assert isinstance(report, NodeReport)
    assert report.agent_file == host.bundle.name
    assert (host.root / "agents" / host.bundle.name).read_bytes() == host.bundle.content
    assert (link.ends.here, link.ends.there, link.ends.port) == ("127.0.0.1", "127.0.0.1", host.sshd.port)
    (line,) = (host.home / ".ssh" / "authorized_keys").read_text().splitlines()
    assert line.startswith('restrict,command="')
    await node.start_agent(6)
    assert len(list(host.root.glob("nodes/*/agent.lock"))) == 1
    await link.request(Shutdown(7), timeout=60)
    await link.closed.wait()
    with pytest.raises(Unreachable) as ended:
        await link.request(Observe(), timeout=5)
    assert not isinstance(ended.value, Silent), "only its agent has ended"
    await link.close()
    with pytest.raises(Refused, match="token 6 is older than 7") as fenced:
        await node.start_agent(6)
    assert fenced.value.code == "Fenced"


async def test_of_the_files_of_agents_the_newest_three_stay(host: Host) -> None:
    agents = host.root / "agents"
    agents.mkdir(parents=True)
    for number in range(5):
        (agents / f"agent-{number}.pyz").touch()
        os.utime(agents / f"agent-{number}.pyz", (number, number))
    (agents / "mine").touch()
    await host.node().stage()
    kept = {"agent-3.pyz", "agent-4.pyz"}
    assert {file.name for file in agents.iterdir()} == kept | {host.bundle.name, "mine"}


async def test_many_links_share_one_connection(host: Host) -> None:
    node = host.node()
    await node.start_agent()
    links = [await node.dial() for _ in range(20)]
    reports = await asyncio.gather(*(link.request(Observe(), timeout=60) for link in links))
    assert len({report.agent_id for report in reports}) == 1
    assert (host.sshd.place / "log").read_text().count("Accepted publickey") == 1
    for link in links:
        await link.close()


async def test_what_is_let_go_of_is_reached_over_a_new_connection_and_what_holds_an_agent_lasts(
    host: Host,
) -> None:
    node = host.node()

    async def ends() -> str:
        return (await node.run(("/bin/sh", "-c", "echo $SSH_CONNECTION"), timeout=60)).out

    first = await ends()
    assert await ends() == first
    held = await node._connection.get()
    await node._connection.keep()
    await node.reconnect()
    second = await ends()
    assert second != first
    assert not held.is_closed()
    await node.reconnect()
    assert await ends() not in (first, second)
    assert not held.is_closed()
    await node.close()
    assert held.is_closed()


async def test_a_link_that_is_dead_is_noticed_and_says_nothing_of_the_agent(
    host: Host,
) -> None:
    node = host.node()
    await node.start_agent()
    link = await node.dial()
    connection = await node._connection.get()
    host.sshd.signal_sessions(signal.SIGSTOP)
    connection.set_keepalive(0.2)  # only now: a machine that is busy is soon as silent for so long
    async with asyncio.timeout(60):
        await link.closed.wait()
    with pytest.raises(Silent):
        await link.request(Observe(), timeout=5)
    await link.close()
    again = await node.dial()
    assert isinstance(await again.request(Observe(), timeout=60), NodeReport)
    await again.close()
    host.sshd.signal_sessions(signal.SIGCONT)


async def test_a_machine_without_a_server_is_silent(host: Host) -> None:
    await host.sshd.stop()
    with pytest.raises(Silent, match="cannot connect to ") as caught:
        await host.node().dial()
    assert not isinstance(caught.value, Barred), "nobody has to do anything but wait"


async def test_a_home_that_is_too_deep_for_sockets_is_named(host: Host) -> None:
    deep = host.home / ("d" * 100)
    deep.mkdir()
    await host.restart(f"SetEnv HOME={deep}\n")
    with pytest.raises(Barred, match=f"^far: the socket path {deep}/") as caught:
        await host.node().dial()
    assert caught.value.code == "PathTooLong"


async def test_another_host_key_is_refused_with_both_fingerprints(host: Host) -> None:
    before = host.access()
    await host.sshd.stop()
    for file in ("host_key", "host_key.pub"):
        (host.sshd.place / file).unlink()
    make_key(host.sshd.place / "host_key", "ecdsa-sha2-nistp256")
    await host.sshd.start()
    node = host.node(before)
    with pytest.raises(Barred) as caught:
        await node.dial()
    assert caught.value.code == "HostKeyChanged"
    for key in (before, host.access()):
        assert key.ssh is not None
        (host.folder / "key").write_text(key.ssh.host_key)
        assert fingerprint(host.folder / "key") in str(caught.value)
    assert "reconciler node add --again far" in str(caught.value)
    assert "Accepted" not in (host.sshd.place / "log").read_text()
    for one in (node, host.node(before)):
        with pytest.raises(Barred):
            await one.dial()
    await until(lambda: host.sshd.distrusted() >= 2)
    assert host.sshd.distrusted() == 2, (
        "what a person must do is not tried all the time: the first remembers it"
    )


async def test_a_login_that_is_refused_names_the_user_and_the_keys(host: Host) -> None:
    host.sshd.authorized.write_text("")
    with pytest.raises(Barred, match="refuses the login of user") as caught:
        await host.node().dial()
    assert caught.value.code == "LoginRefused"
    assert fingerprint(host.mine / ".ssh" / "id_ed25519") in str(caught.value)


async def test_a_jump_host_is_used_where_it_is_known(host: Host) -> None:
    machine = host.sshd.machine
    (host.mine / ".ssh" / "config").write_text(
        f"Host far\n  HostName 127.0.0.1\n  ProxyJump {machine.user}@127.0.0.1:{machine.port}\n"
    )
    node = host.node(host.access(host="far"))
    with pytest.raises(Barred) as caught:
        await node.run(("true",), timeout=60)
    assert caught.value.code == "HostKeyUnknown"
    (host.mine / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{machine.port} {machine.host_key}\n")
    done = await host.node(host.access(host="far")).run(("sh", "-c", "echo $SSH_CONNECTION"), timeout=60)
    assert done.out.split()[0] == "127.0.0.1"
    assert (host.sshd.place / "log").read_text().count("Accepted publickey") == 2


async def test_the_gateway_gets_the_route_and_is_let_through_it(host: Host) -> None:
    machine = host.sshd.machine
    (host.mine / ".ssh" / "config").write_text(
        f"Host far\n  HostName 127.0.0.1\n  ProxyJump {machine.user}@127.0.0.1:{machine.port}\n"
    )
    (host.mine / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{machine.port} {machine.host_key}\n")
    node = host.node(host.access(host="far"))
    await node.start_agent()
    link = await node.dial()
    await link.close()
    jump = Jump("127.0.0.1", machine.port, machine.user, machine.host_key)
    assert link.ends == Ends(jumps=(jump,), inner=("127.0.0.1", machine.port))
    authorized = host.home / ".ssh" / "authorized_keys"
    relay, through = authorized.read_text().splitlines()
    assert " relay " in relay
    assert f' 127.0.0.1 {machine.port}" {public_key(host.folder / "gateway-to-far")} ' in through
    assert through.startswith('restrict,command="')
    await host.node(host.access(host="far")).withdraw()  # as a controller that has only just begun
    assert authorized.read_text() == ""


async def test_a_node_that_is_reached_in_another_way_by_now_is_let_go_of(host: Host) -> None:
    name, first, second = NodeName("far"), host.access(), host.access(user="root")
    machines = MachinePool(lambda name, access: host.node(access))
    machines.reach({name: first})
    await machines.start_agent(name, 0)
    link = await machines.dial(name)
    machines.reach({name: first})
    assert not link.closed.is_set()
    machines.reach({name: Access(ssh=second.ssh)})
    async with asyncio.timeout(60):
        await link.closed.wait()
    again = await machines.dial(name)
    assert isinstance(await again.request(Observe(), timeout=60), NodeReport)
    await again.close()
    await machines.close()


@pytest.mark.parametrize(
    ("sudo", "problem"),
    [
        ("exit 0", ""),
        ("exit 143  # ended by the restart", ""),
        ("echo 'sudo: a password is required' >&2; exit 1", "a password is required"),
        ("exit 3", "exit status 3"),
    ],
)
async def test_a_machine_restarts_where_that_is_allowed(host: Host, sudo: str, problem: str) -> None:
    tools = host.folder / "tools"
    tools.mkdir()
    for tool, script in {
        "sudo": f'echo "asked:" "$@" > {host.folder}/asked; {sudo}',
        "id": "echo 501",
        "shutdown": "exit 9",
    }.items():
        (tools / tool).write_text(f"#!/bin/sh\n{script}\n")
        (tools / tool).chmod(0o755)
    await host.restart(f"SetEnv HOME={host.home} PATH={tools}:/usr/bin:/bin\n")
    node = host.node()
    found = await node.run(
        ("/bin/sh", "-c", "command -v shutdown; command -v sudo; command -v id"), timeout=20
    )
    assert found.out.split() == [str(tools / tool) for tool in ("shutdown", "sudo", "id")], (
        "nothing real is called"
    )
    if problem:
        with pytest.raises(Refused, match=rf"{problem}(.|\n)*visudo") as refused:
            await node.reboot()
        assert refused.value.code == "NotAllowed"
    else:
        await node.reboot()
    assert (host.folder / "asked").read_text() == "asked: -n shutdown -r now\n"


async def test_a_machine_that_is_not_reached_does_not_restart(host: Host) -> None:
    await host.sshd.stop()
    with pytest.raises(Refused) as refused:
        await host.node().reboot()
    assert refused.value.code == "NotReached"
