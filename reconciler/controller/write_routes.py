"""The file by which the gateway learns where groups answer."""

from __future__ import annotations

import json
from pathlib import Path

from reconciler.wire.codec import WireError, from_wire, to_wire
from reconciler.wire.generation import Routes


class RoutesFile:
    """Replaced as a whole: whoever reads it sees either the old or the new routes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None

    @property
    def altered(self) -> bool:
        """Whether somebody else has written or removed it since it was read or replaced here."""
        return self._seen != self._signature()

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def read(self) -> Routes | None:
        """What the last controller wrote: the gateway must see ours as newer, and only if it differs."""
        self._seen = self._signature()
        try:
            return from_wire(Routes, json.loads(self.path.read_text()))
        except (OSError, ValueError, WireError):
            return None

    def replace(self, routes: Routes) -> None:
        """Put these routes in the place of those that are there. Raises ``OSError``."""
        draft = self.path.with_name(f".{self.path.name}.new")
        draft.write_text(json.dumps(to_wire(routes), indent=1))
        draft.chmod(0o600)
        draft.replace(self.path)
        self._seen = self._signature()
