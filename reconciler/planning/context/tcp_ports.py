"""Draws the ports of a group: adjacent ones that nobody can foresee, never those of another group."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

PORT_FIRST = 20_000
PORT_LAST = 29_999
"""Below the ephemeral ports of Linux (from 32768) and macOS (from 49152), so that no client has one by chance, and below
Kubernetes' node ports (from 30000)."""


def first_ports(seed: str, count: int, used: Iterable[range]) -> int:
    """Return the first of ``count`` adjacent ports that are not ``used``: the same for the same ``seed``, which is secret.
    Raises ``AssertionError`` if there are none."""
    taken = {port for ports in used for port in ports}
    firsts = PORT_LAST - PORT_FIRST + 2 - count
    drawn = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
    for turn in range(firsts):
        port = PORT_FIRST + (drawn + turn) % firsts
        if taken.isdisjoint(range(port, port + count)):
            return port
    raise AssertionError("more groups than ports")
