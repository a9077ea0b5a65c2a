"""The connection of one process to the sandbox: the package describes the messages."""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
from typing import Any

GONE = "the sandbox of this emulated Mac has ended: start it again with: reconciler sandbox up"


class Line:
    """It is opened at the first use. Answers come in the order of the questions, for one caller at a time."""

    def __init__(self, control: str, machine: str) -> None:
        self._control = control
        self.machine = machine
        self._lock = threading.RLock()
        self._connection: socket.socket | None = None
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._hello: dict[str, Any] = {}
        self.gpu = ""
        """Error that the GPU raises; empty for none."""
        self.failed = ""
        """Error that the next collective raises; empty for none."""
        self.mute = ""
        """Fate of its answers, ``silent`` (lost) or ``broken`` (interrupted), or of its requests, ``deaf`` (lost); or empty."""
        self.garbage = ""
        """Kind of its wrong sums over RDMA: ``sums``, ``zeros`` or ``long``; empty for none. See ``results``."""
        self.moves = threading.Event()
        """Unset while the process must stand still."""
        self.moves.set()

    @property
    def hello(self) -> dict[str, Any]:
        """Return the sandbox's first answer. Raises ``RuntimeError`` without one."""
        with self._lock:
            if self._connection is None:
                self._open()
        return self._hello

    def ask(self, what: str, **more: Any) -> dict[str, Any]:
        """Send a request and wait for the answer, however long. Raises ``RuntimeError``."""
        with self._lock:
            if self._connection is None:
                self._open()
            return self._ask({"say": what, **more})

    def _open(self) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(self._control)
        except OSError as error:
            connection.close()
            raise RuntimeError(f"{GONE} ({error})") from None
        self._connection = connection
        threading.Thread(target=self._listen, args=(connection,), name="emulated", daemon=True).start()
        self._hello = self._ask({"ask": "rank", "machine": self.machine, "pid": os.getpid()})
        self.gpu = str(self._hello.get("gpu", ""))
        self.garbage = str(self._hello.get("garbage", ""))

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._connection is not None
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise RuntimeError(f"{GONE} ({error})") from None
        answer = self._answers.get()
        if not answer:
            raise RuntimeError(GONE)
        return answer

    def _listen(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                if "tell" in message:
                    self._on_message(message)
                else:
                    self._answers.put(message)
        self._answers.put({})

    def _on_message(self, message: dict[str, Any]) -> None:
        what = message["tell"]
        if what == "gpu":
            self.gpu = message["text"]
        elif what == "failed":
            self.failed = message["text"]
        elif what == "mute":
            self.mute = message["how"]
        elif what == "garbage":
            self.garbage = message["how"]
        elif what == "hang":
            (self.moves.clear if message["on"] else self.moves.set)()
