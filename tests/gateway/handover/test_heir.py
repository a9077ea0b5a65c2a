"""What becomes of requests at a gateway that finishes its answers when the one that has taken over is not understood."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from reconciler.gateway.handover.heir import Heir
from reconciler.gateway.handover.messages import Blocking, Waiting
from reconciler.gateway.keys.desk import Desk
from reconciler.wire.handover import NEW_RECEIVES, OLD_RECEIVES, Begin, Denied
from reconciler.wire.keys import KeyLimits

WAIT_SECONDS = 30.0


async def test_a_limit_that_only_a_newer_gateway_knows_leaves_the_old_one_to_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    old, new = socket.socketpair()
    with old, new:
        heir = Heir(Waiting(old, OLD_RECEIVES), Desk(time.time, time.monotonic), lambda: ())
        there = Blocking(new, NEW_RECEIVES)
        talking = asyncio.create_task(heir.run())
        asking = asyncio.create_task(heir.begin(1, "agent", KeyLimits(), 0))
        assert isinstance(await asyncio.to_thread(there.receive, WAIT_SECONDS), Begin)
        there.send(Denied(1, time.time(), "requests_per_fortnight", KeyLimits()))
        await talking
        assert await asking is None
        assert await heir.begin(2, "agent", KeyLimits(), 0) is None
        assert "requests_per_fortnight" in caplog.text
