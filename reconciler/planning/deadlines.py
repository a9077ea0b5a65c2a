"""How long things may take: every wait of the planner for ranks, with its reason."""

from __future__ import annotations

DRAIN_SECONDS = 30.0
"""How long a healthy group may finish what it has begun."""
GRACE_SECONDS = 5.0
"""How long the rest of a dead group may take to end in order; it has nothing left to finish."""
SHUTDOWN_SECONDS = 3.0
"""The same while everything is being stopped: somebody is waiting at a terminal."""
