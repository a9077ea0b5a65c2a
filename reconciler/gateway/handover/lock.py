"""The lock of a gateway's home, when it passes from one process to another."""

from __future__ import annotations

from typing import Protocol

from reconciler.wire.file_identity import FileIdentity


class Lock(Protocol):
    """The lock of a home, which this process holds or will take over."""

    @property
    def identity(self) -> FileIdentity:
        """Return its file."""

    @property
    def written(self) -> bool:
        """Return whether the file names this process."""

    def write(self) -> None:
        """Write this process to the file if it holds the lock. Raises ``OSError``."""

    def fileno(self) -> int:
        """Return its descriptor: the process that has it holds the lock."""

    def inherit(self, descriptor: int) -> None:
        """Hold the lock by a descriptor that another process has handed over; write this process to the file if that
        is possible."""

    def let_go(self) -> None:
        """Close the descriptor. Another process holds the lock, and the file is its own."""
