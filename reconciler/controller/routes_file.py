"""The file from which the gateway reads its routes."""

from __future__ import annotations

import json
from pathlib import Path

from reconciler.wire.codec import WireError, from_wire, to_wire
from reconciler.wire.generation import Routes


class RoutesFile:
    """Replaces the file atomically: readers see either the old or the new routes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None

    @property
    def altered(self) -> bool:
        """Return whether another process has written or removed it since it was read or replaced here."""
        return self._seen != self._signature()

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def read(self) -> Routes | None:
        """Return the last controller's routes: ours must be newer for the gateway, and only if they differ."""
        self._seen = self._signature()
        try:
            return from_wire(Routes, json.loads(self.path.read_text(encoding="utf-8")))
        except (OSError, ValueError, WireError):
            return None

    def replace(self, routes: Routes) -> None:
        """Replace the routes. Raises ``OSError``."""
        draft = self.path.with_name(f".{self.path.name}.new")
        draft.write_text(json.dumps(to_wire(routes), indent=1), encoding="utf-8")
        draft.chmod(0o600)
        draft.replace(self.path)
        self._seen = self._signature()
