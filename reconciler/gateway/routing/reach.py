"""Connects to the socket of a rank: directly on this machine, through SSH on another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.wire.generation import Backend

if TYPE_CHECKING:
    from reconciler.remote.relay import Relays


class Reach:
    """Connects to backends. ``key``: the gateway's private key, made when the first machine needs it."""

    def __init__(self, key: Path) -> None:
        self._key = key
        self._relays: Relays | None = None

    async def connect(self, backend: Backend, protocol: asyncio.Protocol) -> None:
        """Connect ``protocol`` to the backend's socket. Raises ``OSError``."""
        if backend.machine is None:
            loop = asyncio.get_running_loop()
            await loop.create_unix_connection(lambda: protocol, backend.socket)
        else:
            await self._through_ssh().open(backend.machine, Path(backend.socket).name, protocol)

    def close(self) -> None:
        if self._relays is not None:
            self._relays.close()

    def _through_ssh(self) -> Relays:
        if self._relays is None:
            # takes half a second, which only a gateway with such machines should spend
            from reconciler.remote.relay import Relays

            self._relays = Relays(self._key)
        return self._relays
