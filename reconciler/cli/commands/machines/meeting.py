"""The first contact with a machine over SSH: its host key is shown before anybody logs in."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from reconciler.cli.core.confirm import agreed


def presented(host: str, port: int | None) -> Any:
    """Return the host key of a server, after showing its fingerprint. Raises ``Silent``."""
    from reconciler.remote.nodes import introduction

    found = asyncio.run(introduction.host_key(host, port))
    click.echo(f"{host} has the host key {found.fingerprint}", err=True)
    click.echo("compare it on the machine: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub", err=True)
    return found


def met(words: str, options: dict[str, Any], purpose: str) -> tuple[dict[str, Any], bool]:
    """Return the fields of ``spec.ssh`` for ``[USER@]HOST``, after showing its host key, and whether to log in there."""
    from reconciler.remote.nodes import introduction

    own, _, host = words.rpartition("@")
    port = options["port"]
    found = presented(host, port)
    ssh = {
        "host": host,
        **({"port": port} if port else {}),
        "user": options["user"] or own or introduction.current_user(),
        "hostKey": found.line,
    }
    question = f"is this the machine's own key, and should {ssh['user']} log in to {purpose} it?"
    return ssh, options["yes"] or agreed(question)
