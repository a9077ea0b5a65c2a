"""One watcher for each node that has a gateway, or is to have one: keeps the newest look at it, and changes nothing there.

A pass of the loop reads the results here and never waits for a machine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from reconciler.errors import Refused, Unreachable
from reconciler.remote.nodes.gateway import GatewayState, digest_of_files
from reconciler.state import GatewayProcess, NodeGatewayObservation, NodeName

from .service_files import limits_of

log = logging.getLogger(__name__)

KEEP_SECONDS = 3.0
"""Time between two looks at a gateway: a dead one is missing for at most this long, plus the time of its start."""
AGAIN_SECONDS = 0.5
"""Time after which a gateway that has got new routes is looked at again: it uses them by then."""

SERVED_SECONDS = 30.0
"""A gateway that served for this long has shown that it can: earlier ends are forgiven, as those of groups are."""


class NodeGateway(Protocol):
    """The gateway of one machine, as ``remote.nodes.gateway.NodeGateway``."""

    async def look(self) -> GatewayState: ...


@dataclass(slots=True)
class _Watch:
    """The watcher of one gateway."""

    task: asyncio.Task[None] | None = None
    again: asyncio.Event = field(default_factory=asyncio.Event)
    """Set if the next look is due after ``AGAIN_SECONDS``."""
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held during a look, so that an older one never replaces a newer one."""
    failing_since: float | None = None
    """Time of the event loop at which it was first seen to fail; None if it did not fail when last seen."""
    serving_since: float | None = None
    """Time of the event loop since which the same process has been seen to serve; None if it does not."""
    serving_pid: int | None = None
    """The process that was seen to serve, and neither to be gone since then nor asked to end."""
    ending_since: float | None = None
    """Time of the event loop at which the first of the ends in a row was seen; None without one."""
    ending_pid: int | None = None
    """The pid of the gateway that a step has asked to end; None without one."""


