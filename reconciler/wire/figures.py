"""Figures of the last hours: the gateway's file of what requests did, and how the controller is asked for all of them."""

from __future__ import annotations

import dataclasses
from typing import Tuple

from .codec import message


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
    tokens: int = 0
    """Tokens that were generated."""


@dataclasses.dataclass(frozen=True)
class GatewayFigures:
    """The file: one JSON object, replaced atomically."""

    version: int
    pid: int
    """Of the gateway, whose counts these are."""
    bounds: Tuple[float, ...]
    """Upper bounds in seconds, in growing order."""
    models: Tuple[ModelFigures, ...] = ()


@message("metrics")
@dataclasses.dataclass(frozen=True)
class ShowMetrics:
    """Ask for figures of the last ``seconds``, of a day at most, in at most ``points`` intervals of equal length.

    ``{"begins": time, "seconds", "count", "series": [{"object": "kind/name", "name", "values": [number or None]}], "marks":
    [{"time", "object", "kind": "group" or "incident", "text"}]}``. Nodes have ``memoryUsedBytes``, ``load`` and ``watts``
    (of their GPUs), deployments ``tokensPerSecond``, ``running`` and ``waiting`` (requests), ``errors`` (requests that ended with
    one in the interval), ``firstTokenP50`` and ``firstTokenP95`` (seconds). Of an hour there is a figure every ten seconds, of a
    day every minute; an interval has their mean.
    """

    seconds: float = 3600.0
    points: int = 180
    object: str = ""
    """``kind/name`` in lower case; empty for all."""


@message("series")
@dataclasses.dataclass(frozen=True)
class ShowSeries:
    """Ask for the cluster's own metrics as they are now, all of them gauges.

    ``{"families": [{"name", "text", "labels": [name], "series": [[[value of each label], number]]}]}``.
    """
