"""`top`: show the use of nodes and ranks, now or over the last hours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import click
from click.shell_completion import CompletionItem

from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import ask
from reconciler.cli.core.durations import DURATION
from reconciler.cli.core.kinds import RANK
from reconciler.cli.core.objects import note_unobserved
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.table_layout import size, table
from reconciler.errors import Refused, listing
from reconciler.wire import answers
from reconciler.wire.admin import ShowMetrics, ShowUsage

NodeOrRank = TypeVar("NodeOrRank", answers.NodeUsage, answers.RankUsage)
BOTH = ("nodes", "ranks")
KINDS = {"node": "nodes", "nodes": "nodes", "no": "nodes", "rank": "ranks", "ranks": "ranks"}
PAST_KINDS = {
    **dict.fromkeys(("node", "nodes", "no"), "node"),
    **dict.fromkeys(("deployment", "deployments", "modeldeployment", "modeldeployments"), "modeldeployment"),
}
PAST_SECONDS_MAX = 86_400.0
PAST_POINTS, PAST_POINTS_IN_FULL = 30, 360
"""Intervals of a plot in one line, and of other formats."""
NODE_HEADERS = ("NAME", "CPU(cores)", "LOAD", "MEMORY(bytes)", "MEMORY(%)", "RANKS", "TOKENS/S")
RANK_HEADERS = ("NAME", "NODE", "CPU(cores)", "MEMORY(bytes)", "CHARGED", "DEMAND", "TOKENS/S")
PAST_HEADERS = ("OBJECT", "FIGURE", "LAST", "MEAN", "MOST", "OVER TIME")
BLOCKS = "▁▂▃▄▅▆▇█"


def _kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(kind) for kind in BOTH if kind.startswith(incomplete)]


@click.command()
@click.argument("what", required=False, metavar="[nodes | ranks]", shell_complete=_kinds)
@click.argument("names", nargs=-1)
@click.option("--since", type=DURATION, metavar="1h", help="Show figures of this last period, at most a day.")
@output_option()
@click.pass_obj
def top(
    settings: Settings, what: str | None, names: tuple[str, ...], since: float | None, output: str | None
) -> None:
    """Show the memory, processors and tokens per second of nodes or ranks.

    Without a word it shows both.

    Nodes whose agent answers are measured every five seconds. CPU(cores) is the use of the ranks, LOAD the use of
    everything on the machine. Tokens are counted once, at rank 0 of each group.

    With --since it shows figures over time, of nodes and of deployments. Figures of every ten seconds are kept for an
    hour, figures of every minute for a day.

    \b
    Examples:
      reconciler top
      reconciler top nodes
      reconciler top ranks tiny
      reconciler top node studio-1 -o json
      reconciler top --since 6h
      reconciler top nodes studio-1 --since 1h
    """
    if since is not None:
        _print_past(settings, what, names, since, output)
        return
    if what is not None and what not in KINDS:
        raise click.UsageError(
            f'"{what}" is not measured; expected nodes, ranks, or ranks and a deployment: top ranks tiny'
        )
    usage = ask(settings.socket, ShowUsage())
    note_unobserved(RANK, usage)
    nodes, ranks = usage["nodes"], usage["ranks"]
    if what is None:
        if output:
            print_body({"nodes": nodes, "ranks": ranks}, output)
            return
        click.echo("nodes:")
        _print("nodes", NODE_HEADERS, map(_node, nodes))
        click.echo("\nranks:")
        _print("ranks", RANK_HEADERS, map(_rank, ranks))
    elif KINDS[what] == "nodes":
        nodes = _chosen("node", nodes, names)
        print_body({"items": nodes}, output) if output else _print("nodes", NODE_HEADERS, map(_node, nodes))
    else:
        ranks = _chosen("rank", ranks, names)
        print_body({"items": ranks}, output) if output else _print("ranks", RANK_HEADERS, map(_rank, ranks))


def _chosen(kind: str, items: Sequence[NodeOrRank], names: tuple[str, ...]) -> list[NodeOrRank]:
    """Return the items with these names, or all. Raises ``Refused`` for a name that no item has."""
    missing = set(names) - {name for item in items for name in _names(item["name"])}
    if missing:
        raise Refused("NotFound", f"no measurements of {kind} {min(missing)}; {listing(f'{kind}s')}")
    return [item for item in items if not names or not set(names).isdisjoint(_names(item["name"]))]


def _print_past(
    settings: Settings, what: str | None, names: tuple[str, ...], seconds: float, output: str | None
) -> None:
    """Print the figures of the last ``seconds``."""
    if what is not None and what not in PAST_KINDS:
        raise click.UsageError(f'"{what}" has no figures over time; expected nodes or deployments')
    if not 0 < seconds <= PAST_SECONDS_MAX:
        raise click.UsageError("figures are kept for a day; expected --since 24h at most")
    points = PAST_POINTS if output is None else PAST_POINTS_IN_FULL
    body = ask(settings.socket, ShowMetrics(seconds, points))
    found = [(each["object"].partition("/"), each) for each in body["series"]]
    body["series"] = [
        each
        for (kind, _, name), each in found
        if (what is None or kind == PAST_KINDS[what]) and (not names or name in names)
    ]
    missing = set(names) - {name for (_, _, name), _ in found}
    if missing:
        raise Refused(
            "NotFound", f"there are no figures of {min(missing)}; list all: reconciler top --since 1h"
        )
    if output:
        print_body(body, output)
    elif not body["series"]:
        click.echo("nothing was measured in this period", err=True)
    else:
        click.echo(over_time(body["series"]))


def _names(name: str) -> tuple[str, ...]:
    """Return the names of an item; a rank has its deployment's name too."""
    return (name, name.rsplit(".", 3)[0]) if "." in name else (name,)


def _print(kind: str, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    if shown := list(rows):
        click.echo(table(headers, shown))
    else:
        click.echo(f"no measurements of {kind} now", err=True)


def _node(item: answers.NodeUsage) -> list[str]:
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


def _rank(item: answers.RankUsage) -> list[str]:
    return [
        item["name"],
        item["node"],
        f"{item['cores']:.1f}",
        size(item["residentBytes"]),
        size(item["chargedBytes"]),
        str(item["demand"]),
        f"{item['tokensPerSecond']:.1f}",
    ]


# --- figures over time ---------------------------------------------------------------------------------


def over_time(series: Sequence[answers.Figures]) -> str:
    """Return a table of the series of ``wire.admin.ShowMetrics``."""
    return table(PAST_HEADERS, [_figure(each) for each in series])


def _figure(each: answers.Figures) -> list[str]:
    name, values = each["name"], each["values"]
    known = [value for value in values if value is not None]
    newest = [value for value in values[-2:] if value is not None]  # the last interval has just begun
    shown = (newest[-1] if newest else None, sum(known) / len(known), max(known))
    return [each["object"], name, *(_text(name, value) for value in shown), plot(values)]


def _text(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name.endswith("Bytes"):
        return size(round(value))
    return f"{value:.3g}"


def plot(values: Sequence[float | None]) -> str:
    """Return a plot in one line, from 0 to the largest value; an unknown value is a blank."""
    most = max((value for value in values if value is not None), default=0) or 1
    last = len(BLOCKS) - 1
    return "".join(" " if value is None else BLOCKS[round(last * max(0, value) / most)] for value in values)
