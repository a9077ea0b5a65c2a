"""Conditions, routes and events, derived from snapshots. Nobody else says what an object's state is.

Pure: the previous statuses and the time are arguments. Read ``conditions`` first, then ``kinds``.
"""

from .conditions import statuses
from .events import endings, event, transitions
from .model_routes import routes, serving
from .snapshots import ConditionState, Readiness, Snapshots, Statuses

__all__ = [
    "ConditionState",
    "Readiness",
    "Snapshots",
    "Statuses",
    "endings",
    "event",
    "routes",
    "serving",
    "statuses",
    "transitions",
]
