"""The file with the use of keys. The gateway continues with the day's counts after a restart, and the controller reads
it for the status of each ApiKey."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import orjson

from reconciler.wire import SPOKEN
from reconciler.wire.codec import WireError, from_wire, to_wire
from reconciler.wire.keys import KeysUsage, KeyUsage

from .desk import Desk

log = logging.getLogger(__name__)

SAVED_SECONDS = 2.0
"""The interval of writes while keys are in use: a gateway that is killed forgets that much of a day."""


def read(path: Path) -> tuple[KeyUsage, ...]:
    """Return the use of keys; nothing without a valid file."""
    try:
        file = from_wire(KeysUsage, orjson.loads(path.read_bytes()))
        if file.version not in SPOKEN:
            raise WireError(f"version {file.version}; this gateway reads {SPOKEN}")
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, WireError) as error:
        log.warning("%s is ignored, the day's counts of all keys begin anew: %s", path, error)
        return ()
    return file.keys


class UsageFile:
    """Keeps the file up to date, and begins with its contents, unless the counts are already ``known``."""

    def __init__(self, path: Path, desk: Desk, known: bool = False) -> None:
        self.written = True
        """True if this gateway writes it, and not another one that counts."""
        self._path = path
        self._desk = desk
        self._written = -1 if known else 0
        if not known:
            desk.restore(read(path))

    async def keep(self) -> None:
        """Write it regularly, until cancelled."""
        while True:
            await asyncio.sleep(SAVED_SECONDS)
            self.save()

    def save(self) -> None:
        """Replace the file atomically, readable to its owner only, if something has changed or a request runs. A full disk is
        no reason to stop serving."""
        changes = self._desk.book.changes
        at_rest = changes == self._written and not self._desk.open_tickets
        if at_rest or not self.written:
            return
        draft = self._path.with_name(f".{self._path.name}.new")
        usage = KeysUsage(SPOKEN[-1], self._desk.snapshot())
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(orjson.dumps(to_wire(usage), option=orjson.OPT_APPEND_NEWLINE))
            draft.replace(self._path)
        except OSError as error:
            log.warning("cannot write %s, trying again later: %s", self._path, error)
            return
        self._written = changes
