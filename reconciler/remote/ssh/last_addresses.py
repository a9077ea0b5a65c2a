"""The last addresses of machines, kept over restarts of the controller. A name under ``.local`` is not found while its
machine's disk waits for its password, and at that time the controller may have restarted as well."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

MACHINES_MAX = 1024
"""The number of newest addresses that are kept."""
log = logging.getLogger(__name__)


class LastAddresses:
    """The addresses by login, such as ``ada@mini-1.local``, that a key has let in. Without a path, they are kept in
    memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known = _read(path) if path is not None else {}

    def of(self, login: str) -> str | None:
        """Return an address, empty if only a jump host knows it; None for a login that never let the controller in."""
        return self._known.get(login)

    def keep(self, login: str, address: str) -> None:
        """Record the address of a login. A full disk is no reason not to connect."""
        if self._known.get(login) == address:
            return
        self._known.pop(login, None)
        self._known[login] = address
        self._known = dict(list(self._known.items())[-MACHINES_MAX:])
        if self._path is not None:
            _write(self._path, self._known)


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        log.warning("%s is ignored: %s", path, error)
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return {login: address for login, address in pairs if isinstance(address, str)}


def _write(path: Path, known: dict[str, str]) -> None:
    draft = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(known, file, indent=1)
        draft.replace(path)
    except OSError as error:
        log.warning("cannot write %s: %s", path, error)
