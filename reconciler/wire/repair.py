"""Changing a setting of a machine, so that the change undoes itself unless whoever asked for it comes back.

The agent runs the commands one by one, as root by ``sudo -n``. Before each of them it is on disk how that one is undone,
and a process of its own, which outlives the agent, undoes them all where no ``ConfirmRepair`` comes in time.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Sequence, Tuple

from .codec import message

CONFIRM_SECONDS = 60.0
"""Within which a repair is confirmed, or undone."""
_ADDRESS = "[0-9.]{7,15}"
PERMITTED = (
    ("/sbin/ifconfig", r"bridge0 (deletem|addm) en[0-9]{1,3}"),
    (
        "/sbin/ifconfig",
        "en[0-9]{1,3} inet " + _ADDRESS + r" netmask (255[.]255[.]0[.]0|255[.]255[.]255[.]252)",
    ),
    ("/sbin/ifconfig", "en[0-9]{1,3} inet " + _ADDRESS + " delete"),
    ("/usr/sbin/sysctl", "iogpu[.]wired_limit_mb=[0-9]{1,8}"),
    ("/usr/bin/pmset", "-a sleep [0-9]{1,5} disksleep [0-9]{1,5}"),
)
"""All that is ever run to repair a machine, or to undo that: a tool where macOS has it, and its arguments as a regular
expression that they match as a whole."""


def permitted(argv: Sequence[str]) -> bool:
    """Whether a command is one of ``PERMITTED``; its first word is the name of the tool, without a folder."""
    words = " ".join(argv[1:])
    return not any(" " in word for word in argv) and any(
        argv[:1] == (path.rpartition("/")[2],) and re.fullmatch(arguments, words)
        for path, arguments in PERMITTED
    )


@dataclasses.dataclass(frozen=True)
class Change:
    """One setting, to be changed by one command."""

    argv: Tuple[str, ...]
    """The first is the name of the tool."""
    undo: Tuple[str, ...]
    """The command that has it as it was before."""
    lasting: bool = False
    """Whether it outlasts the boot: all others are gone with that by themselves."""


class RepairState:
    """How it stands with a repair."""

    RUNNING = "running"
    """Its commands are being run."""
    WAITING = "waiting"
    """All are done, and are undone unless that is confirmed."""
    CONFIRMED = "confirmed"
    UNDOING = "undoing"
    UNDONE = "undone"
    """One of its commands failed, or nobody has confirmed it: all is as before."""
    LEFT = "left"
    """As before, but for what could not be undone."""

    OVER = (CONFIRMED, UNDONE, LEFT)
    """Nothing goes on any more."""


@message("repair")
@dataclasses.dataclass(frozen=True)
class Repair:
    """Make these changes, in this order, and undo them unless that is confirmed in time.

    ``Done`` comes when they are made. ``Refused``: ``Unconfirmed`` while another repair goes on, ``Failed`` where a
    command failed and what was done before it is undone, ``Invalid`` for a command that is not permitted, or of
    another boot. Asked again for the repair that goes on, it changes nothing.
    """

    token: int
    id: str
    boot_id: str
    changes: Tuple[Change, ...]
    confirm_seconds: float = CONFIRM_SECONDS
    """At most ``CONFIRM_SECONDS``."""


@message("confirm_repair")
@dataclasses.dataclass(frozen=True)
class ConfirmRepair:
    """Keep the changes. ``Refused``: ``SameConnection`` over one that was there before they were made, for it may be
    the last; ``NotWaiting`` where they are undone already, or there is no such repair."""

    token: int
    id: str


@dataclasses.dataclass(frozen=True)
class RepairReport:
    """The last repair that was begun on a node."""

    id: str
    boot_id: str
    """Of the boot in which it was begun."""
    state: str
    """A value of ``RepairState``."""
    changes: Tuple[Change, ...] = ()
    problem: str = ""
    """Why it was undone, for people; empty where it was not."""
    tried: Tuple[str, ...] = ()
    """The ids of the repairs of this boot, this one too, that speak against trying the same again: those that failed or
    were not confirmed, and those confirmed of the last hour."""
    barred: Tuple[str, ...] = ()
    """The ids of those of the last half an hour of which ``sudo`` did not allow a command without a password."""
    broken_off: Tuple[str, ...] = ()
    """The ids of those of this boot whose process went away: that is seldom their own doing."""
