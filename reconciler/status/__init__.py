"""Derives conditions, routes and events from snapshots: the only room that decides an object's status.

Pure: the previous statuses and the time are arguments. Start with ``conditions.py``, then read ``kinds.py``.
"""

from .awaited import AS_WISHED, gateway_waits
from .conditions import Known, each_status, statuses
from .deployment import serving_text
from .events import endings, event, transitions
from .failed_runs import FailedRun, failed_runs, makes_good
from .gateway import behind_on_keys, door
from .model_routes import routes, serving
from .snapshots import ConditionState, Readiness, Snapshots, Statuses
from .unserved import Unserved, unserved, with_tasks

__all__ = [
    "AS_WISHED",
    "ConditionState",
    "FailedRun",
    "Known",
    "Readiness",
    "Snapshots",
    "Statuses",
    "Unserved",
    "behind_on_keys",
    "door",
    "each_status",
    "endings",
    "event",
    "failed_runs",
    "gateway_waits",
    "makes_good",
    "routes",
    "serving",
    "serving_text",
    "statuses",
    "transitions",
    "unserved",
    "with_tasks",
]
