"""The type of probes: a command and a pure parser. A fact that cannot be determined is unknown, with a reason."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from reconciler.wire.tools import Ending, RunTool, ToolSaid

T = TypeVar("T")
K = TypeVar("K")

_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Unknown:
    """An unknown fact: neither fine nor wrong."""

    reason: str
    """Reason, for people."""
    hung: bool = False
    """True if the tool hangs."""


@dataclass(frozen=True, slots=True)
class Probe(Generic[T]):
    """One tool, and the reading of its output."""

    name: str
    call: RunTool
    parse: Callable[[ToolSaid], T | Unknown]
    """Parser of the output of a tool that ended. It never raises: it ignores unknown output, and is strict about the
    parts that it uses."""
    every_seconds: float
    """Shortest time between two runs while nothing else changes."""
    follows: tuple[Probe[Any], ...] = ()
    """Probes whose changes outdate this one."""
    soonest_seconds: float = 0.0
    """Shortest time between two runs even then. The RDMA driver may hang, and every call has a cost."""

    @property
    def tool(self) -> str:
        """Return the tool's name for people."""
        return self.call.argv[0].strip("{}")

    def read(self, result: ToolSaid) -> T | Unknown:
        """Return the parsed result. Never raises."""
        if result.ending == Ending.ENDED:
            return self.parse(result)
        if result.ending == Ending.ABSENT:
            return Unknown(f"there is no {self.tool} on this machine")
        if result.ending == Ending.LATE:
            return Unknown(f"{self.tool} did not end within {self.call.seconds:g} s", hung=True)
        if result.ending == Ending.STUCK:
            return Unknown(f"{self.tool} still hangs from an earlier run, and cannot be killed", hung=True)
        if result.ending == Ending.ENDLESS:
            return Unknown(f"{self.tool} printed too much")
        return Unknown(f"{self.tool} could not be run: {result.problem or result.ending}")


def complete(result: ToolSaid) -> str | Unknown:
    """Return the output of a tool that succeeded, if it ends with a complete line."""
    if result.code != 0:
        return failed(result)
    if not result.stdout.strip():
        return Unknown("it printed nothing")
    if not result.stdout.endswith("\n"):
        return Unknown("its output ends in the middle of a line")
    return result.stdout


def of_complete(parse: Callable[[str], T | Unknown]) -> Callable[[ToolSaid], T | Unknown]:
    """Make a parser of ``complete`` output one of results."""

    @functools.wraps(parse)
    def parsed(result: ToolSaid) -> T | Unknown:
        text = complete(result)
        return text if isinstance(text, Unknown) else parse(text)

    return parsed


def failed(result: ToolSaid) -> Unknown:
    """Return the result for an unexpected exit status."""
    words = f"{result.stderr}\n{result.stdout}".split("\n")
    first = next((line.strip() for line in words if line.strip()), "")
    return Unknown(f"it ended with {result.code}" + (f": {shown(first)}" if first else ""))


def shown(text: str) -> str:
    """Return an excerpt of a tool's output without control characters."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
    return plain if len(plain) <= _SHOWN else plain[: _SHOWN - 3] + "..."


def unlike(text: str, expected: str) -> Unknown:
    """Return the result for output that differs from ``expected``."""
    return Unknown(f"expected {expected}, but it printed {shown(text)!r}")


def unambiguous(rows: Iterable[T], key: Callable[[T], K], unclear: Callable[[K], T]) -> tuple[T, ...]:
    """Return one row for each key, in order; ``unclear`` makes the row of a key that is listed several times, of which
    nothing else is known."""
    found: dict[K, T] = {}
    for row in rows:
        name = key(row)
        found[name] = unclear(name) if name in found else row
    return tuple(found.values())


def number(text: str, pattern: str) -> int | None:
    """Return the first group of a pattern as a number of plausible size; None without a match."""
    found = re.search(pattern, text, re.MULTILINE)
    return (
        int(found[1]) if found and found[1].isascii() and found[1].isdigit() and len(found[1]) < 19 else None
    )


def keyed(text: str) -> dict[str, str]:
    """Return ``key: value`` lines as a mapping; the first of equal keys counts."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        key, colon, value = line.partition(":")
        if colon:
            found.setdefault(key.strip(), value.strip())
    return found
