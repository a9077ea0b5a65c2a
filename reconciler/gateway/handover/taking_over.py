"""The new gateway's side. It asks the old one for all that it needs, and makes it drain once it accepts itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

from reconciler.gateway.keys.desk import Desk
from reconciler.gateway.keys.ledger import MemoryLedger
from reconciler.gateway.routing.pool import Pool
from reconciler.wire.codec import WireError
from reconciler.wire.figures import ModelFigures
from reconciler.wire.handover import NEW, NEW_RECEIVES, OLD, Drain, Given, Report, Stop, Used

from .channel import HELLO_SECONDS, SOCKET, Channel

log = logging.getLogger(__name__)

GIVE_SECONDS = 15.0
"""The longest time for the old gateway to send all, or to stop accepting: it may just be moving to another address, and
a store of limits may need a second."""


class NotHandedOver(Exception):
    """The old gateway hands nothing over, and continues; the text says why."""


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (OSError, WireError) as error:
        raise NotHandedOver(
            f"the gateway that runs hands nothing over: {str(error) or 'no answer in time'}"
        ) from None


class OldGateway:
    """The gateway that the new one takes over from, and then hears of until it has ended."""

    def __init__(self, channel: Channel, given: Given, pool: Pool) -> None:
        self.given = given
        self.models: tuple[ModelFigures, ...] = ()
        """All its figures."""
        self._channel = channel
        self._pool = pool
        listening, *lock = channel.descriptors
        channel.descriptors = lock
        self.sock = socket.socket(fileno=listening)
        """Its listening socket."""
        self.sock.setblocking(False)
        self.hearing: asyncio.Task[None]
        """Counts what its requests use, from ``drain`` until it has ended."""

    async def drain(self) -> None:
        """Make it accept no more connections, and leave all files to this gateway. Raises ``NotHandedOver``."""
        with _told():
            async with asyncio.timeout(GIVE_SECONDS):
                await self._channel.send(Drain())
                while not isinstance(await self._hear(), Report):
                    pass
        self.hearing = asyncio.create_task(self._run(), name="hear of the old gateway")

    def lock(self) -> int | None:
        """Return the descriptor of the lock, which the caller has from now on; None if there is none."""
        return self._channel.descriptors.pop() if self._channel.descriptors else None

    async def _run(self) -> None:
        try:
            while True:
                await self._hear()
        except OSError:  # it has ended
            pass
        except WireError as error:
            log.warning("what the old gateway uses from now on does not count: %s", error)
        finally:
            self.close()
            self.models = tuple(
                ModelFigures(each.model, 0, 0, each.errors, each.first_token, each.tokens)
                for each in self.models
            )

    async def stop(self) -> None:
        """Make it stop, because this gateway is being stopped."""
        with contextlib.suppress(OSError):
            await self._channel.send(Stop())

    def close(self) -> None:
        """End the conversation: it continues as it is."""
        self._channel.close()

    async def _hear(self) -> Used | Report:
        said: Used | Report = await self._channel.receive(Used, Report)
        if isinstance(said, Used):
            _add(said, self._pool.desk)
        else:
            self.models = said.models
            self._pool.quarantine(said.prompts)
        return said


def _add(used: Used, desk: Desk) -> None:
    desk.add(used.usage, used.ended, used.prompt, used.completion)
    if used.requests or used.tokens:
        assert isinstance(desk.ledger, MemoryLedger)  # no store before it has taken over
        desk.ledger.go_on(used.usage.name, used.requests, used.tokens, desk.now())


async def ask(home: Path, pool: Pool) -> OldGateway:
    """Ask the gateway that runs for all that a new one needs; nothing changes for it. Raises ``NotHandedOver``."""
    channel = Channel(socket.socket(socket.AF_UNIX), NEW_RECEIVES)
    try:
        with _told():
            async with asyncio.timeout(HELLO_SECONDS):
                await asyncio.get_running_loop().sock_connect(channel.sock, str(home / SOCKET))
            await channel.greet(NEW, OLD, first=True)
            async with asyncio.timeout(GIVE_SECONDS):
                given = await channel.receive(Given)
                for _ in range(given.keys):
                    _add(await channel.receive(Used), pool.desk)
            if not channel.descriptors:
                raise WireError("no socket came with the message")
            return OldGateway(channel, given, pool)
    except BaseException:
        channel.close()
        raise
