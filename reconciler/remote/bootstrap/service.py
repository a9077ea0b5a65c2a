"""The service of launchd or systemd with which a machine keeps its agent running. Pure.

The service runs a script of the user's, ``nodes/<name>/serve``, and keeps an agent running as long as the script
exists. So a newer agent needs one written file, the end of the older agent, and only the user's rights. Only creating
the service takes an administrator.

On a Mac it is a LaunchDaemon of the system with ``UserName``. Daemons and their children may use the local network
(Apple TN3179); an agent of a user's session may not. ``ProcessType`` ``Interactive`` keeps their GPU work out of the
background. Ranks continue when the agent ends: ``AbandonProcessGroup``, and ``KillMode=process``. A rank that is killed
for lack of memory is in the unit's control group, and must not take the agent along: ``OOMPolicy``.
"""

from __future__ import annotations

import plistlib
import re
import shlex
from collections.abc import Sequence
from enum import Enum
from pathlib import PurePosixPath

from reconciler.wire.node import HeldBy

from .profile import Profile

_OTHER_THAN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")


class Keeper(Enum):
    """A service manager that can keep an agent running."""

    LAUNCHD = "launchd"
    SYSTEMD = "systemd"
    SYSTEMD_OF_USER = "systemd of the user"
    """It runs from boot on, because the user lingers."""
    NOTHING = "nothing"


def service_name(user: str, node: str) -> str:
    """Return the service's name for launchd and systemd, which is unique for each user and node."""
    return f"reconciler-{_OTHER_THAN_NAMES.sub('-', user)}-{node}"


def node_folder(found: Profile, node: str) -> PurePosixPath:
    """Return the folder of the agent's state."""
    return found.root / "nodes" / node


def script_path(found: Profile, node: str) -> PurePosixPath:
    """Return the path of the script that the service runs."""
    return node_folder(found, node) / "serve"


def words_path(found: Profile, node: str) -> PurePosixPath:
    """Return the path of the error output of agents that the service started but that could not serve."""
    return node_folder(found, node) / "serve.log"


def definition_path(keeper: Keeper, home: PurePosixPath, name: str) -> PurePosixPath:
    """Return the path of a service's definition; ``home`` is the user's, and ``name`` the service's."""
    match keeper:
        case Keeper.LAUNCHD:
            return PurePosixPath("/Library/LaunchDaemons") / f"{name}.plist"
        case Keeper.SYSTEMD:
            return PurePosixPath("/etc/systemd/system") / f"{name}.service"
        case Keeper.SYSTEMD_OF_USER | Keeper.NOTHING:
            return home / ".config" / "systemd" / "user" / f"{name}.service"


def script(keeper: Keeper, found: Profile, node: str, serve: Sequence[str]) -> str:
    """Return the content of ``script_path``. ``serve`` is the command of the agent, without the option that says what
    holds it."""
    held_by = HeldBy.LAUNCHD if keeper is Keeper.LAUNCHD else HeldBy.SYSTEMD
    words = shlex.join([*serve, "--held-by", held_by])
    return (
        f"#!/bin/sh\n# Starts the agent of node {node}; written by reconciler, run by {service_name(found.user, node)}.\n"
        f"export HOME={shlex.quote(str(found.home))} LC_ALL=C PATH=/usr/bin:/bin:/usr/sbin:/sbin\n"
        f"exec {words} 2> {shlex.quote(str(words_path(found, node)))}\n"
    )


def definition(keeper: Keeper, found: Profile, node: str) -> str:
    """Return the content of ``definition_path``."""
    path = str(script_path(found, node))
    if keeper is Keeper.LAUNCHD:
        return plist(service_name(found.user, node), found.user, path)
    owner = found.user if keeper is Keeper.SYSTEMD else ""
    return unit(f"Agent of reconciler for node {node}", owner, path)


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
