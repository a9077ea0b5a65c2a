"""`fabric`: write a manifest of the existing cabling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from reconciler.cli.core.app import Settings, SuggestingGroup
from reconciler.cli.core.client import Client
from reconciler.cli.core.commits import Files, How, carry_out, prepare
from reconciler.cli.core.confirm import to_be_committed
from reconciler.cli.core.objects import name_of
from reconciler.cli.core.waiting import finish
from reconciler.cli.output.form import print_body
from reconciler.errors import Refused
from reconciler.resources import API_VERSION, End, Link, link_between
from reconciler.wire.admin import Get
from reconciler.wire.objects import Fabric, Node, is_true

FABRIC: Final = "Fabric"
NAME = "main"


@click.group(cls=SuggestingGroup)
def fabric() -> None:
    """Write manifests of the existing cabling.

    \b
    Examples:
      reconciler fabric import
      reconciler fabric import studios --pool 10.77.0.0/16 --commit
    """


@fabric.command("import")
@click.argument("name", default=NAME)
@click.option("--pool", help="Private IPv4 network that nothing else uses; each link gets a /30 of it.")
@click.option("--commit", is_flag=True, help="Commit the manifest without asking.")
@click.option("-m", "--message", help="Commit message.")
@click.option("-o", "--output", type=click.Choice(("yaml", "json")), help="Print only the manifest.")
@click.pass_obj
def import_(
    settings: Settings, name: str, pool: str | None, commit: bool, message: str | None, output: str | None
) -> None:
    """Write a manifest of the existing Thunderbolt cables.

    NAME is the name of the Fabric, by default main; an existing one is replaced. It contains every cable that joins
    two Nodes directly, if both machines report it and no other Fabric contains it. It is committed with --commit, or
    when you confirm.

    \b
    Examples:
      reconciler fabric import
      reconciler fabric import studios --pool 10.77.0.0/16 --commit
      reconciler fabric import studios -o yaml > fabric.yaml
    """
    with Client(settings.socket) as client:
        nodes, fabrics = client.ask(Get("Node"))["items"], client.ask(Get("Fabric"))["items"]
    links = _new(cabling(nodes), fabrics, name)
    _warn_unreachable(nodes)
    if not links:
        raise Refused("NoCable", _no_cables_reason(nodes))
    from reconciler.source.yaml.documents import load
    from reconciler.source.yaml.parser import parse

    text = _text(name, links, pool)
    incoming = load({f"fabric-{name}.yaml": text.encode()}, part=True)
    if output and (root := parse("", text).root):
        print_body(root.value, output)
        return
    click.echo(text, nl=False)
    if not to_be_committed(commit):
        return

    def decide(files: Files) -> Any:
        from reconciler.source.editing import apply_documents

        return apply_documents(files, incoming)

    how = How(message=message)
    finish(settings, how, carry_out(settings, how, decide, "Import", prepare))


def cabling(nodes: Sequence[Node]) -> list[Link]:
    """Return the cables between these Nodes that both ends report, without those through docks."""
    peers = {
        End(name_of(node), port["receptacle"]): port["peer"]
        for node in nodes
        if is_true(node, "Ready")
        for port in node["status"].get("mac", {}).get("ports", ())
        if port.get("peer") and port.get("connected") is not False and not port.get("through")
    }
    ends = {str(end): end for end in peers}
    return sorted(
        {
            link_between(end, ends[there])
            for end, there in peers.items()
            if there in ends and peers[ends[there]] == str(end)
        }
    )


def _new(links: list[Link], fabrics: Sequence[Fabric], name: str) -> list[Link]:
    """Return the links whose ends no other Fabric has."""
    taken = {
        end
        for fabric in fabrics
        if name_of(fabric) != name
        for pair in fabric["spec"]["links"]
        for end in pair
    }
    return [link for link in links if taken.isdisjoint(map(str, link))]


def _warn_unreachable(nodes: Sequence[Node]) -> None:
    """Print warnings for machines whose cables are unknown."""
    for node in nodes:
        if not is_true(node, "Ready"):
            click.echo(f"warning: {name_of(node)} does not answer, so its cables are unknown", err=True)
        elif not node["status"].get("mac", {}).get("ports"):
            click.echo(f"warning: {name_of(node)} reports no Thunderbolt port", err=True)


def _no_cables_reason(nodes: Sequence[Node]) -> str:
    if len(nodes) < 2:
        return "a cable joins two Nodes; add machines with: reconciler node add HOST"
    return (
        "no cable is known that joins two Nodes and is in no other Fabric; see each machine's ports with:"
        " reconciler get nodes -o yaml"
    )


def _text(name: str, links: list[Link], pool: str | None) -> str:
    """Return the manifest as a person would write it, with a line for each cable."""
    rows = [f"apiVersion: {API_VERSION}", f"kind: {FABRIC}", "metadata:", f"  name: {name}", "spec:"]
    if pool:
        rows += ["  addressing:", f"    pool: {pool}"]
    rows += ["  links:", *(f"    - [{link.one}, {link.other}]" for link in links)]
    return "\n".join(rows) + "\n"
