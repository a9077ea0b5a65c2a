"""Observes machines: connects to agents and runs probes. Start with ``collector.py``."""

from .collector import Collector
from .gateway_report import observe_gateway
from .probes import Probes

__all__ = ["Collector", "Probes", "observe_gateway"]
