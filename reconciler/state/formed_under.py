"""The facts that a group is formed under."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple, Self

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


RESULT_FACTS = ("macOS", "mlx", "mlx-lm", "weights")
"""Facts of a machine that make results over RDMA right or wrong."""


class Facts(tuple[tuple[Fact, str], ...]):
    """The known facts with their values, in the order of their texts.

    Stores and recorded facts have them as a JSON object of texts such as ``studio-1/3 cable``.
    """

    __slots__ = ()

    @classmethod
    def of(cls, facts: Mapping[Fact, str]) -> Self:
        return cls(sorted(facts.items(), key=lambda each: str(each[0])))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the facts of a text that ``str`` made; none of another text, because they are unknown then."""
        try:
            return cls.of({_fact(key): value for key, value in json.loads(text or "{}").items()})
        except (ValueError, AttributeError):
            return cls()

    def __str__(self) -> str:
        values = {str(fact): value for fact, value in self}
        return json.dumps(values, sort_keys=True, separators=(",", ":")) if values else ""


def _fact(written: str) -> Fact:
    """Return the fact that is written like this. Names of nodes have no spaces, and one without a node begins with
    ``the``."""
    about, _, name = written.partition(" ")
    if about == "the":
        return Fact(written)
    node, _, receptacle = about.partition("/")
    return Fact(name, NodeName(node), int(receptacle) if receptacle else None)


NO_FACTS = Facts()
