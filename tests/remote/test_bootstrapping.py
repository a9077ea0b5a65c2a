"""What is done on a machine so that its agent is kept running there, on a real OpenSSH server and shaped machines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import Refused, Unreachable
from reconciler.remote.bootstrap.actions import Action, Run
from reconciler.remote.commands import Completed
from reconciler.remote.nodes import bootstrap, node_over_ssh
from reconciler.remote.nodes.bootstrap import BootstrapPlan
from reconciler.remote.nodes.node_over_ssh import SshNode
from reconciler.remote.runtime.agent_file import Bundle
from reconciler.wire.launch import RankId
from reconciler.wire.node import Done, HeldBy, NodeReport, Observe, Shutdown, StartRank
from tests.agent.bench import RANK, Bench, alive, program, until

from .shaped import LINUX, MAC, Shape
from .shaped_tools import THROTTLE_SECONDS
from .test_ssh import Host

pytestmark = [pytest.mark.second_tier, pytest.mark.needs("sshd")]

OTHER = RankId("llama", 1, 1, 0)
SHAPES = pytest.mark.parametrize(
    ("tools", "held_by"), [(MAC, HeldBy.LAUNCHD), (LINUX, HeldBy.SYSTEMD)], ids=["mac", "linux"]
)
Shaped = Callable[..., Awaitable[tuple[Host, Shape]]]


@pytest.fixture
async def shaped(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shaped]:
    """Makes one machine, given its tools and whether sudo asks for no password."""
    made: list[tuple[Host, Shape]] = []

    async def make(tools: tuple[str, ...], sudo: bool = True) -> tuple[Host, Shape]:
        host = Host(Path(tempfile.mkdtemp(prefix="sh-")))
        monkeypatch.setenv("HOME", str(host.mine))
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        shape = Shape(host.folder / "shape", tools, sudo)
        made.append((host, shape))
        await host.sshd.start()
        await host.restart(f"SetEnv HOME={host.home} PATH={shape.path}\n")
        return host, shape

    yield make
    for host, shape in made:
        shape.stop()
        for state in host.root.glob("nodes/*/ranks/*/state.json"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(json.loads(state.read_text())["pid"], signal.SIGKILL)
        await host.close()


async def observed_as(node: SshNode, wanted: Callable[[NodeReport], bool]) -> NodeReport:
    """What the agent says of itself, once there is one and that is as wanted."""
    for _ in range(1200):
        with contextlib.suppress(Unreachable):
            link = await node.dial()
            report = await link.request(Observe(), timeout=60)
            await link.close()
            assert isinstance(report, NodeReport)
            if wanted(report):
                return report
        await asyncio.sleep(0.05)
    raise TimeoutError("no such agent")


async def observed(node: SshNode) -> NodeReport:
    """What the agent says of itself, once there is one."""
    return await observed_as(node, lambda report: True)


async def ask(node: SshNode, request: Any) -> None:
    """Have the agent do something."""
    link = await node.dial()
    assert isinstance(await link.request(request, timeout=60), Done)
    await link.close()


async def with_rank(host: Host, node: SshNode, id: RankId = RANK) -> int:
    """The pid of a rank that was started there."""
    spec = Bench(host.root).spec(program("say('ready')\nsleep()"), id)
    await ask(node, StartRank(1, spec))
    report = await observed_as(node, lambda report: bool(pids(report).get(id)))
    return pids(report)[id]


def pids(report: NodeReport) -> dict[RankId, int]:
    return {rank.id: rank.pid or 0 for rank in report.ranks if rank.exit is None}


def newer(host: Host) -> SshNode:
    """The same machine for a controller of another version."""
    content = host.bundle.content + b"\0" * 7  # what follows the archive counts for its name alone
    host.bundle = Bundle("agent-000000000002.pyz", content)
    return host.node()


async def replaced(node: SshNode) -> NodeReport:
    """What the executor does to replace an agent."""
    await node.stage(1)
    await ask(node, Shutdown(1))
    await node.start_agent(1)
    return await observed(node)


async def carried_out(
    node: SshNode, look: Callable[[SshNode], Awaitable[BootstrapPlan]] = bootstrap.plan_bootstrap
) -> BootstrapPlan:
    """All that can be done from here, done; what is left."""
    for measure in (await look(node)).own_actions:
        await bootstrap.carry_out(node, measure)
    await bootstrap.settle(node)
    return await look(node)


class Stubborn:
    """A machine whose commands fail."""

    name = "studio-1"

    def __init__(self, out: str, err: str) -> None:
        self._done = Completed(5, out, err)

    async def run(self, argv: tuple[str, ...], timeout: float) -> Completed:  # noqa: ASYNC109 - as of SshNode
        return self._done


@pytest.mark.parametrize(
    ("out", "err", "words"),
    [
        ("", "not permitted\n", "not permitted"),
        ("no such unit", "", "no such unit"),
        ("", "", "exit status 5"),
    ],
)
async def test_a_measure_that_fails_ends_with_what_the_machine_said(out: str, err: str, words: str) -> None:
    node: Any = Stubborn(out, err)
    measure = Action("load the service", Run(("launchctl", "bootstrap")))
    with pytest.raises(Refused, match=f"studio-1: .*: {words}$"):
        await bootstrap.carry_out(node, measure)


@SHAPES
async def test_a_service_takes_over_an_agent_and_no_rank_is_stopped_by_it_nor_by_a_newer_one(
    shaped: Shaped, tools: tuple[str, ...], held_by: str
) -> None:
    host, shape = await shaped(tools)
    node = host.node()
    await node.start_agent()
    assert (await observed(node)).held_by == (HeldBy.SESSION if tools is MAC else HeldBy.PROCESS)
    pid = await with_rank(host, node)
    assert (await carried_out(node)).measures == ()
    assert (await observed(node)).held_by == held_by
    ranks = {RANK: pid, OTHER: await with_rank(host, node, OTHER)}
    changes = shape.changes()
    (shape.folder / "sudo").write_text("no")
    node = newer(host)
    after = await replaced(node)
    assert (after.agent_file, after.held_by) == ("agent-000000000002.pyz", held_by)
    assert shape.changes() == changes, "a newer agent takes no administrator"
    (shape.folder / "sudo").write_text("yes")
    for path in shape.root.rglob("reconciler-*"):
        path.write_text(f"{path.read_text()}\n")  # as another version had it
    assert (await carried_out(node)).measures == ()
    assert len(shape.changes()) > len(changes), "the service was made anew"
    assert pids(await observed(node)) == ranks


@SHAPES
async def test_a_service_is_taken_back_with_its_files_and_no_rank_is_stopped_by_that(
    shaped: Shaped, tools: tuple[str, ...], held_by: str
) -> None:
    host, shape = await shaped(tools)
    node = host.node()
    await carried_out(node)
    assert (await observed(node)).held_by == held_by
    ranks = {RANK: await with_rank(host, node)}
    files = [*shape.root.rglob("reconciler-*"), *host.root.glob("nodes/far/serve")]
    assert len(files) == 2
    assert (await carried_out(node, bootstrap.plan_reset)).measures == ()
    assert [path for path in files if path.exists()] == []
    assert list(host.root.glob("nodes/far/reconciler-*")) == []
    await until(lambda: not shape.pids())
    changes = shape.changes()
    assert (await carried_out(node, bootstrap.plan_reset)).measures == ()
    assert shape.changes() == changes
    await node.start_agent(1)  # as the controller does for as long as the node is wanted
    after = await observed(node)
    assert after.held_by == (HeldBy.SESSION if tools is MAC else HeldBy.PROCESS)
    assert pids(after) == ranks
    shape.boot()
    assert shape.pids() == []


async def test_an_agent_is_back_after_a_restart_of_the_machine_unless_it_is_not_wanted(
    shaped: Shaped,
) -> None:
    host, shape = await shaped(MAC)
    node = host.node()
    await carried_out(node)
    before = await observed(node)
    shape.boot()
    await until(lambda: any(alive(pid) for pid in shape.pids()))
    after = await observed(node)
    assert (after.held_by, after.agent_id == before.agent_id) == (HeldBy.LAUNCHD, False)
    await node.disable_service()
    await ask(node, Shutdown(5))
    await until(lambda: not shape.pids())
    await asyncio.sleep(3 * THROTTLE_SECONDS)
    assert shape.pids() == [], "the service has had the chance to start it"
    with pytest.raises(Refused, match="token 4 is older than 5") as fenced:
        await node.start_agent(4)
    assert (fenced.value.code, shape.pids()) == ("Fenced", [])
    await node.start_agent(5)
    assert (await observed(node)).held_by == HeldBy.LAUNCHD


async def test_a_service_that_somebody_has_disabled_is_enabled_by_the_next_bootstrap(shaped: Shaped) -> None:
    host, shape = await shaped(MAC)
    node = host.node()
    await carried_out(node)
    assert shape.launchctl("disable", "system/reconciler-ada-far") == 0
    shape.boot()
    assert shape.pids() == [], "launchd does not load it"
    plan = await bootstrap.plan_bootstrap(node)
    assert "start the agent now and at every boot" in [each.why for each in plan.own_actions]
    assert (await carried_out(node)).measures == ()
    assert (await observed(node)).held_by == HeldBy.LAUNCHD


async def test_where_a_service_starts_nothing_the_agent_is_started_without_it(
    shaped: Shaped, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node_over_ssh, "SERVICE_SECONDS", 1.0)
    host, shape = await shaped(LINUX)
    node = host.node()
    await carried_out(node)
    for watcher in shape.folder.glob("watcher-*"):
        os.kill(int(watcher.read_text()), signal.SIGKILL)
    await ask(node, Shutdown(1))
    for held in shape.folder.glob("watch-*"):
        held.write_text("")
    await node.start_agent(1)
    assert (await observed(node)).held_by == HeldBy.PROCESS
    assert "its service reconciler-ada-far has not started the agent within 1 s" in caplog.text


async def test_an_agent_of_a_mac_without_a_service_lives_in_the_session_and_outlives_it(
    shaped: Shaped,
) -> None:
    host, _ = await shaped(MAC, sudo=False)
    node = host.node()
    await node.start_agent()
    assert (await observed(node)).held_by == HeldBy.SESSION
    pid = await with_rank(host, node)
    await node.close()
    other = host.node()
    left = await observed_as(other, lambda report: report.held_by == HeldBy.LEFT)
    assert left.ranks[0].pid == pid
    after = await replaced(other)
    assert (after.held_by, after.ranks[0].pid) == (HeldBy.SESSION, pid)
