"""The durable state: epochs, groups, generations, statuses, events and incidents. Start with ``sqlite.py``."""

from .aside import set_aside
from .copying import carry_over, copy, upgrade_copy
from .sqlite import Store
from .tables.events import EventFilter
from .tables.incidents import IncidentFilter

__all__ = ["EventFilter", "IncidentFilter", "Store", "carry_over", "copy", "set_aside", "upgrade_copy"]
