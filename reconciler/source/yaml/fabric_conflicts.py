"""What is wrong with Fabrics beside each other, and beside the Nodes whose cables they name. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.resources import Fabric, Manifest, Node

from .field_errors import suggest

Places = Mapping[tuple[str, str], str]
"""Where each object stands, as ``file:line``, by kind and name."""


@dataclass(frozen=True, slots=True)
class FabricProblem:
    """One thing that is wrong with a Fabric: what, and at which of its fields."""

    fabric: str
    path: tuple[str | int, ...]
    text: str


def problems(manifests: Iterable[Manifest], places: Places, part: bool) -> Iterator[FabricProblem]:
    """Every flaw, in the order of the manifests. ``part``: there may be Nodes beside these manifests."""
    manifests = tuple(manifests)
    nodes = {manifest.metadata.name for manifest in manifests if isinstance(manifest, Node)}
    fabrics = [manifest for manifest in manifests if isinstance(manifest, Fabric)]
    if not part:
        for fabric in fabrics:
            yield from _unknown(fabric, nodes)
    yield from _shared(fabrics, places)
    yield from _overlapping(fabrics, places)


def _unknown(fabric: Fabric, nodes: set[str]) -> Iterator[FabricProblem]:
    for number, pair in enumerate(fabric.spec.links):
        for side, end in enumerate(pair):
            name = end.rpartition("/")[0]
            if name not in nodes:
                nearest = suggest(name, sorted(nodes))
                advice = (
                    f'did you mean "{nearest}"? Where it was taken away, take its links out of the Fabric'
                    if nearest
                    else "add the Node first, or take its links out of the Fabric"
                )
                text = f'there is no Node "{name}"; {advice}'
                yield FabricProblem(fabric.metadata.name, ("spec", "links", number, side), text)


def _shared(fabrics: Iterable[Fabric], places: Places) -> Iterator[FabricProblem]:
    """Receptacles that an earlier Fabric has a cable for."""
    owners: dict[str, str] = {}
    for fabric in fabrics:
        name = fabric.metadata.name
        for number, pair in enumerate(fabric.spec.links):
            for side, end in enumerate(pair):
                owner = owners.setdefault(end, name)
                if owner != name:
                    text = f'{end} has a cable in Fabric "{owner}" already, at {places["Fabric", owner]}'
                    yield FabricProblem(name, ("spec", "links", number, side), text)


def _overlapping(fabrics: Iterable[Fabric], places: Places) -> Iterator[FabricProblem]:
    """Pools of which an earlier Fabric gives out addresses."""
    before: list[tuple[str, ipaddress.IPv4Network]] = []
    for fabric in fabrics:
        name, network = fabric.metadata.name, fabric.spec.addressing.network
        if network is None:
            continue
        for owner, other in before:
            if network.overlaps(other):
                text = (
                    f'{network} overlaps {other} of Fabric "{owner}", at {places["Fabric", owner]}:'
                    " two machines would get one address"
                )
                yield FabricProblem(name, ("spec", "addressing", "pool"), text)
                break
        before.append((name, network))
