"""A rank before it is one: it has imported what every rank needs, which takes longest, and waits."""

from __future__ import annotations

import os
from pathlib import Path

from reconciler.wire.launch import CONFIG_VARIABLE

_PATH_BYTES_MAX = 4096


def wait_for_config(descriptor: int) -> str:
    """Wait for the path of the ``config.json`` of the rank that this process becomes; empty if the process is not
    needed any more.

    Everything that the rank starts has that path in its environment, and its working directory is the rank's.
    """
    _import_all()
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(descriptor, _PATH_BYTES_MAX)
        if not chunk:
            return ""
        line += chunk
    path = os.fsdecode(line.rstrip(b"\n"))
    os.environ[CONFIG_VARIABLE] = path
    os.chdir(Path(path).parent)
    return path


def _import_all() -> None:
    from .group import neighbours, ring  # noqa: F401
    from .model.adapter import versions
    from .requests import server  # noqa: F401

    versions()  # of what is imported now: another may be installed by the time they are asked for
