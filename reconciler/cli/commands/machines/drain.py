"""`cordon`, `uncordon`, `drain`: keep new ranks off nodes, and move the present ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import Client
from reconciler.cli.core.commits import (
    Files,
    How,
    Landed,
    WritingCommand,
    carry_out,
    opened,
    preview,
    report,
    subject,
    write_options,
)
from reconciler.cli.core.selectors import Selector, selector_option
from reconciler.cli.core.targets import Key, Targets, labels_of, missing_all
from reconciler.cli.core.waiting import QUIET_SECONDS, timeout_option, unread, until_read, wait_until
from reconciler.cli.output.screen import Screen
from reconciler.errors import Refused, Unreachable, listing
from reconciler.wire.admin import Get

NODE = "Node"
Values = dict[tuple[str, ...], Any]
UNSCHEDULABLE, DRAIN = ("spec", "unschedulable"), ("spec", "drain")


def node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `NODE...` and `-l`, passed as ``targets``."""

    @wraps(command)
    def with_nodes(*arguments: Any, names: tuple[str, ...], selector: Selector | None, **options: Any) -> Any:
        if bool(names) == bool(selector):
            raise click.UsageError("expected NODE..., or -l SELECTOR")
        named = tuple((NODE, name.removeprefix("node/")) for name in names)
        targets = Targets(named, (NODE,) if selector else (), selector)
        return command(*arguments, targets=targets, **options)

    return click.argument("names", nargs=-1, metavar="NODE...", shell_complete=complete.nodes)(
        selector_option()(with_nodes)
    )


def _set(targets: Targets, values: Values) -> Callable[[Files], Any]:
    """Return a function that sets fields of the selected nodes. It raises ``Refused`` if one is missing."""

    def decide(files: Files) -> Any:
        from reconciler.source.editing import set_fields

        return set_fields(files, dict.fromkeys(named(targets, files), values))

    return decide


def named(targets: Targets, files: Files) -> list[Key]:
    """Return the selected nodes. Raises ``Refused`` if one is missing."""
    there = labels_of(files)
    chosen, missing = targets.choose(there)
    if missing:
        raise missing_all(missing, there)
    if not chosen:
        raise Refused("NotFound", f"no nodes are selected; {listing('nodes')}")
    return list(chosen)


def report_nodes(how: How, landed: Landed, word: str) -> None:
    """Print one line per node, as kubectl does: without the API group."""
    if how.output is not None:
        report(how, landed)
        return
    for result in landed.results:
        already = "already " if result.action == "unchanged" else ""
        click.echo(f"node/{result.name} {already}{word}{how.suffix}")


@click.command(cls=WritingCommand)
@node_options
@write_options
@click.pass_obj
def cordon(settings: Settings, targets: Targets, how: How) -> None:
    """Place no new ranks on nodes. Running ranks continue.

    \b
    Examples:
      reconciler cordon node-b
      reconciler cordon -l pool=studios --dry-run
    """
    landed = carry_out(settings, how, _set(targets, {UNSCHEDULABLE: True}), subject("Cordon"))
    report_nodes(how, landed, "cordoned")
    until_read(settings, how, landed)


@click.command(cls=WritingCommand)
@node_options
@write_options
@click.pass_obj
def uncordon(settings: Settings, targets: Targets, how: How) -> None:
    """Use cordoned or drained nodes again.

    \b
    Examples:
      reconciler uncordon node-b
      reconciler uncordon -l pool=studios
    """
    from reconciler.source.yaml.fields import REMOVED

    values: Values = {UNSCHEDULABLE: REMOVED, DRAIN: REMOVED}
    landed = carry_out(settings, how, _set(targets, values), subject("Uncordon"))
    report_nodes(how, landed, "uncordoned")
    until_read(settings, how, landed)


