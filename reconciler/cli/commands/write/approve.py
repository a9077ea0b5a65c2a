"""`approve`: apply a revision that is held because it removes much; and the note about such a revision."""

from __future__ import annotations

import getpass

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import ask
from reconciler.cli.core.commits import REMOVED_SHOWN, WritingCommand
from reconciler.cli.core.operations import HowLong, operate, operation_options, present_operations
from reconciler.cli.core.waiting import until_read
from reconciler.cli.output.form import print_body
from reconciler.cli.output.typed import typed
from reconciler.errors import few_names
from reconciler.source.operating import verbs
from reconciler.source.operating.change import Change, Now
from reconciler.wire import answers
from reconciler.wire.admin import Approve, ShowStatus


@click.command(cls=WritingCommand)
@click.argument("revision")
@operation_options(ends=False)
@click.pass_obj
def approve(settings: Settings, revision: str, how: HowLong) -> None:
    """Apply a revision that is held because it would remove much, or run a job.

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
    named, again = verbs.held(status, present_operations(settings), revision)
    held = status["held"]
    body: answers.Approved = {
        "revision": named,
        "removes": [] if again or held is None else held["removes"],
        "runs": [] if again or held is None else [job["text"] for job in held["runs"]],
        "again": again,
    }

    def decide(now: Now) -> Change:
        change = verbs.approve(now, named, status["revision"])
        body["again"] = body["again"] or not change.operations
        return change if not body["again"] else Change("", change.results)

    landed = operate(settings, how, decide)
    if not how.dry:
        until_read(settings, how, landed)
    _print(how, body)


def _print(how: HowLong, body: answers.Approved) -> None:
    if how.output in ("json", "yaml"):
        print_body(body, how.output)
        return
    if how.output == "name":
        click.echo(f"revision/{body['revision']}")
    elif body["again"]:
        click.echo(f"revision {body['revision']} was already approved")
    else:
        said = [f"it removes {few_names(body['removes'], REMOVED_SHOWN)}"] if body["removes"] else []
        # Older controllers do not say what it runs.
        said += [f"it runs {few_names(body['runs'])}"] if body.get("runs") else []
        click.echo(typed("; ".join([f"revision {body['revision']} approved{how.suffix}", *said])))


def warn_if_held(body: answers.KeptOut | None) -> None:
    """Print to standard error that a newer revision is not in force, and why; nothing if that is not known."""
    if body is None:
        return
    held, rejection = body.get("held"), body.get("rejection")
    if held:
        click.echo(typed(f"note: {held['text']}"), err=True)
    for kept_out in filter(None, (body.get("suspended"), body.get("heldChanges"))):
        click.echo(typed(f"note: {kept_out['text']}"), err=True)
    if rejection:
        click.echo(typed(f"note: the newest revision is not in force: {rejection}"), err=True)
