"""The definitions of services that keep a script of a user's running for as long as it exists. Pure.

On a Mac a service is a LaunchDaemon of the system with ``UserName``. Daemons and their children may use the local network
(Apple TN3179); what a user's session starts may not. ``ProcessType`` ``Interactive`` keeps their GPU work out of the
background. Ranks continue when an agent or `up` ends: ``AbandonProcessGroup``, and ``KillMode=process``. A rank that is
killed for lack of memory is in the unit's control group, and must not take the service along: ``OOMPolicy``.
"""

from __future__ import annotations

import plistlib
from enum import Enum
from pathlib import PurePosixPath


class Keeper(Enum):
    """A service manager that can keep a process running."""

    LAUNCHD = "launchd"
    SYSTEMD = "systemd"
    SYSTEMD_OF_USER = "systemd of the user"
    """It runs from boot on, because the user lingers."""
    NOTHING = "nothing"


def definition_path(keeper: Keeper, home: PurePosixPath, name: str) -> PurePosixPath:
    """Return the path of a service's definition; ``home`` is the user's, and ``name`` the service's."""
    match keeper:
        case Keeper.LAUNCHD:
            return PurePosixPath("/Library/LaunchDaemons") / f"{name}.plist"
        case Keeper.SYSTEMD:
            return PurePosixPath("/etc/systemd/system") / f"{name}.service"
        case Keeper.SYSTEMD_OF_USER | Keeper.NOTHING:
            return home / ".config" / "systemd" / "user" / f"{name}.service"


def plist(label: str, user: str, path: str) -> str:
    """Return a property list that keeps the script at ``path`` running; for the keys see launchd.plist(5)."""
    return plistlib.dumps(
        {
            "Label": label,
            "UserName": user,
            "ProgramArguments": ["/bin/sh", path],
            "RunAtLoad": True,
            "KeepAlive": {"PathState": {path: True}},
            "ProcessType": "Interactive",
            "AbandonProcessGroup": True,
        },
        sort_keys=False,
    ).decode("utf-8")


def unit(description: str, user: str, path: str, stop_seconds: int = 10) -> str:
    """Return a unit file that keeps the script at ``path`` running for ``user`` or, if that is empty, under the user's
    own manager. For the keys see systemd.unit(5), systemd.service(5) and systemd.kill(5)."""
    plain = path.replace("%", "%%")
    quoted = '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
    owner = f"User={user}\n" if user else ""
    return (
        f"[Unit]\nDescription={description.replace('%', '%%')}\nConditionPathExists={plain}\n"
        f"RequiresMountsFor={quoted}\nStartLimitIntervalSec=0\n\n"
        f"[Service]\n{owner}ExecStart=/bin/sh {quoted.replace('$', '$$')}\nRestart=always\nRestartSec=1\n"
        f"KillMode=process\nOOMPolicy=continue\nTimeoutStopSec={stop_seconds}\n\n"
        f"[Install]\nWantedBy={'multi-user' if user else 'default'}.target\n"
    )
