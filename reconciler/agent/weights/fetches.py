"""The fetchers of the node: at most one for the same weights, and the result of the last.

A fetcher is a child process. Its standard input ends with the agent, and then it ends too. The fetched part stays on
disk, and the next fetcher continues from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Callable, Dict, Optional, Protocol, Tuple

from reconciler.agent.ranks.child import environment
from reconciler.agent.system.files import tail
from reconciler.agent.system.process import end
from reconciler.wire.codec import WireError, from_wire, to_wire
from reconciler.wire.node import FetchWeights
from reconciler.wire.paths import giving_socket, taking_socket
from reconciler.wire.weights import (
    FETCHERS_MAX,
    TOKEN_VARIABLE,
    FetchJob,
    FetchPhase,
    FetchProblem,
    FetchReport,
    Progress,
    is_hub_path,
)

_LINE_BYTES_MAX = 4 * 1024 * 1024
_READ_BYTES = 64 * 1024
_WORDS_BYTES = 400
_END_SECONDS = 0.5
"""Time between the end of a fetcher's output and its own end, normally milliseconds."""
_ROOM_STEP_BYTES = 64 * 1024 * 1024
"""Resolution of the reported free space, because small changes are no news."""
_PASSED_ON = (
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
)
_log = logging.getLogger("agent")


class Place(Protocol):
    """The agent's settings that matter here."""

    @property
    def node(self) -> str: ...
    @property
    def directory(self) -> Path: ...
    @property
    def models(self) -> Path: ...
    @property
    def run_directory(self) -> Path: ...
    @property
    def python(self) -> str: ...


class _Fetcher:
    """One process and its progress."""

    def __init__(self, request: FetchWeights, on_news: Callable[[bool], None]) -> None:
        self.request = request
        self.progress = Progress(FetchPhase.LISTING)
        self.ended_at: Optional[float] = None
        """Time by ``time.monotonic``."""
        self.attempts = 0
        self.done_before = 0
        """Bytes that the previous fetcher had fetched."""
        self.failure: Optional[Progress] = None
        """The end of the previous fetcher, if it brought no weights."""
        self._on_news = on_news
        self._rest = b""
        self._process: Optional[subprocess.Popen[bytes]] = None

    def start(self, python: str, job: FetchJob, directory: Path) -> None:
        """Begin; progress and the end come through the running event loop."""
        given = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        # A home of its own: settings and tokens of other users of this machine are none of its business.
        given.update({"HF_HOME": str(directory / "tmp" / "hub"), "HF_HUB_DISABLE_TELEMETRY": "1"})
        # The client's warnings name URLs, and those of large files are signed.
        given.update({"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_VERBOSITY": "error"})
        if self.request.secret:
            given[TOKEN_VARIABLE] = self.request.secret
        temporary = directory / "tmp"
        temporary.mkdir(mode=0o700, exist_ok=True)
        with (directory / "fetcher.log").open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    (python, "-m", "reconciler.fetcher"),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=directory,
                    env=environment(os.environ, given, temporary),
                    start_new_session=True,
                )
            except OSError as error:
                text = "{} cannot be started: {}".format(python, error.strerror)
                self._end(Progress(FetchPhase.FAILED, problem=FetchProblem.NO_CLIENT, text=text))
                return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._log = directory / "fetcher.log"
        with contextlib.suppress(BrokenPipeError):  # it has ended already: that is read below
            # Not through its buffer, which would keep bytes that could not be written, and fail again when it is closed.
            os.write(self._process.stdin.fileno(), json.dumps(to_wire(job)).encode() + b"\n")
        self._pipe = self._process.stdout
        asyncio.get_event_loop().add_reader(self._pipe, self._read)

    def kill(self) -> None:
        if self._process is not None and self.ended_at is None:
            asyncio.get_event_loop().remove_reader(self._pipe)
            self._reap()

    def conclude(self) -> bool:
        """Reap a process that has finished its output. Return whether it has ended."""
        if self.progress.phase not in FetchPhase.ENDED:
            return False
        asyncio.get_event_loop().remove_reader(self._pipe)
        self._reap()
        self._end(self.progress)
        return True

    def report(self) -> FetchReport:
        ended = 0.0
        if self.ended_at is not None and self.progress.problem:
            ended = time.monotonic() - self.ended_at
        stuck = self.ended_at is None and self.progress.done_bytes <= self.done_before
        failure = self.failure if stuck else None
        return FetchReport(self.progress, self.request.wish, self.attempts, ended, failure)

    def _read(self) -> None:
        chunk = os.read(self._pipe.fileno(), _READ_BYTES)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._on_line(line)
        if chunk and len(self._rest) <= _LINE_BYTES_MAX:
            return
        asyncio.get_event_loop().remove_reader(self._pipe)
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert self._process is not None
            self._process.wait(_END_SECONDS)
        status = self._reap()
        if self.progress.phase not in FetchPhase.ENDED:
            words = tail(self._log, _WORDS_BYTES).strip().splitlines()
            text = "the fetcher ended with status {} before it was done".format(status)
            text += ": {}".format(words[-1].strip()) if words else ""
            self.progress = dataclasses.replace(
                self.progress, phase=FetchPhase.FAILED, problem=FetchProblem.INTERRUPTED, text=text
            )
        self._end(self.progress)

    def _on_line(self, line: bytes) -> None:
        try:
            progress: Progress = from_wire(Progress, json.loads(line))
        except (ValueError, WireError) as error:
            _log.warning("unexpected output of a fetcher: %s", error)
            return
        urgent = progress.phase != self.progress.phase
        self.progress = progress
        if progress.phase not in FetchPhase.ENDED:  # the end is reported when the process is gone
            self._on_news(urgent)

    def _reap(self) -> Optional[int]:
        assert self._process is not None
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        return end(self._process)

    def _end(self, progress: Progress) -> None:
        self.progress = progress
        self.ended_at = time.monotonic()
        if progress.problem:
            _log.warning("%s: %s: %s", self.request.path, progress.problem, progress.text)
        self._on_news(True)


