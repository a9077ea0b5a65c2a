"""The end of connections whose clients have sent nothing for too long."""

from __future__ import annotations

import asyncio

from .limiter import ConnectionLimiter

_ENDS_AT_ONCE = 50
"""The number of connections that are ended before requests continue: ending one takes some 50 µs."""


async def end_overdue(limiter: ConnectionLimiter) -> None:
    """End the connections that are overdue, a few at a time. Thousands that came together are due together."""
    overdue = limiter.overdue(asyncio.get_running_loop().time())
    for number, (connection, stage) in enumerate(overdue):
        if number and number % _ENDS_AT_ONCE == 0:
            await asyncio.sleep(0)
        if limiter.stage(connection) is stage:  # it may have begun a request meanwhile
            connection.expire(stage)
