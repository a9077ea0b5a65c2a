"""Stores the last repair of the machine, and carries it out in a process that outlives the agent.

==========================  =================================================================================
file                        contents
==========================  =================================================================================
``repair.json``             the ``Record``, and the ``files.place`` of its directory: in a copy, that of another
``repair.verdict``          ``confirmed ID`` or ``undo ID``: agent or watchdog, the first to make it decides
``repair.lock``             locked by the watchdog as long as it lives
==========================  =================================================================================
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

from reconciler.agent.system import files, machine
from reconciler.agent.system.tools import Tools
from reconciler.wire.codec import WireError, from_wire, to_wire
from reconciler.wire.repair import CONFIRM_SECONDS, Repair, RepairReport, RepairState, needs_root, permitted
from reconciler.wire.tools import Ending, RunTool

from . import script
from .script import Acts, Await, Failure, Keep, Record, Run

COMMAND_SECONDS = 10.0
POLL_SECONDS = 0.1
CONFIRMED, UNDO = "confirmed", "undo"
_RECORD_BYTES_MAX = 256 * 1024
_WORDS_BYTES = 200
_log = logging.getLogger("agent")


class Unconfirmed(Exception):
    """Another repair is in progress."""


class StoredRepair:
    """The files of the last repair, in the directory of an agent."""

    def __init__(self, directory: Path) -> None:
        self._record = directory / "repair.json"
        self._verdict = directory / "repair.verdict"
        self.lock = directory / "repair.lock"

    def read(self) -> Optional[Record]:
        """Return the last record; None if there is none or it cannot be read, or if this directory is a copy and the
        agent of the original carries it out."""
        try:
            content = files.read_json(self._record, _RECORD_BYTES_MAX)
            record = from_wire(Record, content)
            return record if content.get("place") in (None, files.place(self._record.parent)) else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, WireError) as error:
            _log.error("%s cannot be read: %s", self._record, error)
            return None

    def write(self, record: Record) -> None:
        """Write the record. Raises ``OSError``."""
        files.write_json(self._record, {**to_wire(record), "place": files.place(self._record.parent)})

    def forget_verdict(self) -> None:
        """Remove the verdict before another repair. Raises ``OSError``."""
        with contextlib.suppress(FileNotFoundError):
            self._verdict.unlink()

    def decide(self, id: str, verdict: str) -> bool:
        """Decide the repair unless it is decided. Return whether ``verdict`` is the decision. Raises ``OSError``."""
        draft = self._verdict.with_name("{}.{}".format(self._verdict.name, verdict))
        draft.write_text("{} {}".format(verdict, id), encoding="utf-8")
        with contextlib.suppress(FileExistsError):
            os.link(draft, self._verdict)
        draft.unlink()
        return self.decided(id, verdict)

    def decided(self, id: str, verdict: str) -> bool:
        """Return whether this is the decision."""
        with contextlib.suppress(OSError):
            return self._verdict.read_text(encoding="utf-8") == "{} {}".format(verdict, id)
        return False

    def watched(self) -> bool:
        """Return whether a watchdog is running."""
        with self.lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
        return False


class Repairs:
    """The agent's side."""

    def __init__(self, directory: Path, models: Path, program: Sequence[str], tools: Sequence[str]) -> None:
        self._kept = StoredRepair(directory)
        self._directory = directory
        places = ("--directory", str(directory), "--models", str(models))
        self._command = (*program, "repair", *places, "--tools", ":".join(tools))
        self._watchdogs: List[subprocess.Popen[bytes]] = []

    def begin(self, request: Repair) -> None:
        """Start a repair in a process of its own. Raises ``Unconfirmed``, ``ValueError`` and ``OSError``."""
        before = self._kept.read()
        if before is not None and not before.over:
            if before.id == request.id:
                return
            raise Unconfirmed("the repair {} is {}".format(before.id, before.state))
        if self._kept.watched():
            raise Unconfirmed("a repair is about to end")
        check(request, machine.boot_id())
        self._kept.forget_verdict()
        self._kept.write(script.begin(before, recorded(request), time.monotonic()))
        self._watch("--new")

    def confirm(self, id: str) -> bool:
        """Return whether the changes stay. Raises ``OSError``."""
        record = self._kept.read()
        if record is None or record.id != id:
            return False
        if record.over:
            return record.state == RepairState.CONFIRMED
        return record.state == RepairState.WAITING and self._kept.decide(id, CONFIRMED)

    def report(self) -> Optional[RepairReport]:
        """Return the report of the last repair; None if there was none."""
        record = self._kept.read()
        if record is None:
            return None
        # A confirmed repair stays from now on, even before the watchdog has recorded that.
        stays = record.state == RepairState.WAITING and self._kept.decided(record.id, CONFIRMED)
        return script.report(record, time.monotonic(), stays)

    def continue_abandoned(self) -> bool:
        """Return whether a repair, or its process, still runs; resume one whose process is gone. Raises ``OSError``."""
        self._watchdogs = [each for each in self._watchdogs if each.poll() is None]
        record = self._kept.read()
        if record is None:
            return False
        if record.over:
            return self._kept.watched()
        if not self._watchdogs and not self._kept.watched():
            self._watch()
        return True

    def _watch(self, *options: str) -> None:
        with (self._directory / "repair.log").open("wb") as words:
            self._watchdogs.append(
                subprocess.Popen(
                    [*self._command, *options],
                    stdin=subprocess.DEVNULL,
                    stdout=words,
                    stderr=words,
                    start_new_session=True,
                )
            )


