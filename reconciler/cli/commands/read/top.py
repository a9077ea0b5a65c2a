"""`top`: show what nodes and ranks use now."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import ask
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.table_layout import size, table
from reconciler.errors import Refused, listing
from reconciler.wire.admin import ShowUsage

BOTH = ("nodes", "ranks")
KINDS = {"node": "nodes", "nodes": "nodes", "no": "nodes", "rank": "ranks", "ranks": "ranks"}
NODE_HEADERS = ("NAME", "CPU(cores)", "LOAD", "MEMORY(bytes)", "MEMORY(%)", "RANKS", "TOKENS/S")
RANK_HEADERS = ("NAME", "NODE", "CPU(cores)", "MEMORY(bytes)", "CHARGED", "DEMAND", "TOKENS/S")


def _kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(kind) for kind in BOTH if kind.startswith(incomplete)]


@click.command()
@click.argument("what", required=False, metavar="[nodes | ranks]", shell_complete=_kinds)
@click.argument("names", nargs=-1)
@output_option()
@click.pass_obj
def top(settings: Settings, what: str | None, names: tuple[str, ...], output: str | None) -> None:
    """Show what nodes or ranks use: memory, processors, tokens per second.

    Without a word it shows both.

    Nodes whose agent answers are measured every five seconds. CPU(cores) is the use of the ranks, LOAD that of
    everything on the machine. Tokens are counted once, at rank 0 of each group.

    \b
    Examples:
      reconciler top
      reconciler top nodes
      reconciler top ranks tiny
      reconciler top node studio-1 -o json
    """
    if what is not None and what not in KINDS:
        raise click.UsageError(
            f'"{what}" is not measured; expected nodes, ranks, or ranks and a deployment: top ranks tiny'
        )
    usage = ask(settings.socket, ShowUsage())
    if what is None:
        _print_both(usage, output)
        return
    kind = KINDS[what]
    items = usage[kind]
    missing = set(names) - {name for item in items for name in _names(item)}
    if missing:
        raise Refused("NotFound", f"no measurements of {kind[:-1]} {min(missing)}; {listing(kind)}")
    shown = [item for item in items if not names or not set(names).isdisjoint(_names(item))]
    if output:
        print_body({"items": shown}, output)
    else:
        _print(kind, shown)


def _names(item: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of an item; a rank has its deployment's name too."""
    return (item["name"], item["name"].rsplit(".", 3)[0]) if "." in item["name"] else (item["name"],)


def _print_both(usage: dict[str, Any], output: str | None) -> None:
    if output:
        print_body({kind: usage[kind] for kind in BOTH}, output)
        return
    for kind in BOTH:
        if kind != BOTH[0]:
            click.echo()
        click.echo(f"{kind}:")
        _print(kind, usage[kind])


def _print(kind: str, items: list[dict[str, Any]]) -> None:
    if not items:
        click.echo(f"no measurements of {kind} now", err=True)
    elif kind == "nodes":
        click.echo(table(NODE_HEADERS, [_node(item) for item in items]))
    else:
        click.echo(table(RANK_HEADERS, [_rank(item) for item in items]))


def _node(item: dict[str, Any]) -> list[str]:
    used = item["memoryUsedBytes"]
    return [
        item["name"],
        f"{item['ranksCores']:.1f}",
        "-" if item["load"] is None else f"{item['load']:.1f}/{item['cpus']}",
        size(used),
        "-" if used is None else f"{100 * used / item['memoryBytes']:.0f}%",
        str(item["ranks"]),
        f"{item['tokensPerSecond']:.1f}",
    ]


def _rank(item: dict[str, Any]) -> list[str]:
    return [
        item["name"],
        item["node"],
        f"{item['cores']:.1f}",
        size(item["residentBytes"]),
        size(item["chargedBytes"]),
        str(item["demand"]),
        f"{item['tokensPerSecond']:.1f}",
    ]
