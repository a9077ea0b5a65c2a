"""Children that are started again whenever they die, and that end with their parent, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PARENT_VARIABLE = "RECONCILER_PARENT_FD"
"""As in ``bootstrap``: a pipe's descriptor whose end tells a child that its parent is gone."""

BACK_OFF_SECONDS_MIN = 0.2
BACK_OFF_SECONDS_MAX = 5.0
HEALTHY_SECONDS = 10.0
END_SECONDS = 15.0


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
    """Told to end: not started again."""

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


@dataclass(slots=True)
class Supervisor:
    """Keeps children running. ``say`` is told, in a sentence, what happened to them."""

    children: list[Child]
    say: Callable[[str], None]
    _read: int = -1
    _write: int = -1
    _clock: Callable[[], float] = field(default=time.monotonic)

    def start(self) -> None:
        """Start all children."""
        self._read, self._write = os.pipe()
        for child in self.children:
            self._spawn(child)

    def tend(self) -> None:
        """Start again what has died, each after its back-off. Call it a few times a second."""
        for child in self.children:
            if child.ended or child.alive:
                continue
            if child.process is not None:
                self._note_end(child, child.process)
            elif self._clock() >= child.restart_at:
                self._spawn(child)

    def _note_end(self, child: Child, process: subprocess.Popen[bytes]) -> None:
        lived = self._clock() - child.started_at
        child.delay = (
            BACK_OFF_SECONDS_MIN if lived > HEALTHY_SECONDS else min(BACK_OFF_SECONDS_MAX, child.delay * 2)
        )
        child.restart_at = self._clock() + child.delay
        child.process = None
        self.say(
            f"the {child.name} {_ending(process.returncode)}; it is started again{_last_words(child.log)}"
        )

    def _spawn(self, child: Child) -> None:
        environment = {**os.environ, PARENT_VARIABLE: str(self._read)}
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
        child.started_at = self._clock()

    def end(self) -> None:
        """End all children in order; those that do not go are killed."""
        for child in self.children:
            child.ended = True
            if child.alive and child.process is not None:
                child.process.send_signal(signal.SIGTERM)
        for child in self.children:
            if child.process is None:
                continue
            try:
                child.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
        for descriptor in (self._read, self._write):
            if descriptor >= 0:
                os.close(descriptor)
        self._read = self._write = -1


def _ending(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else f"exited with {status}"


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return f": {lines[-1]}" if lines and "rror" in lines[-1] else ""
