"""The composition root: reads environment and clock, and builds each process once, from no more than it needs."""

from .home import Home

__all__ = ["Home"]
