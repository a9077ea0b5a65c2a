"""Figures of the gateway's requests: a file of it, from which the controller makes those of the last hours."""

from __future__ import annotations

import dataclasses
from typing import Tuple


@dataclasses.dataclass(frozen=True)
class ModelFigures:
    """The requests of one deployment at one gateway. Counts only grow, until the gateway starts again."""

    model: str
    running: int
    """Requests that a group reads or decodes now."""
    waiting: int
    """Requests that are held or queued now."""
    errors: int
    """Requests that have ended with an error."""
    first_token: Tuple[int, ...]
    """Number of first tokens within each of ``GatewayFigures.bounds``, then of those that took longer than all
    bounds."""
    tokens: int = 0
    """Tokens that were generated."""


@dataclasses.dataclass(frozen=True)
class GatewayFigures:
    """The file: one JSON object, replaced atomically."""

    version: int
    pid: int
    """The process of the gateway that counts."""
    bounds: Tuple[float, ...]
    """Upper bounds in seconds, in growing order."""
    models: Tuple[ModelFigures, ...] = ()
