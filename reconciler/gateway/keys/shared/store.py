"""One connection to a Valkey or Redis, and the script that runs there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from reconciler.errors import Invalid
from reconciler.secret_files import read_secret
from reconciler.wire.gateway import LimitsStore

from .script import SCRIPT

if TYPE_CHECKING:
    from valkey.asyncio import Valkey
    from valkey.commands.core import AsyncScript

ANSWER_SECONDS = 1.0
"""The longest time for a call, or for the connection; requests wait for less."""


class StoreAway(Exception):
    """The store does not answer, or cannot run the call. The text says why."""


class SharedStore:
    """The store of the limits. It connects at the first call, and again after a failed one."""

    def __init__(self, place: LimitsStore) -> None:
        self._place = place
        self._script: AsyncScript | None = None
        self._client: Valkey | None = None

    def __str__(self) -> str:
        return self._place.address

    async def call(self, names: Sequence[str], argument: bytes) -> Any:
        """Run the script for the keys ``names``. Returns its answer. Raises ``StoreAway``."""
        # takes a tenth of a second, which only a gateway with a store should spend
        from valkey.exceptions import ValkeyError

        begin = f"{{{self._place.prefix}}}:limits"
        keys = [f"{begin}:gateways", f"{begin}:since", *(f"{begin}:key:{name}" for name in names)]
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return orjson.loads(await self._connected()(keys, [argument]))
        except TimeoutError:
            problem = f"no answer within {ANSWER_SECONDS:g} s"
        except (ValkeyError, Invalid, OSError, ValueError) as error:
            problem = str(error).strip() or type(error).__name__
        await self.close()
        raise StoreAway(problem)

    async def close(self) -> None:
        client, self._client, self._script = self._client, None, None
        if client is not None:
            await client.aclose()

    def _connected(self) -> AsyncScript:
        """Return the script of a client, which is made again after a failure, because the password may have changed.
        Raises ``Invalid``."""
        if self._script is None:
            from valkey.asyncio import Valkey

            place = self._place
            host, _, port = place.address.rpartition(":")
            word = read_secret(place.password_file) if place.password_file else None
            authority = str(Path(place.authority).expanduser()) if place.authority else None
            self._client = Valkey(
                host=host.strip("[]"),
                port=int(port),
                username=place.user or None,
                password=word,
                ssl=place.tls,
                ssl_ca_certs=authority,
                socket_connect_timeout=ANSWER_SECONDS,
                single_connection_client=True,
            )
            self._script = self._client.register_script(SCRIPT)
        return self._script
