"""Figures of the last hours: the gateway's file of its requests, and the questions to the controller for all
figures."""

from __future__ import annotations

import dataclasses
from typing import Any, Tuple

from .answers import Asks
from .codec import message


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


@message("metrics")
@dataclasses.dataclass(frozen=True)
class ShowMetrics(Asks[Any]):
    """Ask for figures of the last ``seconds``, at most a day, in at most ``points`` intervals of equal length.

    ``{"begins": time, "seconds", "count", "series": [{"object": "kind/name", "name", "values": [number or None]}],
    "marks": [{"time", "object", "kind": "group" or "incident", "text"}]}``. Nodes have ``memoryUsedBytes``, ``load``
    and ``watts`` (of their GPUs). Deployments have ``tokensPerSecond``, ``running`` and ``waiting`` (requests),
    ``errors`` (requests that ended with one in the interval), ``firstTokenP50`` and ``firstTokenP95`` (seconds). The
    last hour has a figure every ten seconds, the last day every minute; the value of an interval is the mean of its
    figures.
    """

    seconds: float = 3600.0
    points: int = 180
    object: str = ""
    """``kind/name`` in lower case; empty for all."""


@message("series")
@dataclasses.dataclass(frozen=True)
class ShowSeries(Asks[Any]):
    """Ask for the cluster's own metrics as they are now, all of them gauges.

    ``{"families": [{"name", "text", "labels": [name], "series": [[[value of each label], number]]}]}``.
    """
