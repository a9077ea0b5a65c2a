"""A forge's comments of issues, as GitHub's, Forgejo's and Gitea's documented interfaces have them in common.

Sources: docs.github.com/en/rest/issues/comments; /api/swagger of a Forgejo or Gitea, "issue". It keeps what is written.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "ghs_of-this-job"
BOT = "github-actions[bot]"


@dataclass
class Forge:
    """``comments`` of one pull request, oldest first; ``calls`` as they came."""

    repository: str = "lab/cluster"
    number: int = 7
    comments: list[dict[str, Any]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    writable: bool = True
    port: int = 0

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/v1"

    def add(self, body: str, login: str = BOT) -> dict[str, Any]:
        """Add a comment of somebody."""
        number = 100 + len(self.comments)
        url = f"http://forge/{self.repository}/pulls/{self.number}#issuecomment-{number}"
        self.comments.append({"id": number, "user": {"login": login}, "body": body, "html_url": url})
        return self.comments[-1]

    def answer(self, method: str, path: str, token: str, body: Any) -> tuple[int, Any]:
        """Answer a request: the status, and what is sent."""
        self.calls.append(f"{method} {path}")
        parts = urlsplit(path)
        if token != f"token {TOKEN}":  # which is how Forgejo and Gitea have it
            return 401, {"message": "Bad credentials"}
        issues = f"/api/v1/repos/{self.repository}/issues"
        if method == "GET" and parts.path == f"{issues}/{self.number}/comments":
            asked = parse_qs(parts.query)
            size, page = int(asked["limit"][0]), int(asked["page"][0])
            return 200, self.comments[(page - 1) * size : page * size]
        if not self.writable:
            return 403, {"message": "Resource not accessible by integration"}
        if method == "POST" and parts.path == f"{issues}/{self.number}/comments":
            return 201, self.add(body["body"])
        found = re.fullmatch(rf"{re.escape(issues)}/comments/(\d+)", parts.path)
        if method == "PATCH" and found:
            comment = next(each for each in self.comments if each["id"] == int(found[1]))
            comment["body"] = body["body"]
            return 200, comment
        return 404, {"message": "Not Found"}


@contextmanager
def forge() -> Iterator[Forge]:
    """A forge on loopback, until the end of the block."""
    made = Forge()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, answer = made.answer(self.command, self.path, self.headers.get("Authorization", ""), body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = _serve  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
