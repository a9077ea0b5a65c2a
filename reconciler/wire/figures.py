"""Figures of the last hours: the gateway's file of its requests, and the questions to the controller for all
figures."""

from __future__ import annotations

import dataclasses
from typing import Tuple

from .answers import Asks, MetricFamilies, Metrics
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
class ShowMetrics(Asks[Metrics]):
    """Ask for figures of the last ``seconds``, at most a day, in at most ``points`` intervals of equal length.

    The last hour has a figure every ten seconds, the last day every minute; the value of an interval is the mean of its
    figures.
    """

    seconds: float = 3600.0
    points: int = 180
    object: str = ""
    """``kind/name`` in lower case; empty for all."""


@message("series")
@dataclasses.dataclass(frozen=True)
class ShowSeries(Asks[MetricFamilies]):
    """Ask for the cluster's own metrics as they are now."""
