"""Keeps the limit of open files as the agent has set it.

The import of ``mlx_lm.utils`` sets the soft limit to 2,048 and the hard limit to 4,096, which cannot be raised again.
The agent has set a higher limit. If the hard limit is below 4,096, the import fails and ends the process (mlx-lm
0.32.2).
"""

from __future__ import annotations

import resource
from types import ModuleType

from .on_import import Execute, on_import

MODULE = "mlx_lm.utils"


def keep_limit() -> None:
    """Let the import change no limit."""
    on_import(MODULE, _unlimiting)


def _unlimiting(execute: Execute, module: ModuleType) -> None:
    change = resource.setrlimit
    resource.setrlimit = lambda which, limits: None
    try:
        execute(module)
    finally:
        resource.setrlimit = change
