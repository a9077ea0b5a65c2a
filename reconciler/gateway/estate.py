"""What a gateway hands over: it stops to accept, says what there is, and lets go of it, or goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from reconciler.errors import Conflict
from reconciler.wire.handover import Given, Offer

from .files import Files
from .handover.heir import Heir
from .handover.lock import Lock
from .http.listener import Listener
from .keys.sharing import Sharing
from .routing.pool import Pool


class Estate:
    """The parts of a gateway that another one gets."""

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
        """``listening`` returns where it listens, as the routes have it, and with what. ``moving`` is held while it follows
        other routes; ``still`` is called with whether it is to follow none."""
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
        """Return what it listens on."""
        listen, listener = self._listening()
        return Offer(listen, listener.address)

    @contextlib.asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """Have it follow no routes within the block; after the block it does again, unless it has let go. Waits until it has
        followed those that it follows just now."""
        self._still(True)  # before the lock: nobody else begins to wait for that
        try:
            async with self._moving:
                yield
        finally:
            if not self._left:
                self._still(False)

    async def pause(self) -> None:
        """Stop to accept, and to count in a store that others share."""
        await self._listener.pause()
        await self._sharing.close()

    def given(self) -> tuple[Sequence[int], Given]:
        """Return the descriptors of the listening socket and of the lock, and what goes with them."""
        lock = [] if self._lock is None else [self._lock.fileno()]
        now = self._pool.desk.now().monotonic
        listen, listener = self._listening()
        given = Given(self._sharing.process, now, self._pool.quarantined_prompts(), listen)
        return (listener.fileno(), *lock), given

    def bequeath(self, heir: Heir | None) -> None:
        """Have the heir told of all that is used from now on; None: it is counted here again."""
        self._pool.desk.heir = heir
        self._files.bequeath(heir)

    async def resume(self) -> None:
        """Go on as before ``pause``. Raises ``Conflict`` where it cannot accept again."""
        try:
            await self._listener.resume()
        except OSError as error:
            raise Conflict(
                f"nothing was handed over, and this gateway cannot accept again: {error.strerror or error}"
            ) from error

    def let_go(self) -> None:
        """Close what another gateway has now."""
        self._left = True
        self._listener.let_go()
        if self._lock is not None:
            self._lock.let_go()
