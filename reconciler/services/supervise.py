"""Supervises the services of a home: restarts them when they die or do not answer, and ends them on request.

They outlive a supervisor that is killed: an endpoint must not end with its watcher. The next supervisor finds them by their
locks, and takes over those that it would start in the same way. It asks each of the others to hand over to its successor,
and ends it if it cannot.
"""

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
from typing import Protocol

from .hearing import Hearing, Verdict
from .lock import NOT_HANDED_OVER, TAKE_OVER, Holder, given_back, holder

BACK_OFF_SECONDS_MIN = 0.2
BACK_OFF_SECONDS_MAX = 5.0
HEALTHY_SECONDS = 10.0
"""A child that has run this long restarts with the shortest back-off."""
END_SECONDS = 15.0
"""Longer than the 10 s that the gateway allows running answers."""
ADOPTED_LOOK_SECONDS = 1.0
"""Time between two looks whether a child of an earlier `up` still runs: the system does not report its end to this one."""
DEAF_SECONDS = 5.0
"""Time for a child that gives no answer to end."""
KILLED_SECONDS = 10.0
"""Time to wait for a child that was killed."""
LOG_BYTES_MAX = 8 * 1024 * 1024
"""A longer log is rotated, and replaces the one rotated before."""
LAST_WORDS_BYTES = 4096
LAST_WORDS_CHARACTERS = 300
ENDED_UNSEEN = 256
"""Exit status of another parent's child that did not end in order: only its parent learns more."""
POLL_SECONDS = 0.05


class Process(Protocol):
    """The methods of ``subprocess.Popen`` that children need."""

    pid: int
    returncode: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int, /) -> None: ...
    def kill(self) -> None: ...


class AdoptedProcess:
    """A service that an earlier supervisor started. It runs as long as it holds its lock."""

    def __init__(self, pid: int, lock: Path) -> None:
        self.pid = pid
        self.returncode = ENDED_UNSEEN
        self._lock = lock
        self._ended = False

    def poll(self) -> int | None:
        """Return None while the process runs."""
        found = None if self._ended else holder(self._lock)
        if not self._ended and (found is None or found.pid not in (0, self.pid)):
            self._ended = True
            self.returncode = 0 if found is None and given_back(self._lock) else ENDED_UNSEEN
        return self.returncode if self._ended else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises ``subprocess.TimeoutExpired``."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            time.sleep(POLL_SECONDS)
        return self.returncode

    def send_signal(self, sig: int, /) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@dataclass(slots=True)
