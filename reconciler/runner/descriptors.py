"""The limit of open files stays as the agent gave it.

When it is imported, ``mlx_lm.utils`` sets the limit to 2,048, and the hard one to 4,096 for good: that is less than the
agent has raised it to, and an error, which ends the process, where the hard limit is lower than that (mlx-lm 0.32.2).
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
