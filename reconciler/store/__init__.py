"""What must survive a restart of the controller: epochs, groups, generations, statuses, events, incidents."""

from .copying import admit, carry_over, copy
from .incidents import IncidentFilter
from .sqlite import EventFilter, Store

__all__ = ["EventFilter", "IncidentFilter", "Store", "admit", "carry_over", "copy"]
