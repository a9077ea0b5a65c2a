"""What must survive a restart of the controller: epochs, groups, generations, statuses, events."""

from .copying import admit, carry_over, copy
from .sqlite import EventFilter, Store

__all__ = ["EventFilter", "Store", "admit", "carry_over", "copy"]
