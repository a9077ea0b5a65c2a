"""The kind Fabric: the Thunderbolt cables that should be connected."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema, model_validator

from .base import NAME_PATTERN, TYPE, Manifest, Strict

LINK_PREFIX = 30
"""Prefix length of a link's own network, which has room for the addresses of two ends."""
LINKS_MAX = 512
PRIVATE = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
"""Private networks (RFC 1918)."""


class End(NamedTuple):
    """One end of a link: a receptacle of a Node, by the number that macOS gives it."""

    node: str
    receptacle: int

    def __str__(self) -> str:
        return f"{self.node}/{self.receptacle}"


class Link(NamedTuple):
    """One cable. Its ends are sorted by name: the order in the manifest makes no difference."""

    one: End
    other: End

    @property
    def name(self) -> str:
        """Return the link's name, which depends on its two receptacles alone: ``studio-1/3 - studio-2/4``."""
        return f"{self.one} - {self.other}"

    def __str__(self) -> str:
        return self.name


def link_between(one: End, other: End) -> Link:
    """Return the link between two ends, in either order."""
    return Link(one, other) if one <= other else Link(other, one)


def _end(written: str) -> End:
    node, _, receptacle = written.rpartition("/")
    return End(node, int(receptacle))


def _pool(value: str) -> str:
    example = 'such as "10.77.0.0/16"'
    try:
        network = ipaddress.IPv4Network(value, strict=False)
    except ValueError:
        raise ValueError(f"expected an IPv4 network {example}") from None
    if str(network) != value:
        raise ValueError(f'expected the network address and its prefix, "{network}"')
    if network.prefixlen > LINK_PREFIX:
        raise ValueError(
            f"expected a network of at least /{LINK_PREFIX}, because each link gets a /{LINK_PREFIX}"
        )
    if not any(network.subnet_of(private) for private in PRIVATE):
        raise ValueError(f"expected a network within {', '.join(map(str, PRIVATE))}")
    return value


def _joined(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(value) != 2:
        raise ValueError(f"expected two ends, such as [studio-1/3, studio-2/3], got {len(value)}")
    one, other = map(_end, value)
    if one.node == other.node:
        raise ValueError(f"both ends are on {one.node}, but a link joins two nodes")
    return value


def _receptacle(value: str) -> str:
    if not re.fullmatch(_END, value):
        raise ValueError('expected node/receptacle, such as "studio-1/3"')
    return value


_END = NAME_PATTERN.strip("^$") + "/[1-9][0-9]?"
_END_SCHEMA = {"type": "string", TYPE: "receptacle", "pattern": f"^{_END}$", "examples": ["studio-1/3"]}
Receptacle = Annotated[
    str, StringConstraints(max_length=66), AfterValidator(_receptacle), WithJsonSchema(_END_SCHEMA)
]
"""`node/receptacle`."""

Ends = Annotated[
    tuple[Receptacle, ...],
    AfterValidator(_joined),
    WithJsonSchema({"type": "array", "items": _END_SCHEMA, "minItems": 2, "maxItems": 2}),
]


def _links(pairs: tuple[tuple[str, ...], ...]) -> tuple[Link, ...]:
    return tuple(sorted(link_between(*map(_end, pair)) for pair in pairs))


class Addressing(Strict):
    """The addresses of the links' ends."""

    pool: Annotated[str, AfterValidator(_pool), Field(json_schema_extra={TYPE: "network"})] | None = None
    """A private IPv4 network that nothing else uses, such as `10.77.0.0/16`. Each link gets a /30 of it. The addresses
    are set on machines whose Node has `repair.network`. By default no addresses are set."""

    @property
    def network(self) -> ipaddress.IPv4Network | None:
        """Return the pool as a network; None without one."""
        return ipaddress.IPv4Network(self.pool) if self.pool else None


class FabricSpec(Strict):
    """Cables between nodes, and their addresses."""

    addressing: Addressing = Addressing.by_default()
    links: Annotated[tuple[Ends, ...], Field(max_length=LINKS_MAX)]
    """The cables. Each is a pair of `node/receptacle`, such as `[studio-1/3, studio-2/3]`, with the receptacles as
    macOS numbers them."""
    allow_untested: Annotated[tuple[Ends, ...], Field(max_length=LINKS_MAX)] = ()
    """Those of `links` that may carry RDMA although this project has not tested that: cables with 40 Gb/s between Macs with
    Thunderbolt 5, and cables through a dock or a hub with 80 Gb/s at both ends. By default RDMA is refused there."""

    @property
    def cables(self) -> tuple[Link, ...]:
        return _links(self.links)

    @property
    def untested(self) -> tuple[Link, ...]:
        return _links(self.allow_untested)

    @model_validator(mode="after")
    def _once(self) -> Self:
        seen: dict[str, int] = {}
        for number, pair in enumerate(self.links, 1):
            for end in pair:
                if end in seen:
                    raise ValueError(
                        f"links {seen[end]} and {number} both end at {end}, but a receptacle takes one cable"
                    )
                seen[end] = number
        unknown = next((link for link in self.untested if link not in self.cables), None)
        if unknown is not None:
            raise ValueError(
                f"allowUntested has [{unknown.one}, {unknown.other}], which is not one of links: add it there, or remove it"
            )
        network = self.addressing.network
        room = 2 ** (LINK_PREFIX - network.prefixlen) if network else LINKS_MAX
        if len(self.links) > room:
            raise ValueError(
                f"addressing.pool {network} has room for {room} links, but there are {len(self.links)}:"
                " use a shorter prefix"
            )
        return self


class Fabric(Manifest):
    """The Thunderbolt cables that should be connected."""

    kind: Literal["Fabric"]
    spec: FabricSpec
