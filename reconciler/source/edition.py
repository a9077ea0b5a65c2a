"""Identifies the code that reads manifests: processes of one edition treat the same manifests alike."""

from __future__ import annotations

import hashlib
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_PARTS = ("resources", "source")


def edition(package: Path = _PACKAGE) -> str:
    """Return a digest of that code's folder and of its files by name, size and time. Takes less than a millisecond."""
    digest = hashlib.blake2b(str(package).encode(), digest_size=16)
    for path in sorted(file for part in _PARTS for file in (package / part).rglob("*.py")):
        status = path.stat()
        digest.update(f"\n{path.relative_to(package)} {status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()
