"""Steps that restart and repair machines."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from reconciler.errors import Refused, Unreachable, Unwritable
from reconciler.execution.tools import Tools
from reconciler.state import ConfirmRepair, RebootNode, RepairNode, Write
from reconciler.wire.repair import ConfirmRepair as ConfirmRequest
from reconciler.wire.repair import Repair

from .requests import ask, change, reconnect

REPAIR_SECONDS_MAX = 45.0
"""Time limit for a few short commands; shorter than the time for the confirmation."""


async def reboot(step: RebootNode, tools: Tools) -> None:
    """Restart a machine. The restart is stored first, so that the next controller knows about it in any case."""
    tools.groups.note_reboot(step.node, step.reboot)
    try:
        await tools.machines.reboot(step.node)
    except Refused:
        if step.on_request:
            tools.groups.note_reboot(step.node, replace(step.reboot, requested=False))
        else:
            tools.groups.drop_reboot(step.node)
        raise


async def repair(step: RepairNode, tools: Tools) -> None:
    """Change settings of a machine. Afterwards only observations over a new connection count, because the old one may
    be broken or work by chance."""
    link, number = tools.links.link(step.node)
    tools.wrote(step.node, Write(number + 1, 0))
    try:
        request = Repair(tools.token, step.id, step.boot_id, step.changes)
        await ask(tools, link, request, REPAIR_SECONDS_MAX)
    except Unreachable:
        with suppress(Unwritable):  # it may still be carried out, unless the agent sees a later token first
            tools.groups.renew()
        raise
    finally:
        await reconnect(tools, step.node)


async def confirm(step: ConfirmRepair, tools: Tools) -> None:
    """Confirm new settings over a connection that was made after them."""
    try:
        await change(tools, step.node, ConfirmRequest(tools.token, step.id))
    except Refused as error:
        if error.code == "SameConnection":
            await reconnect(tools, step.node)
        raise
    tools.volatile = replace(tools.volatile, repaired={**tools.volatile.repaired, step.node: tools.clock()})
