"""`stop` and `start`: stop serving on the cluster, and start again."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from reconciler.cli.commands.machines.drain import DRAIN, NODE, UNSCHEDULABLE, Values, until_empty
from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import Files, How, WritingCommand, carry_out, report, write_options
from reconciler.cli.core.waiting import QUIET_SECONDS, timeout_option, until_read
from reconciler.cli.output.screen import Screen
from reconciler.errors import Refused, listing
from reconciler.resources import STOPPED, Node

_MARK = ("metadata", "labels", STOPPED)
_CORDONED, _IN_USE = "cordoned", "in-use"


@click.command(cls=WritingCommand)
@timeout_option("10m")
@write_options
@click.pass_obj
def stop(settings: Settings, how: How, timeout: float) -> None:
    """Stop all ranks of the cluster, for maintenance or a move.

    One commit drains every node: groups finish their requests within 30 s, and end. No group is formed again
    until `reconciler start`, whatever restarts meanwhile. Agents, controller and gateway keep running. Returns
    when no rank is left.

    \b
    Examples:
      reconciler stop
      reconciler stop --dry-run
    """
    landed = carry_out(settings, how, _stopping, lambda _: "Stop the cluster")
    report(how, landed)
    names = [result.name for result in landed.results]
    if how.dry:
        return
    say = Screen(sys.stderr if how.output else None, QUIET_SECONDS)
    if landed.revision is not None:
        until_empty(settings, landed.revision, names, timeout, say)
    say("no rank runs any more; to serve again: reconciler start")


@click.command(cls=WritingCommand)
@write_options
@click.pass_obj
def start(settings: Settings, how: How) -> None:
    """Serve again after `reconciler stop`.

    Nodes that were cordoned or drained before the stop stay so.

    \b
    Examples:
      reconciler start
      reconciler start && reconciler wait deployments --all --for=condition=Ready
    """
    landed = carry_out(settings, how, _starting, lambda _: "Start the cluster")
    report(how, landed)
    until_read(settings, how, landed)


def _stopping(files: Files) -> Any:
    """Drain every node that is not yet drained. Raises ``Refused`` if there is no node."""
    from reconciler.source.editing import set_fields

    nodes = _nodes(files)
    if not nodes:
        raise Refused("NotFound", f"there are no nodes to stop; {listing('all')}")
    wanted: dict[tuple[str, str], Values] = {
        (NODE, name): {}
        if node.spec.drain
        else {
            UNSCHEDULABLE: True,
            DRAIN: True,
            _MARK: _CORDONED if node.spec.unschedulable else _IN_USE,
        }
        for name, node in nodes.items()
    }
    return set_fields(files, wanted)


def _starting(files: Files) -> Any:
    """Undo ``_stopping``. Raises ``Refused`` if it drained no node."""
    from reconciler.source.editing import set_fields
    from reconciler.source.yaml.fields import REMOVED

    stopped = {name: node for name, node in _nodes(files).items() if STOPPED in node.metadata.labels}
    if not stopped:
        raise Refused(
            "NotStopped",
            "no node was drained by reconciler stop; to use single nodes again: reconciler uncordon NODE...",
        )
    wanted: dict[tuple[str, str], Values] = {}
    for name, node in stopped.items():
        values: Values = {DRAIN: REMOVED, _MARK: REMOVED}
        if node.metadata.labels[STOPPED] != _CORDONED:
            values[UNSCHEDULABLE] = REMOVED
        wanted[NODE, name] = values
    return set_fields(files, wanted)


def _nodes(files: Mapping[str, bytes]) -> dict[str, Node]:
    from reconciler.source.yaml.documents import load

    manifests = (document.manifest for document in load(files))
    return {each.metadata.name: each for each in manifests if isinstance(each, Node)}
