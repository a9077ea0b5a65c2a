"""The service of launchd or systemd with which a machine keeps its agent running. Pure.

The service runs a script of the user's, ``nodes/<name>/serve``, and keeps an agent running as long as the script
exists. So a newer agent needs one written file, the end of the older agent, and only the user's rights. Only creating
the service takes an administrator.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from reconciler.service_managers.definitions import Keeper, plist, unit
from reconciler.wire.node import HeldBy

from .profile import Profile

_OTHER_THAN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")


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
