"""How the cables of a Fabric are, as its status shows that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from reconciler.state.cabling import HARMLESS, LinkSight, LinkState

from .weights import Readiness


def readiness(sights: Sequence[LinkSight]) -> Readiness:
    """Ready while every declared link is known to be as declared; with one row for each cable."""
    declared = [sight for sight in sights if sight.state is not LinkState.UNDECLARED]
    counts = Counter(sight.state for sight in declared)
    extra = {
        "connected": counts[LinkState.CONNECTED],
        "undeclared": len(sights) - len(declared),
        "links": [_row(sight) for sight in sights],
    }
    summary = f"{counts[LinkState.CONNECTED]} of {len(declared)} links are connected"
    if extra["undeclared"]:
        summary += f", and {extra['undeclared']} undeclared"
    seen = [sight.text for sight in declared if sight.state not in HARMLESS]
    texts = list(dict.fromkeys([*seen, *(s.text for s in declared if s.state is LinkState.UNKNOWN)]))
    if not texts:
        return True, "LinksConnected", summary, extra
    faulty = counts.total() - counts[LinkState.CONNECTED] - counts[LinkState.UNKNOWN]
    reason = "LinksNotAsDeclared" if faulty else "LinksUnknown"
    return False, reason, f"{summary}: {'; '.join(texts)}", extra


def _row(sight: LinkSight) -> dict[str, Any]:
    told: dict[str, Any] = {
        "ends": [str(end) for end in sight.link],
        "state": sight.state.value,
        "gbps": sight.gbps,
        "interfaces": list(sight.interfaces),
        "addresses": list(sight.addresses),
        "text": sight.text,
        "person": sight.person,
    }
    return {name: value for name, value in told.items() if value not in (None, "", ["", ""])}
