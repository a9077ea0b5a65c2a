"""`get`, `plan`, `version`."""

from __future__ import annotations

import sys
from typing import Any

import click

from reconciler import __version__
from reconciler.errors import Unreachable
from reconciler.resources import KINDS
from reconciler.wire.admin import Get, ShowPlan, ShowStatus

from .app import Settings
from .approve import note_kept_out
from .client import Client, ask
from .columns import HEADERS, ROWS
from .kinds import full_name, not_found, object_named
from .output import output_option, print_json
from .tables import table


@click.command()
@click.argument("what", nargs=-1)
@output_option("wide", "yaml", "name")
@click.pass_obj
def get(settings: Settings, what: tuple[str, ...], output: str | None) -> None:
    """List objects and their state.

    WHAT is a kind (nodes, models, modeldeployments, gateways, ranks), KIND NAME, KIND/NAME, or all.

    \b
    Examples:
      reconciler get all
      reconciler get deployments -o wide
      reconciler get ranks -o json
      reconciler get node/node-a -o yaml
    """
    kind, name = object_named(what)
    body = ask(settings.socket, Get(kind, name))
    if kind is not None and name is not None and not body["items"]:
        raise not_found(kind, name)
    _print(body, kind, name, output)
    note_kept_out(body)


def _print(body: dict[str, Any], kind: str | None, name: str | None, output: str | None) -> None:
    items = body["items"]
    if output in ("json", "yaml"):
        whole = items[0] if name is not None and kind != "Rank" else body
        print_json(whole) if output == "json" else click.echo(_yaml(whole), nl=False)
    elif output == "name":
        for item in items:
            click.echo(_short(item))
    elif not items:
        click.echo("No resources found.", err=True)
    else:
        click.echo(tables(items, kind, wide=output == "wide"))


def _short(item: dict[str, Any]) -> str:
    if "kind" not in item:
        return f"rank/{item['deployment']}.{item['replica']}.{item['epoch']}.{item['rank']}"
    return full_name(item["kind"], item["metadata"]["name"])


def _yaml(body: Any) -> str:
    from reconciler.source.editing import as_yaml

    return as_yaml(body)


def tables(items: list[dict[str, Any]], kind: str | None, wide: bool = False) -> str:
    """A table for each kind there is, in the order of kinds."""
    kinds = [kind] if kind is not None else list(KINDS)
    parts = []
    for name in kinds:
        chosen = [item for item in items if item.get("kind", "Rank") == name]
        if chosen:
            parts.append(table(HEADERS[name][wide], [ROWS[name](item, wide) for item in chosen]))
    return "\n\n".join(parts)


@click.command()
@click.option("--exit-code", is_flag=True, help="Exit with 2 when there is something to do.")
@output_option()
@click.pass_obj
def plan(settings: Settings, exit_code: bool, output: str | None) -> int:
    """Show what the loop would do now, what it waits for, and what it refuses.

    \b
    Examples:
      reconciler plan
      reconciler plan -o json
    """
    body = ask(settings.socket, ShowPlan())
    if output == "json":
        print_json(body)
    else:
        _print_plan(body)
    return 2 if exit_code and body["steps"] else 0


def _print_plan(body: dict[str, Any]) -> None:
    for step in body["steps"]:
        click.echo(f"+ {step['object']}: {step['text']}")
    for waiting in body["waiting"]:
        until = f" until {waiting['until']}" if waiting.get("until") else ""
        click.echo(f"~ {waiting['object']}: {waiting['text']} ({waiting['reason']}{until})")
    for refused in body["refused"]:
        click.echo(f"! {refused['object']}: {refused['text']} ({refused['reason']})")
    if not any(body.values()):
        click.echo("nothing to do")


@click.command()
@output_option()
@click.pass_obj
def version(settings: Settings, output: str | None) -> None:
    """Print the versions of this command and of the running controller.

    \b
    Example:
      reconciler version -o json
    """
    body = {"client": __version__, "python": sys.version.split()[0], "controller": None}
    try:
        with Client(settings.socket) as client:
            body["controller"] = client.ask(ShowStatus())["version"]
    except Unreachable:
        pass
    if output == "json":
        print_json(body)
        return
    click.echo(f"reconciler {body['client']} (Python {body['python']})")
    click.echo(f"controller {body['controller'] or 'is not running'}")
