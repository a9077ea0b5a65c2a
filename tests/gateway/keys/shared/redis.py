"""A store of limits of one test: a real Redis or Valkey on a port of its own, which keeps nothing on disk."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.needs import find
from tests.ports import free_port

PROGRAM = find("valkey-server") or find("redis-server") or "redis-server"
WAIT_SECONDS = 20.0


class RedisServer:
    """The server, which may be killed, stopped and started again."""

    def __init__(self, host: str, *settings: str) -> None:
        self.host = host
        self.port = free_port()
        self._words = [PROGRAM, "--port", str(self.port), "--bind", host, "--save", "", *settings]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def start(self) -> None:
        self._process = subprocess.Popen(self._words, stdout=subprocess.DEVNULL, cwd="/")
        until = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                socket.create_connection((self.host, self.port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def redis(*settings: str) -> Iterator[RedisServer]:
    server = RedisServer("127.0.0.1", *settings)
    server.start()
    try:
        yield server
    finally:
        server.kill()
