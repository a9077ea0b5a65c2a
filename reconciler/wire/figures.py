"""Gateway to controller: the file of what requests did, for plots of the last hours."""

from __future__ import annotations

import dataclasses
from typing import Tuple


@dataclasses.dataclass(frozen=True)
class ModelFigures:
    """The requests of one deployment at one gateway. What is counted only grows, until the gateway starts anew."""

    model: str
    running: int
    """Requests that a group reads or decodes now."""
    waiting: int
    """Requests that are held or queued now."""
    errors: int
    """Requests that have ended with an error."""
    first_token: Tuple[int, ...]
    """First tokens by how long they took: as many as ``GatewayFigures.bounds``, and those that took longer than all of them."""


@dataclasses.dataclass(frozen=True)
class GatewayFigures:
    """The file: one JSON object, replaced atomically."""

    version: int
    pid: int
    """Of the gateway, whose counts these are."""
    bounds: Tuple[float, ...]
    """Upper bounds in seconds, in growing order."""
    models: Tuple[ModelFigures, ...] = ()
