"""`top`: show what nodes and ranks use now."""

from __future__ import annotations

from typing import Any

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import ask
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.table_layout import size, table
from reconciler.errors import Refused, listing
from reconciler.wire.admin import ShowUsage

KINDS = {"node": "nodes", "nodes": "nodes", "no": "nodes", "rank": "ranks", "ranks": "ranks"}
NODE_HEADERS = ("NAME", "CPU(cores)", "LOAD", "MEMORY(bytes)", "MEMORY(%)", "RANKS", "TOKENS/S")
RANK_HEADERS = ("NAME", "NODE", "CPU(cores)", "MEMORY(bytes)", "CHARGED", "DEMAND", "TOKENS/S")


@click.command()
@click.argument("what", type=click.Choice(sorted(KINDS)))
@click.argument("names", nargs=-1)
@output_option()
@click.pass_obj
def top(settings: Settings, what: str, names: tuple[str, ...], output: str | None) -> None:
    """Show what nodes or ranks use: memory, processors, tokens per second.

    Nodes whose agent answers are measured every five seconds. CPU(cores) is the use of the ranks, LOAD that of
    everything on the machine. Tokens are counted once, at rank 0 of each group.

    \b
    Examples:
      reconciler top nodes
      reconciler top ranks
      reconciler top node studio-1 -o json
    """
    kind = KINDS[what]
    items = ask(settings.socket, ShowUsage())[kind]
    missing = set(names) - {item["name"] for item in items}
    if missing:
        raise Refused("NotFound", f"no measurements of {kind[:-1]} {min(missing)}; {listing(kind)}")
    shown = [item for item in items if not names or item["name"] in names]
    if output:
        print_body({"items": shown}, output)
    elif not shown:
        click.echo(f"no measurements of {kind} now", err=True)
    elif kind == "nodes":
        click.echo(table(NODE_HEADERS, [_node(item) for item in shown]))
    else:
        click.echo(table(RANK_HEADERS, [_rank(item) for item in shown]))


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
