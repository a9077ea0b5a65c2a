"""Observes machines: connects to agents and runs probes. Start with ``collector.py``."""

from .collector import Collector
from .gateway_probe import GatewayProbe
from .gateway_report import observe_figures, observe_gateway
from .probes import Probes
from .supervision import observe_console, observe_supervision

__all__ = [
    "Collector",
    "GatewayProbe",
    "Probes",
    "observe_console",
    "observe_figures",
    "observe_gateway",
    "observe_supervision",
]
