"""Checks Fabrics against each other and against the Nodes that they name. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.resources import Fabric, Manifest, Node

from .field_errors import suggest

Places = Mapping[tuple[str, str], str]
"""The place of each object, as ``file:line``, by kind and name."""


@dataclass(frozen=True, slots=True)
class FabricProblem:
    """A mistake in a Fabric: a message, and the field."""

    fabric: str
    path: tuple[str | int, ...]
    text: str


def problems(manifests: Iterable[Manifest], places: Places, part: bool) -> Iterator[FabricProblem]:
    """Yield every mistake, in the order of the manifests. ``part``: further manifests may have Nodes."""
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
                    f'did you mean "{nearest}"? If the Node was removed, remove its links from the Fabric'
                    if nearest
                    else "add the Node first, or remove its links from the Fabric"
                )
                text = f'there is no Node "{name}"; {advice}'
                yield FabricProblem(fabric.metadata.name, ("spec", "links", number, side), text)


def _shared(fabrics: Iterable[Fabric], places: Places) -> Iterator[FabricProblem]:
    """Yield receptacles that an earlier Fabric already uses."""
    owners: dict[str, str] = {}
    for fabric in fabrics:
        name = fabric.metadata.name
        for number, pair in enumerate(fabric.spec.links):
            for side, end in enumerate(pair):
                owner = owners.setdefault(end, name)
                if owner != name:
                    text = f'{end} already has a cable in Fabric "{owner}", at {places["Fabric", owner]}'
                    yield FabricProblem(name, ("spec", "links", number, side), text)


def _overlapping(fabrics: Iterable[Fabric], places: Places) -> Iterator[FabricProblem]:
    """Yield pools that overlap the pool of an earlier Fabric."""
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
