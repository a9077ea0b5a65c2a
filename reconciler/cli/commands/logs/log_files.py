"""The logs of controller and gateway, which `up` writes in the home."""

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
    """Print a log, or the one before it; and go on where that was asked for. Raises ``Refused``."""
    source = path.stem
    if how["previous"]:
        path = path.with_name(f"{path.name}.1")
    if not path.exists():
        writes = "older lines are kept only once a log has grown" if how["previous"] else "`up` writes it"
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
    """What is appended to a file, also to the one that takes its place."""
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
    """Whether the log begins anew: as another file, or cut to nothing while its process writes on."""
    try:
        there = path.stat()
    except FileNotFoundError:  # between the move of the old one and the first line of the new one
        return False
    return not os.path.samestat(there, os.fstat(stream.fileno())) or there.st_size < stream.tell()
