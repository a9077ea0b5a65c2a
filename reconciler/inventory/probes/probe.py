"""What a probe is: a command and a pure parser. What it cannot tell it says so, with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from reconciler.wire.tools import Ending, RunTool, ToolSaid

T = TypeVar("T")

_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing is known: not that it is fine, and not that it is not."""

    reason: str
    """For people."""
    hung: bool = False
    """Whether the tool did not come back."""


@dataclass(frozen=True, slots=True)
class Probe(Generic[T]):
    """One tool, and what it tells of a machine."""

    name: str
    call: RunTool
    parse: Callable[[ToolSaid], T | Unknown]
    """Of what a tool said that has ended by itself. It never raises: lenient to what it does not know, strict about
    what it believes."""
    every_seconds: float
    """How often it is asked at most, as long as nothing else has changed."""
    follows: tuple[Probe[Any], ...] = ()
    """When one of these tells something else, what this one told is old."""
    soonest_seconds: float = 0.0
    """How long it is left alone even then. The RDMA driver may hang, and every question costs it something."""

    @property
    def tool(self) -> str:
        """As people know it."""
        return self.call.argv[0].strip("{}")

    def read(self, said: ToolSaid) -> T | Unknown:
        """What it told. Never raises."""
        if said.ending == Ending.ENDED:
            return self.parse(said)
        if said.ending == Ending.ABSENT:
            return Unknown(f"there is no {self.tool} on this machine")
        if said.ending == Ending.LATE:
            return Unknown(f"{self.tool} did not end within {self.call.seconds:g} s", hung=True)
        if said.ending == Ending.STUCK:
            return Unknown(f"{self.tool} still hangs from an earlier run, and cannot be killed", hung=True)
        if said.ending == Ending.ENDLESS:
            return Unknown(f"{self.tool} printed too much")
        return Unknown(f"{self.tool} could not be run: {said.problem or said.ending}")


def complete(said: ToolSaid) -> str | Unknown:
    """What a tool said that succeeded and was not cut off in a line."""
    if said.code != 0:
        return failed(said)
    if not said.stdout.strip():
        return Unknown("it printed nothing")
    if not said.stdout.endswith("\n"):
        return Unknown("its output ends in the middle of a line")
    return said.stdout


def failed(said: ToolSaid) -> Unknown:
    """It ended with another status than it should."""
    words = f"{said.stderr}\n{said.stdout}".split("\n")
    first = next((line.strip() for line in words if line.strip()), "")
    return Unknown(f"it ended with {said.code}" + (f": {shown(first)}" if first else ""))


def shown(text: str) -> str:
    """As much of what a tool said as people need, without what a terminal would obey."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
    return plain if len(plain) <= _SHOWN else plain[: _SHOWN - 3] + "..."


def unlike(text: str, expected: str) -> Unknown:
    """It said something else than ``expected``."""
    return Unknown(f"expected {expected}, but it printed {shown(text)!r}")


def number(text: str, pattern: str) -> int | None:
    """The first group of a pattern, as a number that a machine can have; None where there is none."""
    found = re.search(pattern, text, re.MULTILINE)
    return (
        int(found[1]) if found and found[1].isascii() and found[1].isdigit() and len(found[1]) < 19 else None
    )


def keyed(text: str) -> dict[str, str]:
    """``key: value`` lines; of a key that comes twice the first counts."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        key, colon, value = line.partition(":")
        if colon:
            found.setdefault(key.strip(), value.strip())
    return found
