"""The end of a process that runs without the service manager, which starts its own. Pure."""

from __future__ import annotations

_TERMINATE = 'kill -TERM "$1" || ! kill -0 "$1"'
"""With the shell's own ``kill``, because not every machine has another. It contains no apostrophe: a person pastes it
between two of them."""


def end(pid: int) -> tuple[str, ...]:
    """Return the command that asks a process to end. One that has ended by itself since it was seen is no failure."""
    return ("/bin/sh", "-c", _TERMINATE, "end", str(pid))
