"""The logs that the Gateway declares now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reconciler.wire.gateway import AccessLog

from .file import RotatedFile
from .writer import Writer

ACCESS, CONTENT = "access.jsonl", "content.jsonl"


class Logs:
    """Writers for files in ``folder``. ``now``: seconds since the Unix epoch."""

    def __init__(self, folder: Path, now: Callable[[], float]) -> None:
        self.access: Writer | None = None
        self.content: Writer | None = None
        """None unless prompts and answers are kept too."""
        self.now = now
        self._folder = folder
        self._dropped = 0
        """Lines lost by writers that have ended."""

    @property
    def dropped(self) -> int:
        """Return the number of lines that were lost because the disk took none."""
        return self._dropped + sum(writer.dropped for writer in (self.access, self.content) if writer)

    def follow(self, declared: AccessLog | None) -> None:
        self.access = self._follow(self.access, ACCESS, declared)
        self.content = self._follow(
            self.content, CONTENT, declared if declared and declared.content else None
        )

    def close(self) -> None:
        """Write the last lines, for a bounded time."""
        for writer in (self.access, self.content):
            if writer is not None:
                writer.close()

    def _follow(self, writer: Writer | None, name: str, bounds: AccessLog | None) -> Writer | None:
        if bounds is None:
            if writer is not None:
                writer.end()
                self._dropped += writer.dropped
            return None
        if writer is None:
            return Writer(RotatedFile(self._folder / name, bounds), self.now)
        writer.file.bounds = bounds
        return writer
