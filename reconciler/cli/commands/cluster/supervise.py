"""Supervises children: restarts them when they die, and ends them with their parent, however it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PARENT_VARIABLE = "RECONCILER_PARENT_FD"
"""Variable, as in ``bootstrap``, with the descriptor of a pipe that closes when the parent is gone."""

BACK_OFF_SECONDS_MIN = 0.2
BACK_OFF_SECONDS_MAX = 5.0
HEALTHY_SECONDS = 10.0
"""A child that has run this long restarts with the shortest back-off."""
END_SECONDS = 15.0
"""Longer than the 10 s that the gateway allows running answers."""
KILLED_SECONDS = 10.0
"""How long to wait for a child that was killed."""
LOG_BYTES_MAX = 8 * 1024 * 1024
"""A longer log is rotated, and replaces the one rotated before."""
LAST_WORDS_BYTES = 4096
LAST_WORDS_CHARACTERS = 300


@dataclass(slots=True)
class Child:
    """One supervised process."""

    name: str
    command: Sequence[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    restart_at: float = 0.0
    delay: float = BACK_OFF_SECONDS_MIN
    ended: bool = False
    """Was asked to end, and is not restarted."""
    log_offset: int = 0
    """Offset in the log at which this process began."""
    reported: str = ""
    """Last message about its end: a repeated exit is reported once."""

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def last_lines(self, lines: int = 1) -> str:
        """Return the last lines that this process, or the one before it, has logged."""
        try:
            with self.log.open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(self.log_offset, end - LAST_WORDS_BYTES, 0))
                written = file.read().decode("utf-8", "replace").strip().splitlines()
        except OSError:
            return ""
        return "\n".join(line[:LAST_WORDS_CHARACTERS] for line in written[-lines:])


@dataclass(slots=True)
class Supervisor:
    """Keeps children running. ``say`` gets a sentence about each thing that happens to them."""

    children: list[Child]
    say: Callable[[str], None]
    search_path: Path
    """Path on which children find this installation of the reconciler, whatever the current folder is."""
    clock: Callable[[], float] = field(default=time.monotonic)
    _read: int = -1
    _write: int = -1

    def start(self) -> None:
        """Start all children."""
        self._read, self._write = os.pipe()
        for child in self.children:
            self._spawn(child)

    def restart_dead(self) -> None:
        """Restart dead children, each after its back-off. Call it a few times a second."""
        for child in self.children:
            if child.alive:
                child.log_offset = min(child.log_offset, _make_room(child.log))
            if child.ended or child.alive:
                continue
            if child.process is not None:
                self._note_end(child, child.process)
            elif self.clock() >= child.restart_at:
                self._spawn(child)

    def _note_end(self, child: Child, process: subprocess.Popen[bytes]) -> None:
        if self.clock() - child.started_at > HEALTHY_SECONDS:
            child.delay, child.reported = BACK_OFF_SECONDS_MIN, ""
        child.restart_at = self.clock() + child.delay
        child.delay = min(BACK_OFF_SECONDS_MAX, child.delay * 2)
        child.process = None
        words = child.last_lines() if process.returncode > 0 else ""
        text = (
            f"the {child.name} {_ending(process.returncode)} and is restarted{': ' if words else ''}{words}"
        )
        reported, child.reported = child.reported, _without_time(text)
        if child.reported != reported or process.returncode < 0:
            self.say(text)

    def _spawn(self, child: Child) -> None:
        paths = os.pathsep.join(filter(None, (str(self.search_path), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, PARENT_VARIABLE: str(self._read), "PYTHONPATH": paths}
        child.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        child.log_offset = _make_room(child.log)
        with child.log.open("ab") as log:
            child.process = subprocess.Popen(
                child.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                pass_fds=(self._read,),
                start_new_session=True,  # the terminal's Ctrl-C is for the parent alone
            )
        child.started_at = self.clock()

    def end(self, seconds: float = END_SECONDS) -> None:
        """End all children in parallel; kill those that still run after ``seconds``."""
        for child in self.children:
            child.ended = True
            if child.alive and child.process is not None:
                child.process.send_signal(signal.SIGTERM)
        deadline = self.clock() + seconds
        for child in self.children:
            if child.process is None:
                continue
            try:
                child.process.wait(max(0.0, deadline - self.clock()))
            except subprocess.TimeoutExpired:
                self.say(f"the {child.name} does not end: killing it")
                child.process.kill()
                self._wait_killed(child, child.process)
        for descriptor in (self._read, self._write):
            if descriptor >= 0:
                os.close(descriptor)
        self._read = self._write = -1

    def _wait_killed(self, child: Child, process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(KILLED_SECONDS)
        except subprocess.TimeoutExpired:
            self.say(
                f"the {child.name} (pid {process.pid}) has not ended within {KILLED_SECONDS:g} s of SIGKILL: only a"
                " restart of this machine ends it"
            )


def _ending(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else f"exited with {status}"


def _without_time(text: str) -> str:
    """Return a text without digits, because times and pids differ between equal failures."""
    return "".join(character for character in text if not character.isdigit())


def _make_room(log: Path) -> int:
    """Rotate a log if it is too long, and return its size. Another process may be writing to it."""
    size = log.stat().st_size if log.exists() else 0
    if size <= LOG_BYTES_MAX:
        return size
    with suppress(OSError):  # on a full disk the copy is lost, and its space becomes free
        shutil.copyfile(log, log.with_name(f"{log.name}.1"))
    os.truncate(log, 0)
    return 0
