"""Findings about the controller's own state directory, which belongs to no machine and to no class of faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reconciler.state import Memory


@dataclass(frozen=True, slots=True)
class HomeFinding:
    """A problem of the state directory, or what is left of one for a person."""

    seen: str
    means: str
    steps: str


def examine_home(memory: Memory, damaged: Iterable[str]) -> Iterator[HomeFinding]:
    """Yield what is wrong with the state directory. ``damaged``: names of the stores that were set aside."""
    if memory.unwritable:
        yield HomeFinding(
            memory.unwritable,
            "serving continues; nothing new is started, because no epoch can be written down",
            "make room, or make it writable; the rest is done by itself",
        )
    if memory.locked:
        yield HomeFinding(
            memory.locked,
            "what would be written waits, and so do new groups; all else goes on",
            "find the process with lsof, and end it if it does not end by itself",
        )
    for name in damaged:
        yield HomeFinding(
            f"the store was damaged, and is kept as {name}",
            "a new store took its place and the running groups were adopted; but the disk may be failing",
            f"check the disk of this machine (on a Mac: Disk Utility, First Aid), then delete {name}*",
        )
