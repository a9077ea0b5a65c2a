"""`delete`: remove objects from the manifests, and wait until they are gone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import Client
from reconciler.cli.core.commits import (
    Files,
    How,
    WritingCommand,
    carry_out,
    opened,
    report,
    running,
    subject,
    write_options,
)
from reconciler.cli.core.targets import Key, Targets, labels_of, missing_all, target_options
from reconciler.cli.core.waiting import QUIET_SECONDS, timeout_option, unread, until_read, wait_until
from reconciler.cli.output.screen import Screen
from reconciler.wire.admin import Get


@click.command(cls=WritingCommand)
@target_options
@click.option("--ignore-not-found", is_flag=True, help="Treat missing objects as deleted.")
@click.option(
    "--wait/--no-wait",
    default=True,
    show_default=True,
    help="Wait until nothing of the objects runs any more.",
)
@timeout_option("5m")
@write_options
@click.pass_obj
def delete(
    settings: Settings, targets: Targets, how: How, ignore_not_found: bool, wait: bool, timeout: float
) -> None:
    """Delete objects by a commit that removes their manifests.

    Their groups finish their requests first. A commit that removes much at once is held until
    `reconciler approve`; then this command says so, and exits with 1.

    \b
    Examples:
      reconciler delete deployment tiny
      reconciler delete deployment/tiny model/tiny --no-wait
      reconciler delete -f llama.yaml --ignore-not-found
      reconciler delete nodes -l pool=old --dry-run=server
    """
    missing: list[Key] = []
    kept: list[Key] = []

    def decide(files: Files) -> Any:
        from reconciler.source.editing import delete_objects

        there = labels_of(files)
        chosen, missing[:] = targets.choose(there, alone=False)
        kept[:] = [key for key in there if key not in chosen]
        return delete_objects(files, chosen)

    if how.dry or (settings.repo / "HEAD").exists():
        landed = carry_out(settings, how, decide, subject("Delete"))
        gone = [(result.kind, result.name) for result in landed.results]
        runs = bool(gone) and not how.dry and running(settings) is not None
        if (
            runs and landed.revision is not None
        ):  # a held commit deletes nothing, so nothing is reported as deleted
            _until(settings, _in_force(settings, landed.revision), timeout if wait else 0.0)
        report(how, landed)
        if not gone and not targets.named and how.output is None:
            click.echo("No resources found", err=True)
        if runs and wait:
            _until(settings, lambda client: _remaining(client, gone), timeout)
        elif gone and not how.dry and not runs:
            until_read(settings, how, landed)
    else:
        missing[:] = targets.named
    if missing and not ignore_not_found:
        raise missing_all(missing, kept)


def _until(settings: Settings, awaited: Callable[[Client], str], seconds: float) -> None:
    wait_until(settings, awaited, seconds, Screen(sys.stderr, QUIET_SECONDS))


def _in_force(settings: Settings, revision: str) -> Callable[[Client], str]:
    repo = opened(settings)
    return lambda client: unread(client, repo, revision)


def _remaining(client: Client, gone: list[Key]) -> str:
    """Return what the remaining objects wait for."""
    for kind, name in gone:
        for item in client.ask(Get(kind, name))["items"]:
            busy = [c["message"] for c in item["status"]["conditions"] if c["type"] == "Reconciling"]
            return next(iter(busy), "") or f"{kind.lower()}/{name} is being removed"
    return ""
