"""The facts that a group is formed under."""

from __future__ import annotations

from typing import NamedTuple

from .identity import NodeName


class Fact(NamedTuple):
    """A fact about a machine or one of its ports, or about the manifests."""

    name: str
    node: NodeName | None = None
    receptacle: int | None = None

    def __str__(self) -> str:
        if self.node is None:
            return self.name
        port = "" if self.receptacle is None else f"/{self.receptacle}"
        return f"{self.node}{port} {self.name}"


Facts = tuple[tuple[Fact, str], ...]
"""The known facts with their values, in the order of their texts."""


def in_order(facts: dict[Fact, str]) -> Facts:
    """Return facts as records keep them."""
    return tuple(sorted(facts.items(), key=lambda each: str(each[0])))
