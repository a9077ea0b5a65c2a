"""Running a tool that only looks at a machine: the controller asks, its agent runs it, the controller reads."""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

from .codec import message


class Ending:
    """How it went with a tool."""

    ENDED = "ended"
    """By itself: what it said is whole."""
    ABSENT = "absent"
    """There is no such tool on the machine."""
    LATE = "late"
    """It was killed, for its time was up."""
    STUCK = "stuck"
    """It was not started: the same tool was killed earlier, and is still there."""
    ENDLESS = "endless"
    """It was killed, for it had said more than anybody reads."""
    BARRED = "barred"
    """It could not be started, or not be waited for."""


@message("run_tool")
@dataclasses.dataclass(frozen=True)
class RunTool:
    """Run a tool that only looks, and changes nothing. Tools run one after the other."""

    argv: Tuple[str, ...]
    """The first is a name, looked for in the folders of the system's tools, or an absolute path. In each of them
    ``{home}``, ``{user}``, ``{node}``, ``{models}`` and ``{python}`` stand for what these are on the node."""
    seconds: float
    """After which it is killed."""
    as_root: bool = False
    """With ``sudo -n``, which asks nobody for a password."""


@message("tool_said")
@dataclasses.dataclass(frozen=True)
class ToolSaid:
    """What came of it. Bytes that are not UTF-8 are replaced."""

    ending: str
    """One of ``Ending``."""
    code: Optional[int] = None
    """Its exit status, where it ended by itself; negative: the signal that ended it."""
    stdout: str = ""
    stderr: str = ""
    problem: str = ""
    """Why it was barred, for people."""
