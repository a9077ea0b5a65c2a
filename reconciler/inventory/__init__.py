"""Observes machines: connects to agents and runs probes. Start with ``collector.py``."""

from .collector import Collector
from .gateway_probe import GatewayProbe
from .gateways_on_nodes import GatewaysOnNodes
from .probes import Probes
from .service_files import observe_console, observe_figures, observe_gateway, observe_supervision

__all__ = [
    "Collector",
    "GatewayProbe",
    "GatewaysOnNodes",
    "Probes",
    "observe_console",
    "observe_figures",
    "observe_gateway",
    "observe_supervision",
]
