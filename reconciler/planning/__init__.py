"""Decide what is done next. Pure: the same snapshots give the same plan; clock and randomness are arguments.

Start with ``plan.py``: the stages of one pass, and why they come in this order.
"""

from .plan import plan, plan_in_slices

__all__ = ["plan", "plan_in_slices"]
