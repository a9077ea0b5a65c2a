"""`stop` and `start`: stop serving on the cluster, and start again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from reconciler.cli.commands.machines.drain import NODE, until_empty
from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import WritingCommand, report
from reconciler.cli.core.operations import HowLong, operate, operation_options, take_back
from reconciler.cli.core.waiting import finish, timeout_option
from reconciler.cli.output.screen import quiet_screen
from reconciler.errors import Refused, listing
from reconciler.resources import STOPPED
from reconciler.source.operating import verbs
from reconciler.source.operating.change import Change, Now, results
from reconciler.source.operating.verbs import DRAIN, UNSCHEDULABLE, Values

if TYPE_CHECKING:
    from reconciler.resources import Node

NAME = "stop.cluster.main"
_MARK = ("metadata", "labels", STOPPED)
_CORDONED = "cordoned"


@click.command(cls=WritingCommand)
@timeout_option("10m")
@operation_options()
@click.pass_obj
def stop(settings: Settings, how: HowLong, timeout: float) -> None:
    """Stop all ranks of the cluster, for maintenance or a move.

    One operation drains every node: groups finish their requests within 30 s, and end. No group is formed again
    until `reconciler start`, even if something restarts meanwhile. Agents, controller and gateway keep running.
    Returns when no rank is left.

    \b
    Examples:
      reconciler stop --reason "the rack moves"
      reconciler stop --for 1h
      reconciler stop --dry-run
    """
    landed = operate(settings, how, _stopping)
    report(how, landed)
    names = [result.name for result in landed.results]
    if how.dry:
        return
    say = quiet_screen(bool(how.output))
    if landed.revision is not None:
        until_empty(settings, landed.revision, names, timeout, say)
    say("no rank runs any more; to serve again: reconciler start")


@click.command(cls=WritingCommand)
@operation_options(ends=False)
@click.pass_obj
def start(settings: Settings, how: HowLong) -> None:
    """Serve again after `reconciler stop`.

    Nodes that were cordoned or drained before the stop stay so.

    \b
    Examples:
      reconciler start
      reconciler start && reconciler wait deployments --all --for=condition=Ready
    """
    marked: dict[tuple[str, str], Values] = {}

    def decide(now: Now) -> Change:
        nodes = _nodes(now.files)
        marked.clear()
        marked.update(_marked(nodes))
        if NAME not in now.operations and not marked:
            raise Refused(
                "NotStopped",
                "no node was drained by reconciler stop; to use single nodes again: reconciler uncordon NODE...",
            )
        keys = [(NODE, name) for name in nodes]
        undone = dict.fromkeys({NAME} & now.operations.keys())
        return Change("Start the cluster:", results(keys, keys if undone else marked), undone)

    landed = operate(settings, how, decide)
    if marked:
        take_back(settings, how, marked, "Start")
    finish(settings, how, landed)


def _stopping(now: Now) -> Change:
    """Stop the cluster. Raises ``Refused`` if there is no node."""
    nodes = _nodes(now.files)
    if not nodes:
        raise Refused("NotFound", f"there are no nodes to stop; {listing('all')}")
    change = verbs.begin(now, "stop", [verbs.CLUSTER], title="Stop the cluster:")
    keys = [(NODE, name) for name in nodes]
    drained = [key for key in keys if change.operations and not nodes[key[1]].spec.drain]
    return replace(change, results=results(keys, drained))


def _marked(nodes: Mapping[str, Node]) -> dict[tuple[str, str], Values]:
    """Return the fields to take back in manifests of nodes: earlier versions wrote a stop there."""
    from reconciler.source.yaml.fields import REMOVED

    wanted: dict[tuple[str, str], Values] = {}
    for name, node in nodes.items():
        if STOPPED in node.metadata.labels:
            values: Values = {DRAIN: REMOVED, _MARK: REMOVED}
            if node.metadata.labels[STOPPED] != _CORDONED:
                values[UNSCHEDULABLE] = REMOVED
            wanted[NODE, name] = values
    return wanted


def _nodes(files: Mapping[str, bytes]) -> dict[str, Node]:
    from reconciler.resources import Node
    from reconciler.source.yaml.documents import all_of

    return all_of(files, Node)
