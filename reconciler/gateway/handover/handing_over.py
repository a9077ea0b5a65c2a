"""The old gateway's side. It gives a new gateway all that it needs, and continues as before until that one accepts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence

from reconciler.wire.codec import WireError
from reconciler.wire.handover import NEW, OLD, OLD_RECEIVES, Drain, Stop

from .channel import Channel

log = logging.getLogger(__name__)

DRAIN_SECONDS = 10.0
"""The longest time until the new gateway accepts. It has prepared itself before it asks."""
AGAIN_SECONDS = 0.5
"""The pause after a failed handover until the next gateway that asks is answered: the reason may still hold."""
REPORT_SECONDS = 1.0
"""The interval of reports: if this gateway is killed, so much use of its requests does not count."""


Give = Callable[[], Awaitable[tuple[Sequence[int], Sequence[object]]]]
"""Returns the descriptors that a new gateway gets, and the messages that come with them."""


async def hand_over(listening: socket.socket, give: Give) -> Channel:
    """Wait until a new gateway accepts and wants this one to drain; return the connection to it."""
    while True:
        try:
            return await _hand_over(listening, give)
        except (OSError, WireError) as error:
            log.warning("no gateway has taken over: %s", str(error) or type(error).__name__)
        except Exception:
            log.exception("no gateway has taken over")
        await asyncio.sleep(AGAIN_SECONDS)


async def _hand_over(listening: socket.socket, give: Give) -> Channel:
    sock, _ = await asyncio.get_running_loop().sock_accept(listening)
    channel = Channel(sock, OLD_RECEIVES)
    try:
        await channel.greet(OLD, NEW, first=False)
        descriptors, messages = await give()
        async with asyncio.timeout(DRAIN_SECONDS):
            await channel.send(*messages, descriptors=descriptors)
            await channel.receive(Drain)
    except BaseException:
        channel.close()
        raise
    return channel


async def report(
    channel: Channel, news: Callable[[], Sequence[object]], stop: asyncio.Event, over: asyncio.Event
) -> None:
    """Send the news of a gateway that drains, until ``over`` is set and all are sent, or the new gateway is gone. Set
    ``stop`` if that one is being stopped."""
    listening = asyncio.create_task(_listen(channel, stop), name="listen to the new gateway")
    try:
        last = False
        while not last:
            last = over.is_set()
            await channel.send(*news())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REPORT_SECONDS):
                    await over.wait()
    except OSError:
        log.warning("the new gateway is gone: what is used from now on does not count")
    finally:
        listening.cancel()
        await asyncio.wait([listening])
        channel.close()


async def _listen(channel: Channel, stop: asyncio.Event) -> None:
    with contextlib.suppress(OSError, WireError):
        while True:
            await channel.receive(Stop)
            stop.set()
