"""`approve`: apply a revision that is held because it removes much; and the note about it."""

from __future__ import annotations

import getpass
from typing import Any

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import ask
from reconciler.cli.core.commits import REMOVED_SHOWN, WritingCommand
from reconciler.cli.core.operations import (
    Change,
    HowLong,
    Now,
    operate,
    operation_options,
    present_operations,
    results,
)
from reconciler.cli.core.waiting import until_read
from reconciler.cli.output.form import print_body
from reconciler.errors import Refused, few_names
from reconciler.wire.admin import Approve, ShowStatus

PREFIX_CHARACTERS_MIN = 4


@click.command(cls=WritingCommand)
@click.argument("revision")
@operation_options(ends=False)
@click.pass_obj
def approve(settings: Settings, revision: str, how: HowLong) -> None:
    """Apply a revision that is held because it would remove much.

    REVISION is the id that `reconciler plan` shows, or its beginning. There is no further question, and
    approving twice changes nothing. A newer commit that removes more is held again.

    \b
    Examples:
      reconciler approve 1f0c2a9b3d
      reconciler approve 1f0c2a9b3d --reason "the old rack is gone"
    """
    status = ask(settings.socket, ShowStatus())
    if not status["source"].startswith("git "):  # a folder has no branch for operations
        _print(how, ask(settings.socket, Approve(revision, getpass.getuser())))
        return
    body = _wanted(settings, status, revision)

    def decide(now: Now) -> Change:
        key = ("Revision", body["revision"])
        operation = now.operation("approve", key, over=status["revision"])
        body["again"] = body["again"] or now.asked(operation)
        made = {} if body["again"] else {operation.metadata.name: operation}
        return Change("Approve", results((key,), (key,) if made else ()), made)

    landed = operate(settings, how, decide)
    if not how.dry:
        until_read(settings, how, landed)
    _print(how, body)


def _wanted(settings: Settings, status: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return the revision that ``prefix`` means, with what it removes. Raises ``Refused`` if it is not held."""
    held = status["held"]
    if held and len(prefix) >= PREFIX_CHARACTERS_MIN and held["revision"].startswith(prefix):
        return {"revision": held["revision"], "removes": held["removes"], "again": False}
    in_force = status["revision"]
    if len(prefix) >= PREFIX_CHARACTERS_MIN and in_force.startswith(prefix):
        approved = f"approve.revision.{in_force}"
        if approved in present_operations(settings):
            return {"revision": in_force, "removes": [], "again": True}
    if held is None:
        raise Refused(
            "NotHeld",
            f"no revision is held, and no approved revision in force begins with {prefix!r}; see: reconciler plan",
        )
    raise Refused(
        "NotHeld",
        f"expected the held revision, with at least {PREFIX_CHARACTERS_MIN} characters, got {prefix!r}:"
        f" {held['command']}",
    )


def _print(how: HowLong, body: dict[str, Any]) -> None:
    if how.output in ("json", "yaml"):
        print_body(body, how.output)
        return
    if how.output == "name":
        click.echo(f"revision/{body['revision']}")
    elif body["again"]:
        click.echo(f"revision {body['revision']} was already approved")
    else:
        removed = few_names(body["removes"], REMOVED_SHOWN)
        click.echo(f"revision {body['revision']} approved{how.suffix}; it removes {removed}")


def warn_if_held(body: dict[str, Any]) -> None:
    """Print to standard error that a newer revision is not in force, and why."""
    held, rejection = body.get("held"), body.get("rejection")
    if held:
        click.echo(f"note: {held['text']}", err=True)
    for kept_out in filter(None, (body.get("suspended"), body.get("heldChanges"))):
        click.echo(f"note: {kept_out['text']}", err=True)
    if rejection:
        click.echo(f"note: the newest revision is not in force: {rejection}", err=True)
