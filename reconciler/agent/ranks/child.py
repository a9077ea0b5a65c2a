"""Starts the rank's process in such a way that no process is ever unknown.

The new process waits at a gate until its pid is on disk. If the shim dies before that, the gate closes and the process
ends without having run anything of the rank. A standby process has already run the part that all ranks share, and waits
at its standard input.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import signal
import time
from pathlib import Path
from typing import Callable, Dict, Mapping, NoReturn, Sequence, Tuple

from reconciler.agent.system.files import prune
from reconciler.agent.system.process import signal_group
from reconciler.wire.launch import CONFIG_LATER, CONFIG_VARIABLE, PROGRESS_VARIABLE
from reconciler.wire.shortage import explained

Program = Tuple[Sequence[str], Mapping[str, str]]
"""A command, and all its variables."""
TEMPORARY_BYTES_MAX = 256 * 1024 * 1024
"""Limit for the files that libraries of ranks leave in the node's own ``TMPDIR``."""
ENDING_SECONDS = 1.0
"""A process that has closed its pipes by ending is gone after this time."""
_OUTPUT_BYTES = 64 * 1024
_LINE_CHARACTERS = 160
EXIT_NOT_STARTED = 127
"""Exit status of a rank whose program cannot be started, as shells have it."""


@dataclasses.dataclass(frozen=True)
class Child:
    """A process and the shim's ends of its pipes."""

    pid: int
    stdin: int
    """Its end tells the rank that the shim is gone; through it a standby process learns which rank it is."""
    output: int
    progress: int
    problem: str
    """Why the program could not be started; empty if it was."""

    def waits(self) -> bool:
        """Return whether a standby process still waits: its progress pipe is open, and it has written nothing to it."""
        return not select.select([self.progress], [], [], 0)[0]

    def begin(self, config: Path) -> None:
        """Tell a standby process which rank it is."""
        self.tell(os.fsencode(config) + b"\n")

    def tell(self, line: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended, as its parent hears anyway
            os.write(self.stdin, line)

    def ending(self) -> str:
        """Say how a process that has closed its progress pipe has ended, for people, with the last line that it wrote."""
        until = time.monotonic() + ENDING_SECONDS
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        while not pid and time.monotonic() < until:
            time.sleep(0.01)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid:
            return "its process closed its pipe"
        os.set_blocking(self.output, False)
        output = b""
        with contextlib.suppress(OSError):
            while chunk := os.read(self.output, _OUTPUT_BYTES):
                output = (output + chunk)[-_OUTPUT_BYTES:]
        last = output.decode("utf-8", "replace").strip().rpartition("\n")[2][-_LINE_CHARACTERS:]
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            how = f"its process was ended by signal {number} ({signal.Signals(number).name})"
        else:
            how = f"its process ended with status {os.WEXITSTATUS(status)}"
        return f"{how}: {last}" if last else how

    def end_unused(self) -> None:
        """End an unused process, with everything that it has started."""
        signal_group(self.pid, signal.SIGKILL)
        for descriptor in (self.stdin, self.output, self.progress):
            os.close(descriptor)


def environment(own: Mapping[str, str], requested: Mapping[str, str], temporary: Path) -> Dict[str, str]:
    """Return the rank's environment: exactly the requested variables, on top of a minimal base.

    ``temporary``: the node's own folder for temporary files, in which the leftovers of libraries are bounded.
    """
    base = {name: own[name] for name in ("HOME", "PATH", "USER") if name in own}
    return {**base, "LANG": "C", "LC_ALL": "C", "TMPDIR": str(temporary), **requested}


def complete(argv: Sequence[str], env: Mapping[str, str], node: Path) -> Program:
    """Return a program of the node whose state is in ``node``, with all its variables. Raises ``OSError``."""
    temporary = node / "tmp"
    temporary.mkdir(mode=0o700, exist_ok=True)
    prune(temporary, TEMPORARY_BYTES_MAX)
    return tuple(argv), environment(os.environ, env, temporary)


def start(
    argv: Sequence[str], env: Mapping[str, str], directory: Path, at_gate: Callable[[int], None]
) -> Child:
    """Start the rank in ``directory`` in a session of its own; ``at_gate`` is called with its pid before it runs.

    Raises ``OSError`` when no process can be made, or as ``at_gate`` does: then nothing runs.
    """
    return _start(argv, {**env, CONFIG_VARIABLE: str(directory / "config.json")}, directory, at_gate)


def start_standby(argv: Sequence[str], env: Mapping[str, str]) -> Child:
    """Start a program that waits until it learns which rank it is. Raises ``OSError`` if no process can be created."""
    return _start(argv, {**env, CONFIG_VARIABLE: CONFIG_LATER}, Path("/"), lambda pid: None)


def _start(
    argv: Sequence[str], env: Mapping[str, str], directory: Path, at_gate: Callable[[int], None]
) -> Child:
    stdin, stdin_kept = os.pipe()
    output, output_given = os.pipe()
    progress, progress_given = os.pipe()
    gate, gate_opener = os.pipe()
    problem, problem_given = os.pipe()
    given = {**env, PROGRESS_VARIABLE: str(progress_given)}
    pid = os.fork()
    if pid == 0:
        os.close(gate_opener)
        os.set_inheritable(progress_given, True)
        _become(argv, given, directory, (stdin, output_given, gate, problem_given))
    for descriptor in (stdin, output_given, progress_given, gate, problem_given):
        os.close(descriptor)
    try:
        at_gate(pid)
        os.write(gate_opener, b"1")
    finally:
        os.close(gate_opener)
    text = os.read(problem, 4096).decode("utf-8", "replace")
    os.close(problem)
    return Child(pid, stdin_kept, output, progress, text)


def _become(argv: Sequence[str], env: Mapping[str, str], directory: Path, ends: Sequence[int]) -> NoReturn:
    """Wait at the gate in the new process, then become the rank. Never returns."""
    stdin, output, gate, problem = ends
    try:
        os.setsid()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if os.read(gate, 1):
            for source, target in ((stdin, 0), (output, 1), (output, 2)):
                os.dup2(source, target)
            os.chdir(directory)
            os.execvpe(argv[0], list(argv), env)
    except OSError as error:
        text = "cannot start {}: {}".format(argv[0], error.strerror)
        os.write(problem, explained(text, error.errno).encode())
    finally:
        os._exit(EXIT_NOT_STARTED)
