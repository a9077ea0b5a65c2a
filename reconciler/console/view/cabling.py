"""The cabling of each fabric: declared cables next to the cables that were found, as pictures and as a list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from reconciler.console.snapshot import Snapshot
from reconciler.wire.objects import Fabric, Link, Mac, NodeFields

from .overview import transport_of
from .picture import Layout, layout

LOOKS = {"Connected": "good", "Untested": "good", "Unknown": "unknown", "Undeclared": "found"}
"""By the state of a link; all other states are bad."""
ORDER = ("bad", "found", "unknown", "good")
PICTURES_MAX = 6
"""Most pictures of a fabric: if there are more sets of machines, only the names of those as declared are shown."""
ROWS_MAX = 40
"""Most cables of a list: if there are more, only the number of those as declared is shown."""
NEIGHBOURS = ("jaccl-ring", "ring")
"""Transports for which each rank uses the cables to its two neighbours; ``jaccl`` uses all, ``ring-lan`` none."""


@dataclass(frozen=True, slots=True)
class Receptacle:
    end: str
    """``machine/number``."""
    number: int
    state: str
    """``good``, ``found``, ``unknown``, ``bad``, or ``empty``."""


@dataclass(frozen=True, slots=True)
class Card:
    """A machine in the picture."""

    name: str
    text: str
    receptacles: tuple[Receptacle, ...]


@dataclass(frozen=True, slots=True)
class Cable:
    """A cable, declared or only found."""

    ends: tuple[str, str]
    state: str
    """As ``status.links[].state`` of the Fabric."""
    look: str
    """``good``, ``bad``, ``unknown`` or ``found``."""
    gbps: int | None
    text: str
    """The found cable, if it is not as declared."""
    person: str
    used_by: tuple[str, ...]
    """Deployments whose groups use it, with their transport."""
    label: str
    """The text in the picture: the transport of the groups that use it, or the fault."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Machines that cables join, directly or through each other."""

    cards: tuple[Card, ...]
    cables: tuple[Cable, ...]
    layout: Layout
    summary: str


@dataclass(frozen=True, slots=True)
class Cabling:
    name: str
    state: str
    pictures: tuple[Picture, ...]
    as_declared: tuple[tuple[str, ...], ...]
    """Machines of the sets without a picture."""
    cables: tuple[Cable, ...]
    """Cables of the list: the ones not as declared come first."""
    more: int
    """Cables that are as declared and not in the list."""
    summary: str


def cablings(snapshot: Snapshot) -> tuple[Cabling, ...]:
    return tuple(_cabling(snapshot, fabric) for fabric in snapshot.fabrics)


def picture_of(snapshot: Snapshot, machine: str) -> Picture | None:
    """Return the picture with a machine in it; None if no cable leads to it."""
    for fabric in snapshot.fabrics:
        cables = _cables(snapshot, fabric)
        for names in _joined(cables):
            if machine in names:
                return _picture(snapshot, names, cables)
    return None


def _cabling(snapshot: Snapshot, fabric: Fabric) -> Cabling:
    cables = _cables(snapshot, fabric)
    sets = _joined(cables)
    wrong = {machine for cable in cables if cable.look != "good" for machine in _machines(cable)}
    shown = [names for names in sets if len(sets) <= PICTURES_MAX or wrong.intersection(names)][:PICTURES_MAX]
    listed = sorted(cables, key=lambda cable: ORDER.index(cable.look))
    if len(cables) > ROWS_MAX:
        listed = [cable for cable in listed if cable.look != "good"][:ROWS_MAX]
    declared = len(fabric["spec"].get("links", ()))
    count = fabric["status"].get("connected", 0)
    more = sum(cable.look == "found" for cable in cables)
    return Cabling(
        name=fabric["metadata"]["name"],
        state="ready" if count == declared and not more else "bad" if count < declared else "busy",
        pictures=tuple(_picture(snapshot, names, cables) for names in shown),
        as_declared=tuple(names for names in sets if names not in shown),
        cables=tuple(listed),
        more=len(cables) - len(listed),
        summary=f"{count} of {declared} cables are as declared"
        + (f", {more} more {'is' if more == 1 else 'are'} found and not declared" if more else ""),
    )


