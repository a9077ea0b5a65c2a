"""The controller: reads manifests, observes, plans, executes and publishes, in a loop. Start with ``reconcile.py``."""

from .loop import Loop
from .parts import Parts

__all__ = ["Loop", "Parts"]
