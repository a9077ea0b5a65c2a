"""Bounds the number of wrong keys from an address. Pure: no clock.

Nobody guesses a secret of 256 random bits; the bound is on the lines in the log and on answers to those who try. A right key
is never refused because of others' wrong keys from the same address.
"""

from __future__ import annotations

import ipaddress
import math

from reconciler.wire.clock import seconds_left

WRONG_MAX = 10
"""Most wrong keys that an address may show in a row."""
AGAIN_SECONDS = 30.0
"""Time after which it may show one more."""
ADDRESSES_MAX = 4096


class Attempts:
    """Counts wrong keys by address: a bucket of ``WRONG_MAX`` that regains one in ``AGAIN_SECONDS``."""

    def __init__(self) -> None:
        self._full_at: dict[str, float] = {}
        """When the bucket of an address will be full again, the oldest count first."""

    def wait(self, address: str, now: float) -> int:
        """Return the seconds for which wrong keys from the address get no answer; 0 if they get one now."""
        full_at = self._full_at.get(_network(address), now)
        seconds = seconds_left(full_at, now, WRONG_MAX * AGAIN_SECONDS)
        return max(0, math.ceil(seconds - (WRONG_MAX - 1) * AGAIN_SECONDS))

    def wrong(self, address: str, now: float) -> None:
        network = _network(address)
        full_at = self._full_at.pop(network, now)
        full_at = now + seconds_left(full_at, now, WRONG_MAX * AGAIN_SECONDS) + AGAIN_SECONDS
        while len(self._full_at) >= ADDRESSES_MAX:
            del self._full_at[next(iter(self._full_at))]
        self._full_at[network] = full_at


def _network(address: str) -> str:
    """Return the IPv4 address of a client, or its IPv6 network of 64 bits: a client may choose the other 64 bits itself."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and not parsed.is_loopback:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address
