"""The wait before something that failed several times in a row is tried again: the same for groups and gateways."""

from __future__ import annotations

BACK_OFF_SECONDS_MIN = 10.0
BACK_OFF_SECONDS_MAX = 300.0
"""The kubelet's bounds (``pkg/kubelet/kubelet.go``: ``backOffPeriod``, ``MaxContainerBackOff``)."""
CRASH_LOOP_SECONDS = 20.0
"""One that waits for this long is reported as stalled, so that a person who has fixed the cause learns how to say so."""


def back_off_seconds(failures: int) -> float:
    """Return the wait in seconds after this many failures in a row: none after the first, then 10 s doubling to five
    minutes."""
    if failures <= 1:
        return 0.0
    return min(BACK_OFF_SECONDS_MAX, BACK_OFF_SECONDS_MIN * 2.0 ** min(failures - 2, 10))
