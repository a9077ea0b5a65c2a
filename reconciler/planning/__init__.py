"""Decisions. Pure: the same snapshots give the same plan; clock and randomness are arguments."""

from .plan import plan

__all__ = ["plan"]
