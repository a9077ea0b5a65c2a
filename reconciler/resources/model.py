"""The kind Model: weights that deployments can serve."""

from __future__ import annotations

from typing import Literal

from .base import ApiVersion, Manifest, Metadata
from .weights import ModelSpec


class Model(Manifest):
    """Weights that deployments can serve."""

    api_version: ApiVersion
    kind: Literal["Model"]
    """The kind of the object, which decides the fields of its spec."""
    metadata: Metadata
    spec: ModelSpec
