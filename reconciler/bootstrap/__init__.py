"""The composition root: reads environment and clock, and builds each process once, from only the parts it needs."""

from .home import CONSOLE, CONTROLLER, GATEWAY, Home

__all__ = ["CONSOLE", "CONTROLLER", "GATEWAY", "Home"]
