"""The folder of some weights, its record, and its verified files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from reconciler.wire.codec import WireError, from_wire, to_wire
from reconciler.wire.weights import RECORD_BYTES_MAX, RECORD_NAME, Record, WantedFile

PIECE_BYTES = 4 * 1024 * 1024
PART_SUFFIX = ".part"
"""Suffix of incomplete files, which readers of weights ignore."""
OUTLINE_SUFFIX = ".outline.part"


class Folder:
    """Weights in ``path``, complete or partial."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = self._read()

    def _read(self) -> Record | None:
        try:
            content = (self.path / RECORD_NAME).read_bytes()
            return from_wire(Record, json.loads(content)) if len(content) <= RECORD_BYTES_MAX else None
        except (OSError, ValueError, WireError):
            return None

    def keep(self, record: Record) -> None:
        """Write the record atomically. Raises ``OSError``."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.path / f"{RECORD_NAME}.new"
        with draft.open("wb") as file:
            file.write(json.dumps(to_wire(record)).encode())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path / RECORD_NAME)
        self.record = record

    def part(self, wanted: WantedFile) -> Path:
        """Return the path of a file during its download."""
        return self.path / f"{wanted.name}{PART_SUFFIX}"

    def is_verified(self, wanted: WantedFile) -> bool:
        """Return whether a file has not changed since it was verified."""
        return self._stands(wanted, Record.holds)

    def is_outline(self, wanted: WantedFile) -> bool:
        return self._stands(wanted, Record.outlined)

    def _stands(self, wanted: WantedFile, in_record: Callable[[Record, str, int, int], bool]) -> bool:
        try:
            status = (self.path / wanted.name).stat()
        except OSError:
            return False
        return self.record is not None and in_record(
            self.record, wanted.name, status.st_size, status.st_mtime_ns
        )

    def outline(self, wanted: WantedFile, header: bytes) -> None:
        """Write the outline of a weight file: its header, and a hole of its size. Raises ``OSError``."""
        assert self.record is not None
        draft = self.path / f"{wanted.name}{OUTLINE_SUFFIX}"
        with draft.open("wb") as file:
            file.write(header)
            file.truncate(wanted.size)
            file.flush()
            os.fsync(file.fileno())
        changed = draft.stat().st_mtime_ns
        self.keep(replace(self.record, outlines={**self.record.outlines, wanted.name: changed}))
        draft.replace(self.path / wanted.name)

    def note_verified(self, wanted: WantedFile) -> None:
        """Note that a file was just verified. Raises ``OSError``."""
        self._note(wanted, self.path / wanted.name)

    def _note(self, wanted: WantedFile, path: Path) -> None:
        assert self.record is not None
        changed = path.stat().st_mtime_ns
        self.keep(replace(self.record, verified={**self.record.verified, wanted.name: changed}))

    def accept(self, wanted: WantedFile) -> None:
        """Give a complete and correct part its final name. Raises ``OSError``."""
        part = self.part(wanted)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        self._note(wanted, part)  # first, so that a reader of a folder in use finds no unrecorded file
        part.replace(self.path / wanted.name)

    def discard(self, wanted: WantedFile) -> None:
        for path in (self.path / wanted.name, self.part(wanted)):
            path.unlink(missing_ok=True)


def is_right(path: Path, wanted: WantedFile, more: Callable[[int], None]) -> bool:
    """Return whether a file has the hub's size and content; ``more`` counts the bytes read."""
    kind, _, expected = wanted.digest.partition(":")
    if path.stat().st_size != wanted.size:
        return False
    digest = hashlib.sha256() if kind == "sha256" else hashlib.sha1(b"blob %d\0" % wanted.size)
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
            more(len(piece))
    return digest.hexdigest() == expected


def sync(path: Path) -> None:
    """Make renames within a folder last."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
