"""Time zones of the process that runs a test."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

ZONES = ("UTC0", "IST-5:30", "PST8")
"""As POSIX writes them, for a machine need not know names."""


@contextlib.contextmanager
def in_zone(name: str) -> Iterator[None]:
    """Be in a time zone within the block."""
    try:
        with pytest.MonkeyPatch.context() as changed:
            changed.setenv("TZ", name)
            time.tzset()
            yield
    finally:
        time.tzset()
