"""Chooses a gateway's ledger as the routes say: its own, its share, or one that it shares through a store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from reconciler.wire.gateway import LimitsStore
from reconciler.wire.generation import Routes

from .desk import Desk
from .ledger import MemoryLedger
from .shared.ledger import Gateway, SharedLedger
from .shared.store import SharedStore

CLOSE_SECONDS = 2.5
"""The longest wait for the last word to a store: two of its answers."""
OWN = "-"
"""The name of the controller's own gateway among all gateways; no node has it."""


class Sharing(Collector):
    """Gives the desk its ledger. ``own`` has the counts of this gateway alone."""

    def __init__(self, desk: Desk, process: str) -> None:
        self._desk = desk
        self._process = process
        self.changed: Callable[[], object] = lambda: None
        """Called when ``state`` has changed."""
        self.own = MemoryLedger()
        self._place: tuple[LimitsStore, str] | None = None
        self._shared: SharedLedger | None = None
        self._running: asyncio.Task[None] | None = None
        self._keys = False
        desk.ledger = self.own

    async def follow(self, routes: Routes) -> None:
        """Count as the routes say."""
        self._keys = routes.auth != "none"
        self.own.gateways = 1 + len(routes.nodes)
        store = routes.limits_store if self._keys else None
        place = (store, routes.gateway or OWN) if store is not None else None
        if place == self._place:
            return
        await self.close()
        self._place = place
        if place is not None:
            where, name = place
            clock = asyncio.get_running_loop().time
            gateway = Gateway(name, self._process)
            self._shared = SharedLedger(self.own, SharedStore(where), gateway, clock, lambda: self.changed())
            self._running = asyncio.create_task(self._shared.run(), name="share limits")
            self._desk.ledger = self._shared

    async def close(self) -> None:
        """Count alone."""
        running, self._running, self._shared, self._place = self._running, None, None, None
        self._desk.ledger = self.own
        if running is not None:
            running.cancel()
            await asyncio.wait([running], timeout=CLOSE_SECONDS)

    def state(self) -> dict[str, Any] | None:
        """Return how limits are counted; None if one gateway counts alone, or none does."""
        if not self._keys or (self.own.gateways == 1 and self._place is None):
            return None
        shared = self._shared
        return {
            "gateways": self.own.gateways,
            "store": self._place[0].address if self._place is not None else "",
            "shared": shared is not None and shared.shared,
            "problem": shared.problem if shared is not None else "",
        }

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of a store, if there is one."""
        if self._shared is None:
            return
        up = "1 where limits are shared through the store, 0 where this gateway has its share of them."
        yield GaugeMetricFamily("reconciler_limits_shared", up, value=self._shared.shared)
        text = "Calls to the store of the limits that failed, or took too long for a request."
        yield CounterMetricFamily("reconciler_limits_store_failures", text, value=self._shared.failures)
        text = "Requests that this gateway's share of the limits decided, because the store did not answer."
        yield CounterMetricFamily("reconciler_limits_by_share", text, value=self._shared.by_share)
