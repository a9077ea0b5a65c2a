"""Writes files atomically: they are complete or absent, even after a power failure."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any, Mapping


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file (mode 0600) so that a reader, and the next boot, see all of the old or of the new."""
    unfinished = path.with_name(path.name + ".new")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.replace(path)
    sync_directory(path.parent)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object with ``write_atomically``."""
    write_atomically(path, json.dumps(value, separators=(",", ":")).encode() + b"\n")


def read_json(path: Path, bytes_max: int) -> Any:
    """Return the JSON in a file. Raises ``OSError``, or ``ValueError`` if it is too long or invalid.

    NaN and Infinity, which some models' ``config.json`` contain although JSON forbids them, become null.
    """
    with path.open("rb") as stream:
        content = stream.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise ValueError("{} has more than {} bytes".format(path.name, bytes_max))
    try:
        return json.loads(content.decode("utf-8"), parse_constant=lambda name: None)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def place(directory: Path) -> str:
    """Return the identity that distinguishes a directory from each copy of it: its device and its inode. A move does not
    change it, and every path to the directory, by a link or a mount, has the same. Raises ``OSError``."""
    status = directory.stat()
    return "{}:{}".format(status.st_dev, status.st_ino)


def sync_directory(path: Path) -> None:
    """Make renames within a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def tail(path: Path, bytes_max: int) -> str:
    """Return the end of a text file; empty if there is none."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - bytes_max))
            return stream.read(bytes_max).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def prune(directory: Path, bytes_max: int) -> None:
    """Remove the oldest files below ``directory`` if all together take more than ``bytes_max``, until half of that is left."""
    found = []
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                status = Path(folder, name).lstat()
                found.append((status.st_mtime, status.st_size, Path(folder, name)))
    size = sum(entry[1] for entry in found)
    if size <= bytes_max:
        return
    for _, length, path in sorted(found):
        if size <= bytes_max // 2:
            return
        with contextlib.suppress(OSError):
            path.unlink()
            size -= length
