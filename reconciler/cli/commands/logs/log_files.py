"""Prints the logs of controller and gateway, which `up` writes to the home."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from reconciler.errors import Refused

from .merge import LineReader, Wanted
from .printer import Printer

LOOK_SECONDS = 0.25


def print_file(path: Path, wanted: Wanted, how: dict[str, Any], show: Printer) -> None:
    """Print a log, or the one before it, and follow it if requested. Raises ``Refused``."""
    source = path.stem
    if how["previous"]:
        path = path.with_name(f"{path.name}.1")
    if not path.exists():
        writes = "a log is rotated only once it has grown" if how["previous"] else "`up` writes it"
        raise Refused("NotFound", f"there is no {path}; {writes}")
    lines = LineReader(source)
    with path.open(encoding="utf-8", errors="replace") as stream:
        found = lines.feed(stream.read())
        at = stream.tell()
    show(wanted.of(found if how["follow"] else [*found, *lines.end()]))
    if how["follow"]:
        for text in _growing(path, at):
            show(lines.feed(text))


def _growing(path: Path, at: int) -> Iterator[str]:
    """Yield the text that is appended to a file, or to the file that replaces it."""
    while True:
        with path.open(encoding="utf-8", errors="replace") as stream:
            stream.seek(at)
            while True:
                replaced = _replaced(path, stream)
                if text := stream.read():
                    yield text
                elif replaced:
                    break
                time.sleep(LOOK_SECONDS)
        at = 0


def _replaced(path: Path, stream: TextIO) -> bool:
    """Return whether the log was rotated: replaced by another file, or truncated while its process writes on."""
    try:
        there = path.stat()
    except FileNotFoundError:  # the old file was moved and the new one has no line yet
        return False
    return not os.path.samestat(there, os.fstat(stream.fileno())) or there.st_size < stream.tell()
