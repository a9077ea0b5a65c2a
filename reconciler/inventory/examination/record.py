"""The file of an examination as a value.

::

    reconciler examination 1
    at: 2026-11-24T08:40:00Z
    system: Darwin 25.3.0 arm64
    reached: ssh
    terminal:

    probe: RDMA
    command: rdma_ctl status
    ending: ended
    status: 0
    out|enabled

``out|`` and ``err|`` begin lines of the tool's output. ``out: its last line is not ended`` means that its last line
break is missing. A probe that is left out has ``why``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.errors import Invalid
from reconciler.inventory.probes.probe import Probe, Unknown
from reconciler.inventory.probes.table import Readings
from reconciler.wire.tools import Ending, ToolSaid

from .probing import RUN

VERSION = 1
HEAD = "reconciler examination "
UNENDED = "its last line is not ended"
_LEFT_OUT = "left out"
_ENDINGS = (Ending.ENDED, Ending.ABSENT, Ending.LATE, Ending.ENDLESS, _LEFT_OUT)


@dataclass(frozen=True, slots=True)
class Record:
    """The output of one machine's tools, by the names of probes."""

    at: str
    """The time in UTC, by the machine's clock."""
    system: str
    """``uname -s -r -m``."""
    over_ssh: bool
    terminal: str
    said: Mapping[str, ToolSaid]
    left_out: Mapping[str, str]
    """The reason that a probe was left out."""

    def readings(self) -> Readings:
        known: dict[str, Probe[object]] = {probe.name: probe for probe in RUN}
        read = {name: known[name].read(said) for name, said in self.said.items() if name in known}
        return Readings(
            {**read, **{name: Unknown(f"left out: {why}") for name, why in self.left_out.items()}}
        )


def parse(text: str, file: str) -> Record:
    """Parse a file. Raises ``Invalid`` with the line if it is damaged or no such file."""
    return _Parser(file).parse(text)


class _Parser:
    def __init__(self, file: str) -> None:
        self._file = file
        self._head: dict[str, str] = {}
        self._fields: list[dict[str, str]] = []
        self._printed: list[dict[str, list[str]]] = []

    def parse(self, text: str) -> Record:
        first, *lines = text.split("\n")
        self._check_version(first.rstrip("\r"))
        for number, line in enumerate(lines, 2):
            if not self._take(line):
                raise Invalid(
                    f"{self._file}:{number}: expected KEY: VALUE, out|LINE or err|LINE, got {line[:60]!r}"
                )
        said, left_out = {}, {}
        for fields, printed in zip(self._fields, self._printed, strict=True):
            name, ending = fields["probe"], fields.get("ending", "")
            if ending not in _ENDINGS:
                raise Invalid(
                    f"{self._file}: probe {name}: expected an ending of {', '.join(_ENDINGS)}, got {ending!r}"
                )
            if ending == _LEFT_OUT:
                left_out[name] = fields.get("why", "")
            else:
                said[name] = self._said(fields, printed)
        head = self._head
        return Record(
            head.get("at", ""),
            head.get("system", ""),
            head.get("reached") == "ssh",
            head.get("terminal", ""),
            said,
            left_out,
        )

    def _check_version(self, line: str) -> None:
        if not line.startswith(HEAD):
            raise Invalid(
                f"{self._file}:1: expected {HEAD}{VERSION}, got {line[:60]!r}; this is no file of an examination, which"
                " `reconciler node examine HOST` or its script writes"
            )
        if line != f"{HEAD}{VERSION}":
            raise Invalid(
                f"{self._file}:1: its version is {line.removeprefix(HEAD)[:20]!r}, expected {VERSION}"
            )

    def _take(self, line: str) -> bool:
        """Take a line; return whether it belongs to the record."""
        stream, bar, printed = line.partition("|")
        if bar and stream in ("out", "err") and self._fields:
            self._printed[-1].setdefault(stream, []).append(printed)
            return True
        key, colon, value = line.rstrip("\r").partition(":")
        if not line.strip():
            return True
        if not colon or not key.isalpha():
            return False
        if key == "probe":
            self._fields.append({})
            self._printed.append({})
        (self._fields[-1] if self._fields else self._head)[key] = value.strip()
        return True

    def _said(self, fields: dict[str, str], printed: dict[str, list[str]]) -> ToolSaid:
        status = fields.get("status", "")
        texts = {
            stream: "\n".join(lines) + ("" if fields.get(stream) == UNENDED else "\n")
            for stream, lines in printed.items()
        }
        code = int(status) if status.isdigit() else None
        return ToolSaid(fields["ending"], code, texts.get("out", ""), texts.get("err", ""))
