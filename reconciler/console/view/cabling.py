"""The cabling as a picture: machines on a circle, their receptacles, and each cable from end to end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.console.snapshot import Body, Snapshot

WIDTH, HEIGHT = 960, 640
CARD_WIDTH, CARD_HEIGHT = 190, 64
CIRCLE = 0.72
"""Radius of the circle as a part of what the picture has room for."""
GOOD = frozenset({"Connected"})


@dataclass(frozen=True, slots=True)
class Point:
    """A place in the picture, in its own units."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A receptacle of a machine, where a cable may end."""

    number: int
    at: Point
    state: str
    """``connected``, ``empty``, or ``bad`` where a declared cable is not as declared."""


@dataclass(frozen=True, slots=True)
class Card:
    """A machine in the picture; ``at`` is its upper left corner."""

    name: str
    at: Point
    text: str
    receptacles: tuple[Receptacle, ...]


@dataclass(frozen=True, slots=True)
class Cable:
    """A declared or found link: its line, its state, and what to do where it is not as declared."""

    ends: tuple[str, str]
    start: Point
    end: Point
    state: str
    """As ``status.links[].state`` of the Fabric."""
    good: bool
    gbps: int | None
    text: str
    person: str
    used_by: tuple[str, ...]
    """Deployments whose groups have ranks at both ends, with their transport."""


@dataclass(frozen=True, slots=True)
class Cabling:
    """A fabric as a picture and as a list."""

    name: str
    width: int
    height: int
    cards: tuple[Card, ...]
    cables: tuple[Cable, ...]
    summary: str


def cablings(snapshot: Snapshot) -> tuple[Cabling, ...]:
    """Return a picture of each Fabric."""
    return tuple(_cabling(snapshot, fabric) for fabric in snapshot.of_kind("Fabric"))


def _cabling(snapshot: Snapshot, fabric: Body) -> Cabling:
    links = fabric["status"].get("links", ())
    names = sorted({end.partition("/")[0] for link in links for end in link["ends"]})
    centres = _circle(names)
    bad = {end for link in links if link["state"] not in GOOD for end in link["ends"]}
    cards = tuple(_card(snapshot, name, centres, links, bad) for name in names)
    places = {f"{card.name}/{each.number}": each.at for card in cards for each in card.receptacles}
    return Cabling(
        name=fabric["metadata"]["name"],
        width=WIDTH,
        height=HEIGHT,
        cards=cards,
        cables=tuple(_cable(snapshot, link, places) for link in links),
        summary=f"{fabric['status'].get('connected', 0)} of {len(fabric['spec'].get('links', ()))} cables are as declared",
    )


def _circle(names: list[str]) -> Mapping[str, Point]:
    """Return the middle of each machine: on an ellipse that the picture has room for, the first at the top left."""
    radius_x = (WIDTH - CARD_WIDTH) / 2 * (CIRCLE if len(names) > 2 else 0.8)
    radius_y = (HEIGHT - CARD_HEIGHT) / 2 * CIRCLE
    first = -3 * math.pi / 4 if len(names) != 2 else math.pi
    turn = 2 * math.pi / max(1, len(names))
    return {
        name: Point(
            WIDTH / 2 + radius_x * math.cos(first + index * turn) * (len(names) > 1),
            HEIGHT / 2 + radius_y * math.sin(first + index * turn) * (len(names) > 1),
        )
        for index, name in enumerate(names)
    }


def _card(
    snapshot: Snapshot, name: str, centres: Mapping[str, Point], links: Iterable[Body], bad: set[str]
) -> Card:
    centre, node = centres[name], snapshot.named("Node", name)
    mac = (node or {}).get("status", {}).get("mac", {})
    known = {port["receptacle"]: port["connected"] for port in mac.get("ports", ())}
    for link in links:
        for end in link["ends"]:
            machine, _, number = end.partition("/")
            if machine == name and number.isdigit():
                known.setdefault(int(number), link["state"] in GOOD)
    corner = Point(centre.x - CARD_WIDTH / 2, centre.y - CARD_HEIGHT / 2)
    below = centre.y < HEIGHT / 2
    step = CARD_WIDTH / (len(known) + 1)
    receptacles = tuple(
        Receptacle(
            number,
            Point(round(corner.x + step * (index + 1), 1), round(corner.y + CARD_HEIGHT * below, 1)),
            "bad" if f"{name}/{number}" in bad else "connected" if connected else "empty",
        )
        for index, (number, connected) in enumerate(sorted(known.items()))
    )
    return Card(
        name, corner, mac.get("chip", "") or (node or {}).get("status", {}).get("system", ""), receptacles
    )


def _cable(snapshot: Snapshot, link: Body, places: Mapping[str, Point]) -> Cable:
    first, second = link["ends"]
    nowhere = Point(WIDTH / 2, HEIGHT / 2)
    return Cable(
        ends=(first, second),
        start=places.get(first, nowhere),
        end=places.get(second, nowhere),
        state=link["state"],
        good=link["state"] in GOOD,
        gbps=link.get("gbps"),
        text=link.get("text", ""),
        person=link.get("person", ""),
        used_by=_used_by(snapshot, {end.partition("/")[0] for end in (first, second)}),
    )


def _used_by(snapshot: Snapshot, machines: set[str]) -> tuple[str, ...]:
    return tuple(
        f"{each['metadata']['name']} ({group['transport']})"
        for each in snapshot.of_kind("ModelDeployment")
        for group in each["status"].get("groups", ())
        if group.get("transport") and machines <= set(group["nodes"])
    )
