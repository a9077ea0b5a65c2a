"""Measures every ten seconds, and keeps what it has measured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from reconciler.state import NodeName, NodeObservation
from reconciler.wire.figures import GatewayFigures

from .files import File
from .sample import sample
from .series import COARSE, FINE, Series


class Keeper:
    """The figures of the last hours. ``folder``: where they survive a restart; None keeps them in memory alone. ``nodes`` and ``gateway`` return what was reported last; ``clock`` seconds since the Unix
    epoch."""

    def __init__(
        self,
        folder: Path | None,
        nodes: Callable[[], Mapping[NodeName, NodeObservation]],
        gateway: Callable[[], GatewayFigures | None],
        clock: Callable[[], float],
    ) -> None:
        self.series = Series()
        self._nodes = nodes
        self._gateway = gateway
        self._clock = clock
        self._before: GatewayFigures | None = None
        self._fine = self._coarse = None
        if folder is not None:
            self._fine, self._coarse = File(folder, FINE), File(folder, COARSE)
            self._fine.load(self.series.fine)
            self._coarse.load(self.series.coarse)

    async def run(self) -> None:
        """Measure at each full ten seconds, until cancelled."""
        while True:
            await asyncio.sleep(FINE.seconds - self._clock() % FINE.seconds)
            self.measure()

    def measure(self) -> None:
        """Measure once."""
        now, figures = self._clock(), self._gateway()
        found = sample(self._nodes(), self._before, figures, FINE.seconds)
        self._before = figures
        minute = self.series.add(now, found)
        if self._fine is not None:
            self._fine.add(FINE.slot(now), found)
        if self._coarse is not None and minute is not None:
            self._coarse.add(*minute)
