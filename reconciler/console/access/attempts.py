"""How often an address may show a wrong key. Pure: no clock.

A secret has 256 random bits, which nobody guesses; this bounds the lines of the log, and the answers to who tries. A right key
is never refused for the wrong ones of others behind the same address.
"""

from __future__ import annotations

import ipaddress
import math

from reconciler.wire.clock import seconds_left

WRONG_MAX = 10
"""Wrong keys that an address may show at once."""
AGAIN_SECONDS = 30.0
"""After how long it may show one more."""
ADDRESSES_MAX = 4096


class Attempts:
    """Counts wrong keys by address: a bucket of ``WRONG_MAX`` that fills again by one in ``AGAIN_SECONDS``."""

    def __init__(self) -> None:
        self._full_at: dict[str, float] = {}
        """When the bucket of an address will be full again, the oldest count first."""

    def wait(self, address: str, now: float) -> int:
        """Return for how many seconds wrong keys of the address are not answered; 0 where they are."""
        full_at = self._full_at.get(_network(address), now)
        seconds = seconds_left(full_at, now, WRONG_MAX * AGAIN_SECONDS)
        return max(0, math.ceil(seconds - (WRONG_MAX - 1) * AGAIN_SECONDS))

    def wrong(self, address: str, now: float) -> None:
        """Note a wrong key."""
        network = _network(address)
        full_at = self._full_at.pop(network, now)
        full_at = now + seconds_left(full_at, now, WRONG_MAX * AGAIN_SECONDS) + AGAIN_SECONDS
        while len(self._full_at) >= ADDRESSES_MAX:
            del self._full_at[next(iter(self._full_at))]
        self._full_at[network] = full_at


def _network(address: str) -> str:
    """Return what one client has: an IPv4 address, or the 64 bits of an IPv6 network, in which it may choose the rest."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and not parsed.is_loopback:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address
