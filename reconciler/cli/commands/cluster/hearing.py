"""Asks each service whether it answers, on the surface that its clients use.

A process that lives may be deaf: stopped, hung, or without a descriptor for one more connection. Busy is not hanging: a process that
computes, or waits for a processor or a disk, is given a minute, and one that sleeps through the questions a quarter of that.
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

from reconciler.bootstrap import CONSOLE, CONTROLLER, GATEWAY, Home
from reconciler.bootstrap.service_lock import process_state
from reconciler.cli.core.client import ABSENT, Client
from reconciler.errors import Unreachable
from reconciler.wire.codec import WireError, from_wire, to_wire
from reconciler.wire.supervision import KEPT, Act, Supervision

if TYPE_CHECKING:
    import ssl

ASK_SECONDS = 5.0
"""Time between two questions while the service answers; one that does not is asked at once again."""
ANSWER_SECONDS = 3.0
CONTINUE_AFTER = 2
"""Questions without an answer after which a process is continued: one that was merely stopped goes on, with all its connections."""
ASLEEP_MAX = 5
"""Questions without an answer after which a process is ended that slept, or was stopped, at the end of each."""
UNANSWERED_MAX = 20
"""The same for one that was seen to do, or to wait for, something."""
STOPPED_MAX = 12
"""Questions, one every ``ASK_SECONDS``, after which a process is continued that does not listen yet."""
STARTING_MAX = 120
"""Questions, one every ``ASK_SECONDS``, after which a process is ended that does not listen yet: ten minutes."""
_ROOM_BYTES = 64 * 1024
"""Space on the disk that is tried before a service is blamed for a file that is missing: more than it needs."""
_ASLEEP = ("S", "T", "I")
"""States of a process that waits for an event, is stopped, or is idle for long (``ps -o state=``)."""


class Said(enum.Enum):
    """What came of a question."""

    ANSWER = enum.auto()
    NOTHING = enum.auto()
    STARTING = enum.auto()
    """It does not listen, which is all that it is for, and does not say why."""
    NOT_ASKED = enum.auto()
    """It says that it listens nowhere, waits to be told where, or cannot write it, for the disk is full."""


class Verdict(enum.Enum):
    """What to do to a service that does not answer."""

    CONTINUE = enum.auto()
    END = enum.auto()


Question = Callable[[int], Said]
"""Asks the process with this pid."""


@dataclass(slots=True)
class Hearing:
    """What came of the questions to a service since its last answer. Nothing here waits: a thread asks."""

    ask: Question
    asleep: Callable[[int], bool] = field(default=lambda pid: asleep(pid))
    pid: int = 0
    unanswered: int = 0
    starting: int = 0
    """Questions to which it has said that it starts, in a row."""
    awake: bool = False
    """Whether it was seen to do something, or to wait for it, after a question without an answer."""
    ask_at: float = 0.0
    _thread: threading.Thread | None = None
    _said: tuple[Said, bool] | None = None

    def look(self, pid: int, now: float) -> Verdict | None:
        """Take the last answer, and ask again if it is time. ``pid``: of the process that runs now."""
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
        """Return how long at least it has given no answer."""
        return self.unanswered * ANSWER_SECONDS + self.starting * ASK_SECONDS


def question(home: Path, service: str) -> Question:
    """Return how to ask a service of a home."""
    place = Home(home)
    return {
        CONTROLLER: lambda pid: ask_controller(place.socket),
        GATEWAY: lambda pid: ask_http(place.gateway, pid, _gateway_url, place.routes),
        CONSOLE: lambda pid: ask_http(place.console, pid, lambda state: state["url"]),
    }[service]


def ask_controller(path: Path) -> Said:
    """Say hello on the socket of the command line."""
    try:
        Client(path, ANSWER_SECONDS, start_seconds=0.0).close()
    except Unreachable as error:
        return Said.STARTING if isinstance(error.__cause__, ABSENT) else Said.NOTHING
    return Said.ANSWER


def _gateway_url(state: Any) -> str | None:
    """Return where this machine reaches the gateway, whatever its name leads to elsewhere."""
    return state["endpoint"] and f"{state['endpoint'].partition('://')[0]}://{state['local']}"


def ask_http(
    file: Path, pid: int, read_url: Callable[[Any], str | None], awaited: Path | None = None
) -> Said:
    """Ask at the URL in the file that a service has written. Any answer is one: whom it serves is not asked.

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
    """Return what it means that a service does not say where it listens."""
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
    """Keep what was done to a service, for the controller to report."""
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
    """Return whether a process waits for an event or is stopped, as far as the system tells."""
    return process_state(pid) in _ASLEEP
