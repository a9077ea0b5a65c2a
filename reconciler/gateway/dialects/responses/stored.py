"""The paths of stored responses, which say that there are none. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.gateway.dialects.dialect import Catalog
from reconciler.gateway.errors import ApiError


def not_stored(catalog: Catalog, parameters: Mapping[str, str]) -> bytes:
    """Raise ``ApiError`` (404)."""
    name = parameters["name"]
    raise ApiError(
        404,
        "invalid_request_error",
        "response_not_found",
        f"there is no response {name[:200]!r}: no response is stored here, also where `store` asks for it; send the whole "
        "conversation as `input` of POST /v1/responses",
    )
