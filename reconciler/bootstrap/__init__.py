"""The composition root: reads environment and clock, and builds each process once, from only the parts it needs."""

from .home import CONSOLE, CONTROLLER, GATEWAY, NOT_HANDED_OVER, TAKE_OVER, Home

__all__ = ["CONSOLE", "CONTROLLER", "GATEWAY", "NOT_HANDED_OVER", "TAKE_OVER", "Home"]
