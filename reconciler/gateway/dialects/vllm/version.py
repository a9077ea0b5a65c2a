"""``GET /version``: the version of this product, because there is no vLLM. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from reconciler import __version__
from reconciler.gateway.dialects.dialect import Catalog


def version(catalog: Catalog, parameters: Mapping[str, str]) -> bytes:
    """Return the version of the gateway."""
    return orjson.dumps({"version": __version__})
