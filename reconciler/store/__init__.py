"""What must survive a restart of the controller: epochs, groups, generations, statuses, events, incidents."""

from .copying import carry_over, copy, upgrade_copy
from .sqlite import EventFilter, Store
from .tables.incidents import IncidentFilter

__all__ = ["EventFilter", "IncidentFilter", "Store", "carry_over", "copy", "upgrade_copy"]
