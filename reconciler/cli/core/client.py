"""A blocking client of ``controller.sock``: one request at a time."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any, Self, TypeVar

from reconciler.errors import Refused, Unreachable
from reconciler.wire import SPOKEN, frames
from reconciler.wire.admin import CLI_RECEIVES, Answer
from reconciler.wire.answers import Asks
from reconciler.wire.codec import Hello, WireError, agree, decode, to_wire
from reconciler.wire.codec import Refused as RefusedMessage

A = TypeVar("A")
ANSWER_SECONDS = 30.0
START_SECONDS_MAX = 5.0
POLL_SECONDS = 0.05
ABSENT = (FileNotFoundError, ConnectionRefusedError)
LOCK_NAME = "up.lock"
"""File in a home that holds the process id of `up`."""


class Client:
    """A connection to the controller of a home. Raises ``Unreachable`` if no controller answers.

    ``seconds``: longest time to wait for any part of an answer. ``start_seconds``: longest time to wait for a controller
    that is being started.
    """

    def __init__(
        self, path: Path, seconds: float = ANSWER_SECONDS, start_seconds: float = START_SECONDS_MAX
    ) -> None:
        self._path = path
        self._seconds = seconds
        self._number = 0
        self._socket = _connected(path, seconds, start_seconds)
        try:
            self._send(to_wire(Hello("cli", SPOKEN)))
            agree(SPOKEN, decode(self._receive(), CLI_RECEIVES).versions)
        except (OSError, WireError) as error:
            self._socket.close()
            raise Unreachable(_unanswered(path, error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def ask(self, message: Asks[A], wait_seconds: float = 0.0) -> A:
        """Return the body of the answer. ``wait_seconds``: how long the controller may delay it."""
        self.send(message)
        body: A = self.answer(wait_seconds)
        return body

    def send(self, message: Any) -> None:
        """Send a request; ``answer`` returns its answer."""
        self._number += 1
        self._socket.settimeout(self._seconds)
        try:
            self._send({**to_wire(message), "call": self._number})
        except (OSError, WireError) as error:
            raise self._lost(error) from error

    def fileno(self) -> int:
        """Return the descriptor, which becomes readable when an answer arrives, or none can."""
        return self._socket.fileno()

    def answer(self, wait_seconds: float = 0.0) -> Any:
        """Return the body of the answer to the last request."""
        self._socket.settimeout(self._seconds + wait_seconds)
        try:
            while True:
                frame = self._receive()
                if frame.get("reply") == self._number:
                    break
            answer = decode(frame, CLI_RECEIVES)
        except (OSError, WireError) as error:
            raise self._lost(error) from error
        if isinstance(answer, RefusedMessage):
            raise Refused(answer.code, answer.text)
        assert isinstance(answer, Answer)
        return answer.body

    def _lost(self, error: Exception) -> Unreachable:
        return Unreachable(f"lost the connection to the controller at {self._path}: {error}")

    def _send(self, frame: dict[str, Any]) -> None:
        self._socket.sendall(frames.encode(frame))

    def _receive(self) -> dict[str, Any]:
        frame = frames.receive(self._socket)
        if frame is None:
            raise WireError("the connection was closed")
        return frame


def _connected(path: Path, seconds: float, start_seconds: float) -> socket.socket:
    """Return a connection. Waits briefly for a controller that `up` is starting or restarting."""
    deadline = time.monotonic() + min(seconds, start_seconds)
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(seconds)
        try:
            connection.connect(str(path))
            return connection
        except OSError as error:
            connection.close()
            if not isinstance(error, ABSENT) or _upper(path) is None or time.monotonic() >= deadline:
                raise Unreachable(_unanswered(path, error)) from error
        time.sleep(POLL_SECONDS)


def _upper(path: Path) -> int | None:
    """Return the process id of a running `up` of this home; at worst, of a process that reuses its number."""
    try:
        pid = int((path.parent / LOCK_NAME).read_text(encoding="utf-8"))
        os.kill(pid, 0)
    except (OSError, ValueError, OverflowError):
        return None
    return None if pid in (0, os.getpid()) else pid


def _unanswered(path: Path, error: OSError | WireError) -> str:
    if isinstance(error, ABSENT):
        pid = _upper(path)
        if pid is not None:
            return (
                f"the controller of {path.parent} is being started by reconciler up (pid {pid}); "
                "if it does not come up, see: reconciler logs --controller"
            )
        return f"no controller runs in {path.parent}; start it with: reconciler up (another home: --home)"
    if isinstance(error, PermissionError):
        return f"{path}: permission denied; only the user who runs the controller may use it"
    if isinstance(error, TimeoutError):
        return f"the controller at {path} does not answer: it may be stopped or very busy; try again"
    return f"cannot connect to the controller at {path}: {error}"


def ask(path: Path, message: Asks[A]) -> A:
    """Return the answer to one request, over a connection of its own."""
    with Client(path) as client:
        return client.ask(message)
