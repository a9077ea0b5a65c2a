"""The lock of a gateway's home, as far as it goes from one process to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from reconciler.wire.file_identity import FileIdentity


class Lock(Protocol):
    """A lock that this process holds."""

    @property
    def identity(self) -> FileIdentity:
        """Return its file."""

    @property
    def written(self) -> bool:
        """Return whether it says who holds it."""

    def write(self) -> None:
        """Write down who holds it, unless another process does. Raises ``OSError``."""

    def fileno(self) -> int:
        """Return its descriptor: whoever has it holds the lock."""

    def let_go(self) -> None:
        """Close the descriptor. Another process holds the lock, and the file is its own."""


Inherit = Callable[[int], Lock]
"""Makes a lock of a descriptor that another process has handed over, and writes down who holds it now, if that can be written."""
