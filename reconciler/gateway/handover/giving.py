"""An old gateway's side until it has let go. It hands everything over to the gateway that asks, or nothing has
changed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from reconciler.errors import Conflict
from reconciler.gateway.keys.desk import Desk
from reconciler.gateway.keys.ledger import MemoryLedger
from reconciler.wire.codec import WireError
from reconciler.wire.figures import ModelFigures
from reconciler.wire.handover import (
    OLD_RECEIVES,
    Complete,
    CountedKey,
    Given,
    Offer,
    OpenRequest,
    Take,
    Taken,
    Yours,
)
from reconciler.wire.keys import KeyUsage

from .heir import Heir
from .messages import HELLO_SECONDS, SOCKET, Waiting, check_hello, hello, listen, same_user

log = logging.getLogger(__name__)

READY_SECONDS = 60.0
"""The longest time from a new gateway's hello until it is ready to answer."""
SWITCH_SECONDS = 20.0
"""The longest time from its question until it has taken everything. Meanwhile connections wait in the system."""
AGAIN_SECONDS = 0.5
"""The pause after a failed handover until the next gateway that asks is answered: the reason may still hold."""


class Gateway(Protocol):
    """The parts that are handed over."""

    def offer(self) -> Offer:
        """Return the address that it listens on."""

    def still(self) -> AbstractAsyncContextManager[None]:
        """Make the gateway follow no routes within the block, after those that it follows just now. After the block
        it follows them again, unless it has let go."""

    async def pause(self) -> None:
        """Stop accepting, and stop counting in a shared store."""

    def given(self) -> tuple[Sequence[int], Given]:
        """Return the descriptors of the listening socket and of the lock, and the message that goes with them."""

    def bequeath(self, heir: Heir | None) -> None:
        """Report all further use to the heir; with None, count it here again."""

    async def resume(self) -> None:
        """Continue as before ``pause``. Raises ``Conflict`` if it cannot accept again."""

    def let_go(self) -> None:
        """Close the descriptors that another gateway has now."""


class Giving:
    """Waits for a new gateway."""

    def __init__(
        self, home: Path, gateway: Gateway, desk: Desk, figures: Callable[[], tuple[ModelFigures, ...]]
    ) -> None:
        """Listen in ``home``. ``figures`` returns the figures of all requests. Raises ``OSError``."""
        self._listening = listen(home / SOCKET)
        self._gateway = gateway
        self._desk = desk
        self._figures = figures

    def close(self) -> None:
        """Stop waiting."""
        self._listening.close()

    async def run(self) -> Heir:
        """Wait until everything is handed over, and return the heir. Raises ``Conflict`` if nobody has taken over and
        this gateway cannot accept again."""
        with contextlib.closing(self._listening):
            while True:
                try:
                    return await self._hand_over()
                except Conflict:
                    raise
                except (OSError, WireError) as error:
                    log.warning("nothing is handed over: %s", error or type(error).__name__)
                except Exception:
                    log.exception("nothing is handed over")
                await asyncio.sleep(AGAIN_SECONDS)

    async def _hand_over(self) -> Heir:
        """Hand everything over to the next gateway that asks. Raises the error that prevents it; nothing has changed
        then."""
        sock, _ = await asyncio.get_running_loop().sock_accept(self._listening)
        try:
            return await self._answer(sock)
        except BaseException:
            sock.close()
            raise

    async def _answer(self, sock: socket.socket) -> Heir:
        """Hand everything over. Raises ``OSError`` and ``WireError`` if nothing was handed over."""
        if not same_user(sock):
            raise WireError("who asks belongs to another user")
        connection = Waiting(sock, OLD_RECEIVES)
        async with asyncio.timeout(HELLO_SECONDS):
            said = await connection.receive()
            await connection.send(hello("gateway"), self._gateway.offer())
            check_hello(said, "successor")
        async with asyncio.timeout(READY_SECONDS):
            if not isinstance(await connection.receive(), Take):
                raise WireError("expected Take")
        heir = Heir(connection, self._desk, self._figures)
        async with self._gateway.still():
            try:
                async with asyncio.timeout(SWITCH_SECONDS):
                    await self._gateway.pause()
                    await self._say_all(connection, heir)
            except BaseException:
                heir.forget()
                self._gateway.bequeath(None)
                await self._gateway.resume()
                raise
            self._gateway.let_go()
        try:
            await connection.send(Yours())
        except OSError as error:  # it has died at this moment, as any gateway may
            log.warning("the gateway that has taken over is gone: %s", error)
        return heir

    async def _say_all(self, connection: Waiting, heir: Heir) -> None:
        descriptors, given = self._gateway.given()
        counted = tuple(counted_by(self._desk))
        self._gateway.bequeath(heir)  # from the moment of those counts
        await connection.send_with(descriptors, given)
        await connection.send(*counted, Complete())
        if not isinstance(await connection.receive(), Taken):
            raise WireError("expected Taken")


def counted_by(desk: Desk) -> Iterator[CountedKey | OpenRequest]:
    """Return all counts of a gateway that shares no store with others at this moment."""
    now, ledger = desk.now(), desk.ledger
    assert isinstance(ledger, MemoryLedger)
    used = {each.name: each for each in desk.book.snapshot()}
    for name in sorted({*used, *ledger.names()}):
        account = ledger.account(name, now)
        yield CountedKey(
            used.get(name, KeyUsage(name, account.day)),
            account.day,
            account.used_today,
            tuple(account.requests.taken()),
            tuple(account.tokens.taken()),
        )
    for ticket in desk.open_tickets:
        grant, usage = ticket.grant, ticket.usage()
        if grant is not None and ticket.counted_here:
            yield OpenRequest(
                ticket.number,
                ticket.caller.key_name,
                grant.tokens,
                grant.second,
                usage.prompt,
                usage.completion,
            )
