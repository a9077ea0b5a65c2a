"""What must survive a restart of the controller: epochs, groups, generations, statuses, events."""

from .sqlite import EventFilter, Store

__all__ = ["EventFilter", "Store"]
