"""Ends an agent that lives but gives no answer, so that another can take its place. Its ranks continue."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import socket
import time
from pathlib import Path

from reconciler.wire import SPOKEN, frames
from reconciler.wire.codec import Hello, WireError, to_wire
from reconciler.wire.node import Observe

from .system.files import place, write_atomically
from .system.machine import boot_id
from .system.process import birth, signal_process

ANSWER_SECONDS = 4.0
"""Time for an agent to answer with its report. An agent that has just begun has ``BEGIN_SECONDS`` until it listens."""
BEGIN_SECONDS = 20.0
END_SECONDS = 2.0
"""Time for the kernel to end it."""
_LOOK_SECONDS = 0.05


def remember(directory: Path) -> None:
    """Note which process holds the lock of this folder, and the identity of the folder: a copy of it may share the lock."""
    own = "{} {} {}\n".format(place(directory), os.getpid(), birth(os.getpid(), boot_id()))
    write_atomically(directory / "agent.process", own.encode("ascii"))


def take_over(directory: Path, lock: int, path: Path) -> bool:
    """Take ``lock`` from the agent that has it, if that gives no answer at ``path``. Return whether it was taken.

    Only the process that the lock's holder noted is ended, if it is still the same: it is the agent of this folder.
    """
    pid, _, born = _noted(directory).partition(" ")
    begun = time.time() - os.fstat(lock).st_mtime
    if not pid.isdecimal() or 0 <= begun < BEGIN_SECONDS or _answers(path):
        return False
    if birth(int(pid), boot_id()) != born:
        return False
    logging.getLogger("agent").warning("the agent with pid %s gives no answer, and is ended", pid)
    signal_process(int(pid), signal.SIGKILL)
    until = time.monotonic() + END_SECONDS
    while time.monotonic() < until:
        if try_lock(lock):
            return True
        time.sleep(_LOOK_SECONDS)
    return False


def try_lock(lock: int) -> bool:
    """Return whether the lock is this process's now."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _noted(directory: Path) -> str:
    """Return pid and birth of the agent of this folder; empty if none has noted them for it."""
    try:
        where, _, process = (directory / "agent.process").read_text("utf-8").strip().partition(" ")
        return process if where == place(directory) else ""
    except (OSError, ValueError):
        return ""  # of a version that noted nothing


def _answers(path: Path) -> bool:
    """Return whether the agent at ``path`` reports in time."""
    until = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < until:
        try:
            if _ask(path, until):
                return True
        except (OSError, WireError):
            pass  # nobody listens, or takes a connection; perhaps only now
        time.sleep(_LOOK_SECONDS)
    return False


def _ask(path: Path, until: float) -> bool:
    """Ask for a report once. Return whether one came. Raises ``OSError`` and ``WireError``."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(max(_LOOK_SECONDS, until - time.monotonic()))
        caller.connect(str(path))
        for said in (to_wire(Hello("controller", SPOKEN)), {**to_wire(Observe()), "call": 1}):
            caller.sendall(frames.encode(said))
        while (frame := frames.receive(caller)) is not None:
            if frame.get("reply") == 1:
                return True
    return False
