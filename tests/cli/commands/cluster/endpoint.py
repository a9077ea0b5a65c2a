"""A real HTTP server in place of a gateway, for commands that ask one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Endpoint(HTTPServer):
    """Answers everything with ``answer``, or with the events of ``says``; keeps what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.answer: tuple[int, Any] = (200, {"choices": [{"message": {"content": "Because."}}]})
        self.says: list[Any] = []
        self.requests: list[tuple[str, Any]] = []
        self.keys: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Answering(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body))
        self.server.keys.append(self.headers["Authorization"])
        status, answer = self.server.answer
        self.send_response(status)
        self.end_headers()
        if status == 200 and body.get("stream"):
            events = [json.dumps(event) for event in self.server.says]
            self.wfile.write(
                "".join(f": keep-alive\n\ndata: {event}\n\n" for event in [*events, "[DONE]"]).encode()
            )
        else:
            self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def endpoint_of_one_model() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)
