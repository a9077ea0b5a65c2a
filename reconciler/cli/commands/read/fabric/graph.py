"""Writes a Fabric as a graph for other programs: Graphviz' dot, and SVG."""

from __future__ import annotations

import cmath
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

from reconciler.cli.output.table_layout import fold
from reconciler.wire.objects import Fabric

from .drawing import CONNECTED, THERE, UNDECLARED, UNKNOWN, UNTESTED, Cable, cables_of, nodes_of

_COLOURS = {CONNECTED: "#1a7f37", UNTESTED: "#9a6700", UNDECLARED: "#9a6700", UNKNOWN: "#57606a"}
_FAULT = "#cf222e"
_NODE_WIDTH, _NODE_HEIGHT = 150, 44
_LINE_HEIGHT = 20
_TEXT_COLUMNS = 92
_CROWDED = 40.0
"""Distance from the picture's centre within which there are no labels."""
Point = complex


def colour(cable: Cable) -> str:
    """Return green for a link that is as declared, red for a fault."""
    return _COLOURS.get(cable.state, _FAULT)


def label(cable: Cable) -> str:
    """Return the text next to a cable: its speed, and its state unless it is simply connected."""
    speed = cable.speed if cable.gbps is not None else ""
    return speed if cable.state == CONNECTED else " ".join(filter(None, (speed, cable.state)))


# --- dot ---------------------------------------------------------------------------------------------


def dot(item: Fabric) -> str:
    """Return an undirected graph in dot; receptacles are ports of records."""
    cables = cables_of(item)
    used: dict[str, set[str]] = {node: set() for node in nodes_of(cables)}
    for cable in cables:
        for node, receptacle in cable.ends:
            used[node].add(receptacle)
    rows = [f"graph {_quoted(item['metadata']['name'])} {{", "  layout=neato;", "  overlap=false;"]
    rows.append("  node [shape=record];")
    for node, receptacles in used.items():
        ports = "|".join(f"<r{number}>{number}" for number in sorted(receptacles, key=int))
        rows.append(f"  {_quoted(node)} [label={_quoted(f'{{{node}|{{{ports}}}}}')}];")
    for cable in cables:
        one, other = (f"{_quoted(node)}:r{receptacle}" for node, receptacle in cable.ends)
        style = "solid" if cable.state in THERE else "dashed"
        looks = f"label={_quoted(label(cable))}, color={_quoted(colour(cable))}, style={style}"
        rows.append(f"  {one} -- {other} [{looks}];")
    return "\n".join([*rows, "}"]) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# --- svg ---------------------------------------------------------------------------------------------


def svg(item: Fabric) -> str:
    """Return an SVG: machines on a circle, cables as lines with receptacle numbers, findings below."""
    cables = cables_of(item)
    nodes = nodes_of(cables)
    radius = max(250.0, 55.0 * len(nodes))
    width = max(2 * radius + _NODE_WIDTH + 60, 760)
    centre = complex(width / 2, radius + 70)
    places = {node: _place(number, len(nodes), centre, radius) for number, node in enumerate(nodes)}
    drawn = list(_lines(cables, places, centre))
    differing = {cable.text: cable for cable in cables if cable.text}
    notes = [line for cable in differing.values() for line in _note(cable)]
    height = centre.imag + radius + 60 + _LINE_HEIGHT * (len(notes) + 1)
    name = escape(item["metadata"]["name"])
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
        f' height="{height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="13">',
        f"<title>Fabric {name}</title>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        f'<text x="20" y="28" font-size="16" font-weight="bold">{name}</text>',
        *(line for line, _ in drawn),
        *(_box(node, place) for node, place in places.items()),
        *(text for _, texts in drawn for text in texts),
    ]
    top = centre.imag + radius + 60
    for number, (text, fill) in enumerate(notes):
        rows.append(f'<text x="20" y="{top + number * _LINE_HEIGHT:.0f}" fill="{fill}">{escape(text)}</text>')
    return "\n".join([*rows, "</svg>"]) + "\n"