def check(request: Repair, boot_id: str) -> None:
    """Raise ``ValueError`` for a forbidden repair."""
    if request.boot_id != boot_id:
        raise ValueError("it is for another boot of this machine")
    for change in request.changes:
        for argv in (change.argv, change.undo):
            if not permitted(argv):
                raise ValueError(
                    "{!r} is not one of the commands that repair a machine".format(" ".join(argv))
                )
    if not request.changes:
        raise ValueError("there is nothing to change")


def recorded(request: Repair) -> Record:
    seconds = min(request.confirm_seconds, CONFIRM_SECONDS)
    return Record(request.id, request.boot_id, request.changes, seconds)


def watch(directory: Path, models: Path, tools: Tuple[str, ...], new: bool) -> int:
    """Run as the watchdog of the stored repair: carry it out, or resume what another watchdog left. Return the exit
    status. A resumed repair that had made no change makes none, because its requester may be gone."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    kept = StoredRepair(directory)
    with kept.lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return 0
        record = kept.read()
        if record is None or record.over:
            return 0
        boot_id, system = machine.boot_id(), Tools(tools, {"models": str(models)})
        if new and (record.state, record.begun) == (RepairState.RUNNING, 0):
            refusal = _refusal(system, record)
            acts = script.refuse(record, refusal) if refusal else script.carry_out(record)
        else:
            acts = script.finish_abandoned(record, boot_id, not kept.decide(record.id, UNDO))
        _perform(acts, record.id, kept, system)
    return 0


def _refusal(tools: Tools, record: Record) -> Optional[Failure]:
    """Ask sudo about every command of a repair, also those that undo it, before the first one runs: a repair that
    could not be undone is not begun."""
    for change in record.changes:
        for argv in filter(needs_root, (change.argv, change.undo)):
            answer = tools.run(RunTool(("sudo", "-n", "-l", *argv), COMMAND_SECONDS))
            if answer.ending == Ending.ENDED and answer.code != 0:
                words = (answer.stderr or answer.stdout).strip()[-_WORDS_BYTES:] or "sudo does not allow it"
                return Failure("{}: {}".format(" ".join(argv), words), barred=True)
    return None


def _perform(acts: Acts, id: str, kept: StoredRepair, tools: Tools) -> None:
    answer: script.Answer = None
    with contextlib.suppress(StopIteration):
        while True:
            act = acts.send(answer)
            answer = None
            if isinstance(act, Keep):
                answer = _store(kept, act.record)
            elif isinstance(act, Run):
                answer = _run(tools, act.argv)
            else:
                answer = _confirmed(kept, id, act)


def _store(kept: StoredRepair, record: Record) -> Optional[Failure]:
    try:
        kept.write(record)
    except OSError as error:
        return Failure("it cannot be recorded: {}".format(error))
    return None


def _run(tools: Tools, argv: Tuple[str, ...]) -> Optional[Failure]:
    result = tools.run(RunTool(argv, COMMAND_SECONDS, as_root=needs_root(argv)))
    if result.ending == Ending.ENDED and result.code == 0:
        return None
    words = (result.stderr or result.stdout or result.problem or result.ending).strip()[-_WORDS_BYTES:]
    ended = result.ending in (Ending.ENDED, Ending.ABSENT, Ending.STUCK, Ending.BARRED)
    barred = result.code == 1 and result.stderr.startswith("sudo: ")
    return Failure("{}: {}".format(" ".join(argv), words), ended, barred)


def _confirmed(kept: StoredRepair, id: str, act: Await) -> bool:
    deadline = time.monotonic() + act.seconds
    while time.monotonic() < deadline:
        if kept.decided(id, CONFIRMED):
            return True
        time.sleep(POLL_SECONDS)
    return not kept.decide(id, UNDO)
