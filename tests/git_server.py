"""A real git server over HTTP or HTTPS: ``git http-backend`` behind Python's own server, with a token if there is to be one.

``python -m tests.git_server FOLDER ADDRESS PORT [CERTIFICATE KEY]`` runs one until it is killed.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from typing import Any

BACKEND = Path(
    subprocess.run(["git", "--exec-path"], capture_output=True, text=True).stdout.strip(), "git-http-backend"
)
BODY_SECONDS_MAX = 60.0


@dataclass
class GitServer:
    """Serves the repositories of ``folder``. ``token``: what clients have to show as their password."""

    folder: Path
    token: str = ""
    port: int = 0
    location: str = ""
    """Where to send every client instead."""
    status: int = 302
    """How that is said."""
    page: bytes = b""
    """What everybody gets instead, as a page to log in."""
    asked: list[str] = field(default_factory=list)
    """Method, path and user of each request."""

    def lets_in(self, authorization: str | None) -> bool:
        if not self.token:
            return True
        scheme, _, words = (authorization or "").partition(" ")
        return scheme == "Basic" and base64.b64decode(words).partition(b":")[2].decode() == self.token


def handler(server: GitServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve(b"")

        def do_POST(self) -> None:
            self._serve(self._body())

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _serve(self, body: bytes) -> None:
            server.asked.append(f"{self.command} {self.path}")
            if server.location:
                return self._answer(server.status, {"Location": server.location}, b"")
            if server.page:
                return self._answer(200, {"Content-Type": "text/html"}, server.page)
            if not server.lets_in(self.headers.get("Authorization")):
                return self._answer(401, {"WWW-Authenticate": 'Basic realm="git"'}, b"")
            path, _, query = self.path.partition("?")
            done = subprocess.run(
                [BACKEND], input=body, capture_output=True, timeout=BODY_SECONDS_MAX, check=False,
                env={
                    "PATH": os.environ["PATH"],
                    "GIT_PROJECT_ROOT": str(server.folder),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                    "REQUEST_METHOD": self.command,
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "CONTENT_LENGTH": str(len(body)),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "REMOTE_USER": "tester",
                    "REMOTE_ADDR": "127.0.0.1",
                },
            )  # fmt: skip
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
            self._answer(int(headers.pop("Status", "200").split()[0]), headers, content)

        def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler


def tls_of(certificate: Path, key: Path) -> SSLContext:
    made = SSLContext(PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate, key)
    return made


@contextmanager
def git_server(folder: Path, token: str = "", tls: SSLContext | None = None) -> Iterator[GitServer]:
    """A server on loopback until the block ends."""
    made = GitServer(folder, token)
    listening = _listening(made, "127.0.0.1", 0, tls)
    made.port = listening.server_address[1]
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield made
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def _listening(server: GitServer, address: str, port: int, tls: SSLContext | None) -> ThreadingHTTPServer:
    listening = ThreadingHTTPServer((address, port), handler(server))
    listening.daemon_threads = True
    if tls is not None:
        listening.socket = tls.wrap_socket(listening.socket, server_side=True)
    return listening


if __name__ == "__main__":
    place, where, number, *files = sys.argv[1:]
    secured = tls_of(Path(files[0]), Path(files[1])) if files else None
    _listening(GitServer(Path(place)), where, int(number), secured).serve_forever()
