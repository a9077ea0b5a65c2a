"""Findings about the controller's own state directory, which belongs to no machine and to no class of faults."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reconciler.state import Memory
from reconciler.wire.supervision import Act

ACTS_SECONDS = 86_400.0
"""How long it is shown that a service gave no answer."""


@dataclass(frozen=True, slots=True)
class HomeFinding:
    """A problem of the state directory, or what is left of one for a person."""

    seen: str
    means: str
    steps: str


@dataclass(frozen=True, slots=True)
class Up:
    """`up`, as far as the controller sees it."""

    acts: tuple[Act, ...]
    """What it did to services that gave no answer."""
    stopped: int
    """Its pid, if a signal has stopped it; else 0."""
    console: str = ""
    """Why the console that runs does not listen as declared, or what is wrong with its certificate; empty for nothing."""


def examine_up(up: Up, now: float) -> Iterator[HomeFinding]:
    """Yield what is wrong with the services of the home and their supervisor."""
    if up.stopped:
        yield HomeFinding(
            f"`reconciler up` (pid {up.stopped}) is stopped",
            "nobody restarts a controller, gateway or console that dies or hangs",
            f"continue it: kill -CONT {up.stopped}, or fg in its terminal",
        )
    if up.console:
        yield HomeFinding(
            f"the console: {up.console}",
            "nobody can open the console, or browsers warn of it; the endpoint is another one",
            "end what uses the address, or change spec.console of the Gateway; it is tried again by itself",
        )
    by_service: dict[str, list[Act]] = {}
    for act in up.acts:
        if act.at > now - ACTS_SECONDS:
            by_service.setdefault(act.service, []).append(act)
    for service, found in sorted(by_service.items()):
        yield HomeFinding(
            f"{found[-1].text} ({len(found)} in the last day)",
            f"the {service} runs again; meanwhile nobody could reach it",
            f"read logs/{service}.log in the home; see whether a debugger, a full disk, a lack of memory or a limit of"
            " descriptors holds it",
        )


def examine_repository(place: str, damage: str) -> Iterator[HomeFinding]:
    """Yield what is wrong with the cluster repository at ``place``: its ``damage``, empty for none."""
    if damage:
        here, aside = shlex.quote(place), shlex.quote(f"{place}.damaged")
        yield HomeFinding(
            f"{place} is damaged: {damage}",
            "the revision in force stays; pushes, history and a restart may fail; the disk may be failing",
            f"move it away: mv {here} {aside}; create another: reconciler init; push to it from a clone:"
            f" git push {here} main (and operations, if the clone has it: git push {here}"
            " origin/operations:operations). Without a clone, restore a backup: reconciler restore --force FILE. If main is a"
            " mirror: reconciler source sync",
        )


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
