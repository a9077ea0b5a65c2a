"""`cordon`, `uncordon`, `drain`: keep new ranks off nodes, and move the present ones."""

from __future__ import annotations

from typing import Final

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import Client
from reconciler.cli.core.commits import Files, How, Landed, WritingCommand, opened, preview, report
from reconciler.cli.core.gathered import gathered
from reconciler.cli.core.operations import HowLong, operate, operation_options, present_operations, take_back
from reconciler.cli.core.selectors import Selector, selector_option
from reconciler.cli.core.targets import Key, Targets, labels_of
from reconciler.cli.core.waiting import timeout_option, unread, until_read, wait_until
from reconciler.cli.output.screen import Screen, quiet_screen
from reconciler.cli.output.typed import typed
from reconciler.errors import Refused, Unreachable, listing
from reconciler.source.operating import verbs
from reconciler.source.operating.change import Change, Decide, Now
from reconciler.wire.admin import Get

NODE: Final = "Node"


def _nodes(names: tuple[str, ...], selector: Selector | None) -> Targets:
    if bool(names) == bool(selector):
        raise click.UsageError("expected NODE..., or -l SELECTOR")
    named = tuple((NODE, name.removeprefix("node/")) for name in names)
    return Targets(named, (NODE,) if selector else (), selector)


node_options = gathered(
    "targets",
    _nodes,
    click.argument("names", nargs=-1, metavar="NODE...", shell_complete=complete.nodes),
    selector_option,
)


def _begin(verb: str, targets: Targets) -> Decide:
    """Return a function that begins an operation on the selected nodes. It raises ``Refused`` if one is missing."""

    def decide(now: Now) -> Change:
        return verbs.begin(now, verb, named(targets, now.files))

    return decide


def named(targets: Targets, files: Files) -> list[Key]:
    """Return the selected nodes. Raises ``Refused`` if one is missing."""
    chosen = targets.found_in(labels_of(files))
    if not chosen:
        raise Refused("NotFound", f"no nodes are selected; {listing('nodes')}")
    return chosen


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
@operation_options()
@click.pass_obj
def cordon(settings: Settings, targets: Targets, how: HowLong) -> None:
    """Place no new ranks on nodes. Running ranks continue.

    It is an operation, which `reconciler get operations` shows until `reconciler uncordon`.

    \b
    Examples:
      reconciler cordon node-b --reason "the fan is loud"
      reconciler cordon node-b --for 2h
      reconciler cordon -l pool=studios --dry-run
    """
    landed = operate(settings, how, _begin("cordon", targets))
    report_nodes(how, landed, "cordoned")
    until_read(settings, how, landed)


@click.command(cls=WritingCommand)
@node_options
@operation_options(ends=False)
@click.pass_obj
def uncordon(settings: Settings, targets: Targets, how: HowLong) -> None:
    """Use cordoned or drained nodes again.

    If a manifest has `unschedulable` or `drain`, a commit to main removes that too.

    \b
    Examples:
      reconciler uncordon node-b
      reconciler uncordon -l pool=studios
    """
    wished: dict[Key, verbs.Values] = {}

    def decide(now: Now) -> Change:
        keys = named(targets, now.files)
        wished.clear()
        wished.update(verbs.kept_off(now.files, keys))
        return verbs.uncordon(now, keys)

    landed = operate(settings, how, decide)
    if wished:
        take_back(settings, how, wished, "Uncordon")
    report_nodes(how, landed, "uncordoned")
    until_read(settings, how, landed)
    if "stop.cluster.main" in present_operations(settings):
        click.echo(typed("note: the cluster is stopped; to serve again: reconciler start"), err=True)


@click.command(cls=WritingCommand)
@node_options
@click.option("--force", is_flag=True, help="Drain even if a deployment stops being served.")
@timeout_option("10m")
@operation_options()
@click.pass_obj
def drain(settings: Settings, targets: Targets, how: HowLong, force: bool, timeout: float) -> None:
    """Move all ranks off nodes, before a repair, an update or a reboot.

    Groups are formed again on other nodes, or on fewer. Groups that fit nowhere else finish their requests and
    end, which needs --force. It is an operation: the nodes stay drained until `reconciler uncordon`.

    \b
    Examples:
      reconciler drain node-b --reason "new memory"
      reconciler drain node-b --dry-run            show which deployments would move or stop
      reconciler drain node-b --force --timeout=2m
    """
    say = quiet_screen(bool(how.output))
    begin = _begin("drain", targets)

    def decide(now: Now) -> Change:
        change = begin(now)
        names = [result.name for result in change.results]
        _agree(settings, now.files, now.after(change), names, force, say)
        return change

    landed = operate(settings, how, decide)
    report_nodes(how, landed, "cordoned")
    names = [result.name for result in landed.results]
    if not how.dry:
        assert landed.revision is not None
        until_empty(settings, landed.revision, names, timeout, say)
    for name in names:
        say(f"node/{name} drained{how.suffix}")


def _agree(
    settings: Settings, files: Files, operations: Files, names: list[str], force: bool, say: Screen
) -> None:
    """Say what happens to every group on these nodes. Without ``force``, raises ``Refused`` if one must end."""
    ending = agreed(settings, files, operations, names, say)
    if ending and not force:
        raise verbs.would_stop(names, ending)
    for line in ending:
        say(f"{line}; it finishes its requests and ends")


def agreed(settings: Settings, files: Files, operations: Files, names: list[str], say: Screen) -> list[str]:
    """Say where every group on these nodes moves. Return a line for each that must end."""
    try:
        replicas = preview(settings, files, operations)["replicas"]
    except Unreachable:
        say("no controller is running, so what would move is unknown")
        return []
    go_on, ending = verbs.moves(replicas, names)
    for line in go_on:
        say(line)
    return ending


def until_empty(settings: Settings, revision: str, names: list[str], seconds: float, say: Screen) -> None:
    """Wait until no rank is left on the nodes, except for ranks that only a restart of their machine ends."""
    repo = opened(settings)

    def awaited(client: Client) -> str:
        # The ranks first: the present ones may be gone by the time the commit has been read.
        left = [row for row in client.ask(Get("Rank"))["items"] if row["node"] in names]
        text = unread(client, repo, revision, operation=True)
        for row in left:
            if row.get("unkillable"):
                say.once(f"SIGKILL does not end a rank on {row['node']}: only a restart of the machine does")
        left = [row for row in left if not row.get("unkillable")]
        for row in left:
            say.once(
                f"evicting rank {row['rank']} of {row['deployment']}/{row['replica']} from {row['node']}"
            )
        return text or (
            f"{len(left)} rank{'' if len(left) == 1 else 's'} still on {', '.join(names)}" if left else ""
        )

    try:
        wait_until(settings, awaited, seconds, say)
    except Unreachable as error:
        raise Unreachable(f"{error}; the drain is committed, and begins once a controller runs") from error