@click.command(cls=WritingCommand)
@node_options
@click.option("--force", is_flag=True, help="Drain even if a deployment stops being served.")
@timeout_option("10m")
@write_options
@click.pass_obj
def drain(settings: Settings, targets: Targets, how: How, force: bool, timeout: float) -> None:
    """Move all ranks off nodes, before a repair, an update or a reboot.

    Groups are formed again on other nodes, or on fewer. Groups that fit nowhere else finish their requests and
    end, which needs --force. The nodes stay drained until `reconciler uncordon`.

    \b
    Examples:
      reconciler drain node-b
      reconciler drain node-b --dry-run            show which deployments would move or stop
      reconciler drain node-b --force --timeout=2m
    """
    say = Screen(sys.stderr if how.output else None, QUIET_SECONDS)
    set_drain = _set(targets, {UNSCHEDULABLE: True, DRAIN: True})

    def decide(files: Files) -> Any:
        edit = set_drain(files)
        names = [result.name for result in edit.results]
        _agree(settings, edit.applied_to(files), names, force, say)
        return edit

    landed = carry_out(settings, how, decide, subject("Drain"))
    report_nodes(how, landed, "cordoned")
    names = [result.name for result in landed.results]
    if not how.dry:
        assert landed.revision is not None
        until_empty(settings, landed.revision, names, timeout, say)
    for name in names:
        say(f"node/{name} drained{how.suffix}")


def _agree(settings: Settings, files: Files, names: list[str], force: bool, say: Screen) -> None:
    """Say what happens to every group on these nodes. Without force, raises ``Refused`` if one has to end."""
    ending = agreed(settings, files, names, say)
    if ending and not force:
        raise Refused(
            "WouldStop",
            "cannot drain: these would stop being served:\n  "
            + "\n  ".join(ending)
            + f"\nto stop them anyway: reconciler drain {' '.join(names)} --force",
        )
    for line in ending:
        say(f"{line}; it finishes its requests and ends")


def agreed(settings: Settings, files: Files, names: list[str], say: Screen) -> list[str]:
    """Say where every group on these nodes moves. Return a line for each that has to end."""
    try:
        replicas = preview(settings, files)["replicas"]
    except Unreachable:
        say("no controller is running, so what would move is unknown")
        return []
    ending = []
    for entry in replicas:
        if not set(entry["nodes"]) & set(names):
            continue
        who = f"{entry['object']}, replica {entry['replica']}"
        if entry["moves"]:
            say(f"{who}: moves from {', '.join(entry['nodes'])} to {', '.join(entry['moves'])}")
        elif entry["ends"]:
            ending.append(f"{who}: {entry['text']}")
        else:
            say(f"{who}: {entry['text'] or 'is ending'}")
    return ending


def until_empty(settings: Settings, revision: str, names: list[str], seconds: float, say: Screen) -> None:
    """Wait until no rank is left on the nodes, but for those that only a restart of their machine ends."""
    repo = opened(settings)
    shown: set[str] = set()

    def awaited(client: Client) -> str:
        # The ranks first: the present ones may be gone by the time the commit has been read.
        left = [row for row in client.ask(Get("Rank"))["items"] if row["node"] in names]
        text = unread(client, repo, revision)
        for row in left:
            if row.get("unkillable") and row["node"] not in shown:
                shown.add(row["node"])
                say(f"SIGKILL does not end a rank on {row['node']}: only a restart of the machine does")
        left = [row for row in left if not row.get("unkillable")]
        for row in left:
            line = f"evicting rank {row['rank']} of {row['deployment']}/{row['replica']} from {row['node']}"
            if line not in shown:
                shown.add(line)
                say(line)
        return text or (
            f"{len(left)} rank{'' if len(left) == 1 else 's'} still on {', '.join(names)}" if left else ""
        )

    try:
        wait_until(settings, awaited, seconds, say)
    except Unreachable as error:
        raise Unreachable(f"{error}; the drain is committed, and begins once a controller runs") from error
