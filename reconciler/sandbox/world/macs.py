"""Macs as they are sold, and cablings of several of them. Pure: identifiers are digests of names, so that they stay the
same.

The interfaces of receptacles differ between Macs: those here are from captures of real ones.
"""

from __future__ import annotations

import hashlib
import itertools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.errors import Invalid

from .state import GIB, TB4_GBPS, TB5_GBPS, Cable, End, Machine, Port, World


@dataclass(frozen=True, slots=True)
class Sold:
    """One kind of Mac."""

    product: str
    model: str
    chip: str
    gib: int
    interfaces: tuple[str, ...]
    """Interfaces by receptacle, from 1."""
    thunderbolt5: bool = True
    first_receptacle: int = 1
    """The first receptacle to use: on a Mac Studio, those next to Ethernet stay free."""


SOLD: Mapping[str, Sold] = {
    "studio": Sold(
        "Mac Studio", "Mac15,14", "Apple M3 Ultra", 512, tuple(f"en{n}" for n in range(2, 8)), True, 3
    ),
    "studio-max": Sold("Mac Studio", "Mac16,9", "Apple M4 Max", 128, ("en2", "en3", "en4", "en5")),
    "mini": Sold("Mac mini", "Mac16,11", "Apple M4 Pro", 64, ("en2", "en3", "en4")),
    "macbook": Sold("MacBook Pro", "Mac17,6", "Apple M5 Max", 128, ("en1", "en6", "en2")),
    "mini-tb4": Sold("Mac mini", "Mac14,12", "Apple M2 Pro", 32, ("en2", "en3", "en4", "en5"), False),
}
"""Types of Macs by the names that ``--model`` accepts."""
MESH, RING = "mesh", "ring"


def build(name: str, kind: str, boot_id: str, boot_at: float) -> Machine:
    """Return a new Mac as it is delivered: RDMA is on, and every port is a member of ``bridge0``.

    Raises ``Invalid`` for an unknown type.
    """
    sold = SOLD.get(kind)
    if sold is None:
        raise Invalid(f"there is no type of Mac {kind!r}; expected one of {', '.join(SOLD)}")
    ports = tuple(
        Port(at, interface, _uuid(name, f"domain {at}"), _mac(name, interface), sold.thunderbolt5)
        for at, interface in enumerate(sold.interfaces, start=1)
    )
    return Machine(
        name, sold.product, sold.model, sold.chip, sold.gib * GIB, ports, boot_id, boot_at,
        rdma_enabled=sold.thunderbolt5,
    )  # fmt: skip


def cabled(machines: Sequence[Machine], fabric: str) -> tuple[Cable, ...]:
    """Return the cables of a ``mesh`` (all pairs) or a ``ring``, from the first receptacles on.

    Raises ``Invalid`` for too few receptacles or an unknown shape.
    """
    if fabric not in (MESH, RING):
        raise Invalid(f"{fabric!r} is not a cabling; expected mesh, ring, or a file with a Fabric")
    names = [each.name for each in machines]
    pairs = list(itertools.combinations(names, 2))
    if fabric == RING and len(names) > 2:
        pairs = list(zip(names, [*names[1:], names[0]], strict=True))
    free = {each.name: _receptacles(each) for each in machines}
    cables = []
    for a, b in pairs:
        for name in (a, b):
            if not free[name]:
                raise Invalid(
                    f"a {fabric} of {len(names)} needs more receptacles than {name} has: {len(_receptacles(_named(machines, name)))}"
                )
        cables.append(cable(machines, (a, free[a].pop(0)), (b, free[b].pop(0))))
    return tuple(cables)


def cable(machines: Sequence[Machine], a: End, b: End) -> Cable:
    """Return a cable between two receptacles, as fast as both allow. Raises ``NoSuchThing``."""
    fast = all(_named(machines, name).port(receptacle).thunderbolt5 for name, receptacle in (a, b))
    return Cable(a, b, TB5_GBPS if fast else TB4_GBPS)


def world(names: Sequence[str], kind: str, fabric: str, boot_ids: Sequence[str], boot_at: float) -> World:
    """Return machines of one type with cables. Raises ``Invalid``."""
    machines = tuple(
        build(name, kind, boot_id, boot_at) for name, boot_id in zip(names, boot_ids, strict=True)
    )
    return World(machines, cabled(machines, fabric))


def kind_of(machine: Machine) -> str:
    return next(kind for kind, sold in SOLD.items() if sold.model == machine.model)


def _named(machines: Sequence[Machine], name: str) -> Machine:
    return World(tuple(machines)).machine(name)


def _receptacles(machine: Machine) -> list[int]:
    first = SOLD[kind_of(machine)].first_receptacle
    numbers = [port.receptacle for port in machine.ports]
    return [*(n for n in numbers if n >= first), *(n for n in numbers if n < first)]


def _uuid(*words: str) -> str:
    digest = hashlib.sha256(" ".join(("emulated", *words)).encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4)).upper()


def _mac(*words: str) -> str:
    digest = hashlib.sha256(" ".join(("emulated", *words)).encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (0x36, *digest[:5]))  # locally administered
