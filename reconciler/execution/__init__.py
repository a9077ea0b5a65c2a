"""Plan to Outcomes: every step once, side by side, none of them deciding anything."""

from .executor import Executor
from .tools import Tools

__all__ = ["Executor", "Tools"]
