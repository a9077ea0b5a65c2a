"""`plan`, `version`: show what the controller would do, and the versions."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import click

from reconciler import __version__
from reconciler.cli.commands.write.approve import warn_if_held
from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import ask
from reconciler.cli.core.commits import files_option, preview
from reconciler.cli.output.form import output_option, print_body
from reconciler.errors import Unreachable
from reconciler.wire.admin import ShowPlan, ShowStatus


@click.command()
@files_option(required=False)
@click.option(
    "--facts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With -f: plan with the facts in this file instead of those of a running cluster.",
)
@click.option("--exit-code", is_flag=True, help="Exit with 2 if there is something to do.")
@output_option()
@click.pass_obj
def plan(
    settings: Settings, paths: tuple[str, ...], facts: Path | None, exit_code: bool, output: str | None
) -> int:
    """Show what the controller would do now, what it waits for, and what it refuses.

    With -f it is shown for these manifests instead of those in force, and what they would remove. They must be the
    complete set.

    \b
    Examples:
      reconciler plan
      reconciler plan -o json
      reconciler plan -f manifests/
      reconciler plan -f manifests/ --facts .reconciler/facts.json
    """
    if facts is not None and not paths:
        raise click.UsageError("--facts needs the manifests to plan for: reconciler plan -f DIR --facts FILE")
    body = _foreseen(settings, paths, facts) if paths else ask(settings.socket, ShowPlan())
    if output:
        print_body(body, output)
    elif paths:
        _print_foreseen(body)
    else:
        _print_operations(ask(settings.socket, ShowStatus())["operationsInForce"])
        _print_plan(body)
    steps = body["plan"]["steps"] if paths else body["steps"]
    return 2 if exit_code and steps else 0


def _foreseen(settings: Settings, paths: tuple[str, ...], facts: Path | None) -> dict[str, Any]:
    from reconciler.source.files import read_paths

    from .facts import foreseen

    files = read_paths(paths, lambda: sys.stdin.buffer.read())
    return foreseen(files, facts) if facts is not None else preview(settings, files)


def _print_foreseen(body: dict[str, Any]) -> None:
    for name in body["removes"]:
        click.echo(f"- {name}")
    if body["held"]:
        click.echo(
            f"! it would be held: it removes {len(body['removes'])} of {body['of']} objects (approve needed)"
        )
    for change in body.get("changes", ()):
        click.echo(f"* {change['object']}: {change['text']}")
    if (body["removes"] or body.get("changes")) and not any(body["plan"].values()):
        return
    _print_plan(body["plan"])


def _print_operations(count: int) -> None:
    """Say by how many operations the cluster differs from what main says."""
    if count:
        what = "an operation" if count == 1 else f"{count} operations"
        click.echo(f"= cluster/main: differs from git by {what}; list them with: reconciler get operations")


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
