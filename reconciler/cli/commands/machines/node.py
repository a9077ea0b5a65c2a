"""`node`: examine and add machines, install or remove the service of their agents, and protect them."""

from __future__ import annotations

import asyncio
import getpass
import re
from typing import Any

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings, SuggestingGroup
from reconciler.cli.core.client import ask
from reconciler.cli.core.commits import Files, How, carry_out, nodes_of, prepare
from reconciler.cli.core.confirm import agreed, to_be_committed
from reconciler.cli.core.waiting import finish
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.table_layout import size
from reconciler.cli.output.typed import typed
from reconciler.errors import Invalid, Refused, Unreachable
from reconciler.wire.admin import ShowProtection

from .bootstrap import bootstrap, reset
from .examine import examine, met, presented

NODE = "Node"
HOST_KEY = ("spec", "ssh", "hostKey")
_NO_NAME = re.compile(r"[^a-z0-9]+")


@click.group(cls=SuggestingGroup)
def node() -> None:
    """Examine and add machines, install or remove the service of their agents, and protect them.

    \b
    Examples:
      reconciler node examine studio-1.local
      reconciler node add studio-1.local --user cluster
      reconciler node add --again studio-1
      reconciler node bootstrap studio-1
      reconciler node firewall studio-1
      reconciler node reset studio-1
    """


node.add_command(examine)
node.add_command(bootstrap)
node.add_command(reset)


@node.command()
@click.argument("name", shell_complete=complete.nodes)
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


@node.command()
@click.argument("host")
@click.option("--user", help="User to log in as; by default you, or USER of USER@HOST.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of its SSH server; by default 22.")
@click.option("--name", help="Name of the Node; by default the machine's own host name.")
@click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of the Node; may be repeated."
)
@click.option("--again", is_flag=True, help="HOST is a Node: put its new host key into the manifest.")
@click.option("-y", "--yes", is_flag=True, help="Log in and inspect the machine without asking.")
@click.option("--commit", is_flag=True, help="Commit the manifest without asking.")
@click.option("-m", "--message", help="Commit message.")
@click.option("-o", "--output", type=click.Choice(("yaml", "json")), help="Print only the manifest.")
@click.pass_obj
def add(
    settings: Settings, /, host: str, again: bool, commit: bool, message: str | None, **options: Any
) -> None:
    """Write the manifest of a machine with SSH access.

    The manifest contains the machine's host key, and no other key is accepted from then on. Compare its fingerprint
    with the one that the machine itself shows. The manifest is committed with --commit, or when you confirm.

    \b
    Examples:
      reconciler node add studio-1.local --user cluster
      reconciler node add cluster@10.0.0.5 --name studio-1 --label pool=studios --yes --commit
      reconciler node add studio-2 -o yaml > studio-2.yaml
      reconciler node add --again studio-1          its host key has changed
    """
    how = How(message=message)
    if again:
        _renew(settings, how, host, commit)
        return
    manifest, seen = _first_contact(host, options)
    if options["output"]:
        print_body(manifest, options["output"])
        return
    from reconciler.source.yaml.plain import as_yaml

    text = f"# {seen}\n{as_yaml(manifest)}" if seen else as_yaml(manifest)
    click.echo(text, nl=False)
    if to_be_committed(commit):
        _commit(settings, how, manifest["metadata"]["name"], text)


def _commit(settings: Settings, how: How, name: str, text: str) -> None:
    from reconciler.source.editing import apply_documents
    from reconciler.source.yaml.documents import load

    incoming = load({f"{name}.yaml": text.encode()}, part=True)

    def decide(files: Files) -> Any:
        if any(document.key == (NODE, name) for document in load(files)):
            raise Refused(
                "AlreadyExists",
                f"Node {name} already exists; to renew its host key: reconciler node add --again {name};"
                " to add another machine: --name",
            )
        return apply_documents(files, incoming)

    finish(settings, how, carry_out(settings, how, decide, "Add", prepare))
    click.echo(typed(f"next, install the service of its agent: reconciler node bootstrap {name}"), err=True)


# --- meeting ---------------------------------------------------------------------------------------


def _first_contact(words: str, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the manifest of a machine, and a line about its facts."""
    ssh, allowed = met(words, options, "inspect")
    reported, seen = "", ""
    if allowed and (survey := _survey(ssh)) is not None:
        reported = survey.name
        seen = ", ".join(filter(None, (survey.chip, size(survey.memory_bytes), survey.system)))
    name = options["name"] or _named(reported) or _named(ssh["host"]) or "node"
    labels = dict(_label(word) for word in options["labels"])
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {
        "apiVersion": "reconciler/v1alpha1",
        "kind": NODE,
        "metadata": metadata,
        "spec": {"ssh": ssh},
    }, seen


def _survey(ssh: dict[str, Any]) -> Any:
    """Return facts about the machine; None if the login fails, which can be fixed later."""
    from pydantic import ValidationError

    from reconciler.remote.nodes import introduction
    from reconciler.resources import SshAccess

    try:
        return asyncio.run(introduction.survey(SshAccess.model_validate(ssh)))
    except ValidationError as error:
        raise Invalid(f"{ssh['user']}@{ssh['host']}: {error.errors()[0]['msg']}") from None
    except Unreachable as error:
        click.echo(f"warning: {error}", err=True)
        return None


def _named(word: str) -> str:
    """Return a Node's name from a host name: its first part, unless it is an address."""
    plain = word if re.fullmatch(r"[0-9.]+", word) else word.partition(".")[0]
    return _NO_NAME.sub("-", plain.lower()).strip("-")[:63].strip("-")


def _label(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not key or not equals:
        raise click.UsageError(f'expected KEY=VALUE after --label, got "{word}"')
    return key, value


# --- again -----------------------------------------------------------------------------------------


def _renew(settings: Settings, how: How, name: str, commit: bool) -> None:
    """Put the new host key of a Node into its manifest, after showing both fingerprints."""
    from reconciler.remote.nodes import introduction
    from reconciler.source.editing import set_fields

    nodes = {each: access.ssh for each, access in nodes_of(settings).items() if access.ssh}
    ssh = nodes.get(name)
    if ssh is None:
        there = ", ".join(sorted(nodes)) or "none"
        raise Refused("NotFound", f'there is no Node "{name}" with SSH access; existing ones: {there}')
    found = presented(ssh.host, ssh.port if ssh.port != 22 else None)
    if found.line.split() == ssh.host_key.split()[:2]:
        click.echo(f"node/{name} unchanged: its manifest already has this key")
        return
    click.echo(f"its manifest has         {introduction.fingerprint_of(ssh.host_key)}", err=True)
    if not (commit or agreed("is the new key the machine's own, and should it be committed?")):
        raise Refused(
            "NotCommitted",
            "the manifest is unchanged; to put the new key into it, repeat the command with --commit",
        )
    wanted: dict[tuple[str, str], dict[tuple[str, ...], Any]] = {(NODE, name): {HOST_KEY: found.line}}
    landed = carry_out(settings, how, lambda current: set_fields(current, wanted), "Renew the host key of")
    finish(settings, how, landed)
