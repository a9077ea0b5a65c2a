"""The files with the gateway's counts. One gateway at a time writes each of them."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import orjson

from reconciler.wire import SPOKEN
from reconciler.wire.codec import to_wire
from reconciler.wire.figures import GatewayFigures, ModelFigures

from . import state_file
from .handover.reports import together
from .handover.taking_over import OldGateway
from .routing.pool import Pool

MODE = 0o666
"""The mode of files without secrets, as far as the umask of the process allows."""
FIGURES_SECONDS = 5.0
"""The interval of writes while requests come: half the controller's interval of measurements."""


class Files:
    """Keeps ``usage.json``, ``figures.json`` and ``prompts.json`` up to date until another gateway does."""

    def __init__(self, home: Path, pool: Pool, old: OldGateway | None) -> None:
        """``old`` is the gateway whose counts this one continues. Without one, the counts come from the files."""
        self._home = home
        self._pool = pool
        self._old = old
        self.pid = os.getpid() if old is None else old.given.pid
        """The process that ``figures.json`` names: if it stays, the controller takes the counts for continued."""
        self._usage = state_file.UsageFile(home / "usage.json", pool.desk, known=old is not None)
        pool.quarantined = self._write_prompts
        if old is not None:
            self._write_prompts()
        self._writing = [
            asyncio.create_task(self._usage.keep()),
            asyncio.create_task(self._keep_figures(home / "figures.json")),
        ]

    def figures(self) -> tuple[ModelFigures, ...]:
        """Return the figures of all requests, including those of the old gateway."""
        bounds, own = self._pool.metrics.figures()
        return own if self._old is None else together(own, self._old.models, bounds)

    def leave(self) -> None:
        """Write nothing more: another gateway does."""
        for task in self._writing:
            task.cancel()
        self._pool.quarantined = lambda: None

    def close(self) -> None:
        self.leave()
        self._usage.save()

    async def _keep_figures(self, path: Path) -> None:
        """Write the figures, which the controller reads for the plots of the last hours, if something has changed."""
        written = None
        while True:
            bounds, _ = self._pool.metrics.figures()
            figures = GatewayFigures(SPOKEN[-1], self.pid, bounds, self.figures())
            if figures != written and state_file.replace(path, to_wire(figures), MODE):
                written = figures
            await asyncio.sleep(FIGURES_SECONDS)

    def _write_prompts(self) -> None:
        state_file.write_prompts(self._home / "prompts.json", self._pool.quarantined_prompts())


def write_state(home: Path, state: dict[str, object]) -> bool:
    """Write ``gateway.json`` unless it says this already. Returns False if that failed: a full disk is no reason to
    stop serving."""
    target = home / "gateway.json"
    with suppress(OSError):
        if target.read_bytes() == orjson.dumps(state, option=orjson.OPT_APPEND_NEWLINE):
            return True
    return state_file.replace(target, state, MODE)


def cannot_listen(problem: str) -> dict[str, object]:
    """Return the contents of ``gateway.json`` for a gateway that ends because it cannot listen."""
    return {"version": 1, "pid": os.getpid(), "endpoint": None, "problem": problem}
