"""The common part of the processes that `up` supervises: the format of their logs, and their end with `up`."""

from __future__ import annotations

import os
import signal
import threading

LOG_FORMAT = "%(levelname)s %(name)s: %(message)s"
PARENT_VARIABLE = "RECONCILER_PARENT_FD"
"""Number of a pipe's descriptor whose end means that the supervising process is gone."""


def end_with_parent() -> None:
    """End like on SIGTERM when the supervising process is gone, however it went."""
    descriptor = os.environ.pop(PARENT_VARIABLE, None)
    if descriptor is None:
        return

    def wait() -> None:
        while os.read(int(descriptor), 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="wait for the end of the parent", daemon=True).start()
