"""The gateway's JSON files in its home, which the controller reads: replaced atomically, and read with their version.

After a restart, the gateway continues with its refused prompts and with the day's use of keys.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import orjson

from reconciler.wire import SPOKEN
from reconciler.wire.codec import WireError, from_wire, to_wire
from reconciler.wire.keys import KeysUsage, KeyUsage
from reconciler.wire.prompts import QuarantinedPrompt, QuarantinedPrompts

from .keys.desk import Desk

log = logging.getLogger(__name__)

SAVED_SECONDS = 2.0
"""The interval of writes while keys are in use: a gateway that is killed forgets that much of a day."""

T = TypeVar("T", KeysUsage, QuarantinedPrompts)


def read(path: Path, kind: type[T], loss: str) -> T | None:
    """Return the contents; None without a valid file. ``loss``: the consequence, for the log."""
    try:
        file = from_wire(kind, orjson.loads(path.read_bytes()))
        if file.version not in SPOKEN:
            raise WireError(f"version {file.version}; this gateway reads {SPOKEN}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, WireError) as error:
        log.warning("%s is ignored, %s: %s", path, loss, error)
        return None
    return file


def replace(path: Path, body: object, mode: int = 0o600, later: str = ", trying again later") -> bool:
    """Replace a file atomically. Returns False if that failed: a full disk is no reason to stop serving. ``later``: when it
    is tried again, for the log."""
    draft = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(orjson.dumps(body, option=orjson.OPT_APPEND_NEWLINE))
        draft.replace(path)
    except OSError as error:
        log.warning("cannot write %s%s: %s", path, later, error)
        return False
    return True


def read_prompts(path: Path) -> tuple[QuarantinedPrompt, ...]:
    """Return the quarantined prompts; none without a valid file."""
    file = read(path, QuarantinedPrompts, "no prompt is quarantined")
    return file.prompts if file is not None else ()


def write_prompts(path: Path, prompts: Iterable[QuarantinedPrompt]) -> None:
    """Replace the quarantined prompts, readable to the file's owner only."""
    replace(path, to_wire(QuarantinedPrompts(SPOKEN[-1], tuple(prompts))), later="")


def read_usage(path: Path) -> tuple[KeyUsage, ...]:
    """Return the use of keys; nothing without a valid file."""
    file = read(path, KeysUsage, "the day's counts of all keys begin anew")
    return file.keys if file is not None else ()


class UsageFile:
    """Keeps the use of keys up to date, and begins with the file's contents, unless the counts are already ``known``."""

    def __init__(self, path: Path, desk: Desk, known: bool = False) -> None:
        self._path = path
        self._desk = desk
        for each in () if known else read_usage(path):
            desk.add(each)
        self._written = -1 if known else desk.book.changes

    async def keep(self) -> None:
        """Write it regularly, until cancelled."""
        while True:
            await asyncio.sleep(SAVED_SECONDS)
            self.save()

    def save(self) -> None:
        """Replace the file, readable to its owner only, if something has changed or a request runs."""
        changes = self._desk.book.changes
        at_rest = changes == self._written and not self._desk.busy
        if not at_rest and replace(self._path, to_wire(KeysUsage(SPOKEN[-1], self._desk.snapshot()))):
            self._written = changes
