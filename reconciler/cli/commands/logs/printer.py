"""Prints lines of logs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

from reconciler.cli.output.form import print_body
from reconciler.cli.output.streams import shown

from .merge import BEFORE_EVERYTHING, Line


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
