"""Machines to Observed: who answers, and what is there."""

from .collector import Collector
from .gateway_report import observe_gateway
from .probes import Probes

__all__ = ["Collector", "Probes", "observe_gateway"]
