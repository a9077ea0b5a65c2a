"""The file with the use of keys. The gateway continues with the day's counts after a restart, and the controller reads
it for the status of each ApiKey."""

from __future__ import annotations

import asyncio
from pathlib import Path

from reconciler.gateway import state_file
from reconciler.wire import SPOKEN
from reconciler.wire.codec import to_wire
from reconciler.wire.keys import KeysUsage, KeyUsage

from .desk import Desk

SAVED_SECONDS = 2.0
"""The interval of writes while keys are in use: a gateway that is killed forgets that much of a day."""


def read(path: Path) -> tuple[KeyUsage, ...]:
    """Return the use of keys; nothing without a valid file."""
    file = state_file.read(path, KeysUsage, "the day's counts of all keys begin anew")
    return file.keys if file is not None else ()


class UsageFile:
    """Keeps the file up to date, and begins with its contents, unless the counts are already ``known``."""

    def __init__(self, path: Path, desk: Desk, known: bool = False) -> None:
        self._path = path
        self._desk = desk
        for each in () if known else read(path):
            desk.add(each)
        self._written = -1 if known else desk.book.changes

    async def keep(self) -> None:
        """Write it regularly, until cancelled."""
        while True:
            await asyncio.sleep(SAVED_SECONDS)
            self.save()

    def save(self) -> None:
        """Replace the file atomically, readable to its owner only, if something has changed or a request runs. A full disk is
        no reason to stop serving."""
        changes = self._desk.book.changes
        at_rest = changes == self._written and not self._desk.busy
        if not at_rest and state_file.replace(
            self._path, to_wire(KeysUsage(SPOKEN[-1], self._desk.snapshot()))
        ):
            self._written = changes
