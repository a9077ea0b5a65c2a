"""Measures every ten seconds, and keeps the figures."""

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
    """The figures of the last hours.

    ``folder``: the place where they survive a restart; None keeps them in memory only. ``nodes`` and ``gateway`` return
    the last reports, ``clock`` seconds since the Unix epoch.
    """

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
        self._at: float | None = None
        """The time of the last measurement."""
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
        """Measure, unless this was done in the same ten seconds: a sleep may end a moment early."""
        now, figures = self._clock(), self._gateway()
        if self._at is not None and FINE.slot(now) == FINE.slot(self._at):
            return
        seconds = 0.0 if self._at is None else now - self._at
        before = self._before if seconds > 0 else None  # there is none, or the clock was set back
        found = sample(self._nodes(), before, figures, seconds)
        self._at, self._before = now, figures
        minute = self.series.add(now, found)
        if self._fine is not None:
            self._fine.add(FINE.slot(now), found)
        if self._coarse is not None and minute is not None:
            self._coarse.add(*minute)
