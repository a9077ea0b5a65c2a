"""The gateway's files of what it has counted, each of which one gateway writes at a time."""

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
    """Keeps ``usage.json``, ``figures.json`` and ``prompts.json`` up to date, as long as no other gateway does."""

    def __init__(self, home: Path, pool: Pool, predecessor: Predecessor | None) -> None:
        """``predecessor``: whose counts this gateway has, and goes on with; without one it reads what is in the files."""
        self._home = home
        self._pool = pool
        self._heir: Heir | None = None
        self._predecessor = predecessor
        self._handed: tuple[ModelFigures, ...] = ()
        """The counts when another gateway took over."""
        self._usage = UsageFile(home / "usage.json", pool.desk, known=predecessor is not None)
        pool.quarantined = self._tell_quarantined
        if predecessor is not None:
            predecessor.quarantined = self.quarantine
        self._saving = asyncio.create_task(self._usage.keep())
        self._telling = asyncio.create_task(figures_file.keep(home / "figures.json", self._counted))

    def bequeath(self, heir: Heir | None) -> None:
        """Write nothing any more, and tell the heir; None: write again."""
        self._handed = self.figures()
        self._heir = heir
        self._usage.written = heir is None
        if heir is None:
            self._tell_quarantined()  # what the other one was told is in no file

    def figures(self) -> tuple[ModelFigures, ...]:
        """Return what all requests have done, also those of a gateway that finishes its answers."""
        bounds, own = self._pool.metrics.figures()
        return own if self._predecessor is None else together(own, self._predecessor.models, bounds)

    def since_handed(self) -> tuple[ModelFigures, ...]:
        """Return what they have done since another gateway has taken over."""
        return since(self.figures(), self._handed)

    def quarantine(self, prompts: tuple[QuarantinedPrompt, ...]) -> None:
        """Refuse the prompts of a gateway that finishes its answers, too."""
        for prompt in prompts:
            self._pool.suspects(prompt.model).quarantine(prompt)
        self._tell_quarantined()

    def close(self) -> None:
        """Write what has changed last."""
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
    """Write ``gateway.json`` unless it says this already. Returns whether that worked: a full disk is no reason to stop
    serving."""
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
    """Return what ``gateway.json`` says of a gateway that ends because it cannot listen."""
    return {"version": 1, "pid": os.getpid(), "endpoint": None, "problem": problem}
