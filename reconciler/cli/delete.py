"""`delete`: remove objects from the manifests, and see them leave."""

from __future__ import annotations

import sys
from typing import Any

import click

from reconciler.wire.admin import Get

from .app import Settings
from .changing import (
    Files,
    How,
    WritingCommand,
    carry_out,
    note_not_running,
    opened,
    report,
    running,
    subject,
    write_options,
)
from .client import Client
from .screen import Screen
from .targets import Key, Targets, labels_of, missing_all, target_options
from .waiting import QUIET_SECONDS, timeout_option, unread, wait_until


@click.command(cls=WritingCommand)
@target_options
@click.option("--ignore-not-found", is_flag=True, help="What is not there counts as deleted.")
@click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Until nothing of the objects runs any more."
)
@timeout_option("5m")
@write_options
@click.pass_obj
def delete(
    settings: Settings, targets: Targets, how: How, ignore_not_found: bool, wait: bool, timeout: float
) -> None:
    """Delete objects: a commit that removes their manifests.

    What they run finishes what it has first. A commit that removes much at once is held until
    `reconciler approve`; then this says so, and exits with 1.

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
        chosen, missing[:] = targets.choose(there)
        kept[:] = [key for key in there if key not in chosen]
        return delete_objects(files, chosen)

    if how.dry or (settings.repo / "HEAD").exists():
        landed = carry_out(settings, how, decide, subject("Delete"))
        report(how, landed)
        gone = [(result.kind, result.name) for result in landed.results]
        if not gone and not targets.named and how.output is None:
            click.echo("No resources found", err=True)
        if gone and not how.dry:
            _see_off(settings, landed.revision, gone, timeout if wait else None)
    else:
        missing[:] = targets.named
    if missing and not ignore_not_found:
        raise missing_all(missing, kept)


def _see_off(settings: Settings, revision: str | None, gone: list[Key], seconds: float | None) -> None:
    """Wait until the commit is in force, and with ``seconds`` until nothing of what it deletes is left."""
    if not running(settings) or revision is None:
        note_not_running(settings)
        return
    repo = opened(settings)

    def awaited(client: Client) -> str:
        text = unread(client, repo, revision)
        return text or (_left(client, gone) if seconds is not None else "")

    wait_until(settings, awaited, seconds or 0.0, Screen(sys.stderr, QUIET_SECONDS))


def _left(client: Client, gone: list[Key]) -> str:
    """What the objects that are still there wait for."""
    for kind, name in gone:
        for item in client.ask(Get(kind, name))["items"]:
            busy = [c["message"] for c in item["status"]["conditions"] if c["type"] == "Reconciling"]
            return next(iter(busy), "") or f"{kind.lower()}/{name} is being removed"
    return ""
