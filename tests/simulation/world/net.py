"""The wire between a controller and an agent: requests, answers and pushes, late, lost, repeated or out of order.

Frames of one connection keep their order, as TCP has it, but for pushes, which may be told to come otherwise.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from reconciler.errors import Refused, Silent, Unreachable
from reconciler.remote.agent_connection import AgentConnection
from reconciler.remote.ssh.connection import KEEPALIVE_SECONDS
from reconciler.wire import frames
from reconciler.wire.codec import Refused as RefusedMessage
from reconciler.wire.codec import decode, to_wire
from reconciler.wire.node import AGENT_RECEIVES, CONTROLLER_RECEIVES, Changed, NodeReport, Observe
from tests.simulation.schedules.points import (
    CRASH_AFTER,
    CRASH_BEFORE,
    ERROR,
    LOST,
    REQUEST,
    STALE,
    UNANSWERED,
)

from .loop import Killed, Process
from .machines import AgentProcess

if TYPE_CHECKING:
    from .world import World

LATENCY = 0.002
SILENCE_SECONDS = 15.0
"""After so long without a sign of life a connection is given up."""
STALE_SECONDS = 3.0


def closed() -> Unreachable:
    """Another one each time: an error that is raised keeps what it was raised from."""
    return Unreachable("the other side closed the connection")


def checked(message: Any, vocabulary: dict[str, type], known: set[str]) -> None:
    """Have the first message of each type go through the codec and a frame, and come out as it went in."""
    if message.TYPE in known:
        return
    known.add(message.TYPE)
    (frame,) = frames.Decoder().feed(frames.encode(to_wire(message)))
    assert decode(frame, vocabulary) == message, message


class Line:
    """The agent's side of one connection; ``agent.host.Connection``."""

    congested = False
    greeted = True

    def __init__(self, link: SimLink, owner: AgentProcess) -> None:
        self._link = link
        self.owner = owner
        self.open = True

    def send(self, message: Any) -> None:
        if self.open and isinstance(message, Changed) and not self.owner.hung:
            self._link.push(message)

    def reply(self, request: int, message: Any) -> None:
        if self.open:
            self._link.answer(request, message)

    def close(self) -> None:
        self.agent_gone()

    def abort(self) -> None:
        self.agent_gone()

    def agent_gone(self) -> None:
        """The agent's end of the connection is closed."""
        if self.open:
            self.open = False
            self._link.closing()

    def controller_gone(self) -> None:
        """The other end is closed: the agent notices."""
        if self.open:
            self.open = False
            if self in self.owner.lines:
                self.owner.lines.remove(self)
            agent = self.owner.agent
            if self.owner.process.alive and agent is not None:
                world = self.owner.machine.world
                world.loop.call_soon(agent.leave, self, context=self.owner.process.context)


