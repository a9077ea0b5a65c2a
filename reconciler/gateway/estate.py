"""The parts that a gateway hands over. It stops accepting, describes them, and lets go of them or continues."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from reconciler.errors import Conflict
from reconciler.serving.listener import Listener
from reconciler.wire.handover import Given, Offer

from .files import Files
from .handover.heir import Heir
from .handover.lock import Lock
from .keys.sharing import Sharing
from .routing.pool import Pool


class Estate:
    """The parts of a gateway that the next one gets."""

    def __init__(
        self,
        listening: Callable[[], tuple[str, Listener]],
        pool: Pool,
        sharing: Sharing,
        files: Files,
        lock: Lock | None,
        moving: asyncio.Lock,
        still: Callable[[bool], object],
    ) -> None:
        """``listening`` returns the address, as the routes have it, and the listener. ``moving`` is held while the
        gateway follows new routes. ``still`` is called with True to follow no routes, and with False to follow them
        again."""
        self._listening = listening
        self._pool = pool
        self._sharing = sharing
        self._files = files
        self._lock = lock
        self._moving = moving
        self._still = still
        self._left = False

    @property
    def _listener(self) -> Listener:
        return self._listening()[1]

    def offer(self) -> Offer:
        """Return the address that it listens on."""
        listen, listener = self._listening()
        return Offer(listen, listener.address)

    @contextlib.asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """Make the gateway follow no routes within the block, after those that it follows just now. After the block
        it follows them again, unless it has let go."""
        self._still(True)  # before the lock, so that nobody else begins to wait for it
        try:
            async with self._moving:
                yield
        finally:
            if not self._left:
                self._still(False)

    async def pause(self) -> None:
        """Stop accepting, and stop counting in a shared store."""
        await self._listener.pause()
        await self._sharing.close()

    def given(self) -> tuple[Sequence[int], Given]:
        """Return the descriptors of the listening socket and of the lock, and the message that goes with them."""
        lock = [] if self._lock is None else [self._lock.fileno()]
        now = self._pool.desk.now().monotonic
        listen, listener = self._listening()
        given = Given(self._sharing.process, now, self._pool.quarantined_prompts(), listen)
        return (listener.fileno(), *lock), given

    def bequeath(self, heir: Heir | None) -> None:
        """Report all further use to the heir; with None, count it here again."""
        self._pool.desk.heir = heir
        self._files.bequeath(heir)

    async def resume(self) -> None:
        """Continue as before ``pause``. Raises ``Conflict`` if it cannot accept again."""
        try:
            await self._listener.resume()
        except OSError as error:
            raise Conflict(
                f"nothing was handed over, and this gateway cannot accept again: {error.strerror or error}"
            ) from error

    def let_go(self) -> None:
        """Close the descriptors that another gateway has now."""
        self._left = True
        self._listener.let_go()
        if self._lock is not None:
            self._lock.let_go()
