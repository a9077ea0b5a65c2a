"""When to look: on every trigger, soon after; and now and then in any case.

A trigger carries a name, never a change: whatever happened, the next pass looks at everything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from reconciler.state import Contact, Outcome, Plan

from .reconcile import Parts, decide, reconcile

log = logging.getLogger(__name__)

RESYNC_SECONDS = 10.0
COALESCE_SECONDS = 0.01
GATEWAY_POLL_SECONDS = 0.5
FAILED_PASS_SECONDS = 2.0


class Loop:
    """Runs passes until it is told to end."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._wake = asyncio.Event()
        self._source_at: float | None = None
        self._read_source = True
        self._ending = False
        self.plan = Plan()

    def trigger(self) -> None:
        """Look again soon."""
        self._wake.set()

    def look_at_source(self, hook_at: float | None = None) -> None:
        """The manifests may have changed; ``hook_at`` is when the repository's hook noticed."""
        self._read_source = True
        self._source_at = hook_at if hook_at is not None else self._source_at
        self.trigger()

    def foresee(self) -> Plan:
        """What the next pass would do, without doing it."""
        return decide(self._parts).plan

    def finished(self, outcome: Outcome) -> None:
        """A step has ended."""
        self._parts.publisher.outcome(outcome, self._parts.clock())
        self.trigger()

    def end(self) -> None:
        """End after the current pass; ranks and agents go on."""
        self._ending = True
        self.trigger()

    def stop_everything(self) -> None:
        """Stop every rank and agent, then end."""
        self._parts.stopping = True
        self.trigger()

    async def run(self) -> None:
        """Pass after pass."""
        watcher = asyncio.create_task(self._watch_gateway(), name="watch gateway")
        try:
            while not self._ending:
                self._wake.clear()
                await self._pass()
                if self._parts.stopping and self._all_stopped():
                    return
                await self._sleep()
        finally:
            watcher.cancel()

    async def _pass(self) -> None:
        try:
            if self._read_source:
                hook_at, self._source_at, self._read_source = self._source_at, None, False
                await self._parts.intent.refresh(hook_at)
            self.plan = reconcile(self._parts)
        except Exception:  # the one place: a pass that fails must not end the passes
            log.exception("a pass failed; the next one looks at everything again")
            self._read_source = True
            await asyncio.sleep(FAILED_PASS_SECONDS)

    async def _sleep(self) -> None:
        now = self._parts.clock()
        untils = [w.until for w in self.plan.waiting if w.until is not None]
        seconds = min([RESYNC_SECONDS, *(max(0.0, until - now) for until in untils)])
        try:
            await asyncio.wait_for(self._wake.wait(), max(seconds, COALESCE_SECONDS))
        except TimeoutError:
            return
        await asyncio.sleep(COALESCE_SECONDS)

    def _all_stopped(self) -> bool:
        snapshots = self._parts.last
        down = all(node.contact is Contact.AGENT_DOWN for node in snapshots.observed.nodes.values())
        idle = not snapshots.memory.groups and not self._parts.executor.in_flight
        return idle and down and not any(rank.alive for rank in snapshots.observed.ranks())

    async def _watch_gateway(self) -> None:
        """The gateway writes a file when it listens; a pass follows within half a second."""
        look: Callable[[], object] = self._parts.gateway
        before = look()
        while True:
            await asyncio.sleep(GATEWAY_POLL_SECONDS)
            now = look()
            if now != before:
                before = now
                self.trigger()
