"""A small stand-in for the hub: as much of its HTTP API as the real huggingface_hub client asks for, with faults.

``GET /api/models/REPO/revision/REVISION`` lists files as the hub does (git ids, sizes, digests of large files);
``GET /REPO/resolve/REVISION/FILE`` gives their bytes, by redirect to another path as the hub's large files have it,
with ranges. Everything that was asked for is counted.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

REPO = "org/tiny"
COMMIT = "c0ffee" + "1" * 34
LARGE_BYTES = 4096
"""Larger files are told with their SHA-256, as those are that git-lfs keeps."""
PIECE_BYTES = 16 * 1024


@dataclass
class Fault:
    """What goes wrong with a file. ``times``: so often, then no more."""

    cut_after: int | None = None
    """The connection is closed after so many bytes of the answer."""
    short_by: int = 0
    """The file is told and given as so much shorter than the listing has it."""
    wrong: bool = False
    """One byte of it is another."""
    bytes_per_second: float = 0.0
    trickles_after: int | None = None
    """After so many bytes there comes one at a time, until ``Hub.go_on`` is set."""
    status: int = 0
    """Answered instead."""
    times: int = 1_000_000


@dataclass
class Hub:
    """The repositories of a stand-in, what is wrong with it, and what it was asked for."""

    files: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)
    """By repository and commit."""
    faults: dict[str, Fault] = field(default_factory=dict)
    """By name of file; ``tree`` for the listing."""
    token: str = ""
    """The one that is asked for, if any."""
    gated: bool = False
    requests: Counter[str] = field(default_factory=Counter)
    """Requests by name of file; ``tree`` for listings."""
    outlined: Counter[str] = field(default_factory=Counter)
    """Requests for a part of a file, from here to there."""
    sent: Counter[str] = field(default_factory=Counter)
    """Bytes by name of file."""
    tokens: set[str] = field(default_factory=set)
    """All that were sent."""
    endpoint: str = ""
    go_on: threading.Event = field(default_factory=threading.Event)
    """What trickles comes in full from now on."""

    def add(self, files: dict[str, bytes], repo: str = REPO, commit: str = COMMIT) -> None:
        self.files[repo, commit] = dict(files)

    def take(self, name: str) -> Fault:
        """The fault for one request."""
        fault = self.faults.get(name)
        if fault is None or fault.times <= 0:
            return Fault()
        fault.times -= 1
        return fault


def entry(name: str, content: bytes) -> dict[str, Any]:
    """A file as the hub lists it."""
    oid = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    fields: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": oid}
    if len(content) > LARGE_BYTES:
        pointer = hashlib.sha1(content).hexdigest()  # of git's own small file in its place
        fields["blobId"] = pointer
        fields["lfs"] = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "size": len(content),
            "pointerSize": 134,
        }
    return fields


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if given:
            self.hub.tokens.add(given)
        if path.startswith("/api/models/"):
            repo, _, revision = path.removeprefix("/api/models/").partition("/revision/")
            name = "tree"
        elif path.startswith("/large/"):
            repo, _, rest = path.removeprefix("/large/").partition("/at/")
            revision, _, name = rest.partition("/")
        else:
            repo, _, rest = path.removeprefix("/").partition("/resolve/")
            revision, _, name = rest.partition("/")
        refused = None if path.startswith("/large/") else self._refused(repo, revision, given)
        if refused is not None:
            self._respond(*refused)
        elif name == "tree":
            self._tree(repo, revision)
        else:
            self._file(repo, revision, name, redirect=not path.startswith("/large/"))

    def _refused(self, repo: str, revision: str, given: str) -> tuple[int, str] | None:
        if self.hub.token and given != self.hub.token:
            return 401, "RepoNotFound"
        if self.hub.gated:
            return 403, "GatedRepo"
        if repo not in {known for known, _ in self.hub.files}:
            return 404, "RepoNotFound"
        if (repo, revision) not in self.hub.files:
            return 404, "RevisionNotFound"
        return None

    def _respond(self, status: int, code: str = "", location: str = "") -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _tree(self, repo: str, revision: str) -> None:
        self.hub.requests["tree"] += 1
        fault = self.hub.take("tree")
        if fault.status:
            self._respond(fault.status)
            return
        siblings = [entry(name, content) for name, content in self.hub.files[repo, revision].items()]
        body = json.dumps({"id": repo, "sha": revision, "siblings": siblings}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _file(self, repo: str, revision: str, name: str, redirect: bool) -> None:
        content = self.hub.files[repo, revision].get(name)
        if content is None:
            self._respond(404, "EntryNotFound")
            return
        if redirect and len(content) > LARGE_BYTES:
            self._respond(302, location=f"/large/{repo}/at/{revision}/{name}")
            return
        start, _, end = (self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")
        if end:
            self.hub.outlined[name] += 1
            self._part(content, int(start), int(end))
            return
        self.hub.requests[name] += 1
        fault = self.hub.take(name)
        if fault.status:
            self._respond(fault.status)
            return
        if fault.wrong:
            content = bytes([content[0] ^ 1]) + content[1:]
        self._send(name, content[: len(content) - fault.short_by], fault)

    def _part(self, content: bytes, start: int, end: int) -> None:
        """The few bytes that were asked for."""
        body = content[start : end + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{start + len(body) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send(self, name: str, content: bytes, fault: Fault) -> None:
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")[0])
        if start > len(content) or (start == len(content) and start):
            self._respond(416)
            return
        rest = content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if fault.cut_after is not None:
            rest = rest[: fault.cut_after]
            self.close_connection = True
        at = 0
        while at < len(rest):
            trickles = fault.trickles_after is not None and at >= fault.trickles_after
            piece = rest[at : at + (1 if trickles and not self.hub.go_on.wait(0.02) else PIECE_BYTES)]
            self.wfile.write(piece)
            self.hub.sent[name] += len(piece)
            at += len(piece)
            if fault.bytes_per_second:
                time.sleep(len(piece) / fault.bytes_per_second)

    def log_message(self, format: str, *args: Any) -> None:
        return


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away in the middle are what it is for."""


@contextmanager
def serving(files: dict[str, bytes] | None = None, address: str = "127.0.0.1") -> Iterator[Hub]:
    """A hub on a free port of an address of this machine, with one repository."""
    hub = Hub()
    if files is not None:
        hub.add(files)
    server = _Server((address, 0), type("Answers", (_Answers,), {"hub": hub}))
    hub.endpoint = f"http://{address}:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.go_on.set()
        server.shutdown()
        server.server_close()
        with suppress(RuntimeError):
            thread.join(5)


def folder(path: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {each.name: each.read_bytes() for each in sorted(path.iterdir()) if each.is_file()}
