"""``GET /v1/models``."""

from __future__ import annotations

import orjson
from starlette.types import Receive, Scope, Send

from .exchange import send_json
from .pool import Pool


class ModelList:
    """Every name that can be asked for, aliases as well."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._pool.refresh()
        models = [
            {"id": name, "object": "model", "created": route.created, "owned_by": "reconciler"}
            for name, route in self._pool.file.names().items()
        ]
        await send_json(send, 200, orjson.dumps({"object": "list", "data": models}))