class Fetches:
    """The fetchers of one agent. ``on_news`` is called when there is something new, with whether it is worth a
    message at once."""

    def __init__(self, settings: Place, on_news: Callable[[bool], None]) -> None:
        self._place = settings
        self._on_news = on_news
        self._last: Dict[str, _Fetcher] = {}
        self._givers: Dict[str, subprocess.Popen[bytes]] = {}

    def start(self, request: FetchWeights) -> None:
        """Begin a fetch, unless one runs for these weights. Raises ``ValueError`` for an invalid request."""
        if not is_hub_path(request.path) or ".." in request.path.split("/"):
            raise ValueError("{!r}: expected hub/<repository>/<revision>".format(request.path))
        before = self._last.get(request.path)
        if before is not None and before.ended_at is None and not before.conclude():
            return
        if sum(each.ended_at is None for each in self._last.values()) >= FETCHERS_MAX:
            raise ValueError("{} fetches are already running; this one starts later".format(FETCHERS_MAX))
        fetcher = _Fetcher(request, lambda urgent: self._news(request.path, urgent))
        if before is not None and before.progress.problem:
            fetcher.attempts, fetcher.done_before = before.attempts, before.progress.done_bytes
            fetcher.failure = before.progress
        self._last[request.path] = fetcher
        place = self._place
        listen = (
            taking_socket(str(place.run_directory), place.node, request.path) if request.from_peer else ""
        )
        folder = str(place.models / request.path)
        job = FetchJob(folder, request.source, request.thorough, listen, request.only)
        fetcher.start(place.python, job, place.directory)

    def serve_to_peers(self, path: str) -> None:
        """Start a process that gives weights to other nodes. Raises ``ValueError``, or ``OSError``."""
        place = self._place
        folder = place.models / path
        if not is_hub_path(path) or ".." in path.split("/") or not folder.is_dir():
            raise ValueError("there are no weights at {!r}".format(path))
        running = self._givers.get(path)
        if running is not None:
            if running.poll() is None:
                return
            assert running.stdin is not None
            running.stdin.close()
        command = (place.python, "-m", "reconciler.fetcher.giving", str(folder))
        listen = giving_socket(str(place.run_directory), place.node, path)
        self._givers[path] = subprocess.Popen(
            (*command, listen),
            stdin=subprocess.PIPE,  # ends with the agent
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=place.directory,
            env=environment(os.environ, {}, place.directory / "tmp"),
            start_new_session=True,
        )

    def report(self, path: str) -> Optional[FetchReport]:
        fetcher = self._last.get(path)
        return fetcher.report() if fetcher is not None else None

    def close(self) -> None:
        """End all fetchers. The next request for some weights continues from there."""
        for fetcher in self._last.values():
            fetcher.kill()
        for giver in self._givers.values():
            assert giver.stdin is not None
            giver.kill()
            giver.stdin.close()
            end(giver)

    def _news(self, path: str, urgent: bool) -> None:
        fetcher = self._last[path]
        if fetcher.ended_at is not None and fetcher.progress.problem:
            further = fetcher.progress.done_bytes > fetcher.done_before
            fetcher.attempts = 1 if further else fetcher.attempts + 1
        self._on_news(urgent)


def room(models: Path) -> Tuple[Optional[int], int]:
    """Return free bytes and size of the disk with the models; None and 0 if unknown."""
    try:
        usage = shutil.disk_usage(models)
    except OSError:
        return None, 0
    return usage.free - usage.free % _ROOM_STEP_BYTES, usage.total
