"""Prints lines of logs, and the logs of controller and gateway, which `up` writes to the home."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import click

from reconciler.cli.output.form import print_body
from reconciler.cli.output.streams import shown
from reconciler.errors import Refused

from .merge import BEFORE_EVERYTHING, Line, LineReader, Wanted

LOOK_SECONDS = 0.25


class Printer:
    def __init__(self, how: dict[str, Any], several: bool) -> None:
        self._output = how["output"]
        self._follow = how["follow"]
        self._prefix = several if how["prefix"] is None else how["prefix"]
        self.nodes: dict[str, str] = {}
        self.marks: dict[str, str] = {}
        """The beginnings of the lines of sources; by default their names in brackets."""

    def __call__(self, found: Iterable[Line]) -> None:
        if self._output is None:
            for line in found:
                text = shown(line.text)
                mark = self.marks.get(line.source, f"[{line.source}] ")
                click.echo(f"{mark}{text}" if self._prefix else text)
        elif self._follow:
            for line in found:
                click.echo(json.dumps(self._item(line), ensure_ascii=False))
        else:
            print_body({"items": [self._item(line) for line in found]}, self._output)

    def _item(self, line: Line) -> dict[str, Any]:
        at = None if line.at == BEFORE_EVERYTHING else line.at.isoformat(timespec="milliseconds")
        return {"source": line.source, "node": self.nodes.get(line.source), "time": at, "line": line.text}


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