class GatewaysOnNodes:
    """``on`` returns the gateway of a node, and raises as ``MachinePool.gateway``. ``changed`` is called after each
    look that has found something new."""

    def __init__(self, on: Callable[[NodeName], NodeGateway], changed: Callable[[], None]) -> None:
        self._on = on
        self._changed = changed
        self.keep_seconds = KEEP_SECONDS
        self._watches: dict[NodeName, _Watch] = {}
        self._seen: dict[NodeName, NodeGatewayObservation] = {}

    def watch(self, names: frozenset[NodeName]) -> None:
        """Watch exactly these nodes."""
        for name in sorted(names - self._watches.keys()):
            watch = self._watches[name] = _Watch()
            self._start(name, watch)
        for name in self._watches.keys() - names:
            task = self._watches.pop(name).task
            self._seen.pop(name, None)
            if task is not None:
                task.cancel()

    @property
    def seen(self) -> Mapping[NodeName, NodeGatewayObservation]:
        """Return the last looks, in the order of names; a gateway that was not looked at yet is left out."""
        return dict(sorted(self._seen.items()))

    async def look(self, name: NodeName, again: bool = False) -> NodeGatewayObservation:
        """Look at a gateway now, and ``again`` soon. Return the newest observation. Raises nothing."""
        watch = self._watches.get(name) or _Watch()
        seen = await self._look(name, watch)
        if again:
            watch.again.set()
        return seen

    def end_is_asked(self, name: NodeName) -> None:
        """Take the next end of this gateway as one that was asked for."""
        if (watch := self._watches.get(name)) is not None:
            seen = self._seen.get(name)
            watch.serving_pid, watch.ending_pid = None, None if seen is None else seen.pid

    async def close(self) -> None:
        """End all watchers. The gateways continue: they serve with or without a controller."""
        tasks = [watch.task for watch in self._watches.values() if watch.task is not None]
        self._watches.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, name: NodeName, watch: _Watch) -> None:
        watch.task = asyncio.create_task(self._follow(name, watch), name=f"watch the gateway on {name}")
        watch.task.add_done_callback(lambda task: self._ended(name, watch, task))

    def _ended(self, name: NodeName, watch: _Watch, task: asyncio.Task[None]) -> None:
        """Restart a watcher that failed, and log its error: a watcher never ends on its own."""
        if task.cancelled():
            return
        log.error("watching the gateway on %s failed", name, exc_info=task.exception())
        if self._watches.get(name) is watch:
            asyncio.get_running_loop().call_later(self.keep_seconds, self._restart, name, watch)

    def _restart(self, name: NodeName, watch: _Watch) -> None:
        if self._watches.get(name) is watch:
            self._start(name, watch)

    async def _follow(self, name: NodeName, watch: _Watch) -> None:
        while True:
            await self._look(name, watch)
            try:
                async with asyncio.timeout(self.keep_seconds):
                    await watch.again.wait()
                    watch.again.clear()
                    await asyncio.sleep(AGAIN_SECONDS)
            except TimeoutError:
                pass

    async def _look(self, name: NodeName, watch: _Watch) -> NodeGatewayObservation:
        async with watch.looking:
            before = self._seen.get(name, NodeGatewayObservation(name))
            try:
                seen = _observation(name, await self._on(name).look())
                seen = self._counted(self._ends(seen, before, watch), before, watch)
            except (Unreachable, Refused, OSError) as error:
                seen = replace(before, reached=False, problem=str(error))
            if self._watches.get(name) is watch:
                known, self._seen[name] = self._seen.get(name), seen
                if (
                    known is None
                    or replace(
                        known, failing_seconds=seen.failing_seconds, ending_seconds=seen.ending_seconds
                    )
                    != seen
                ):
                    self._changed()
            return seen

    def _ends(
        self, seen: NodeGatewayObservation, before: NodeGatewayObservation, watch: _Watch
    ) -> NodeGatewayObservation:
        """Count the ends that nobody asked for, since it last served for ``SERVED_SECONDS``."""
        now, ends, words = asyncio.get_running_loop().time(), before.ends_in_a_row, before.last_end
        if watch.serving_pid is not None and seen.pid != watch.serving_pid:
            ends, words = ends + 1, seen.problem
            watch.ending_since = now if watch.ending_since is None else watch.ending_since
            watch.serving_pid = watch.serving_since = None
        if seen.pid != watch.ending_pid:
            watch.ending_pid = None
        if seen.serves:
            if watch.serving_since is None:
                watch.serving_since = now
            watch.serving_pid = None if watch.ending_pid is not None else seen.pid
            if now - watch.serving_since >= SERVED_SECONDS:
                ends, words, watch.ending_since = 0, "", None
        else:
            watch.serving_since = None
        ending = now - watch.ending_since if watch.ending_since is not None else 0.0
        return replace(seen, ends_in_a_row=ends, last_end=words, ending_seconds=ending)

    def _counted(
        self, seen: NodeGatewayObservation, before: NodeGatewayObservation, watch: _Watch
    ) -> NodeGatewayObservation:
        """Add for how long it has been failing, without the time in which it was out of sight."""
        if seen.serves:
            watch.failing_since = None
            return seen
        now = asyncio.get_running_loop().time()
        if watch.failing_since is None or not before.reached:
            watch.failing_since = now - before.failing_seconds
        return replace(seen, failing_seconds=now - watch.failing_since)


def _observation(name: NodeName, state: GatewayState) -> NodeGatewayObservation:
    found = NodeGatewayObservation(name, files=digest_of_files(state.files), process=GatewayProcess.GONE)
    if state.pid is not None:
        process = GatewayProcess.STOPPED if state.stopped else GatewayProcess.RUNNING
        found = replace(found, pid=state.pid, process=process, program=state.program)
    try:
        return _with_words(found, state)
    except (KeyError, TypeError, ValueError):
        return replace(found, problem="what runs there says nothing of itself that can be read")


def _with_words(found: NodeGatewayObservation, state: GatewayState) -> NodeGatewayObservation:
    """Add what the gateway says of itself. Raises ``KeyError``, ``TypeError`` or ``ValueError`` if it cannot be read."""
    said = state.said
    if state.pid is None:
        refused = bool(said) and said["endpoint"] is None
        why = str(said["problem"]) if refused else f"it does not run: {state.last_words or 'no last words'}"
        return replace(found, problem=why, cannot_listen=refused)
    if said.get("pid") != state.pid:
        return replace(found, problem="it has begun to run, and does not listen yet")
    problem = str(said["problem"])
    return replace(
        found,
        listen=None if said["endpoint"] is None else str(said["listen"]),
        sequence=int(said.get("sequence", 0)),
        problem=problem or ("it was stopped by a signal" if state.stopped else ""),
        limits=limits_of(said.get("limits")),
        keys=said.get("keys"),
        cannot_listen=bool(problem),
    )
