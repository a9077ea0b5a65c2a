"""A real HTTP server on loopback that keeps what it is sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from typing import Any


@dataclass
class Receiver:
    """What it heard, and with which status it answers the next messages; then with 200."""

    port: int = 0
    messages: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    location: str = ""
    requested: threading.Event = field(default_factory=threading.Event)
    speaks: threading.Event = field(default_factory=threading.Event)
    """As long as it is not set the server says nothing."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook/s3cret"

    @property
    def texts(self) -> list[str]:
        return [message["text"] for message in self.messages]


@contextmanager
def receiver(tls: SSLContext | None = None) -> Iterator[Receiver]:
    """A webhook that listens until the block ends."""
    made = Receiver()
    made.speaks.set()

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            made.paths.append(self.path)
            made.headers.append(dict(self.headers))
            made.requested.set()
            made.speaks.wait(30)
            status = made.statuses.pop(0) if made.statuses else 200
            if status == 200:
                made.messages.append(json.loads(content))
            self.send_response(status)
            if made.location:
                self.send_header("Location", made.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield made
    finally:
        made.speaks.set()
        server.shutdown()
        thread.join()
        server.server_close()