class SimLink(AgentConnection):
    """The controller's side."""

    def __init__(self, world: World, process: Process, owner: AgentProcess) -> None:
        self._world = world
        self._process = process
        self.machine = owner.machine
        self.closed = asyncio.Event()
        self._news = asyncio.Event()
        self._sequence = 0
        self._number = 0
        self._futures: dict[int, asyncio.Future[Any]] = {}
        self._there: deque[tuple[int, Any]] = deque()
        self._back: deque[tuple[int, Any]] = deque()
        self._why: Unreachable = closed()
        self._silent = False
        """An answer was awaited in vain: whatever ends it now, nobody has said why."""
        self._last: NodeReport | None = None
        self._stale: tuple[float, NodeReport] | None = None
        self._mute: set[int] = set()
        """Requests whose answers are lost."""
        self.line = Line(self, owner)
        owner.lines.append(self.line)
        world.links.append(self)

    # --- the controller asks -------------------------------------------------------------------

    async def request(self, message: Any, *, timeout: float) -> Any:  # noqa: ASYNC109 - as a link has it
        if not self._process.alive:
            raise Killed
        if self.closed.is_set():
            raise self._why
        number, future = self._send_request(message)
        try:
            async with asyncio.timeout(timeout):
                reply = await future
        except TimeoutError:
            self._silent = True
            raise Silent(f"no answer to {message.TYPE} within {timeout:g} s") from None
        finally:
            self._futures.pop(number, None)
        if isinstance(reply, RefusedMessage):
            raise Refused(reply.code, reply.text)
        return reply

    def _send_request(self, message: Any) -> tuple[int, asyncio.Future[Any]]:
        """Send a request, with whatever befalls it."""
        world, kind = self._world, None
        if hasattr(message, "token") and not isinstance(message, Observe):
            kind = world.pass_by(f"{message.TYPE} to {self.machine.name}", REQUEST)
            world.oracles.requested(self._process, self.machine, message)
        if kind == CRASH_BEFORE:
            world.kill_controller(self._process)
        if kind == ERROR:
            raise Refused("Failed", "[Errno 28] No space left on device")
        if kind == STALE and self._last is not None:
            self._stale = (world.loop.now + STALE_SECONDS, self._last)
            world.loop.call_later(STALE_SECONDS, self._fresh, context=self._process.context)
        self._number += 1
        number = self._number
        future = self._futures[number] = world.loop.create_future()
        if kind == UNANSWERED:
            self._mute.add(number)
        if kind != LOST:
            self._send(number, message)
        if kind == CRASH_AFTER:
            world.kill_controller(self._process)
        return number, future

    def _send(self, number: int, message: Any) -> None:
        checked(message, AGENT_RECEIVES, self._world.spoken)
        self._there.append((number, message))
        self._later(self._arrive, self.line.owner.process)

    def _later(self, act: Any, owner: Process) -> None:
        loop = self._world.loop
        loop.call_later(self._world.latency(self.machine), act, context=owner.context)

    def _arrive(self) -> None:
        """At the agent."""
        number, message = self._there.popleft()
        owner = self.line.owner
        if not self.machine.reachable or not owner.process.alive or owner.hung:
            return
        agent = owner.agent
        if agent is None:  # it listens already and does not answer yet
            self._there.appendleft((number, message))
            self._later(self._arrive, owner.process)
            return
        if not self.line.open and not self._world.late_commands:
            return
        token = getattr(message, "token", None)
        if token is not None:
            if not isinstance(message, Observe):
                self._world.note(f"{self.machine.name} hears {message.TYPE}")
            self._world.oracles.request_received(self.machine, token)
        try:
            agent.on_message(self.line, message, number)
        finally:
            self._world.oracles.answered(self.machine)

    # --- the agent answers and pushes ----------------------------------------------------------

    def answer(self, number: int, message: Any) -> None:
        checked(message, CONTROLLER_RECEIVES, self._world.spoken)
        if isinstance(message, NodeReport):
            if self._stale is not None and self._stale[0] > self._world.loop.now:
                message = self._stale[1]
            else:
                self._stale, self._last = None, message
        if number in self._mute:
            return
        self._back.append((number, message))
        self._later(self._come_back, self._process)

    def _fresh(self) -> None:
        """A controller looks every few seconds; one of a world over days does so seldom, and is told when to."""
        if not self.closed.is_set() and self._last is not None:
            self.pushed(Changed(self._last.sequence))

    def push(self, message: Changed) -> None:
        for _ in range(self._world.copies()):
            self._back.append((0, message))
            self._later(self._come_back, self._process)

    def _come_back(self) -> None:
        """At the controller."""
        if self.closed.is_set() or not self._back:
            return
        number, message = self._back.popleft()
        if not self.machine.reachable:
            return
        if number == 0:
            self.pushed(message)
            return
        if isinstance(message, NodeReport):
            self._world.oracles.reported(self._process, self.machine, message)
        future = self._futures.get(number)
        if future is not None and not future.done():
            future.set_result(message)

    # --- the end -------------------------------------------------------------------------------

    def closing(self) -> None:
        """The agent has closed: a moment later this side knows, unless nothing gets through."""
        if self.machine.reachable and self._process.alive:
            self._later(self._gone, self._process)
        else:
            self.silent()

    def silent(self) -> None:
        """Nothing gets through any more: noticed after a while."""
        if self._process.alive:
            loop = self._world.loop
            loop.call_later(SILENCE_SECONDS, self._given_up, context=self._process.context)

    def reset(self) -> None:
        """The machine has booted again, and answers the next sign of life on this connection with a reset."""
        if self._process.alive:
            loop = self._world.loop
            loop.call_later(KEEPALIVE_SECONDS, self._was_reset, context=self._process.context)

    def _was_reset(self) -> None:
        if self.machine.reachable:
            self._gone()

    def _given_up(self) -> None:
        if not self.machine.reachable or not self.line.open:
            self._gone(Silent(f"no sign of life for {SILENCE_SECONDS:g} s"))

    def _gone(self, reason: Unreachable | None = None) -> None:
        if self.closed.is_set():
            return
        reason = reason or closed()
        self._why = reason = Silent(str(reason)) if self._silent else reason
        self.closed.set()
        self._news.set()
        if self in self._world.links:
            self._world.links.remove(self)
        for future in self._futures.values():
            if not future.done():
                future.set_exception(reason)
                future.exception()  # who asked may be dead by now

    async def close(self) -> None:
        self.cut()
        self._gone(Unreachable("the connection was closed by this side"))

    def cut(self) -> None:
        """This side is gone: the agent hears of it."""
        if self.line.open:
            self._world.loop.call_later(
                LATENCY, self.line.controller_gone, context=self.line.owner.process.context
            )
