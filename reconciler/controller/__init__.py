"""The controller: source, observe, plan, execute, status, in a loop."""

from .loop import Loop
from .parts import Parts

__all__ = ["Loop", "Parts"]
