"""Runs passes: soon after every trigger, and regularly in any case.

A trigger carries a name and never a change: whatever happened, the next pass examines everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from reconciler.errors import Deposed, Invalid, Unwritable
from reconciler.state import Contact, Desired, Outcome, Plan
from reconciler.state.identity import CLUSTER
from reconciler.state.reports.status import Event
from reconciler.wire.supervision import Act

from .pace import Pace, in_slices
from .parts import Parts
from .reconcile import decide, reconcile

log = logging.getLogger(__name__)

RESYNC_SECONDS = 10.0
COALESCE_SECONDS = 0.01
HOME_POLL_SECONDS = 0.5
EXPIRY_SECONDS_MAX = 60.0
"""Longest time for which an operation may continue past its end after the clock was set."""
FAILED_ROUND_SECONDS = 2.0


class Loop:
    """Runs passes until it is asked to end. Manifests are read concurrently, so that healing never waits for them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._wake = asyncio.Event()
        self._hurry = asyncio.Event()
        """Set when the loop is to end, without waiting for a pace."""
        self._pace = Pace()
        self._read = asyncio.Event()
        self._read.set()
        self._hook_at: float | None = None
        self._ending = False
        self._deposed: Deposed | None = None
        self._complaint = ""
        """Last error of a failed pass, so that it is not logged again every two seconds."""
        self.plan = Plan()
        self.resync_seconds = RESYNC_SECONDS
        """Seconds between passes when nothing happens."""
        self.home_poll_seconds = HOME_POLL_SECONDS
        self.coalesce_seconds = COALESCE_SECONDS
        """Seconds within which several triggers cause one pass."""

    def trigger(self) -> None:
        """Request a pass soon."""
        self._wake.set()

    def look_at_source(self, hook_at: float | None = None) -> None:
        """Request to read the manifests; ``hook_at`` is the time of the repository's hook."""
        self._hook_at = hook_at if hook_at is not None else self._hook_at
        self._read.set()

    async def preview(self, desired: Desired | None = None) -> Plan:
        """Return the plan of the next pass without executing it; with ``desired`` for that desired state."""
        snapshots, _ = await in_slices(decide(self._parts, desired))
        return snapshots.plan

    def finished(self, outcome: Outcome) -> None:
        """Handle the end of a step. A step on a node has asked for a report, and that triggers the next pass: an
        earlier pass could only wait for it."""
        try:
            self._parts.publisher.outcome(outcome, self._parts.clock())
        except Deposed as error:
            self.deposed(error)
        node = getattr(outcome.step, "node", None)
        if not (outcome.done and node is not None and self._parts.collector.looking(node)):
            self.trigger()

    def deposed(self, error: Deposed) -> None:
        """Handle a takeover by another controller: abandon running steps, and begin nothing more."""
        self._deposed = self._deposed or error
        self._parts.executor.abandon()
        self._hurry.set()
        self.trigger()

    def end(self) -> None:
        """End after the current pass; ranks and agents keep running."""
        self._ending = True
        self._hurry.set()
        self.trigger()

    def stop_everything(self) -> None:
        """Stop every rank and agent, then end."""
        self._parts.stopping = True
        self._hurry.set()
        self.trigger()

    async def run(self) -> None:
        """Run passes. Raises ``Deposed`` if another controller has taken over, or may have because a held file is gone."""
        beside = [
            asyncio.create_task(self._read_source(), name="read the manifests"),
            asyncio.create_task(self._watch_home(), name="watch the home"),
        ]
        try:
            while not self._ending:
                self._wake.clear()
                self._watch_identity()
                await self._guarded(self._pass())
                self._watch_identity()
                if self._parts.stopping and self._all_stopped():
                    return
                await self._sleep()
                await self._pace.rest(self._hurry)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    def _watch_identity(self) -> None:
        if self._deposed is not None:
            raise self._deposed
        for each in self._parts.lease.identity:
            if each.replaced:
                raise Deposed(f"{each.path} was removed: this controller ends, and another may start")

    async def _pass(self) -> None:
        self.plan, seconds = await in_slices(reconcile(self._parts))
        if self._parts.publisher.published != self._parts.last.memory.published:
            self.trigger()  # a change may wait for the routes that this pass has written
        self._pace.took(seconds)
        if self._parts.clock_gaps.check():
            self.trigger()

    async def _read_source(self) -> None:
        """Read the manifests after each change and when an operation ends, and rejected ones from time to time, until
        another controller has taken over."""
        while self._deposed is None:
            with contextlib.suppress(TimeoutError):
                # Not wait_for, which loses a cancellation in Python 3.11.
                async with asyncio.timeout(self._seconds_to_reading()):
                    await self._read.wait()
            self._read.clear()
            hook_at, self._hook_at = self._hook_at, None
            if not await self._guarded(self._parts.desired_state.refresh(hook_at)):
                self._read.set()
            self.trigger()
            await self._guarded(self._parts.desired_state.record_in_force())

    def _seconds_to_reading(self) -> float | None:
        """Return how long a change of the source may be awaited; None for ever."""
        state = self._parts.desired_state
        again = state.desired.rejection is not None or state.desired.operations_rejection is not None
        end = state.expiry()
        waits = [self.resync_seconds] if again else []
        waits += [min(max(end - self._parts.clock(), 0.0), EXPIRY_SECONDS_MAX)] if end is not None else []
        return min(waits, default=None)

    async def _guarded(self, work: Awaitable[None]) -> bool:
        """Do one round of work. Return whether it succeeded. An unexpected error must not end the loop."""
        try:
            await work
        except Deposed as error:
            self.deposed(error)
            return False
        except (Unwritable, Invalid) as error:
            if str(error) != self._complaint:
                log.error("%s; trying again", error)
            self._complaint = str(error)
            self.trigger()
            await asyncio.sleep(FAILED_ROUND_SECONDS)
            return False
        except Exception:
            log.exception("unexpected error; the next pass examines everything again")
            await asyncio.sleep(FAILED_ROUND_SECONDS)
            return False
        return True

    async def _sleep(self) -> None:
        now = self._parts.clock()
        ahead = [w.until - now for w in self.plan.waiting if w.until is not None and w.until > now]
        try:
            async with asyncio.timeout(max(min([self.resync_seconds, *ahead]), self.coalesce_seconds)):
                await self._wake.wait()
        except TimeoutError:
            return
        await asyncio.sleep(self.coalesce_seconds)

    def _all_stopped(self) -> bool:
        snapshots = self._parts.last
        contacts = {node.contact for node in snapshots.observed.nodes.values()}
        down = not snapshots.memory.agents and not contacts & {Contact.REACHED, Contact.UNKNOWN}
        return down and not snapshots.memory.groups and not self._parts.executor.in_flight

    async def _watch_home(self) -> None:
        """Watch the things that send no trigger: the files of the gateway and of `up`, those that this controller holds, the clocks.

        The pass that follows examines the files before it writes to them."""
        look: Callable[[], object] = self._parts.around.gateway
        before = look()
        told: tuple[Act, ...] = ()
        while True:
            await asyncio.sleep(self.home_poll_seconds)
            now, acts = look(), self._parts.around.supervision()
            if acts != told:
                told = acts
                self._parts.publisher.publish_events(
                    Event(act.at, CLUSTER, True, act.reason, act.text, f"service/{act.service}/{act.at}")
                    for act in acts
                )
            lapsed = self._parts.clock_gaps.check()
            if now != before or lapsed or self._files_changed():
                before = now
                self.trigger()

    def _files_changed(self) -> bool:
        return self._parts.store.altered or any(each.replaced for each in self._parts.lease.identity)
