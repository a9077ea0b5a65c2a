"""Ports that nobody else is given between their choice and their use."""

from __future__ import annotations

import itertools
import os
import random
import socket

_CHOICE = range(10_000, 20_000)
"""Below those that systems give by themselves, to whoever connects or asks for any: from 32768 on Linux, 49152 on macOS."""
_SHARES = 8
"""Processes that run tests side by side and have no port in common."""


def _own() -> list[int]:
    """The ports of this process, in an order of its own."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    share = _CHOICE[int(worker.removeprefix("gw")) % _SHARES :: _SHARES] if worker else _CHOICE
    return random.SystemRandom().sample(share, len(share))


_ports = itertools.cycle(_own())
"""All others come before one that was chosen already: it may be about to be used."""


def free_ports(count: int) -> list[int]:
    """So many ports of loopback that nobody has, no two the same."""
    found: list[int] = []
    for port in itertools.islice(_ports, len(_CHOICE) // _SHARES):
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