class Child:
    """One supervised process."""

    name: str
    command: Sequence[str]
    log: Path
    lock: Path | None = None
    """The lock that the process holds as long as it runs; None for one that cannot be taken over."""
    started_as: str = ""
    """The command as the lock names it."""
    hands_over: bool = False
    """True if the next process takes over from the running one without a gap; a child that cannot is ended first."""
    leaves: bool = False
    """True if the running process has said that it cannot hand over."""
    hearing: Hearing | None = None
    """Asks whether the process answers; None if it cannot be asked."""
    process: Process | None = None
    started_at: float = 0.0
    restart_at: float = 0.0
    delay: float = BACK_OFF_SECONDS_MIN
    ended: bool = False
    """True if it is not restarted: it was asked to end, or is left to the next supervisor."""
    kill_at: float | None = None
    """Time at which to kill a process that was asked to make room for its successor."""
    log_offset: int = 0
    """Offset in the log at which this process began."""
    reported: str = ""
    """Last message about its end: a repeated exit is reported once."""

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def last_lines(self, lines: int = 1) -> str:
        """Return the last lines in the log of this process, or of the one before it."""
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
    """Keeps children running. ``say`` gets a sentence about everything that happens to them."""

    children: list[Child]
    say: Callable[[str], None]
    search_path: Path
    """Path on which children find this installation of the reconciler, from any current folder."""
    clock: Callable[[], float] = field(default=time.monotonic)
    record: Callable[[str, str, str], None] = lambda service, reason, text: None
    """Gets service, CamelCase reason and sentence for each step with a child that gives no answer."""

    @property
    def started(self) -> bool:
        """Return whether any child was started or taken over."""
        return any(child.process is not None for child in self.children)

    def start(self) -> None:
        """Start all children that are not started yet, or take over those that run already."""
        for child in self.children:
            if child.process is None:
                self._begin(child)

    def restart_dead(self) -> None:
        """Restart dead children, each after its back-off. Call it when one has ended, and after
        ``seconds_to_restart``."""
        for child in self.children:
            if child.alive:
                child.log_offset = min(child.log_offset, _make_room(child.log))
                self._kill_if_late(child)
                self._hear(child)
                continue
            if child.ended:
                continue
            if child.process is not None:
                self._note_end(child, child.process)
            elif self.clock() >= child.restart_at:
                self._begin(child)

    @property
    def seconds_to_restart(self) -> float | None:
        """Return the seconds until there is something to do for a child; None if all run, or were asked to end. The system
        does not report the end of one that was taken over, which is looked for every second."""
        due = [child.restart_at for child in self.children if not child.ended and child.process is None]
        due += [child.kill_at for child in self.children if child.kill_at is not None]
        deaf = any(child.hearing is not None and child.hearing.unanswered for child in self.children)
        if deaf or any(isinstance(child.process, AdoptedProcess) for child in self.children):
            due.append(self.clock() + ADOPTED_LOOK_SECONDS)
        return max(0.0, min(due) - self.clock()) if due else None

    def _kill_if_late(self, child: Child) -> None:
        if child.process is not None and child.kill_at is not None and self.clock() >= child.kill_at:
            self.say(f"the {child.name} does not end: killing it")
            child.kill_at = None
            child.process.kill()

    def _hear(self, child: Child) -> None:
        """Continue a child that gives no answer, because it may only be stopped; end one that gives none for long."""
        if child.hearing is None or child.process is None or child.ended or child.kill_at is not None:
            return
        verdict = child.hearing.look(child.process.pid, self.clock())
        if verdict is None:
            return
        text = (
            f"the {child.name} (pid {child.process.pid}) has given no answer for {child.hearing.seconds:g} s"
        )
        if verdict is Verdict.CONTINUE:
            self._act(child, "ServiceContinued", f"{text}: it is continued, because it may be stopped")
        else:
            child.kill_at = self.clock() + DEAF_SECONDS
            self._act(child, "ServiceReplaced", f"{text}: it is ended, and started again")
            child.process.send_signal(signal.SIGTERM)
        child.process.send_signal(signal.SIGCONT)  # stopped, it would hear nothing

    def _act(self, child: Child, reason: str, text: str) -> None:
        self.say(text)
        self.record(child.name, reason, text)

    def _note_end(self, child: Child, process: Process) -> None:
        if self.clock() - child.started_at > HEALTHY_SECONDS:
            child.delay, child.reported = BACK_OFF_SECONDS_MIN, ""
        child.restart_at = self.clock() + child.delay
        child.delay = min(BACK_OFF_SECONDS_MAX, child.delay * 2)
        child.process, child.kill_at = None, None
        words = child.last_lines() if 0 < process.returncode < ENDED_UNSEEN else ""
        text = (
            f"the {child.name} {_ending(process.returncode)} and is restarted{': ' if words else ''}{words}"
        )
        reported, child.reported = child.reported, _without_time(text)
        if child.hands_over and process.returncode == NOT_HANDED_OVER:
            child.leaves, child.restart_at, child.reported = True, self.clock(), reported
        elif child.reported != reported or process.returncode < 0:
            self.say(text)

    def _begin(self, child: Child) -> None:
        """Take over the process that holds the child's lock, or start one. A process that was started differently hands over
        to a new one, or is asked to end and then replaced."""
        running = holder(child.lock) if child.lock is not None else None
        if child.lock is None or running is None:
            child.leaves = False
            self._spawn(child)
            return
        if not running.pid:  # it has just begun; the next look sees it
            child.restart_at = self.clock() + BACK_OFF_SECONDS_MIN
            return
        if running.started_as != child.started_as and child.hands_over and not child.leaves:
            self._succeed(child, running)
            return
        child.process, child.started_at = AdoptedProcess(running.pid, child.lock), self.clock()
        child.log_offset = _make_room(child.log)
        if running.started_as == child.started_as:
            self.say(f"the {child.name} runs already (pid {running.pid}) and is taken over")
            return
        self.say(f"the {child.name} runs already (pid {running.pid}), started in another way: it is replaced")
        child.kill_at = self.clock() + END_SECONDS
        child.process.send_signal(signal.SIGTERM)

    def _succeed(self, child: Child, running: Holder) -> None:
        """Start a process that takes over from the running one, which serves until then, and ends by itself."""
        text = f"the {child.name} runs already (pid {running.pid}), started in another way: it hands over to the next one"
        if not child.reported:
            self.say(text)
        self._spawn(child, TAKE_OVER)

    def _spawn(self, child: Child, *more: str) -> None:
        paths = os.pathsep.join(filter(None, (str(self.search_path), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": paths}
        child.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        child.log_offset = _make_room(child.log)
        with child.log.open("ab") as log:
            child.process = subprocess.Popen(
                (*child.command, *more),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,  # the terminal's Ctrl-C is only for the parent
            )
        child.started_at = self.clock()

    def end_own(self) -> None:
        """End the children that this supervisor started, and leave those that it took over."""
        own = [child for child in self.children if not isinstance(child.process, AdoptedProcess)]
        self._end(own, [(child, child.process) for child in own if child.process is not None], END_SECONDS)

    def end(self, seconds: float = END_SECONDS, but_handing_over: bool = False) -> None:
        """End all children in parallel; kill those that still run after ``seconds``.

        ``but_handing_over``: leave the ones running that hold their lock and can hand over to the next supervisor's."""
        ending = [
            (child, process)
            for child in self.children
            for process in _processes(child, but_handing_over and child.hands_over)
        ]
        self._end(self.children, ending, seconds)

    def _end(
        self, children: Sequence[Child], processes: Sequence[tuple[Child, Process]], seconds: float
    ) -> None:
        for child in children:
            child.ended = True
        for _, process in processes:
            process.send_signal(signal.SIGTERM)
        deadline = self.clock() + seconds
        for child, process in processes:
            try:
                process.wait(max(0.0, deadline - self.clock()))
            except subprocess.TimeoutExpired:
                self.say(f"the {child.name} does not end: killing it")
                process.kill()
                self._wait_killed(child, process)

    def _wait_killed(self, child: Child, process: Process) -> None:
        try:
            process.wait(KILLED_SECONDS)
        except subprocess.TimeoutExpired:
            self.say(
                f"the {child.name} (pid {process.pid}) has not ended within {KILLED_SECONDS:g} s of SIGKILL: only a"
                " restart of this machine ends it"
            )


def _processes(child: Child, but_holder: bool) -> list[Process]:
    """Return the processes of a child to end: its own, and the one that has not yet handed over to it.

    ``but_holder``: without the one that has the lock."""
    running = holder(child.lock) if child.lock is not None and child.hands_over else None
    own = [] if child.process is None else [child.process]
    if child.lock is None or running is None:
        return own
    if running.pid in {
        0,
        *(each.pid for each in own),
    }:  # 0: it was taken in this moment, perhaps by the child's own
        return [] if but_holder else own
    return own if but_holder else [*own, AdoptedProcess(running.pid, child.lock)]


def being_switched(home: Path) -> bool:
    """Return whether a command ends `up` to start another version, whose gateway takes over from this one's."""
    from .versions import Versions

    return Versions(home / "versions").being_switched


def _ending(status: int) -> str:
    if status == ENDED_UNSEEN:
        return "has ended"
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
