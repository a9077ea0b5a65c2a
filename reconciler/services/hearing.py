"""Asks each service whether it answers, on the surface that its clients use.

A living process may be deaf: stopped, hung, or out of descriptors for connections. Busy is not hanging: a process that
computes, or waits for a processor or a disk, gets a minute, and one that sleeps through the questions a quarter of that.
"""

from __future__ import annotations

import enum
import json
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from reconciler.wire.codec import WireError, from_wire, to_wire
from reconciler.wire.supervision import KEPT, Act, Supervision

from .lock import process_state

if TYPE_CHECKING:
    import ssl

ASK_SECONDS = 5.0
"""Time between two questions while the service answers; one that does not is asked again at once."""
ANSWER_SECONDS = 3.0
CONTINUE_AFTER = 2
"""Unanswered questions after which SIGCONT is sent: a process that was only stopped continues, with all its connections."""
ASLEEP_MAX = 5
"""Unanswered questions after which a process is ended, if it slept or was stopped at the end of each."""
UNANSWERED_MAX = 20
"""The same for a process that was seen to work, or to wait for a processor or a disk."""
STOPPED_MAX = 12
"""Questions, one every ``ASK_SECONDS``, after which SIGCONT is sent to a process that does not listen yet."""
STARTING_MAX = 120
"""Questions, one every ``ASK_SECONDS``, after which a process that does not listen yet is ended: ten minutes."""
_ROOM_BYTES = 64 * 1024
"""Bytes to try to write before a service is blamed for a missing file: more than it needs."""
_ASLEEP = ("S", "T", "I")
"""States of a process that waits for an event, is stopped, or is idle for long (``ps -o state=``)."""


class Said(enum.Enum):
    """The result of a question."""

    ANSWER = enum.auto()
    NOTHING = enum.auto()
    STARTING = enum.auto()
    """It does not listen yet, and does not say why."""
    NOT_ASKED = enum.auto()
    """It says that it listens nowhere, waits for its address, or cannot write it because the disk is full."""


class Verdict(enum.Enum):
    """The step to take with a service that does not answer."""

    CONTINUE = enum.auto()
    END = enum.auto()


Question = Callable[[int], Said]
"""Asks the process with this pid."""


@dataclass(slots=True)
class Hearing:
    """The results of the questions to a service since its last answer. Nothing here waits: a thread asks."""

    ask: Question
    asleep: Callable[[int], bool] = field(default=lambda pid: asleep(pid))
    pid: int = 0
    unanswered: int = 0
    starting: int = 0
    """Results ``STARTING`` in a row."""
    awake: bool = False
    """True if it was seen to work, or to wait for a processor or a disk, after an unanswered question."""
    ask_at: float = 0.0
    _thread: threading.Thread | None = None
    _said: tuple[Said, bool] | None = None

    def look(self, pid: int, now: float) -> Verdict | None:
        """Take the last result, and ask again if it is time. ``pid``: the process that runs now."""
        if self._thread is not None and self._thread.is_alive():
            return None
        said, self._thread, self._said = self._said, None, None
        if pid != self.pid:
            self.pid, self.unanswered, self.starting, self.awake, said = pid, 0, 0, False, None
        verdict = self._heard(*said) if said is not None else None
        if said is not None and not self.unanswered:
            self.ask_at = now + ASK_SECONDS
        if verdict is not Verdict.END and now >= self.ask_at:
            self._thread = threading.Thread(target=self._ask, args=(pid,), daemon=True)
            self._thread.start()
        return verdict

    def _ask(self, pid: int) -> None:
        said = self.ask(pid)
        self._said = said, said is Said.NOTHING and self.asleep(pid)

    def _heard(self, said: Said, asleep: bool) -> Verdict | None:
        self.starting = self.starting + 1 if said is Said.STARTING else 0
        if said is not Said.NOTHING:
            self.unanswered, self.awake = 0, False
            if self.starting >= STARTING_MAX:
                return Verdict.END
            return Verdict.CONTINUE if self.starting == STOPPED_MAX else None
        self.unanswered += 1
        self.awake = self.awake or not asleep
        if self.unanswered >= (UNANSWERED_MAX if self.awake else ASLEEP_MAX):
            return Verdict.END
        return Verdict.CONTINUE if self.unanswered == CONTINUE_AFTER else None

    @property
    def seconds(self) -> float:
        """Return the shortest time for which it can have given no answer."""
        return self.unanswered * ANSWER_SECONDS + self.starting * ASK_SECONDS


def ask_http(
    file: Path, pid: int, read_url: Callable[[Any], str | None], awaited: Path | None = None
) -> Said:
    """Ask at the URL in the file that a service has written. Any HTTP answer counts, also a refusal.

    ``awaited``: the file that it waits for before it listens.
    """
    try:
        state = json.loads(file.read_bytes())
        if state["pid"] != pid:
            return _not_yet(file, awaited)
        url = urlsplit(read_url(state) or "")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return _not_yet(file, awaited)
    if url.hostname is None:
        return Said.NOT_ASKED
    tls, ask = (
        url.scheme == "https",
        f"GET /health HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n\r\n",
    )
    try:
        with ExitStack() as stack:
            address = (url.hostname, url.port or (443 if tls else 80))
            sock = stack.enter_context(socket.create_connection(address, ANSWER_SECONDS))
            if tls:
                sock = stack.enter_context(_any_certificate().wrap_socket(sock))
            sock.sendall(ask.encode())
            return Said.ANSWER if sock.recv(1) else Said.NOTHING
    except ConnectionRefusedError:  # it moves to another address, or ends
        return _not_yet(file, awaited)
    except OSError:
        return Said.NOTHING


def _not_yet(file: Path, awaited: Path | None) -> Said:
    """Return the result for a service that does not say where it listens."""
    if awaited is not None and not awaited.exists():
        return Said.NOT_ASKED
    draft = file.with_name(f".{file.name}.asked")
    try:
        draft.write_bytes(bytes(_ROOM_BYTES))
        return Said.STARTING
    except OSError:  # nor can the service write it
        return Said.NOT_ASKED
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _any_certificate() -> ssl.SSLContext:
    import ssl  # which a cluster without certificates need not wait for

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def record(path: Path, now: Callable[[], float], service: str, reason: str, text: str) -> None:
    """Record a step that was taken with a service, for the controller to report."""
    try:
        before = from_wire(Supervision, json.loads(path.read_bytes())).acts
    except (OSError, ValueError, WireError):
        before = ()
    kept = Supervision((*before, Act(now(), service, reason, text))[-KEPT:])
    draft = path.with_name(f".{path.name}.new")
    with suppress(OSError):  # on a full disk it is said, and in no file
        draft.write_text(json.dumps(to_wire(kept)) + "\n", encoding="utf-8")
        draft.replace(path)


def asleep(pid: int) -> bool:
    """Return whether the system reports that a process waits for an event or is stopped."""
    return process_state(pid) in _ASLEEP
