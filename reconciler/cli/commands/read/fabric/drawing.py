"""Draws a Fabric in the terminal: machines side by side, each cable a line between two of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

import click

from reconciler.cli.output.colour import colours
from reconciler.cli.output.kind_columns import state as summary_of
from reconciler.cli.output.table_layout import fold, lines, page_width, table
from reconciler.wire.objects import Fabric, Link

CONNECTED, UNTESTED, UNDECLARED, UNKNOWN = "Connected", "Untested", "Undeclared", "Unknown"
COLOURS = {CONNECTED: "green", UNTESTED: "yellow", UNDECLARED: "yellow", UNKNOWN: "yellow"}
"""Colours of the states that are not faults; faults are red."""
THERE = (CONNECTED, UNTESTED, UNDECLARED, "TooSlow", "Down")
"""States of a cable that joins two ends."""
_LANE_MIN = 6
_MARGIN = 2
_STATE_WIDTH = 26


@dataclass(frozen=True, slots=True)
class Cable:
    """One cable, from the status of a Fabric."""

    ends: tuple[tuple[str, str], tuple[str, str]]
    """Two pairs of node and receptacle."""
    state: str
    gbps: int | None = None
    text: str = ""
    person: str = ""
    interfaces: Sequence[str] = ("", "")
    addresses: Sequence[str] = ("", "")

    @property
    def name(self) -> str:
        """Return both ends as manifests write them."""
        return " - ".join("/".join(end) for end in self.ends)

    @property
    def speed(self) -> str:
        return f"{self.gbps} Gb/s" if self.gbps is not None else "-"


def cables_of(item: Fabric) -> list[Cable]:
    """Return the declared links in their order, then the undeclared cables."""
    rows = item["status"].get("links")
    if rows is None:  # not compared yet
        rows = [Link(ends=ends, state=UNKNOWN) for ends in item["spec"]["links"]]
    return [_cable(row) for row in rows]


def _cable(row: Link) -> Cable:
    one, other = (_end(end) for end in row["ends"])
    return Cable(
        (one, other),
        row["state"],
        row.get("gbps"),
        row.get("text", ""),
        row.get("person", ""),
        row.get("interfaces", ("", "")),
        row.get("addresses", ("", "")),
    )


def _end(written: str) -> tuple[str, str]:
    node, _, receptacle = written.rpartition("/")
    return node, receptacle


def nodes_of(cables: Sequence[Cable]) -> list[str]:
    return sorted({node for cable in cables for node, _ in cable.ends})


def show(item: Fabric, wide: bool) -> None:
    """Print a drawing of one Fabric, and its faults."""
    for text, state in drawing(item, wide, page_width()):
        click.echo(
            click.style(text, fg=COLOURS.get(state, "red")) if state else text, color=colours(sys.stdout)
        )


def drawing(item: Fabric, wide: bool, width: int) -> Iterator[tuple[str, str]]:
    """Yield the lines, each with the state that colours it; an empty text for none."""
    cables = cables_of(item)
    for line in fold(f"{item['metadata']['name']}: {_heading(item, cables)}", width):
        yield line, ""
    nodes = nodes_of(cables)
    room = width - _MARGIN - _STATE_WIDTH
    yield "", ""
    if nodes and len(nodes) <= min(room // _LANE_MIN, len(ascii_uppercase)):
        yield from _lanes(cables, nodes, room)
    else:
        yield from _listed(cables)
    if wide:
        yield "", ""
        yield from _detailed(cables, width)
    shown: set[str] = set()
    silent = False
    for cable in cables:
        if cable.text and cable.text not in shown:
            shown.add(cable.text)
            if not (silent and cable.state == UNKNOWN):
                yield "", ""
            silent = cable.state == UNKNOWN
            for line in fold(f"{cable.state}: {cable.text}", width, "  "):
                yield line, cable.state
            for line in fold(f"  to do: {cable.person}", width, "    ") if cable.person else ():
                yield line, ""


def _heading(item: Fabric, cables: Sequence[Cable]) -> str:
    declared = [cable for cable in cables if cable.state != UNDECLARED]
    untested = sum(cable.state == UNTESTED for cable in declared)
    connected = untested + sum(cable.state == CONNECTED for cable in declared)
    if not item["status"].get("links") and declared:
        return summary_of(item)
    strangers = len(cables) - len(declared)
    more = f", {untested} of them not tested" if untested else ""
    more += f", and {strangers} undeclared" if strangers else ""
    return f"{connected} of {len(declared)} links are connected{more}"


def _lanes(cables: Sequence[Cable], nodes: list[str], room: int) -> Iterator[tuple[str, str]]:
    lane = max(_LANE_MIN, min(room // len(nodes), max(map(len, nodes)) + 3, 18))
    shown = dict(zip(nodes, nodes, strict=True))
    if max(map(len, nodes)) > lane - 2:
        shown = dict(zip(nodes, ascii_uppercase, strict=False))
        for node in nodes:
            yield f"{' ' * _MARGIN}{shown[node]} = {node}", ""
    places = {node: _MARGIN + number * lane for number, node in enumerate(nodes)}
    end = _MARGIN + len(nodes) * lane
    yield "".join(shown[node].ljust(lane) for node in nodes).rjust(end).rstrip(), ""
    for cable in cables:
        row = [" "] * end
        for place in places.values():
            row[place] = "│"
        (left, right) = sorted((places[node], number) for node, number in cable.ends)
        for at in range(left[0] + 1, right[0]):
            passing = row[at] == "│"
            row[at] = "┼" if passing else "─" if cable.state in THERE else "┄"
        for place, number in (left, right):
            row[place : place + len(number)] = number
        yield f"{''.join(row)}{cable.speed:<9} {cable.state}".rstrip(), cable.state


def _listed(cables: Sequence[Cable]) -> Iterator[tuple[str, str]]:
    """Yield a line for each cable if the machines do not fit side by side."""
    rows = [["LINK", "SPEED", "STATE"], *([cable.name, cable.speed, cable.state] for cable in cables)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for line, cable in zip(lines(rows, widths), (None, *cables), strict=True):
        yield line, cable.state if cable else ""


def _detailed(cables: Sequence[Cable], width: int) -> Iterator[tuple[str, str]]:
    """Yield a row for each end, with the names that a person needs on that machine."""
    rows = [
        ["/".join(end), "/".join(there), cable.interfaces[side] or "-", cable.addresses[side] or "-"]
        for cable in cables
        for side, (end, there) in enumerate(zip(cable.ends, cable.ends[::-1], strict=True))
    ]
    for line in table(("END", "LEADS TO", "INTERFACE", "ADDRESS"), sorted(rows), width).splitlines():
        yield line, ""
