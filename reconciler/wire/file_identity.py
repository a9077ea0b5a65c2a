"""Detects whether a file that a process holds is still in its place: its lock, its directory, its socket.

If somebody deletes a state directory, its processes lose the paths by which others find them, and other processes may
soon use the same paths. A process whose file was replaced ends, and leaves the new file alone.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

LOOK_SECONDS = 1.0
"""Interval of the checks: for this long, two processes may each believe that they are the only one."""


@dataclasses.dataclass(frozen=True)
class FileIdentity:
    """Device and inode of a file. The process that relies on it holds it open, so that no other file gets its inode."""

    path: str
    device: int
    inode: int

    @classmethod
    def at(cls, path: str) -> FileIdentity:
        """Return the identity of what is at ``path`` now, such as a newly bound socket. Raises ``OSError``."""
        status = Path(path).stat()
        return cls(path, status.st_dev, status.st_ino)

    @classmethod
    def held(cls, path: str, descriptor: int) -> FileIdentity:
        """Return the identity of the file that was opened at ``path``, even if it is gone."""
        status = os.fstat(descriptor)
        return cls(path, status.st_dev, status.st_ino)

    @property
    def replaced(self) -> bool:
        """Return whether the file is gone or replaced. If that cannot be determined now, it counts as present."""
        try:
            status = Path(self.path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        return (status.st_dev, status.st_ino) != (self.device, self.inode)


async def wait_until_replaced(*identities: FileIdentity) -> FileIdentity:
    """Wait until one of them is replaced, and return it."""
    import asyncio  # slow to import, and commands that ask once do not need it

    while True:
        for each in identities:
            if each.replaced:
                return each
        await asyncio.sleep(LOOK_SECONDS)


async def wait_until_removed(directory: Path) -> None:
    """Wait until a directory is no longer in its place, and keep it open meanwhile. Raises ``OSError``."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        await wait_until_replaced(FileIdentity.held(str(directory), descriptor))
    finally:
        os.close(descriptor)
