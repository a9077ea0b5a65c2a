"""The readiness of a SyncWindow: whether it is open now, its next end or beginning, and the changes that it holds."""

from __future__ import annotations

import math

from reconciler.resources.operation import written_moment
from reconciler.resources.sync_window import SyncWindow
from reconciler.state.identity import ObjectKey
from reconciler.wire import objects

from .snapshots import Readiness, Snapshots


class _Fields(objects.WindowState):
    """As the store keeps them, with times in seconds since the Unix epoch."""

    until: float | None
    begins: float | None


def readiness(name: str, snapshots: Snapshots) -> Readiness:
    """Return ready, because a window cannot fail. The reason says whether it is active."""
    window = snapshots.desired.others[ObjectKey("SyncWindow", name)]
    assert isinstance(window, SyncWindow)
    now, held = snapshots.now, snapshots.desired.held_changes
    holds = [str(each.object) for each in held.changes if name in each.windows] if held is not None else []
    end, begin = window.spec.end(now), window.spec.next_begin(now)
    extra: _Fields = {
        "active": end is not None,
        "until": None if end is None or math.isinf(end) else end,
        "begins": None if math.isinf(begin) else begin,
        "holds": holds,
    }
    text = "" if not holds else f"; holds {len(holds)} change{'s' if len(holds) > 1 else ''}"
    if end is not None:
        until = "it begins again before it ends" if math.isinf(end) else f"active until {written_moment(end)}"
        return Readiness(True, "Active", f"{until}{text}", extra)
    again = "it does not begin again" if math.isinf(begin) else f"begins {written_moment(begin)}"
    return Readiness(True, "Inactive", f"{again}{text}", extra)
