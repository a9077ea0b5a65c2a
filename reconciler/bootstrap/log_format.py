"""The format of the logs of the processes that `up` supervises."""

from __future__ import annotations

LOG_FORMAT = "%(levelname)s %(name)s: %(message)s"
