"""`plan`, `version`: show what the controller would do, and the versions."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from reconciler import __version__
from reconciler.cli.commands.write.approve import warn_if_held
from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import ask
from reconciler.cli.output.form import output_option, print_body
from reconciler.errors import Unreachable
from reconciler.wire.admin import ShowPlan, ShowStatus


@click.command()
@click.option("--exit-code", is_flag=True, help="Exit with 2 if there is something to do.")
@output_option()
@click.pass_obj
def plan(settings: Settings, exit_code: bool, output: str | None) -> int:
    """Show what the controller would do now, what it waits for, and what it refuses.

    \b
    Examples:
      reconciler plan
      reconciler plan -o json
    """
    body = ask(settings.socket, ShowPlan())
    if output:
        print_body(body, output)
    else:
        _print_plan(body)
    return 2 if exit_code and body["steps"] else 0


def _print_plan(body: dict[str, Any]) -> None:
    for step in body["steps"]:
        click.echo(f"+ {step['object']}: {step['text']}")
    for waiting in body["waiting"]:
        until = f" until {waiting['until']}" if waiting.get("until") else ""
        click.echo(f"~ {waiting['object']}: {waiting['text']} ({waiting['reason']}{until})")
    for refused in body["refused"]:
        click.echo(f"! {refused['object']}: {refused['text']} ({refused['reason']})")
    if not any(body.values()):
        click.echo("nothing to do")


@click.command()
@output_option()
@click.pass_obj
def version(settings: Settings, output: str | None) -> None:
    """Print the versions of this command and of the running controller.

    \b
    Example:
      reconciler version -o json
    """
    status: dict[str, Any] = {}
    with contextlib.suppress(Unreachable):
        status = ask(settings.socket, ShowStatus())
    body = {
        "client": __version__,
        "python": sys.version.split()[0],
        "controller": status.get("version"),
        "revision": status.get("revision"),
        "held": status.get("held"),
    }
    warn_if_held(status)
    if output:
        print_body(body, output)
        return
    click.echo(f"reconciler {body['client']} (Python {body['python']})")
    click.echo(f"controller {body['controller'] or 'is not running'}")
