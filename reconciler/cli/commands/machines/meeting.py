"""The first contact with a machine over SSH: its host key is shown before anybody logs in."""

from __future__ import annotations

import asyncio
from typing import Any

import click


def presented(host: str, port: int | None) -> Any:
    """Return the host key of a server, after showing its fingerprint. Raises ``Silent``."""
    from reconciler.remote.nodes import introduction

    found = asyncio.run(introduction.host_key(host, port))
    click.echo(f"{host} has the host key {found.fingerprint}", err=True)
    click.echo("compare it on the machine: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub", err=True)
    return found


def ssh_fields(words: str, user: str | None, port: int | None, found: Any) -> dict[str, Any]:
    """Return the fields of ``spec.ssh`` for ``[USER@]HOST`` with this host key."""
    from reconciler.remote.nodes import introduction

    own, _, host = words.rpartition("@")
    return {
        "host": host,
        **({"port": port} if port else {}),
        "user": user or own or introduction.current_user(),
        "hostKey": found.line,
    }
