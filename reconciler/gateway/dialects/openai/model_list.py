"""``GET /v1/models`` and ``GET /v1/models/{name}``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from reconciler.gateway.dialects.dialect import Catalog
from reconciler.gateway.errors import model_not_found
from reconciler.wire.generation import Route


def all_models(catalog: Catalog, parameters: Mapping[str, str]) -> bytes:
    """Return every name that clients may use, aliases as well."""
    models = [_model(name, route) for name, route in catalog.names().items()]
    return orjson.dumps({"object": "list", "data": models})


def one_model(catalog: Catalog, parameters: Mapping[str, str]) -> bytes:
    """Return one of these names. Raises ``ApiError`` (404)."""
    name = parameters["name"]
    route = catalog.find(name)
    if route is None:
        raise model_not_found(name)
    return orjson.dumps(_model(name, route))


def _model(name: str, route: Route) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": route.created, "owned_by": "reconciler"}
