"""`approve`: apply a revision that is held because it removes much; and the note about it."""

from __future__ import annotations

import getpass
from typing import Any

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import ask
from reconciler.cli.core.commits import REMOVED_SHOWN
from reconciler.cli.output.form import output_option, print_body
from reconciler.errors import few_names
from reconciler.wire.admin import Approve


@click.command()
@click.argument("revision")
@output_option()
@click.pass_obj
def approve(settings: Settings, revision: str, output: str | None) -> None:
    """Apply a revision that is held because it would remove much.

    REVISION is the id that `reconciler plan` shows, or its beginning. There is no further question, and
    approving twice changes nothing. A newer commit that removes more is held again.

    \b
    Example:
      reconciler approve 1f0c2a9b3d
    """
    body = ask(settings.socket, Approve(revision, getpass.getuser()))
    if output:
        print_body(body, output)
        return
    if body["again"]:
        click.echo(f"revision {body['revision']} was already approved")
        return
    click.echo(
        f"revision {body['revision']} approved; it removes {few_names(body['removes'], REMOVED_SHOWN)}"
    )


def warn_if_held(body: dict[str, Any]) -> None:
    """Print to standard error that a newer revision is not in force, and why."""
    held, rejection = body.get("held"), body.get("rejection")
    if held:
        click.echo(f"note: {held['text']}", err=True)
    if rejection:
        click.echo(f"note: the newest revision is not in force: {rejection}", err=True)