def _place(number: int, count: int, centre: Point, radius: float) -> Point:
    """Return a place on the circle, from the left over the top, so that two machines are side by side."""
    angle = math.pi + 2 * math.pi * number / max(count, 1)
    if count == 4:
        angle += math.pi / 4  # as a square its sides are level
    return centre + cmath.rect(radius, angle)


def _lines(
    cables: Sequence[Cable], places: dict[str, Point], centre: Point
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the line of each cable with its labels, which are above everything else."""
    between = Counter(frozenset(node for node, _ in cable.ends) for cable in cables)
    drawn: Counter[frozenset[str]] = Counter()
    for cable in cables:
        (one, number), (other, number_there) = cable.ends
        pair = frozenset((one, other))
        aside = 26 * (drawn[pair] - (between[pair] - 1) / 2)
        drawn[pair] += 1
        start, end = _moved(places[one], places[other], aside if one < other else -aside)
        dashes = "" if cable.state in THERE else ' stroke-dasharray="6 5"'
        line = (
            f'<line x1="{start.real:.1f}" y1="{start.imag:.1f}" x2="{end.real:.1f}" y2="{end.imag:.1f}"'
            f' stroke="{colour(cable)}" stroke-width="3"{dashes}/>'
        )
        away = _towards(start, end) * _reach(start, end)
        middle = (start + end) / 2
        if abs(middle - centre) < _CROWDED:  # cables across the circle meet there, and so would their labels
            middle = start + 0.36 * (end - start)
        yield (
            line,
            (
                _mark(start + away, number),
                _mark(end - away, number_there),
                *_label(middle, label(cable), colour(cable)),
            ),
        )


def _moved(start: Point, end: Point, aside: float) -> tuple[Point, Point]:
    """Return a line moved sideways, so that two cables of one pair are side by side."""
    across = 1j * aside * _towards(start, end)
    return start + across, end + across


def _reach(start: Point, end: Point) -> float:
    """Return the distance from the middle of a box at which a line leaves it, with a small margin."""
    way = _towards(start, end)
    sides = [
        _NODE_WIDTH / 2 / abs(way.real) if way.real else math.inf,
        _NODE_HEIGHT / 2 / abs(way.imag) if way.imag else math.inf,
    ]
    return min(sides) + 14


def _towards(start: Point, end: Point) -> Point:
    """Return the direction of a line, of length 1."""
    return (end - start) / (abs(end - start) or 1.0)


def _mark(at: Point, number: str) -> str:
    return (
        f'<circle cx="{at.real:.1f}" cy="{at.imag:.1f}" r="10" fill="#ffffff" stroke="#24292f"/>'
        f'<text x="{at.real:.1f}" y="{at.imag + 4.5:.1f}" text-anchor="middle">{escape(number)}</text>'
    )


def _label(at: Point, text: str, fill: str) -> Iterator[str]:
    """Yield a label over a white outline, as two elements, because not every viewer supports ``paint-order``."""
    for looks in ('fill="#ffffff" stroke="#ffffff" stroke-width="5" aria-hidden="true"', f'fill="{fill}"'):
        yield f'<text x="{at.real:.1f}" y="{at.imag - 6:.1f}" text-anchor="middle" {looks}>{escape(text)}</text>'


def _box(node: str, at: Point) -> str:
    left, top = at.real - _NODE_WIDTH / 2, at.imag - _NODE_HEIGHT / 2
    shown = node if len(node) <= 20 else node[:19] + "…"
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{_NODE_WIDTH}" height="{_NODE_HEIGHT}" rx="8" fill="#f6f8fa"'
        f' stroke="#24292f"/><text x="{at.real:.1f}" y="{at.imag + 5:.1f}" text-anchor="middle"'
        f' font-weight="bold">{escape(shown)}<title>{escape(node)}</title></text>'
    )


def _note(cable: Cable) -> Iterator[tuple[str, str]]:
    for line in fold(f"{cable.state}: {cable.text}", _TEXT_COLUMNS):
        yield line, colour(cable)
    for line in fold(f"to do: {cable.person}", _TEXT_COLUMNS) if cable.person else ():
        yield line, "#24292f"
