"""The files with the gateway's counts. One gateway at a time writes each of them."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import orjson

from reconciler.wire.figures import ModelFigures
from reconciler.wire.prompts import QuarantinedPrompt

from .handover.figures import since, together
from .handover.heir import Heir
from .handover.predecessor import Predecessor
from .keys.usage_file import UsageFile
from .records import figures_file
from .routing import quarantine_file
from .routing.pool import Pool

log = logging.getLogger(__name__)


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
        self._telling = asyncio.create_task(figures_file.keep(home / "figures.json", self._counted))

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

    def _counted(self) -> figures_file.Counted | None:
        bounds, _ = self._pool.metrics.figures()
        return (bounds, self.figures()) if self._heir is None else None

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
    draft = target.with_name(f".{target.name}.new")
    content = orjson.dumps(state, option=orjson.OPT_APPEND_NEWLINE)
    try:
        if target.exists() and target.read_bytes() == content:
            return True
        draft.write_bytes(content)
        draft.replace(target)
    except OSError as error:
        log.warning("cannot write %s, trying again later: %s", target, error)
        return False
    return True


def cannot_listen(problem: str) -> dict[str, object]:
    """Return the contents of ``gateway.json`` for a gateway that ends because it cannot listen."""
    return {"version": 1, "pid": os.getpid(), "endpoint": None, "problem": problem}
