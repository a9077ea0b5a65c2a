"""`node firewall`: print the firewall rules of a machine."""

from __future__ import annotations

import getpass

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import ask
from reconciler.cli.core.complete import nodes
from reconciler.cli.output.form import output_option, print_body
from reconciler.errors import Refused
from reconciler.wire.admin import ShowProtection


@click.command()
@click.argument("name", shell_complete=nodes)
@output_option()
@click.pass_obj
def firewall(settings: Settings, name: str, output: str | None) -> None:
    """Print firewall rules for Node NAME.

    The rules let the machines of the cluster connect to the ranks there, over the cables of the Fabrics and over the
    network that joins the nodes, and refuse everybody else. SSH stays open. They are for pf on a Mac, and for nftables on
    Linux. The first lines say how to check, load and undo them. Print them again after a change of nodes or cables.

    \b
    Examples:
      reconciler node firewall studio-1
      reconciler node firewall studio-1 > reconciler.rules
    """
    body = ask(settings.socket, ShowProtection(name, getpass.getuser()))
    found = body["firewall"]
    if output:
        print_body({"node": name, "system": body["system"], **found}, output)
        return
    if not found["rules"]:
        raise Refused("NoRules", f"there are no rules for {body['system']}, the system of {name}")
    if found["unknown"]:
        raise Refused(
            "NotKnown", f"the rules would shut out machines of the cluster: {'; '.join(found['unknown'])}"
        )
    click.echo(found["rules"], nl=False)