def _cables(snapshot: Snapshot, fabric: Fabric) -> list[Cable]:
    return [_cable(snapshot, link) for link in fabric["status"].get("links", ())]


def _joined(cables: Iterable[Cable]) -> list[tuple[str, ...]]:
    """Return the sets of machines that cables join, each sorted by name; the set with the first name comes first."""
    sets: list[set[str]] = []
    for cable in cables:
        both = set(_machines(cable))
        for met in [each for each in sets if each & both]:
            sets.remove(met)
            both |= met
        sets.append(both)
    return sorted(tuple(sorted(each)) for each in sets)


def _machines(cable: Cable) -> tuple[str, str]:
    first, second = (end.partition("/")[0] for end in cable.ends)
    return first, second


def _picture(snapshot: Snapshot, names: Sequence[str], cables: Iterable[Cable]) -> Picture:
    own = [cable for cable in cables if _machines(cable)[0] in names]
    own.sort(key=lambda cable: ORDER.index(cable.look))
    cards = tuple(_card(snapshot, name, own) for name in names)
    good = sum(cable.look == "good" for cable in own)
    return Picture(
        cards,
        tuple(own),
        layout(
            {card.name: [each.number for each in card.receptacles] for card in cards},
            [cable.ends for cable in own],
            [cable.label for cable in own],
        ),
        f"{', '.join(names)}: {good} of {len(own)} cables are as declared",
    )


def _card(snapshot: Snapshot, name: str, cables: Iterable[Cable]) -> Card:
    node = snapshot.node(name)
    status = node["status"] if node is not None else NodeFields()
    mac = status.get("mac") or Mac()
    known = {port["receptacle"]: "empty" for port in mac.get("ports", ())}
    for cable in cables:
        for end in cable.ends:
            machine, _, number = end.partition("/")
            if machine == name and number.isdigit():
                known[int(number)] = _worse(known.get(int(number), "empty"), cable.look)
    receptacles = (Receptacle(f"{name}/{number}", number, state) for number, state in sorted(known.items()))
    return Card(name, mac.get("chip") or status.get("system", ""), tuple(receptacles))


def _worse(one: str, other: str) -> str:
    order = (*ORDER, "empty")
    return min(one, other, key=order.index)


def _cable(snapshot: Snapshot, link: Link) -> Cable:
    first, second = link["ends"]
    look = LOOKS.get(link["state"], "bad")
    uses = list(_uses(snapshot, first.partition("/")[0], second.partition("/")[0])) if look == "good" else []
    transports = list(dict.fromkeys(transport for _, transport in uses))
    return Cable(
        ends=(first, second),
        state=link["state"],
        look=look,
        gbps=link.get("gbps"),
        text=link.get("text", ""),
        person=link.get("person", ""),
        used_by=tuple(f"{name} ({transport})" for name, transport in uses),
        label=", ".join(transports) if look == "good" else _words(link["state"]),
    )


def _words(state: str) -> str:
    """Return ``not there yet`` for ``NotThereYet``."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in state).strip()


def _uses(snapshot: Snapshot, one: str, other: str) -> Iterator[tuple[str, str]]:
    for each in snapshot.deployments:
        for group in each["status"].get("groups", ()):
            nodes, transport = list(group["nodes"]), transport_of(group)[0]
            if one not in nodes or other not in nodes:
                continue
            apart = abs(nodes.index(one) - nodes.index(other))
            if transport == "jaccl" or (transport in NEIGHBOURS and apart in (1, len(nodes) - 1)):
                yield each["metadata"]["name"], transport
