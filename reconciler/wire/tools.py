"""Tools that only look at a machine: the controller asks, its agent runs the tool, the controller reads the output."""

from __future__ import annotations

from typing import Optional, Tuple

from .codec import message


class Ending:
    """The end of a tool's run."""

    ENDED = "ended"
    """It ended, and its output is complete."""
    ABSENT = "absent"
    """The machine has no such tool."""
    LATE = "late"
    """It was killed at its time limit."""
    STUCK = "stuck"
    """It was not started, because the same tool was killed earlier and still exists."""
    ENDLESS = "endless"
    """It was killed because it printed too much."""
    BARRED = "barred"
    """It could not be started, or its end could not be awaited."""


@message("run_tool")
class RunTool:
    """Run a tool that only looks, and changes nothing. Tools run one after the other."""

    argv: Tuple[str, ...]
    """The first is a name, looked up in the folders of the system's tools, or an absolute path. In each word,
    ``{home}``, ``{user}``, ``{node}``, ``{models}`` and ``{python}`` stand for their values on the node."""
    seconds: float
    """Time after which it is killed."""
    as_root: bool = False
    """Run it with ``sudo -n``, which never asks for a password."""


@message("tool_said")
class ToolSaid:
    """The result. Bytes that are not UTF-8 are replaced."""

    ending: str
    """Value of ``Ending``."""
    code: Optional[int] = None
    """Its exit status if it ended; negative for a signal."""
    stdout: str = ""
    stderr: str = ""
    problem: str = ""
    """Why it was barred, for people."""
