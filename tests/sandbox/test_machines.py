"""Emulated machines as the product meets them: over real SSH, with a real agent, by its own parts."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import asyncssh
import pytest

from reconciler.errors import Barred, Refused, Silent, Unreachable
from reconciler.inventory.probes import Probes
from reconciler.remote.agent_connection import AgentConnection
from reconciler.remote.gateway_key import public_key
from reconciler.remote.nodes import bootstrap
from reconciler.remote.nodes.node_over_ssh import SshNode
from reconciler.remote.runtime.agent_file import bundle_of, write_bundle
from reconciler.remote.ssh import connection
from reconciler.resources import Access
from reconciler.sandbox import processes
from reconciler.sandbox.control import request
from reconciler.sandbox.daemons import DESCRIPTORS
from reconciler.sandbox.places import PASSWORD, USER, host_key_line, key
from reconciler.sandbox.server import Ground, Sandbox, sweep
from reconciler.sandbox.world import changes, macs
from reconciler.sandbox.world.launchd import Flaw
from reconciler.state import MachineFacts, NodeName
from reconciler.wire.node import HeldBy, NodeReport, Observe
from tests.machines import joined
from tests.remote.test_bootstrapping import carried_out, observed

pytestmark = pytest.mark.second_tier

NAMES = ("n1", "n2")
SECONDS = 60.0
"""For an answer, at most: it comes at once, but for a machine that does other things as well."""


@dataclass
class Two:
    """Two machines with one cable between them."""

    home: Path
    sandbox: Sandbox
    nodes: list[SshNode] = field(default_factory=list)
    links: list[AgentConnection] = field(default_factory=list)

    def access(self, name: str, identity: Path | None = None) -> Access:
        place = self.sandbox.places[name]
        ssh = {
            "host": "127.0.0.1",
            "port": self.sandbox.port(name),
            "user": USER,
            "hostKey": host_key_line(place.host_key),
            "identityFile": str(identity or self.sandbox.ground.key),
        }
        return Access.model_validate({"ssh": ssh, "python": str(place.python)})

    def node(self, name: str, access: Access | None = None) -> SshNode:
        bundle = bundle_of(write_bundle(self.home / "agents"))
        gateway_key = self.home / "gateway"
        made = SshNode(name, access or self.access(name), bundle, asyncio.Semaphore(4), gateway_key)
        self.nodes.append(made)
        return made

    async def agent(self, name: str) -> tuple[SshNode, AgentConnection, NodeReport]:
        node = self.node(name)
        await node.start_agent()
        link = await node.dial()
        self.links.append(link)
        report = await link.request(Observe(), timeout=SECONDS)
        assert isinstance(report, NodeReport)
        return node, link, report

    def bridged(self) -> bool:
        """Whether the bridge of the first machine has its first port."""
        return self.sandbox.world.port(("n1", 1)).bridged

    def addresses(self) -> tuple[str, ...]:
        """The addresses of the first port of the first machine."""
        return self.sandbox.world.port(("n1", 1)).addresses

    async def do(self, command: str, *words: str, undo: bool = False) -> str:
        question = {"ask": "do", "command": command, "words": words, "undo": undo}
        answer = await request(self.sandbox.ground.control, question, SECONDS)
        assert answer["ok"], answer
        return str(answer["said"])


@asynccontextmanager
async def two() -> AsyncIterator[Two]:
    home = Path(tempfile.mkdtemp(prefix="sb-"))
    world = macs.world(NAMES, "mini", macs.MESH, ["boot-1", "boot-2"], time.time() - 60)
    sandbox = Sandbox(Ground(home / "sandbox"), world)
    bench = Two(home, sandbox)
    try:
        await sandbox.start()
        yield bench
    finally:
        for link in bench.links:
            await link.close()
        for node in bench.nodes:
            await node.close()
        await sandbox.stop()
        await sandbox.control.close()
        assert [each for name in NAMES for each in processes.of(sandbox.places[name].home)] == []
        shutil.rmtree(home)


async def test_the_controller_takes_them_for_macs_and_sees_the_cable() -> None:
    async with two() as bench:
        facts: dict[NodeName, MachineFacts] = {}
        hosts = set()
        for name in NAMES:
            _, link, report = await bench.agent(name)
            assert (report.system, report.machine, report.emulated) == ("Darwin", "arm64", True)
            assert (report.boot_id, report.build) == (bench.sandbox.world.machine(name).boot_id, "25D125")
            assert report.memory_bytes == bench.sandbox.world.machine(name).memory_bytes
            hosts.add(report.host_id)
            facts[NodeName(name)] = await Probes(time.time)(link, report, False)
            await link.close()
        assert len(hosts) == 2
        port = next(port for port in joined(facts)[NodeName("n1")].ports if port.receptacle == 1)
        assert (port.peer, port.gbps, port.verbs_up, port.bridged) == (("n2", 1), 80, True, True)
        assert [what for what, _ in facts[NodeName("n1")].unknown] == []
        mac = bench.sandbox.world.machine("n1")
        assert facts[NodeName("n1")].gpu_bytes == mac.working_set_bytes


async def test_a_reboot_ends_everything_and_is_seen_by_another_boot() -> None:
    async with two() as bench:
        _, link, report = await bench.agent("n1")
        home = bench.sandbox.places["n1"].home
        assert processes.of(home)
        await bench.do("reboot", "n1", "1")
        await until(lambda: not processes.of(home))
        port = bench.sandbox.port("n1")
        again = bench.node("n1")
        await _start(again)
        bench.links.append(await again.dial())
        after = await bench.links[-1].request(Observe(), timeout=SECONDS)
        assert isinstance(after, NodeReport)
        assert after.boot_id != report.boot_id
        assert after.host_id == report.host_id
        assert bench.sandbox.port("n1") == port
        await link.close()


async def test_launchd_keeps_the_agent_over_a_restart_until_somebody_disables_it() -> None:
    async with two() as bench:
        node = bench.node("n1")
        assert (await carried_out(node)).measures == ()
        await bench.do("reboot", "n1", "0.1")
        node = await again(bench)
        assert (await observed(node)).held_by == HeldBy.LAUNCHD
        disable = ("sudo", "-n", "launchctl", "disable", "system/reconciler-ada-n1")
        assert (await node.run(disable, timeout=SECONDS)).status == 0
        await bench.do("reboot", "n1", "0.1")
        node = await again(bench)
        assert not (await node.survey()).loaded
        assert (await carried_out(node)).measures == ()
        assert (await observed(node)).held_by == HeldBy.LAUNCHD


async def test_an_agent_of_launchd_may_open_more_files_than_launchd_gives_it() -> None:
    async with two() as bench:
        node = bench.node("n1")
        await carried_out(node)
        limits = Path(f"/proc/{(await node.survey()).pid}/limits").read_text()
        (soft,) = [line.split()[3] for line in limits.splitlines() if line.startswith("Max open files")]
        assert int(soft) > DESCRIPTORS


async def test_what_the_next_boot_would_not_load_is_not_in_place() -> None:
    async with two() as bench:
        node = bench.node("n1")
        await carried_out(node)
        disable = ("sudo", "-n", "launchctl", "disable", "system/reconciler-ada-n1")
        assert (await node.run(disable, timeout=SECONDS)).status == 0
        assert (await bootstrap.plan_bootstrap(node)).own_actions != ()
        assert (await carried_out(node)).measures == ()
        service = bench.sandbox.world.machine("n1").service("reconciler-ada-n1")
        owned = replace(service, flaw=Flaw.OWNER)
        bench.sandbox.change(changes.with_service(bench.sandbox.world, "n1", owned))
        assert (await bootstrap.plan_bootstrap(node)).own_actions != ()
        assert (await carried_out(node)).measures == ()
        await bench.do("set", "n1", "filevault=on")
        await bench.do("reboot", "n1")
        await until(lambda: not processes.of(bench.sandbox.places["n1"].home))
        await bench.do("reboot", "n1", undo=True)
        assert (await observed(await again(bench))).held_by == HeldBy.LAUNCHD


async def test_a_service_that_a_person_does_not_allow_is_refused_with_the_setting_and_taken_back_later() -> (
    None
):
    async with two() as bench:
        await bench.do("set", "n1", "background=off")
        node = bench.node("n1")
        with pytest.raises(Refused, match="Allow in the Background"):
            await carried_out(node)
        await bench.do("set", "n1", "background=on")
        assert (await carried_out(node)).measures == ()
        assert (await carried_out(node, bootstrap.plan_reset)).measures == ()
        assert not (await node.survey()).loaded


async def again(bench: Two) -> SshNode:
    """The first machine once it answers after a restart."""
    boot_id = bench.sandbox.world.machine("n1").boot_id
    for _ in range(600):
        node = bench.node("n1")
        with suppress(Unreachable):
            asked = await node.run(("sysctl", "-n", "kern.bootsessionuuid"), timeout=SECONDS)
            if asked.out.strip() == boot_id:
                return node
        await asyncio.sleep(0.1)
    raise TimeoutError("it does not come back")


async def test_a_locked_disk_answers_by_password_only_and_is_unlocked_by_it() -> None:
    async with two() as bench:
        await bench.do("set", "n1", "filevault=on")
        await bench.do("reboot", "n1")
        node, port = bench.node("n1"), bench.sandbox.port("n1")
        with pytest.raises(Barred) as caught:
            await _until_barred(node)
        assert caught.value.code == "DiskLocked"
        for password in ("wrong", PASSWORD):
            with pytest.raises((asyncssh.Error, OSError)):  # the right one, too, opens no session
                await asyncssh.connect(
                    "127.0.0.1", port, username=USER, password=password, known_hosts=None, client_keys=None
                )
        again = bench.node("n1")
        await _start(again)


async def _until_barred(node: SshNode) -> None:
    """Until its server answers, which ends for a moment with the machine."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            await node.run(("true",), timeout=SECONDS)
        except Barred:
            raise
        except Unreachable:
            await asyncio.sleep(0.05)


