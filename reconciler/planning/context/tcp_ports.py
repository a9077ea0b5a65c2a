"""Choose ports: adjacent ones for each group, never those of another."""

from __future__ import annotations

from collections.abc import Iterable

PORT_FIRST = 21_000
PORT_LAST = 28_999
"""Below the ephemeral ports of Linux (from 32768) and macOS (from 49152), so that no client has one by chance."""


def first_ports(cursor: int, count: int, used: Iterable[range]) -> int:
    """Return the first of ``count`` adjacent ports at or after ``cursor`` that are not ``used``. Raises
    ``AssertionError`` where there are none."""
    taken = {port for ports in used for port in ports}
    port = cursor if PORT_FIRST <= cursor <= PORT_LAST else PORT_FIRST
    for _ in range(PORT_LAST - PORT_FIRST):
        if port + count - 1 > PORT_LAST:
            port = PORT_FIRST
        if taken.isdisjoint(range(port, port + count)):
            return port
        port += 1
    raise AssertionError("more groups than ports")
