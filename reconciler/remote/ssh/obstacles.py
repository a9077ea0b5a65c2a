"""Obstacles that keep the controller out of a Mac although its SSH server answers others, each with its remedy.

A Mac whose disk is still locked after a restart (FileVault) answers SSH since macOS 26, by password only, with its
usual host key; the password unlocks the disk (``apple_ssh_and_filevault(7)``). Names under ``.local`` may not resolve
then. Local Network Privacy (Apple TN3179) fails connections of some programs with errno 65, but not those of ``ssh``.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Collection

from reconciler.errors import Barred
from reconciler.planning.diagnosis.rules import DISK_LOCKED, LOCAL_NETWORK, NO_LOCAL_NETWORK
from reconciler.remote.commands import run_locally
from reconciler.resources import SshAccess

SSH = "/usr/bin/ssh"
"""The system's own ``ssh``, which macOS lets through; another one in the search path may be kept out as well."""
SSH_SECONDS = 5
_REACHED = re.compile(r"Permission denied|Host key verification failed")


def only_passwords(methods: Collection[str]) -> bool:
    """Return whether a server admits users by password only, and not by key."""
    return "password" in methods and "publickey" not in methods


def locked(access: SshAccess, address: str, was_in: bool) -> Barred:
    """Return the error for a server that takes passwords only. ``address`` is the server's; ``was_in``: it took a key
    of ours before."""
    line = " ".join([_login(access, access.host), "and type the password of that user"])
    if access.host.endswith(".local") and address:
        line += f"; where that name is not found: {_login(access, address)}"
    text = f"{access.user}@{access.host} takes passwords only: its disk waits to be unlocked after a restart (FileVault)"
    if not was_in:
        text += "; where its disk is not locked: allow keys there (PubkeyAuthentication in sshd_config)"
    return Barred(DISK_LOCKED, f"{text}; to unlock it: {line}", line)


def _login(access: SshAccess, host: str) -> str:
    port = f"-p {access.port} " if access.port != 22 else ""
    return f"ssh {port}{access.user}@{host}"


def no_route(error: Exception) -> bool:
    """Return whether a connection failed with "No route to host" at one or all addresses."""
    number = errno.EHOSTUNREACH
    return isinstance(error, OSError) and (error.errno == number or f"[Errno {number}]" in str(error))


def private(host: str) -> Barred:
    """Return the error for a host that ``ssh`` reaches but this process does not."""
    text = f"ssh reaches {host}, but this program gets no route to it: macOS forbids it the local network (Local Network Privacy)"
    return Barred(NO_LOCAL_NETWORK, f"{text}; {LOCAL_NETWORK}", LOCAL_NETWORK)


async def ssh_reaches(host: str, port: int | None, user: str = "") -> bool:
    """Return whether the system's ``ssh`` reaches a server. It logs in nowhere, and writes no known host."""
    options = [f"ConnectTimeout={SSH_SECONDS}", "BatchMode=yes", "StrictHostKeyChecking=yes"]
    words = [word for option in (*options, "PreferredAuthentications=none") for word in ("-o", option)]
    words += ["-p", str(port)] if port else []
    words += ["-l", user] if user else []
    try:
        asked = await run_locally(SSH, *words, "--", host, "true", timeout=2 * SSH_SECONDS)
    except OSError:
        return False
    return _REACHED.search(asked.err) is not None