async def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def _start(node: SshNode) -> None:
    """Its agent, as soon as the machine is back."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            await node.start_agent()
            return
        except Unreachable:
            assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


async def test_commands_have_input_output_and_statuses_of_their_own() -> None:
    async with two() as bench:
        node = bench.node("n1")
        result = await node.run(("/bin/sh", "-c", "cat; echo no >&2; exit 7"), stdin=b"yes", timeout=SECONDS)
        assert (result.status, result.out, result.err) == (7, "yes", "no\n")
        killed = await node.run(("/bin/sh", "-c", "kill -9 $$"), timeout=SECONDS)
        assert killed.status == 128 + 9
        path = PurePosixPath(str(bench.sandbox.places["n1"].home / "a file"))
        await node.put(path, b"x" * 300_000, 0o600)
        assert Path(path).read_bytes() == b"x" * 300_000


async def test_only_keys_of_authorized_keys_log_in_and_those_of_the_gateway_run_the_relay_alone() -> None:
    async with two() as bench:
        stranger = bench.home / "stranger"
        key(stranger)
        with pytest.raises(Barred, match="refuses the login"):
            await bench.node("n1", bench.access("n1", stranger)).profile()
        await bench.agent("n1")
        assert public_key(bench.home / "gateway") in bench.sandbox.places["n1"].authorized.read_text()
        trusted = asyncssh.import_public_key(host_key_line(bench.sandbox.places["n1"].host_key))
        options = {
            "port": bench.sandbox.port("n1"),
            "username": USER,
            "known_hosts": ([trusted], [], []),
            "config": (),
        }
        async with asyncssh.connect(
            "127.0.0.1", client_keys=[str(bench.home / "gateway")], agent_path=None, **options
        ) as gateway:
            result = await gateway.run("/bin/sh -c 'echo free'", timeout=SECONDS)
            assert result.stdout == ""
            assert "expected the name of a rank's socket" in str(result.stderr)
            with pytest.raises(asyncssh.ChannelOpenError):
                await gateway.open_unix_connection(str(bench.sandbox.ground.control))


async def test_a_machine_that_is_cut_off_is_silent_and_is_as_before_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with two() as bench:
        _, link, _ = await bench.agent("n2")
        await bench.do("partition", "n2")
        monkeypatch.setattr(connection, "CONNECT_SECONDS", 1.0)  # too short for a login on a busy machine
        with pytest.raises(Silent):
            await bench.node("n2").profile()
        observing = asyncio.create_task(link.request(Observe(), timeout=60))
        done, _ = await asyncio.wait({observing}, timeout=0.5)
        assert not done
        await bench.do("partition", "n2", undo=True)
        assert isinstance(await observing, NodeReport)


async def test_a_machine_is_found_at_its_new_address_and_no_more_at_the_old_one() -> None:
    async with two() as bench:
        _, link, _ = await bench.agent("n1")
        await bench.do("change-lan", "n1")
        lan = bench.sandbox.world.machine("n1").lan
        moved = bench.access("n1").model_copy(deep=True)
        assert moved.ssh is not None
        with pytest.raises(Unreachable):
            await link.request(Observe(), timeout=SECONDS)
        with pytest.raises(Silent):
            await bench.node("n1").profile()
        ssh = moved.ssh.model_copy(update={"host": lan})
        await bench.node("n1", moved.model_copy(update={"ssh": ssh})).profile()
        await bench.do("change-lan", "n1", undo=True)
        await bench.node("n1").profile()


async def test_a_port_that_leaves_the_bridge_is_taken_back_by_it_as_long_as_that_lasts() -> None:
    async with two() as bench:
        await bench.do("retake", "n1/1", "0.1")
        await bench.do("bridge", "n1/1", undo=True)
        assert not bench.bridged()
        await until(bench.bridged)
        await bench.do("retake", "n1/1", undo=True)
        await asyncio.sleep(0.3)
        assert not bench.bridged()


async def test_an_address_of_macos_comes_back_after_each_change_as_long_as_that_lasts() -> None:
    async with two() as bench:
        await bench.do("bridge", "n1/1", undo=True)
        await bench.do("keep-address", "n1/1", "0.1")
        own, node = bench.addresses(), bench.node("n1")
        words = "sudo -n /sbin/ifconfig en2 inet 10.77.0.1 netmask 255.255.255.252"
        assert (await node.run(("/bin/sh", "-c", words), timeout=SECONDS)).status == 0
        await until(lambda: bench.addresses() == own)
        await bench.do("keep-address", "n1/1", undo=True)
        assert (await node.run(("/bin/sh", "-c", words), timeout=SECONDS)).status == 0
        await asyncio.sleep(0.3)
        assert bench.addresses() == ("10.77.0.1/30",)


async def test_a_controller_on_a_mac_of_the_sandbox_is_kept_out_and_finds_names_while_disks_are_unlocked() -> (
    None
):
    async with two() as bench:
        port = bench.sandbox.port("n1")
        assert await _reaches(bench, "n1.local", port) == ""
        await bench.do("privacy", "controller")
        assert await _reaches(bench, "n1.local", port) == str(errno.EHOSTUNREACH)
        await bench.do("privacy", "controller", undo=True)
        await bench.do("lock", "n1")
        assert await _reaches(bench, "n1.local", port) == str(socket.EAI_NONAME)
        assert await _reaches(bench, "n2.local", bench.sandbox.port("n2")) == ""


async def _reaches(bench: Two, host: str, port: int) -> str:
    """Why a program in the controller's place cannot connect; empty if it can."""
    program = (
        "import socket, sys\n"
        "try:\n    socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "except OSError as error:\n    print(error.errno)\n"
    )
    words = (sys.executable, "-P", "-c", program, host, str(port))
    environment = {**os.environ, "PYTHONPATH": str(bench.sandbox.ground.controller)}
    process = await asyncio.create_subprocess_exec(*words, env=environment, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return out.decode().strip()


async def test_tools_that_hang_come_back_when_the_driver_does() -> None:
    async with two() as bench:
        await bench.do("wedge-verbs", "n1")
        tool = str(bench.sandbox.places["n1"].tools / "ibv_devices")
        process = await asyncio.create_subprocess_exec(tool, stdout=asyncio.subprocess.PIPE)
        waiting = asyncio.create_task(process.communicate())
        done, _ = await asyncio.wait({waiting}, timeout=1.0)
        assert not done
        await bench.do("wedge-verbs", "n1", undo=True)
        out, _ = await waiting
        assert b"rdma_en2" in out


async def test_root_changes_the_machine_by_its_own_tools() -> None:
    async with two() as bench:
        node = bench.node("n1")
        for words in ("ifconfig bridge0 deletem en2", "ifconfig en2 inet 10.77.0.1 netmask 255.255.255.252"):
            refused = await node.run(("/bin/sh", "-c", words), timeout=SECONDS)
            assert refused.status != 0
            result = await node.run(("/bin/sh", "-c", f"sudo -n /sbin/{words}"), timeout=SECONDS)
            assert result.status == 0, result
        assert bench.sandbox.world.port(("n1", 1)).address == "10.77.0.1/30"
        bench.sandbox.change(changes.with_machine(bench.sandbox.world, "n1", sudo=False))
        denied = await node.run(("sudo", "-n", "true"), timeout=SECONDS)
        assert "a password is required" in denied.err


async def test_what_a_dead_sandbox_has_left_is_swept_away() -> None:
    async with two() as bench:
        await bench.agent("n1")
        assert await sweep(bench.sandbox.ground) > 0
        assert processes.of(bench.sandbox.places["n1"].home) == ()


async def test_wrong_questions_are_answered_with_what_is_wrong() -> None:
    async with two() as bench:
        control = bench.sandbox.ground.control
        assert control.stat().st_mode & 0o777 == 0o600
        wrong = await request(control, {"ask": "wold"}, SECONDS)
        assert (wrong["ok"], "ask do, down, rank, tool, world" in wrong["error"]) == (False, True)
        senseless = await request(control, {"ask": "do", "command": "unplug"}, SECONDS)
        assert not senseless["ok"]
        nobody = await request(control, {"ask": "do", "command": "unplug", "words": ["n3/1"]}, SECONDS)
        assert "no emulated machine 'n3'" in nobody["error"]
