"""The documented interface of each forge, as far as it is used, on loopback: it keeps what it is sent."""

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

TOKEN = "forge-t0ken"
AUTHORIZATION = {
    "github": ("Authorization", f"Bearer {TOKEN}"),
    "forgejo": ("Authorization", f"token {TOKEN}"),
    "gitea": ("Authorization", f"token {TOKEN}"),
    "gitlab": ("PRIVATE-TOKEN", TOKEN),
}
PROJECT = {"gitlab": "/projects/team%2Fcluster"}


@dataclass
class ForgeDouble:
    """One forge with one repository, ``team/cluster``."""

    type: str
    port: int = 0
    statuses: list[dict[str, Any]] = field(default_factory=list)
    """What was shown of commits, with the commit, oldest first."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    """Open pull requests, as ``open_request`` makes them."""
    comments: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    failing: list[int] = field(default_factory=list)
    """Statuses with which the next calls are answered."""
    saying: str = "later"
    """The reason that these have."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open_request(
        self, number: int, commit: str, branch: str, *, fork: bool = False, against: str = "main"
    ) -> None:
        if self.type == "gitlab":
            body: dict[str, Any] = {
                "iid": number, "sha": commit, "source_branch": branch, "target_branch": against,
                "source_project_id": 2 if fork else 1, "target_project_id": 1,
            }  # fmt: skip
        else:
            body = {
                "number": number,
                "head": {
                    "sha": commit,
                    "ref": branch,
                    "repo": {"full_name": "eve/x" if fork else "team/cluster"},
                },
                "base": {"ref": against, "repo": {"full_name": "team/cluster"}},
            }
        self.requests.append(body)

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        project = PROJECT.get(self.type, "/repos/team/cluster")
        if not path.startswith(f"{project}/"):
            return 404, {"message": "Not Found"}
        rest = path.removeprefix(project)
        page = slice((int(query.get("page", ["1"])[0]) - 1) * 50, int(query.get("page", ["1"])[0]) * 50)
        if method == "POST" and (found := re.fullmatch(r"/statuses/([0-9a-f]{40})", rest)):
            states = {"pending", "success", "failed" if self.type == "gitlab" else "failure"}
            if body["state"] not in states:
                return 422, {"message": f"state {body['state']}"}
            self.statuses.append({"commit": found[1], **body})
            return 201, {}
        if method == "GET" and rest == ("/merge_requests" if self.type == "gitlab" else "/pulls"):
            return 200, self.requests[page]
        return self._comment(method, rest, page, body)

    def _comment(self, method: str, rest: str, page: slice, body: Any) -> tuple[int, Any]:
        many = r"/merge_requests/(\d+)/notes" if self.type == "gitlab" else r"/issues/(\d+)/comments"
        one = r"/merge_requests/\d+/notes/(\d+)" if self.type == "gitlab" else r"/issues/comments/(\d+)"
        if found := re.fullmatch(many, rest):
            known = self.comments.setdefault(int(found[1]), [])
            if method == "GET":
                return 200, known[page]
            if method == "POST":
                known.append({"id": 100 + sum(map(len, self.comments.values())), "body": body["body"]})
                return 201, known[-1]
        found = re.fullmatch(one, rest)
        if found and method == ("PUT" if self.type == "gitlab" else "PATCH"):
            for comment in (each for known in self.comments.values() for each in known):
                if comment["id"] == int(found[1]):
                    comment["body"] = body["body"]
                    return 200, comment
        return 404, {"message": "Not Found"}


@contextmanager
def forge_double(type: str) -> Iterator[ForgeDouble]:
    """A forge that listens until the block ends."""
    made = ForgeDouble(type)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = urlsplit(self.path)
            made.calls.append(f"{self.command} {parts.path}")
            name, value = AUTHORIZATION[type]
            if made.failing:
                status, answer = made.failing.pop(0), {"message": made.saying}
            elif self.headers.get(name) != value:
                status, answer = 401, {"message": "Bad credentials"}
            else:
                status, answer = made.answer(
                    self.command, parts.path, parse_qs(parts.query), json.loads(body) if body else None
                )
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def do_PATCH(self) -> None:
            self._serve()

        def do_PUT(self) -> None:
            self._serve()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
