"""The managed runtimes of nodes, as this controller knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.state.identity import NodeName


@dataclass(frozen=True, slots=True)
class Tidied:
    """The last removal of a node's old runtimes."""

    key: str
    again_at: float | None = None
    """Time of the next check, in seconds of the controller's clock, if an older runtime was in use."""


@dataclass(frozen=True, slots=True)
class Runtimes:
    """The runtimes that this controller has noted: the next one asks the nodes again, with one command on each."""

    wanted: Mapping[str, str] = field(default_factory=dict)
    """The name of the runtime that this version uses, by ``uname -s``/``uname -m``; empty where none is managed."""
    built: Mapping[NodeName, str] = field(default_factory=dict)
    """Keys of the runtimes that were found or built, by node."""
    progress: Mapping[NodeName, str] = field(default_factory=dict)
    """Progress of the runtimes that are being built, for people."""
    tidied: Mapping[NodeName, Tidied] = field(default_factory=dict)
