"""How declared cables compare with those that are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from reconciler.resources import Link
from reconciler.state.faults import FaultClass


class LinkState(Enum):
    """What is to be said of one cable."""

    CONNECTED = "Connected"
    UNKNOWN = "Unknown"
    """Neither fine nor a fault: a machine does not answer, or does not tell."""
    MISSING = "Missing"
    WRONG_PORT = "WrongPort"
    SWAPPED = "Swapped"
    """Two cables of which each is where an end of the other belongs."""
    THROUGH_DOCK = "ThroughDock"
    TOO_SLOW = "TooSlow"
    DOWN = "Down"
    UNDECLARED = "Undeclared"
    """It is there, and no Fabric has it."""


HARMLESS = (LinkState.CONNECTED, LinkState.UNKNOWN, LinkState.UNDECLARED)
"""States of a cable that keep no group from anything."""


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """One cable, declared or not."""

    link: Link
    state: LinkState
    text: str = ""
    """What was seen, naming both ends, or why nothing was; empty for a cable that is as it should be."""
    person: str = ""
    """The exact steps that only a person can take."""
    gbps: int | None = None
    interfaces: tuple[str, str] = ("", "")
    """Of both ends, such as ``en3``; empty where not known."""
    addresses: tuple[str, str] = ("", "")
    """Those that the ends are meant to have, with their prefix; empty without a pool."""
    verbs_only: bool = False
    """Whether only RDMA minds: TCP goes over such a cable."""

    @property
    def fault(self) -> FaultClass:
        """The class of faults that it is one of where its state is a fault."""
        slow = self.state in (LinkState.TOO_SLOW, LinkState.THROUGH_DOCK)
        return FaultClass.UNSUPPORTED_PLATFORM if slow else FaultClass.LINK_DOWN


Cabling = Mapping[str, tuple[LinkStatus, ...]]
"""How the cables of each Fabric stand, by its name: its links in their order, then the cables that no Fabric has."""
