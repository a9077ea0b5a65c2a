"""The controller: source, observe, plan, execute, status, in a loop."""

from .loop import Loop
from .reconcile import Parts

__all__ = ["Loop", "Parts"]
