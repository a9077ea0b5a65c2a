"""Ports that nobody else is given between their choice and their use."""

from __future__ import annotations

import random
import socket

_CHOICE = range(10_000, 20_000)
"""Below those that systems give by themselves, to whoever connects or asks for any: from 32768 on Linux, 49152 on macOS."""
_random = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """So many ports of loopback that nobody has, no two the same."""
    found: list[int] = []
    for port in _random.sample(_CHOICE, len(_CHOICE)):
        if len(found) == count:
            return found
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    raise OSError(f"{count} free ports were not found")


def free_port() -> int:
    """One of them."""
    (port,) = free_ports(1)
    return port
