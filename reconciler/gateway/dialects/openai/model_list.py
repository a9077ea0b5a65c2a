"""``GET /v1/models`` and ``GET /v1/models/{name}``."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from reconciler.gateway.errors import model_not_found
from reconciler.gateway.http.exchange import send_error, send_json
from reconciler.gateway.routing.pool import Pool
from reconciler.wire.generation import Route


class ModelList:
    """Every name that can be asked for, aliases as well."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._pool.refresh()
        models = [_model(name, route) for name, route in self._pool.file.names().items()]
        await send_json(send, 200, orjson.dumps({"object": "list", "data": models}))


class OneModel:
    """One of these names, which may have slashes in it, as they are or encoded."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path_params"]["name"]
        route = self._pool.find(name)
        if route is None:
            await send_error(send, model_not_found(name))
            return
        await send_json(send, 200, orjson.dumps(_model(name, route)))


def _model(name: str, route: Route) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": route.created, "owned_by": "reconciler"}
