"""The readiness of a Fabric: the state of its cables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from reconciler.state.machine.links import LinkState, LinkStatus
from reconciler.wire import objects

from .snapshots import Readiness, Snapshots

UNKNOWN = "LinksUnknown"
"""Reason of a Fabric without a known fault, but with cables in an unknown state."""
NAMED_MAX = 1
"""Most links in a summary; every link has its own row."""
_FAULTS = {
    LinkState.MISSING: "{} is missing",
    LinkState.WRONG_PORT: "{} is in the wrong port",
    LinkState.SWAPPED: "{} is swapped with another",
    LinkState.DOWN: "{} is down",
    LinkState.TOO_SLOW: "{} is too slow",
    LinkState.THROUGH_DOCK: "{} goes through a dock",
}


def of_fabric(name: str, snapshots: Snapshots) -> Readiness:
    return readiness(snapshots.plan.cabling.get(name, ()))


def readiness(links: Sequence[LinkStatus]) -> Readiness:
    """Return ready if every declared link is known to be fine, with a row for each cable."""
    declared = [link for link in links if link.state is not LinkState.UNDECLARED]
    counts = Counter(link.state for link in declared)
    connected = counts[LinkState.CONNECTED] + counts[LinkState.UNTESTED]
    extra: objects.FabricFields = {
        "connected": connected,
        "undeclared": len(links) - len(declared),
        "links": [_row(link) for link in links],
    }
    summary = f"{connected} of {len(declared)} links are connected"
    if counts[LinkState.UNTESTED]:
        summary += f", {counts[LinkState.UNTESTED]} of them not tested"
    if extra["undeclared"]:
        summary += f", and {extra['undeclared']} undeclared"
    seen = [_FAULTS[link.state].format(link.link) for link in declared if link.state in _FAULTS]
    texts = list(dict.fromkeys([*seen, *(s.text for s in declared if s.state is LinkState.UNKNOWN)]))
    if not texts:
        return Readiness(True, "LinksConnected", summary, extra)
    faulty = counts.total() - connected - counts[LinkState.UNKNOWN]
    reason = "LinksNotAsDeclared" if faulty else UNKNOWN
    more = f", and {len(texts) - NAMED_MAX} more" if len(texts) > NAMED_MAX else ""
    return Readiness(False, reason, f"{summary}: {', '.join(texts[:NAMED_MAX])}{more}", extra)


def _row(link: LinkStatus) -> objects.Link:
    row: objects.Link = {"ends": [str(end) for end in link.link], "state": link.state.value}
    if link.gbps is not None:
        row["gbps"] = link.gbps
    if any(link.interfaces):
        row["interfaces"] = list(link.interfaces)
    if any(link.addresses):
        row["addresses"] = list(link.addresses)
    if link.text:
        row["text"] = link.text
    if link.person:
        row["person"] = link.person
    return row
