"""`delete`: remove objects from the manifests, and wait until they are gone."""

from __future__ import annotations

from collections.abc import Collection
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
    write_options,
)
from reconciler.cli.core.targets import Key, Targets, labels_of, missing_all, target_options
from reconciler.cli.core.waiting import timeout_option, unread, until_read, wait_until
from reconciler.cli.output.screen import quiet_screen
from reconciler.errors import InvalidManifests, Refused
from reconciler.wire.admin import Get
from reconciler.wire.objects import condition

PLACES_SHOWN = 3
KEPT_OUT = ("ChangesHeld", "RevisionHeld", "RevisionSuspended")
"""Reasons why a commit is there, but not in force."""


@click.command(cls=WritingCommand)
@target_options
@click.option("--ignore-not-found", is_flag=True, help="Treat missing objects as deleted.")
@click.option("--with-links", is_flag=True, help="Also remove the links of Fabrics to removed nodes.")
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
    settings: Settings,
    targets: Targets,
    how: How,
    ignore_not_found: bool,
    with_links: bool,
    wait: bool,
    timeout: float,
) -> None:
    """Delete objects by a commit that removes their manifests.

    Their groups finish their requests first. A commit that removes much at once is held until `reconciler approve`. A sync
    window or a suspension also holds commits until it ends. If the commit is held, this command says so, shows how to take
    it back, and exits with 1.

    \b
    Examples:
      reconciler delete deployment tiny
      reconciler delete deployment/tiny model/tiny --no-wait
      reconciler delete -f llama.yaml --ignore-not-found
      reconciler delete nodes -l pool=old --dry-run=server
      reconciler delete node studio-4 --with-links
    """
    missing: list[Key] = []
    kept: list[Key] = []

    def decide(files: Files) -> Any:
        from reconciler.source.editing import delete_objects, delete_with_links

        there = labels_of(files)
        chosen, missing[:] = targets.choose(there, alone=False)
        kept[:] = [key for key in there if key not in chosen]
        if with_links:
            return delete_with_links(files, chosen)
        try:
            return delete_objects(files, chosen)
        except InvalidManifests as error:
            raise _linked(error, chosen) from None

    if how.dry or (settings.repo / "HEAD").exists():
        landed = carry_out(settings, how, decide, "Delete")
        gone = [(result.kind, result.name) for result in landed.results if result.action == "deleted"]
        runs = bool(gone) and not how.dry and running(settings) is not None
        # A held commit deletes nothing, so nothing is reported as deleted.
        if runs and landed.revision is not None:
            _admitted(settings, landed.revision, gone, timeout if wait else 0.0)
        report(how, landed)
        if not gone and not targets.named and how.output is None:
            click.echo("No resources found", err=True)
        if runs and wait:
            wait_until(settings, lambda client: _remaining(client, gone), timeout, quiet_screen())
        if gone and (wait or not runs):
            until_read(settings, how, landed)
    else:
        missing[:] = targets.named
    if missing and not ignore_not_found:
        raise missing_all(missing, kept)


def _linked(error: InvalidManifests, chosen: Collection[Key]) -> Exception:
    """Return an error with the command to type if only links of Fabrics prevent a deletion; else the error itself."""
    nodes = [name for kind, name in chosen if kind == "Node"]
    if not nodes or not all(problem.path.startswith("spec.links") for problem in error.problems):
        return error
    places = ", ".join(f"{problem.file}:{problem.line}" for problem in error.problems[:PLACES_SHOWN])
    more = " and more" if len(error.problems) > PLACES_SHOWN else ""
    return Refused(
        "Linked",
        f"links of Fabrics end at {', '.join(nodes)} ({places}{more}); to remove them too:"
        f" reconciler delete {' '.join(f'{kind.lower()}/{name}' for kind, name in chosen)} --with-links",
    )


def _admitted(settings: Settings, revision: str, gone: list[Key], seconds: float) -> None:
    """Wait until the commit is in force. If something holds it, raises ``Refused`` with the command that takes it back."""
    repo = opened(settings)
    names = [f"{kind.lower()}/{name}" for kind, name in gone]
    try:
        wait_until(
            settings, lambda client: unread(client, repo, revision, about=names), seconds, quiet_screen()
        )
    except Refused as error:
        if error.code not in KEPT_OUT:
            raise
        back = "; ".join(f"reconciler rollout undo {name}" for name in names)
        text = (
            f"nothing is deleted yet: the commit {revision[:10]} is there, and comes into force as soon as it may: {error};"
            f" to take it back: {back}"
        )
        raise Refused(error.code, text) from None


def _remaining(client: Client, gone: list[Key]) -> str:
    """Return the reasons why the remaining objects are not gone yet."""
    for kind, name in gone:
        for item in client.ask(Get(kind, name))["items"]:
            return condition(item, "Reconciling")["message"] or f"{kind.lower()}/{name} is being removed"
    return ""
