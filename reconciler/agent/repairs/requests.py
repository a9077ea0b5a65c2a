"""Answers requests for repairs, and supervises the process that carries one out."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Callable, Coroutine, Optional, Set

from reconciler.agent.host import Connection, Host
from reconciler.wire.codec import Refused
from reconciler.wire.node import Done
from reconciler.wire.repair import ConfirmRepair, Repair, RepairState

from .runner import Unconfirmed

POLL_SECONDS = 0.1
ENDED_SECONDS = 5.0
"""Bound on the end of a repair that was confirmed: its process has no more to do than to write that down."""
_log = logging.getLogger("agent")


class RepairRequests:
    """``peers`` are the present connections; ``changed`` is called when there is something new to report."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        host: Host,
        peers: Callable[[], Set[Connection]],
        changed: Callable[[], int],
    ) -> None:
        self._loop = loop
        self._host = host
        self._peers = peers
        self._changed = changed
        self._state = ""
        self._tending: Optional[asyncio.Task[None]] = None
        self._answering: Set[asyncio.Task[None]] = set()
        self._before: Set[Connection] = set()
        """Connections from before the changes: each may be the last that gets through."""

    def watch(self) -> None:
        """Supervise a running repair, even one that an earlier agent began."""
        if self._tending is None or self._tending.done():
            self._tending = self._loop.create_task(self._watch(), name="tend to a repair")

    def begin(self, peer: Connection, message: Repair, request: int) -> None:
        """Begin a repair. The answer is sent when the changes are made, or undone. Raises ``OSError``."""
        try:
            self._host.repair(message)
        except Unconfirmed as error:
            peer.reply(request, Refused("Unconfirmed", str(error)))
            return
        except ValueError as error:
            peer.reply(request, Refused("Invalid", str(error)))
            return
        self._refresh()
        self.watch()
        self._answer_with(self._answer(peer, request))

    def confirm(self, peer: Connection, message: ConfirmRepair, request: int) -> None:
        """Confirm a repair. The answer is sent when the repair is over and another may begin. Raises
        ``OSError``."""
        if peer in self._before:
            text = "it must be confirmed over a connection that was made after the repair"
            peer.reply(request, Refused("SameConnection", text))
            return
        if not self._host.confirm_repair(message.id):
            text = "the repair {} is not waiting for a confirmation".format(message.id)
            peer.reply(request, Refused("NotWaiting", text))
            return
        self.watch()
        self._answer_with(self._answer_confirmed(peer, request))

    def leave(self, peer: Connection) -> None:
        self._before.discard(peer)

    def _answer_with(self, answer: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(answer, name="answer for a repair")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer_confirmed(self, peer: Connection, request: int) -> None:
        for _ in range(int(ENDED_SECONDS / POLL_SECONDS)):
            if self._tending is None or self._tending.done():
                break
            await asyncio.sleep(POLL_SECONDS)
        peer.reply(request, Done(self._changed()))

    async def _answer(self, peer: Connection, request: int) -> None:
        while True:
            if self._refresh() not in (RepairState.RUNNING, RepairState.UNDOING):
                break
            await asyncio.sleep(POLL_SECONDS)
        report = self._host.repair_report()
        if report is not None and report.state in (RepairState.WAITING, RepairState.CONFIRMED):
            peer.reply(request, Done(self._changed()))
        else:
            peer.reply(request, Refused("Failed", report.problem if report else "there is no report of it"))

    async def _watch(self) -> None:
        while True:
            going_on = True
            try:
                going_on = self._host.continue_repair()
            except OSError as error:
                _log.warning("cannot supervise a repair: %s", error)
            self._refresh()
            if not going_on:
                return
            await asyncio.sleep(POLL_SECONDS)

    def _refresh(self) -> str:
        """Return the repair's state, and report changes."""
        report = self._host.repair_report()
        state = report.state if report else ""
        if state != self._state:
            self._state = state
            if state == RepairState.WAITING:
                self._before = self._peers()
            self._changed()
        return state
