"""The commands that may run as root on a machine, and changes of its settings that undo themselves unless the controller
confirms them.

The agent runs the commands one by one, those of ``PERMITTED`` as root by ``sudo -n``. Before each command, it writes
the command that undoes it to disk. A separate process, which outlives the agent, undoes them all unless
``ConfirmRepair`` comes in time.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Sequence, Tuple

from .codec import message

PATHS = {
    "defaults": ("/usr/bin/defaults",),
    "ifconfig": ("/sbin/ifconfig",),
    "pmset": ("/usr/bin/pmset",),
    "powermetrics": ("/usr/bin/powermetrics",),
    "shutdown": ("/sbin/shutdown", "/usr/sbin/shutdown"),
    "sysctl": ("/usr/sbin/sysctl",),
}
"""Paths of each tool on a Mac; of ``shutdown``, also on Linux."""
POWER = ("powermetrics", "--samplers", "gpu_power,cpu_power,thermal", "-n", "1", "-i", "1000")
"""The probe of power and heat."""
RESTART = ("shutdown", "-r", "now")

CONFIRM_SECONDS = 60.0
"""Time within which a repair is confirmed, or undone."""
_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_INTERFACE = "en[0-9]{1,3}"
LINK_LOCAL = r"169\.254\." + _OCTET + r"\." + _OCTET
"""A regular expression for the addresses that macOS gives a port by itself."""
_OF_LINK = "(10|172|192)" + (r"\." + _OCTET) * 3
"""The same for the addresses of a Fabric's pool, which is a private network."""
PERMITTED = (
    ("ifconfig", "bridge0 (deletem|addm) " + _INTERFACE),
    ("ifconfig", _INTERFACE + " inet " + LINK_LOCAL + r" netmask 255[.]255[.]0[.]0"),
    ("ifconfig", _INTERFACE + " inet " + _OF_LINK + r" netmask 255[.]255[.]255[.]252"),
    ("ifconfig", _INTERFACE + " inet (" + LINK_LOCAL + "|" + _OF_LINK + ") delete"),
    ("sysctl", "iogpu[.]wired_limit_mb=[0-9]{1,8}"),
    ("pmset", "-a sleep [0-9]{1,5} disksleep [0-9]{1,5}"),
    (
        "defaults",
        "write /Library/Preferences/com[.]apple[.]SoftwareUpdate AutomaticallyInstallMacOSUpdates -bool (true|false)",
    ),
)
"""All commands that may repair a machine as root, or undo a repair: a tool, and a regular expression for all its arguments.
The agent takes no others. ``sudo`` allows only some of them on a machine: ``planning/nodes/root_commands.py``."""
PERMITTED_AS_USER = (
    ("touch", "{models}/[.]metadata_never_index"),
    ("unlink", "{models}/[.]metadata_never_index"),
    ("tmutil", "(addexclusion|removeexclusion) {models}"),
)
"""The same for those that need no root. The agent puts the folder of its weights in the place of ``{models}``."""


def permitted(argv: Sequence[str]) -> bool:
    """Return whether a command may be run at all; its first word is the tool's name without a folder."""
    return needs_root(argv) or _one_of(PERMITTED_AS_USER, argv)


def needs_root(argv: Sequence[str]) -> bool:
    """Return whether a command is one of ``PERMITTED``, and so is run as root."""
    return _one_of(PERMITTED, argv)


def _one_of(table: Sequence[Tuple[str, str]], argv: Sequence[str]) -> bool:
    words = " ".join(argv[1:])
    return not any(" " in word for word in argv) and any(
        tuple(argv[:1]) == (tool,) and re.fullmatch(arguments, words) is not None for tool, arguments in table
    )


@dataclasses.dataclass(frozen=True)
class Change:
    """One setting, to be changed by one command."""

    argv: Tuple[str, ...]
    """The first is the name of the tool."""
    undo: Tuple[str, ...]
    """The command that restores the previous setting."""
    lasting: bool = False
    """True if it outlasts the boot; a restart undoes all other changes."""


def addressed(changes: Sequence[Change]) -> Tuple[str, ...]:
    """Return the interfaces to which these changes give an address, each once."""
    given = (
        c.argv[1]
        for c in changes
        if c.argv[0] == "ifconfig" and c.argv[2:3] == ("inet",) and "netmask" in c.argv
    )
    return tuple(dict.fromkeys(given))


class RepairState:
    """The state of a repair."""

    RUNNING = "running"
    """Its commands are running."""
    WAITING = "waiting"
    """All commands have run, and are undone unless the repair is confirmed."""
    CONFIRMED = "confirmed"
    UNDOING = "undoing"
    UNDONE = "undone"
    """One of its commands failed, or it was not confirmed: all settings are as before."""
    LEFT = "left"
    """As ``UNDONE``, except for settings that could not be undone."""

    OVER = (CONFIRMED, UNDONE, LEFT)
    """The final states."""


@message("repair")
class Repair:
    """Make these changes, in this order, and undo them unless they are confirmed in time.

    ``Done`` comes when they are made. ``Refused``: ``Unconfirmed`` while another repair is running, ``Failed`` if a
    command failed and the changes before it were undone, ``Invalid`` for a command that is not permitted, or of
    another boot. Repeated for the running repair, it changes nothing.
    """

    token: int
    id: str
    boot_id: str
    changes: Tuple[Change, ...]
    confirm_seconds: float = CONFIRM_SECONDS
    """At most ``CONFIRM_SECONDS``."""


@message("confirm_repair")
class ConfirmRepair:
    """Keep the changes. ``Refused``: ``SameConnection`` over a connection from before the changes, because it may be
    the last one. ``NotWaiting`` where they are undone already, or there is no such repair."""

    token: int
    id: str


@dataclasses.dataclass(frozen=True)
class RepairReport:
    """The last repair that was begun on a node."""

    id: str
    boot_id: str
    """Id of the boot in which it began."""
    state: str
    """A value of ``RepairState``."""
    changes: Tuple[Change, ...] = ()
    problem: str = ""
    """Why it was undone, for people; empty if it was not."""
    tried: Tuple[str, ...] = ()
    """Ids of the repairs of this boot, including this one, that should not be tried again: those that failed or were
    not confirmed, and those that were confirmed in the last hour."""
    barred: Tuple[str, ...] = ()
    """Ids of the repairs of the last half hour in which ``sudo`` refused a command without a password."""
    broken_off: Tuple[str, ...] = ()
    """Ids of the repairs of this boot whose process vanished, which the repair itself seldom causes."""
    readdressed: Tuple[str, ...] = ()
    """Interfaces that got an address by more than one repair of this boot."""
