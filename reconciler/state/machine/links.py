"""The states of declared cables, as ``planning/transport/link_check.py`` finds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from reconciler.resources import Link
from reconciler.state.faults import FaultClass, Sign


class LinkState(Enum):
    """The state of one cable."""

    CONNECTED = "Connected"
    UNKNOWN = "Unknown"
    """Neither fine nor a fault: a machine does not answer, or does not tell."""
    MISSING = "Missing"
    WRONG_PORT = "WrongPort"
    SWAPPED = "Swapped"
    """Two cables, each of which has an end of the other."""
    THROUGH_DOCK = "ThroughDock"
    TOO_SLOW = "TooSlow"
    UNTESTED = "Untested"
    """Slow, or through a dock, and allowed by its Fabric."""
    DOWN = "Down"
    UNDECLARED = "Undeclared"
    """The cable is connected, but no Fabric declares it."""


HARMLESS = (LinkState.CONNECTED, LinkState.UNTESTED, LinkState.UNKNOWN, LinkState.UNDECLARED)
"""States of a cable that hinder no group."""


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """One cable, declared or not."""

    link: Link
    state: LinkState
    text: str = ""
    """The observation with both ends, or why there is none; empty if the cable is as declared."""
    person: str = ""
    """The exact steps that only a person can take."""
    gbps: int | None = None
    interfaces: tuple[str, str] = ("", "")
    """Interfaces of both ends, such as ``en3``; empty if unknown."""
    addresses: tuple[str, str] = ("", "")
    """Addresses that the ends should have, with their prefix; empty without a pool."""
    swapped_with: Link | None = None
    """The other link of two whose cables are swapped: both have one text and one task."""
    verbs_only: bool = False
    """True if only RDMA is affected: TCP works over such a cable."""

    @property
    def sign(self) -> Sign:
        """Return the key of ``text`` and ``person``."""
        links = sorted([self.link, self.swapped_with] if self.swapped_with else [self.link])
        return self.state.value, *(str(end) for link in links for end in link)

    @property
    def fault(self) -> FaultClass:
        """Return the class of faults of this state; only for states that are faults."""
        slow = self.state in (LinkState.TOO_SLOW, LinkState.THROUGH_DOCK)
        return FaultClass.UNSUPPORTED_PLATFORM if slow else FaultClass.LINK_DOWN


Cabling = Mapping[str, tuple[LinkStatus, ...]]
"""The cables of each Fabric by its name: its links in their order, then the undeclared cables."""
