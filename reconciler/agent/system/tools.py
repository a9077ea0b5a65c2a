"""Runs the tools that look at the machine, for a controller that reads their output.

They run one at a time, each with a bound on its time and its output. A tool that cannot even be killed (the verbs
tools of a wedged driver) is not started again as long as it is there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import selectors
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Tuple

from reconciler.wire.tools import Ending, RunTool, ToolSaid

SECONDS_MAX = 60.0
_BYTES_MAX = 1024 * 1024
_GOING_SECONDS = 1.0
"""Time within which a killed process is gone, unless the kernel holds it."""
_LINGER_SECONDS = 0.5
"""Time after a tool's end to read its output: a process that it left behind may hold the pipe open."""
_CHUNK = 65536
_POLL_SECONDS = 0.1


@dataclasses.dataclass
class _Output:
    """The output of a process so far."""

    chunks: Dict[int, List[bytes]]
    """Output by descriptor."""
    length: int = 0


class Tools:
    """Tools of one machine, looked for in ``folders``; ``names``: values of the placeholders in ``RunTool.argv``."""

    def __init__(self, folders: Tuple[str, ...], names: Mapping[str, str]) -> None:
        self._folders = folders
        self._names = names
        self._turn = threading.Lock()
        self._stuck: Dict[str, subprocess.Popen[bytes]] = {}
        self._running: Optional[subprocess.Popen[bytes]] = None
        self._closed = False

    def run(self, call: RunTool) -> ToolSaid:
        """Run it to its end; for a thread. It never raises."""
        with self._turn:
            if not call.argv or self._closed:
                return ToolSaid(
                    Ending.BARRED, problem="no tool was named" if not call.argv else "the agent ends"
                )
            return self._run(call)

    def close(self) -> None:
        """Kill running tools, and start no more."""
        self._closed = True
        running = self._running
        if running is not None:
            _kill(running)

    def _run(self, call: RunTool) -> ToolSaid:
        words = [self._meant(word) for word in call.argv]
        program, sudo = self._found(words[0]), self._found("sudo") if call.as_root else ""
        if program is None or sudo is None:
            return ToolSaid(Ending.ABSENT)
        if self._holds(program):
            return ToolSaid(Ending.STUCK)
        command = [*([sudo, "-n"] if sudo else []), program, *words[1:]]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"LC_ALL": "C", "HOME": self._names.get("home", "/"), "PATH": ":".join(self._folders)},
                cwd="/",
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return ToolSaid(Ending.BARRED, problem=str(error))
        self._running = process
        if self._closed:  # just now
            _kill(process)
        try:
            return self._collect(process, program, min(call.seconds, SECONDS_MAX))
        finally:
            self._running = None

    def _collect(self, process: subprocess.Popen[bytes], program: str, seconds: float) -> ToolSaid:
        assert process.stdout is not None
        assert process.stderr is not None
        ends = (process.stdout.fileno(), process.stderr.fileno())
        output = _Output({end: [] for end in ends})
        with process.stdout, process.stderr:
            ending = _listen(process, output, time.monotonic() + seconds)
        code = process.poll()
        if ending != Ending.ENDED or code is None:
            _kill(process)
            try:
                process.wait(_GOING_SECONDS)
            except subprocess.TimeoutExpired:
                self._stuck[program] = process
            return ToolSaid(Ending.LATE if ending == Ending.ENDED else ending)
        return ToolSaid(
            ending, code, *(b"".join(output.chunks[end]).decode("utf-8", "replace") for end in ends)
        )

    def _holds(self, program: str) -> bool:
        """Return whether this tool was killed and still exists."""
        process = self._stuck.get(program)
        if process is not None and process.poll() is not None:
            del self._stuck[program]
        return program in self._stuck

    def _meant(self, word: str) -> str:
        for name, meant in self._names.items():
            word = word.replace("{" + name + "}", meant)
        return word

    def _found(self, name: str) -> Optional[str]:
        """Return the absolute path of a tool; None if there is none."""
        places = [Path(name)] if name.startswith("/") else [Path(folder) / name for folder in self._folders]
        return next((str(place) for place in places if os.access(place, os.X_OK)), None)


def _listen(process: subprocess.Popen[bytes], output: _Output, deadline: float) -> str:
    """Read until both pipes end, or more reading makes no sense."""
    with selectors.DefaultSelector() as selector:
        for end in output.chunks:
            selector.register(end, selectors.EVENT_READ)
        ended_at: Optional[float] = None
        while selector.get_map():
            now = time.monotonic()
            if now > deadline:
                return Ending.LATE
            if process.poll() is not None:
                ended_at = ended_at or now
                if now > ended_at + _LINGER_SECONDS:
                    return Ending.ENDED
            for key, _ in selector.select(_POLL_SECONDS):
                chunk = os.read(key.fd, _CHUNK)
                if not chunk:
                    selector.unregister(key.fd)
                output.chunks[key.fd].append(chunk)
                output.length += len(chunk)
            if output.length > _BYTES_MAX:
                return Ending.ENDLESS
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, deadline - time.monotonic()))
    return Ending.ENDED


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a tool and the processes that it has started. Only root can kill a tool of root: then its pipe is closed."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
