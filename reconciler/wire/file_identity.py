"""Whether what a process stands on is still in its place: its lock, its directory, its socket.

Who deletes a state directory takes from its processes the paths by which others know them, and the same paths
may soon belong to other processes. What has lost its footing ends, and leaves alone what it finds there.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

LOOK_SECONDS = 1.0
"""How often a process looks: so long two may take themselves for the only one."""


@dataclasses.dataclass(frozen=True)
class FileIdentity:
    """A file as it was. Whoever relies on it holds it open: its inode is then given to no other file."""

    path: str
    device: int
    inode: int

    @classmethod
    def at(cls, path: str) -> FileIdentity:
        """What is at ``path`` now, such as a socket that was just bound. Raises ``OSError``."""
        status = Path(path).stat()
        return cls(path, status.st_dev, status.st_ino)

    @classmethod
    def held(cls, path: str, descriptor: int) -> FileIdentity:
        """What was opened at ``path``, even where it is there no more."""
        status = os.fstat(descriptor)
        return cls(path, status.st_dev, status.st_ino)

    @property
    def replaced(self) -> bool:
        """Whether it is gone, or something else is in its place. What cannot be seen now is not lost."""
        try:
            status = Path(self.path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        return (status.st_dev, status.st_ino) != (self.device, self.inode)


async def wait_until_replaced(*footings: FileIdentity) -> FileIdentity:
    """Wait until one of them is lost."""
    import asyncio  # a command that asks once need not wait for it

    while True:
        for each in footings:
            if each.replaced:
                return each
        await asyncio.sleep(LOOK_SECONDS)


async def wait_until_removed(directory: Path) -> None:
    """Wait until a directory is no longer in its place, holding on to it meanwhile. Raises ``OSError``."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        await wait_until_replaced(FileIdentity.held(str(directory), descriptor))
    finally:
        os.close(descriptor)
