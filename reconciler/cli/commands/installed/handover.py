"""Ends the `up` of a home, and hands its services over to another version; ranks keep running."""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from reconciler.bootstrap import CONTROLLER, GATEWAY, Home
from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import LOCK_NAME, ask
from reconciler.errors import ReconcilerError, Unreachable
from reconciler.services.lock import holder
from reconciler.wire import answers
from reconciler.wire.admin import ShowStatus

END_SECONDS = 45.0
"""`up` waits 15 s for each service, and 10 s more for one that was killed."""
STOP_ALL_SECONDS = 90.0
SERVE_SECONDS = 60.0
"""Time for a new controller to answer, and for its gateway to listen."""
LOOK_SECONDS = 0.1
_VERSION = 2
"""Index of the version in the words of a lock (``services/lock.py``)."""


def running_up(home: Path) -> int:
    """Return the pid of the `up` that runs for a home; 0 if none does."""
    try:
        with (home / LOCK_NAME).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return int((home / LOCK_NAME).read_text(encoding="utf-8") or 0)
    except FileNotFoundError:
        return 0
    return 0


def end_up(home: Path, everything: bool = False) -> None:
    """End the `up` of a home, if one runs, with its controller; ranks keep running, and so does its gateway while a version
    is being switched.

    ``everything``: also end every rank and agent, as Ctrl-C does. Raises ``Unreachable`` if `up` does not end.
    """
    pid = running_up(home)
    if not pid:
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGINT if everything else signal.SIGTERM)
    seconds = STOP_ALL_SECONDS if everything else END_SECONDS
    if not _until(lambda: running_up(home) != pid, seconds):
        raise Unreachable(f"`reconciler up` (pid {pid}) has not ended within {seconds:g} s; see its log")


def status(settings: Settings) -> answers.ControllerStatus | None:
    try:
        return ask(settings.socket, ShowStatus())
    except ReconcilerError:
        return None


def has_endpoint(settings: Settings) -> bool:
    """Return whether a controller answers whose gateway listens."""
    found = status(settings)
    return found is not None and bool(found.get("endpoint"))


def missing_service(settings: Settings, version: str, endpoint: bool) -> str:
    """Wait for a controller of a version to answer. If there was an ``endpoint``, also wait for it to answer, and for a gateway
    of that version to take over. Return the service that did not come; empty if all serve."""
    from reconciler.services.versions import number

    missing, version = "", number(version)

    def serves() -> bool:
        nonlocal missing
        missing = _missing(settings, version, endpoint)
        return not missing

    _until(serves, SERVE_SECONDS)
    return missing


def _missing(settings: Settings, version: str, endpoint: bool) -> str:
    found = status(settings)
    if found is None or found["version"] != version:
        return CONTROLLER
    serves = bool(found["endpoint"]) and _gateway_version(settings.home) in (version, "")
    return GATEWAY if endpoint and not serves else ""


def _gateway_version(home: Path) -> str | None:
    """Return the version of the running gateway; empty if its lock does not say it, None if none runs."""
    running = holder(Home(home).lock_of(GATEWAY))
    if running is None:
        return None
    words = shlex.split(running.started_as)
    return words[_VERSION] if len(words) > _VERSION else ""


def _until(true: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True
