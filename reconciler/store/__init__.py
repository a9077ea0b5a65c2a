"""The durable state: epochs, groups, generations, statuses, events and incidents. Start with ``sqlite.py``."""

from .copying import carry_over, copy, upgrade_copy
from .sqlite import EventFilter, Store
from .tables.incidents import IncidentFilter

__all__ = ["EventFilter", "IncidentFilter", "Store", "carry_over", "copy", "upgrade_copy"]
