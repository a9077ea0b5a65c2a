"""Plan to Outcomes: every step runs once and in parallel, and none decides anything."""

from .executor import Executor
from .tools import Tools

__all__ = ["Executor", "Tools"]
