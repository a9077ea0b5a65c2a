"""``GET /v1/models`` and ``GET /v1/models/{name}``, and the model of a request that names none. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from reconciler.errors import few_names
from reconciler.gateway.dialects.dialect import Catalog
from reconciler.gateway.errors import invalid, model_not_found
from reconciler.wire.generation import Route

_NAMES_SHOWN = 20
"""Names in the message to a client that has to choose one."""


def all_models(catalog: Catalog, parameters: Mapping[str, str]) -> bytes:
    """Return every name that clients may use, aliases as well."""
    models = [_model(name, route) for name, route in catalog.names().items()]
    return orjson.dumps({"object": "list", "data": models})


def one_model(catalog: Catalog, parameters: Mapping[str, str]) -> bytes:
    """Return one of these names, or all behind a slash alone. Raises ``ApiError`` (404)."""
    name = parameters["name"]
    if not name:
        return all_models(catalog, parameters)
    route = catalog.find(name)
    if route is None:
        raise model_not_found(name)
    return orjson.dumps(_model(name, route))


def only_model(catalog: Catalog) -> str:
    """Return the name of the only deployment. Raises ``ApiError`` (400) if there are several, or none."""
    models = sorted({route.model for route in catalog.names().values()})
    if len(models) != 1:
        there = f"there are {few_names(models, _NAMES_SHOWN)}" if models else "there is none yet"
        raise invalid(f"the request names no model: {there}", "model")
    return models[0]


def _model(name: str, route: Route) -> dict[str, Any]:
    """Write a model. ``max_model_len`` is vLLM's, and so is ``max_num_seqs``, the most requests decoded together;
    ``type`` is LM Studio's (lmstudio.ai/docs/developer/rest/endpoints)."""
    return {
        "id": name,
        "object": "model",
        "created": route.created,
        "owned_by": "reconciler",
        "type": "embeddings" if route.embeds else "llm",
        "root": route.model,
        "max_model_len": route.context or None,
        "max_num_seqs": route.batch or None,
    }
