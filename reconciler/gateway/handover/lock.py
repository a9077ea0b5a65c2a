"""The lock of a gateway's home, when it passes from one process to another."""

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
        """Return whether the file names the holder."""

    def write(self) -> None:
        """Write the holder to the file, unless another process holds it. Raises ``OSError``."""

    def fileno(self) -> int:
        """Return its descriptor: the process that has it holds the lock."""

    def let_go(self) -> None:
        """Close the descriptor. Another process holds the lock, and the file is its own."""


Inherit = Callable[[int], Lock]
"""Makes a lock from a descriptor that another process has handed over, and writes the new holder to the file if that
is possible."""
