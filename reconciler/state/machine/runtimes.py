"""What this controller knows of the managed runtimes of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.state.identity import NodeName


@dataclass(frozen=True, slots=True)
class Tidied:
    """When the old runtimes of a node were removed."""

    key: str
    """Of the runtime that it had then."""
    again_at: float | None = None
    """Something ran from an older one: when to look again, in seconds of the controller's clock."""


@dataclass(frozen=True, slots=True)
class Runtimes:
    """Noted by this controller alone: the next one asks the nodes again, which costs one command on each."""

    wanted: Mapping[str, str] = field(default_factory=dict)
    """The name of the runtime that this version uses, by ``uname -s``/``uname -m``; empty where none is managed."""
    built: Mapping[NodeName, str] = field(default_factory=dict)
    """What was found on a node, or was put there."""
    told: Mapping[NodeName, str] = field(default_factory=dict)
    """How far those that are being built are, for people."""
    tidied: Mapping[NodeName, Tidied] = field(default_factory=dict)
