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
from reconciler.wire.prompts import QuarantinedPrompt

from . import state_file
from .handover.figures import since, together
from .handover.heir import Heir
from .handover.predecessor import Predecessor
from .keys.usage_file import UsageFile
from .routing import quarantine_file
from .routing.pool import Pool

MODE = 0o666
"""The mode of files without secrets, as far as the umask of the process allows."""
FIGURES_SECONDS = 5.0
"""The interval of writes while requests come: half the controller's interval of measurements."""


class Files:
    """Keeps ``usage.json``, ``figures.json`` and ``prompts.json`` up to date while no other gateway does."""

    def __init__(self, home: Path, pool: Pool, predecessor: Predecessor | None) -> None:
        """``predecessor`` is the gateway whose counts this one continues. Without one, the counts come from the
        files."""
        self._home = home
        self._pool = pool
        self._heir: Heir | None = None
        self._predecessor = predecessor
        self._handed: tuple[ModelFigures, ...] = ()
        """The counts at the time when another gateway took over."""
        self._usage = UsageFile(home / "usage.json", pool.desk, known=predecessor is not None)
        pool.quarantined = self._tell_quarantined
        if predecessor is not None:
            predecessor.quarantined = self.quarantine
        self._saving = asyncio.create_task(self._usage.keep())
        self._telling = asyncio.create_task(self._keep_figures(home / "figures.json"))

    def bequeath(self, heir: Heir | None) -> None:
        """Stop writing, and report to the heir; with None, write again."""
        self._handed = self.figures()
        self._heir = heir
        self._usage.written = heir is None
        if heir is None:
            self._tell_quarantined()  # the reports to the other gateway are in no file

    def figures(self) -> tuple[ModelFigures, ...]:
        """Return the figures of all requests, including those of a gateway that finishes its answers."""
        bounds, own = self._pool.metrics.figures()
        return own if self._predecessor is None else together(own, self._predecessor.models, bounds)

    def since_handed(self) -> tuple[ModelFigures, ...]:
        """Return the figures since another gateway took over."""
        return since(self.figures(), self._handed)

    def quarantine(self, prompts: tuple[QuarantinedPrompt, ...]) -> None:
        """Refuse also the prompts that a gateway refuses while it finishes its answers."""
        for prompt in prompts:
            self._pool.suspects(prompt.model).quarantine(prompt)
        self._tell_quarantined()

    def close(self) -> None:
        """Write the last changes."""
        self._saving.cancel()
        self._telling.cancel()
        self._usage.save()

    async def _keep_figures(self, path: Path) -> None:
        """Write the figures, which the controller reads for the plots of the last hours, if something has changed."""
        written = None
        while True:
            bounds, _ = self._pool.metrics.figures()
            figures = GatewayFigures(SPOKEN[-1], os.getpid(), bounds, self.figures())
            if self._heir is None and figures != written and state_file.replace(path, to_wire(figures), MODE):
                written = figures
            await asyncio.sleep(FIGURES_SECONDS)

    def _tell_quarantined(self) -> None:
        prompts = self._pool.quarantined_prompts()
        if self._heir is None:
            quarantine_file.write(self._home / "prompts.json", prompts)
        else:
            self._heir.quarantined(prompts)


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
