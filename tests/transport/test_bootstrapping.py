"""What is done on a machine so that its agent is kept running there, on a real OpenSSH server and shaped machines."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from reconciler.errors import Unreachable
from reconciler.transport import bootstrapping
from reconciler.transport.bootstrapping import Undertaking
from reconciler.transport.ssh import SshNode
from reconciler.wire.node import HeldBy, NodeReport, Observe

from .shaped import LINUX, MAC, Shape
from .test_ssh import Host

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
        await host.close()


async def observed(node: SshNode) -> NodeReport:
    """What the agent says of itself, once there is one."""
    for _ in range(200):
        try:
            link = await node.dial()
            report = await link.request(Observe(), timeout=20)
            await link.close()
        except Unreachable:
            await asyncio.sleep(0.1)
        else:
            assert isinstance(report, NodeReport)
            return report
    raise TimeoutError("no agent")


async def carried_out(node: SshNode) -> Undertaking:
    """All that can be done from here, done; what is left."""
    for measure in (await bootstrapping.look(node)).ours:
        await bootstrapping.carry_out(node, measure)
    await bootstrapping.settle(node)
    return await bootstrapping.look(node)


@pytest.mark.parametrize(
    ("tools", "held_by"), [(MAC, HeldBy.LAUNCHD), (LINUX, HeldBy.SYSTEMD)], ids=["mac", "linux"]
)
async def test_a_service_takes_over_an_agent_that_runs_and_then_all_is_in_place(
    shaped: Shaped, tools: tuple[str, ...], held_by: str
) -> None:
    host, shape = await shaped(tools)
    node = host.node()
    await node.start_agent()
    before = await observed(node)
    assert before.held_by == (HeldBy.SESSION if tools is MAC else HeldBy.PROCESS)
    last = await carried_out(node)
    assert last.measures == ()
    after = await observed(node)
    assert (after.held_by, after.agent_id == before.agent_id) == (held_by, False)
    asked = shape.asked()
    assert (await carried_out(node)).measures == ()
    assert ((await observed(node)).agent_id, shape.asked()) == (after.agent_id, asked), "again does nothing"
