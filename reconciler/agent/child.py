"""Starting the rank's process, so that there is never one that nobody knows of.

The new process waits at a gate until its number is on disk. If the shim dies before that, the gate closes
and the process ends without having run anything of the rank.
"""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path
from typing import Callable, Dict, Mapping, NoReturn, Sequence

from reconciler.wire.launch import CONFIG_VARIABLE, PROGRESS_VARIABLE

EXIT_NOT_STARTED = 127
"""Exit status of a rank whose program cannot be started, as shells have it."""


@dataclasses.dataclass(frozen=True)
class Child:
    """A process and the shim's ends of its pipes."""

    pid: int
    stdin: int
    """Never written to; its closing tells the rank that the shim is gone."""
    output: int
    progress: int
    problem: str
    """Why the program could not be started; empty when it was."""


def environment(own: Mapping[str, str], asked: Mapping[str, str], temporary: Path) -> Dict[str, str]:
    """Exactly what the rank was asked to be given, on a base that any program needs.

    ``temporary`` is the node's own folder for what programs leave lying about: MLX keeps what its CPU backend
    compiles under ``TMPDIR`` (mlx/backend/cpu/jit_compiler.cpp), for the next start to use.
    """
    base = {name: own[name] for name in ("HOME", "PATH", "USER") if name in own}
    return {**base, "LANG": "C", "LC_ALL": "C", "TMPDIR": str(temporary), **asked}


def start(
    argv: Sequence[str], env: Mapping[str, str], directory: Path, at_gate: Callable[[int], None]
) -> Child:
    """Start ``argv`` in a session of its own; ``at_gate`` is called with its pid before it runs.

    Raises ``OSError`` when no process can be made, or as ``at_gate`` does: then nothing runs.
    """
    stdin, stdin_kept = os.pipe()
    output, output_given = os.pipe()
    progress, progress_given = os.pipe()
    gate, gate_opener = os.pipe()
    problem, problem_given = os.pipe()
    given = {
        **env,
        PROGRESS_VARIABLE: str(progress_given),
        CONFIG_VARIABLE: str(directory / "config.json"),
    }
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
    """In the new process: wait at the gate, then become the rank. Never returns."""
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
        os.write(problem, "cannot start {}: {}".format(argv[0], error.strerror).encode())
    finally:
        os._exit(EXIT_NOT_STARTED)
