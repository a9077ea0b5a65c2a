"""The standby process: a shim and its rank's process, which have finished their imports and wait for the next rank.

Both take longer to start than everything else between the end of a group and the next one's weights. A spare is no
rank: it has no directory, no port and no weights. While it waits it examines weights, which needs the same
imports. It ends with its agent, whose end of the socket between them closes then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, BinaryIO, Callable, List, Mapping, NamedTuple, Optional, Sequence

from reconciler.agent.system.files import write_json
from reconciler.wire.engines import ENGINES
from reconciler.wire.launch import EXAMINE, UNANSWERED
from reconciler.wire.shortage import explained

from .spare import ANSWER_BYTES_MAX

ENDED = "its process ended before it had answered"
PAUSE_SECONDS = 60.0
"""Time between two starts of a standby process if no rank used the first."""
_log = logging.getLogger("agent")

OnAnswer = Callable[[Mapping[str, Any]], None]


class Program(NamedTuple):
    """The program of a rank: its command, and the variables that its launch asks for."""

    argv: Sequence[str]
    env: Mapping[str, str]


def program_of_ranks(python: str) -> Program:
    """Return the program of ranks with this interpreter, as controllers ask for it."""
    return Program(ENGINES[0].argv(python), ENGINES[0].environment)


class Standby:
    """The standby process of a node, if there is one. At most one waits."""

    def __init__(self, command: Sequence[str], directory: Path) -> None:
        """``command`` starts the agent's file as a standby process of the node whose state is in ``directory``."""
        self._command = command
        self._directory = directory
        self._waiting: Optional[_Waiting] = None
        self._not_before = 0.0
        self._used_at = 0.0
        self._unstarted = ""
        """Why the last one could not be started; empty if it was."""
        self._expecting = False
        """True if weights are about to be examined: then it counts as in use, however long that takes to begin."""
        self.ended: List[subprocess.Popen[bytes]] = []
        """Shims that have been asked to end, and are not reaped yet."""

    def prepare(self, program: Program) -> None:
        """Start a standby process with this program, unless there is one, or the last one was of no use."""
        if self._waiting is None and time.monotonic() >= self._not_before:
            self._start(program)

    def expect(self, program: Program) -> None:
        """Start one as ``prepare`` does, for weights that are about to be examined, and keep it for them."""
        self._expecting = True
        self.prepare(program)

    def expect_no_more(self) -> None:
        """Keep it no longer than any other from now on."""
        self._expecting = False
        self._used_at = time.monotonic()

    def examine(self, program: Program, folder: str, seconds: float, on_answer: OnAnswer) -> None:
        """Ask the standby process with this program, which is started if needed, what it can do with the weights in
        ``folder``. ``on_answer`` is called once, with ``UNANSWERED`` alone if that fails, or takes longer than ``seconds``. One
        folder at a time."""

        def answered(answer: Mapping[str, Any]) -> None:
            self._used_at = time.monotonic()
            on_answer(answer)

        if self._waiting is not None and self._waiting.program != program:
            self.end()
        for _ in range(2):  # the first may have ended unnoticed
            if self._waiting is None:
                self._start(program)
            if self._waiting is None:
                break
            if self._waiting.examine(folder, seconds, answered, self.end):
                return
            self.end()
        on_answer({UNANSWERED: self._unstarted or ENDED})

    def _start(self, program: Program) -> None:
        self._used_at = time.monotonic()
        self._not_before = self._used_at + PAUSE_SECONDS
        try:
            self._waiting = _Waiting(self._command, program, self._directory)
        except OSError as error:
            self._unstarted = explained(f"its process cannot be started: {error}", error.errno)
            _log.warning("cannot start a standby process: %s", error)
            return
        self._unstarted = ""
        _log.info("standby process %d waits for the next rank", self._waiting.process.pid)

    def become(
        self, rank: Path, listener: socket.socket, errors: BinaryIO
    ) -> Optional[subprocess.Popen[bytes]]:
        """Turn it into the shim of the rank in the directory ``rank``; None if there is no suitable one."""
        waiting = self._waiting
        if waiting is None or waiting.examines:
            return None
        self._waiting = None
        if not waiting.become(rank, listener, errors):
            self.ended.append(waiting.process)
            return None
        self._not_before = 0.0
        return waiting.process

    def end_unused(self, seconds: float) -> None:
        """End it if it was started, and has examined weights, longer ago than this."""
        waiting = self._waiting
        idle = waiting is not None and not waiting.examines and not self._expecting
        if idle and time.monotonic() - self._used_at >= seconds:
            self.end()

    def end(self) -> None:
        """Let it end soon."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self.ended.append(waiting.process)
            waiting.close()

    def reap(self) -> None:
        """Reap one that has ended by itself."""
        waiting = self._waiting
        if waiting is not None and waiting.process.poll() is not None:
            _log.warning("the standby process ended unexpectedly, with %s", waiting.process.returncode)
            self._waiting = None
            waiting.close()


class StandbyExaminations:
    """An ``examination.Runtime``: examines weights with the standby process that the next rank would get."""

    def __init__(self, standby: Standby, program: Program) -> None:
        self._standby = standby
        self._program = program

    def prepare(self) -> None:
        self._standby.expect(self._program)

    def prepared(self) -> None:
        self._standby.expect_no_more()

    def examine(self, folder: str, seconds: float, on_answer: OnAnswer) -> None:
        self._standby.examine(self._program, folder, seconds, on_answer)


class _Waiting:
    """The agent's end of one standby process."""

    def __init__(self, command: Sequence[str], program: Program, directory: Path) -> None:
        """Start it. Raises ``OSError``."""
        self.program = program
        self._on_answer: Optional[OnAnswer] = None
        self._answer = b""
        self._why = ENDED
        """The reason for a missing answer if it is closed now."""
        kept = directory / "spare.json"
        write_json(kept, {"argv": list(program.argv), "env": dict(program.env)})
        self._control, theirs = socket.socketpair()
        with contextlib.ExitStack() as failing:
            failing.callback(self._control.close)
            with theirs, (directory / "spare.log").open("wb") as errors:
                self.process = subprocess.Popen(
                    [*command, "--control", str(theirs.fileno()), "--program", str(kept)],
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            failing.pop_all()

    @property
    def examines(self) -> bool:
        """Return whether it has not answered yet."""
        return self._on_answer is not None

    def examine(self, folder: str, seconds: float, on_answer: OnAnswer, end: Callable[[], None]) -> bool:
        """Have it examine weights. Return False if it has ended. ``end`` closes this: it is called if there is no answer,
        or none in time."""

        def give_up() -> None:
            self._why = f"it took longer than {seconds:g} s"
            end()

        try:
            self._control.sendall(EXAMINE + json.dumps(folder).encode() + b"\n")
        except OSError:
            return False
        loop = asyncio.get_event_loop()
        self._on_answer = on_answer
        self._late = loop.call_later(seconds, give_up)
        loop.add_reader(self._control.fileno(), self._read, end)
        return True

    def _read(self, end: Callable[[], None]) -> None:
        try:
            chunk = self._control.recv(ANSWER_BYTES_MAX)
        except OSError:
            chunk = b""
        self._answer += chunk
        if len(self._answer) >= ANSWER_BYTES_MAX:
            self._why = f"its answer is longer than {ANSWER_BYTES_MAX} bytes"
            end()
        elif not chunk:
            end()
        elif self._answer.endswith(b"\n"):
            self._conclude(_parsed(self._answer))

    def _conclude(self, answer: Mapping[str, Any]) -> None:
        on_answer, self._on_answer, self._answer = self._on_answer, None, b""
        if on_answer is not None:
            self._late.cancel()
            asyncio.get_event_loop().remove_reader(self._control.fileno())
            on_answer(answer)

    def become(self, rank: Path, listener: socket.socket, errors: BinaryIO) -> bool:
        """Make its process the shim of the rank in the directory ``rank``. Return whether it still runs."""
        with self._control:
            try:
                socket.send_fds(self._control, [os.fsencode(rank)], [listener.fileno(), errors.fileno()])
            except OSError:
                return False
        return True

    def close(self) -> None:
        """Let the unused standby process end soon; a pending question has failed."""
        self._conclude({UNANSWERED: self._why})
        self._control.close()


def _parsed(text: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        answer = None
    return answer if isinstance(answer, dict) else {UNANSWERED: "its answer cannot be read"}
