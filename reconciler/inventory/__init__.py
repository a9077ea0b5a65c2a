"""Machines to Observed: who answers, and what is there."""

from .collector import Collector
from .gateway_file import observe_gateway

__all__ = ["Collector", "observe_gateway"]
