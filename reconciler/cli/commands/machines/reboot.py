"""`reboot`: restart machines one after the other. The request is an operation, which the controller carries out."""

from __future__ import annotations

from collections.abc import Mapping

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import Client, ask
from reconciler.cli.core.commits import Files, WritingCommand, opened, preview
from reconciler.cli.core.operations import HowLong, operate, operation_options
from reconciler.cli.core.targets import Targets
from reconciler.cli.core.waiting import timeout_option, unread, wait_until
from reconciler.cli.output.screen import Screen, quiet_screen
from reconciler.cli.output.typed import typed
from reconciler.errors import Refused, Unreachable
from reconciler.source.operating import verbs
from reconciler.source.operating.change import Change, Now
from reconciler.wire.admin import Get
from reconciler.wire.objects import Node, condition

from .drain import NODE, agreed, named, node_options, report_nodes

CANNOT = "CannotRestart"
GOES_ON = (
    "the restarts continue without this command: reconciler get nodes; to cancel one that has not begun:"
    " reconciler undo reboot.node.NAME"
)


@click.command(cls=WritingCommand)
@node_options
@click.option("--force", is_flag=True, help="Restart even if a deployment is not served meanwhile.")
@timeout_option("1h")
@operation_options(ends=False)
@click.pass_obj
def reboot(settings: Settings, targets: Targets, how: HowLong, force: bool, timeout: float) -> None:
    """Restart machines, one after the other, in the order of their names.

    Each is drained, restarted, and back in service before the next one: its agent answers, and every group serves
    again. Groups that fit nowhere else are not served meanwhile, which needs --force. A Mac with FileVault is refused
    unless `spec.repair.fileVault` says that somebody, or something, unlocks it.

    The request is an operation that the controller carries out. Neither Ctrl-C nor a restart of the controller stops it,
    and no machine is restarted twice.

    \b
    Examples:
      reconciler reboot studio-1
      reconciler reboot studio-1 studio-2 --dry-run    show what would move or not be served
      reconciler reboot -l pool=studios --force --timeout=2h
    """
    say = quiet_screen(bool(how.output))
    boots: dict[str, str] = {}

    def decide(now: Now) -> Change:
        chosen = named(targets, now.files)
        boots.update(_boots(settings, [name for _, name in chosen]))
        change = verbs.begin(now, "reboot", chosen, lambda key: {"boot": boots[key[1]]}, "Restart", now.at)
        _refuse(settings, now.files, now.after(change), list(boots))
        _agree(settings, now, list(boots), force, say)
        return change

    landed = operate(settings, how, decide)
    report_nodes(how, landed, "to be restarted")
    if how.dry:
        return
    assert landed.revision is not None
    try:
        _wait(settings, landed.revision, boots, timeout, say)
    except KeyboardInterrupt:
        say.clear()
        click.echo(typed(f"\n{GOES_ON}"), err=True)
        raise
    except Refused as error:
        if error.code == "Timeout":
            raise Refused("Timeout", f"{error}\n{GOES_ON}") from error
        raise
    say(f"restarted: {', '.join(boots)}")


def _boots(settings: Settings, names: list[str]) -> dict[str, str]:
    """Return each machine's boot id. Raises ``Refused`` if one does not answer, ``Unreachable`` without a controller."""
    try:
        items = {
            item["metadata"]["name"]: item["status"] for item in ask(settings.socket, Get(NODE))["items"]
        }
    except Unreachable as error:
        raise Unreachable(f"{error}; the controller restarts the machines") from error
    silent = [name for name in names if name not in items or items[name].get("agent") != "reached"]
    if silent:
        raise Refused(
            "NotReached",
            f"{', '.join(silent)} does not answer, so it cannot be restarted; see:"
            f" reconciler describe node {silent[0]}",
        )
    return {name: items[name]["bootId"] for name in names}


def _refuse(settings: Settings, files: Files, operations: Files, names: list[str]) -> None:
    """Raise ``Refused`` with the controller's reasons against restarting one of them."""
    ours = {f"{NODE.lower()}/{name}" for name in names}
    refused = preview(settings, files, operations)["plan"]["refused"]
    against = [each["text"] for each in refused if each["reason"] == CANNOT and each["object"] in ours]
    if against:
        raise Refused(CANNOT, "cannot restart:\n  " + "\n  ".join(against))


def _agree(settings: Settings, now: Now, names: list[str], force: bool, say: Screen) -> None:
    """Say what happens to every group, machine by machine. Without force, raises ``Refused`` if one is not served."""
    ending: list[tuple[str, str]] = []
    for name in names:
        drained = now.after(verbs.begin(now, "drain", [(NODE, name)], at=now.at))
        ending += [(name, line) for line in agreed(settings, now.files, drained, [name], say)]
    if ending and not force:
        raise Refused(
            "WouldStop",
            "cannot restart: these would not be served meanwhile:\n  "
            + "\n  ".join(f"without {name}: {line}" for name, line in ending)
            + f"\nto restart anyway: reconciler reboot {' '.join(names)} --force",
        )
    for name, line in ending:
        say(f"{line}; it is formed again when {name} is back")


def _wait(settings: Settings, revision: str, boots: dict[str, str], seconds: float, say: Screen) -> None:
    """Wait until every machine runs another boot and is back in service."""
    repo = opened(settings)

    def awaited(client: Client) -> str:
        if text := unread(client, repo, revision, operation=True):
            return text
        items = {item["metadata"]["name"]: item for item in client.ask(Get(NODE))["items"]}
        left = [found for name, boot in boots.items() if (found := _remaining(items, name, boot))]
        for name in boots:
            if not _remaining(items, name, boots[name]):
                say.once(f"node/{name} restarted")
        return "; ".join(left[:1]) or _unserved(client)

    wait_until(settings, awaited, seconds, say)


def _remaining(items: Mapping[str, Node], name: str, boot: str) -> str:
    """Return a machine's progress; empty once it is back. Raises ``Refused`` if it will no longer be restarted."""
    item = items.get(name)
    if item is None or item["spec"].get("rebootFrom") != boot:
        raise Refused(
            "TakenBack", f"the restart of node/{name} was cancelled: see reconciler events node/{name}"
        )
    stalled, busy = condition(item, "Stalled"), condition(item, "Reconciling")
    if stalled["status"] == "True" and stalled["reason"] == CANNOT:
        raise Refused(CANNOT, stalled["message"])
    status = item["status"]
    if status.get("bootId", boot) != boot and status.get("agent") == "reached":
        return ""
    return busy["message"] or condition(item, "Ready")["message"] or f"{name} waits for its restart"


def _unserved(client: Client) -> str:
    """Return the name of a deployment that is not served yet; empty if all are."""
    for item in client.ask(Get("ModelDeployment"))["items"]:
        busy = condition(item, "Reconciling")
        if busy["status"] == "True":
            return f"all are back; {busy['message']}"
    return ""
