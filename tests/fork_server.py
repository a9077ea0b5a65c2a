"""Processes of the product in a tenth of the time: one process imports what they import, and forks for each of them.

A rank or a controller that comes from here is a process as any other, with a session, a pid, signals and an exit status
of its own. It only has not done its imports itself, which are most of what its start computes: a second for ``mlx_lm``
and ``transformers``. MLX starts its threads when it first computes, so the process that forks has imported it and
computed nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

DESCRIPTORS_MAX = 8
RANKS = tuple(
    f"reconciler.runner.{name}"
    for name in (
        "decode.batch", "decode.follower", "decode.inbox", "decode.leader", "decode.measure",
        "decode.sampling", "group.init", "group.jaccl", "group.ring", "group.side_channel", "model.loading", "rank",
        "requests.server",
    )
)  # fmt: skip
"""What a rank imports before it knows its model."""
CONTROLLERS = ("reconciler.bootstrap.controller", "reconciler.cli.core.app")
"""What a controller imports."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""With more, numpy would start threads when it is imported, and a process with threads must not fork."""


class Forked:
    """A process that the server has forked, with the part of ``subprocess.Popen`` that tests use, from any thread."""

    def __init__(self, pid: int, stdin: IO[bytes] | None, status: socket.socket) -> None:
        self.pid = pid
        self.stdin = stdin
        self.returncode: int | None = None
        self._status = status.detach()
        self._lock = threading.Lock()

    def __del__(self) -> None:
        os.close(self._status)

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._read(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. Raises ``subprocess.TimeoutExpired`` after ``timeout`` seconds."""
        code = self._read(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"the forked process {self.pid}", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless its end is known."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM, unless its end is known."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, unless its end is known."""
        self.send_signal(signal.SIGKILL)

    def _read(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            with self._lock:
                if self.returncode is None:
                    status = os.read(self._status, 64)
                    assert status, f"the fork server ended before the process {self.pid} that it has forked"
                    self.returncode = int(status)
        return self.returncode


Process: TypeAlias = "Forked | subprocess.Popen[bytes]"


@dataclass(frozen=True)
class Request:
    """What to run in a process of its own."""

    module: str
    arguments: Sequence[str]
    env: Mapping[str, str]
    named: Sequence[str]
    """Variables that say the numbers of the descriptors that come after the first three."""


class Server:
    """The end of the tests. Safe to use from several threads."""

    def __init__(self, imports: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", str(theirs.fileno()), *imports],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env={**os.environ, **ONE_THREAD},
            )

    def start(
        self,
        module: str,
        arguments: Sequence[str],
        log: IO[bytes],
        env: Mapping[str, str],
        descriptors: Mapping[str, int],
        stdin: bool,
    ) -> Forked:
        """Run ``python -m module`` with ``log`` as its output, and a pipe as its standard input or nothing to read. ``descriptors``
        are handed to it; its environment says their numbers by the names given here."""
        request = json.dumps([module, list(arguments), dict(env), list(descriptors)]).encode()
        reading, writing = os.pipe()
        ours, theirs = socket.socketpair()
        try:
            with self._lock:
                handed = [reading, log.fileno(), theirs.fileno(), *descriptors.values()]
                self._control.sendall(len(request).to_bytes(4, "big"))
                socket.send_fds(self._control, [request[:1]], handed)
                self._control.sendall(request[1:])
                answer = _exactly(self._control, 4)
        finally:
            theirs.close()
            os.close(reading)
        pid = int.from_bytes(answer, "big")
        if stdin:
            return Forked(pid, os.fdopen(writing, "wb"), ours)
        os.close(writing)
        return Forked(pid, None, ours)

    def close(self) -> None:
        """End it; what it has forked goes on."""
        self._control.close()
        self.process.wait(60)


@functools.cache
def server(imports: Sequence[str]) -> Server:
    """The one of this test process with these imports, started when it is first needed."""
    made = Server(imports)
    atexit.register(made.close)
    return made


def _exactly(connection: socket.socket, length: int) -> bytes:
    content = b""
    while len(content) < length:
        chunk = connection.recv(length - len(content))
        assert chunk, "the other end of the fork server is gone"
        content += chunk
    return content


# --- the server's own process ---


def _receive(control: socket.socket) -> tuple[Request, list[int]] | None:
    """The next request and its descriptors; None when the tests are over."""
    first = control.recv(4)
    if not first:
        return None
    length = int.from_bytes(first + _exactly(control, 4 - len(first)), "big")
    beginning, descriptors, _, _ = socket.recv_fds(control, 1, DESCRIPTORS_MAX)
    return Request(*json.loads(beginning + _exactly(control, length - 1))), descriptors


def serve(control: socket.socket) -> Request | None:
    """Fork for each request. Returns the request in each process that is to carry it out, None in the server."""
    woken, waker = os.pipe()
    for end in (woken, waker):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    statuses: dict[int, socket.socket] = {}
    while True:
        readable, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in readable:
            os.read(woken, 4096)
            _reap(statuses)
        if control.fileno() not in readable:
            continue
        received = _receive(control)
        if received is None:
            return None
        request, descriptors = received
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for other in (control, *statuses.values()):
                other.close()
            for descriptor in (woken, waker):
                os.close(descriptor)
            _become(request, descriptors)
            return request
        statuses[pid] = socket.socket(fileno=descriptors[2])
        for descriptor in (*descriptors[:2], *descriptors[3:]):
            os.close(descriptor)
        control.sendall(pid.to_bytes(4, "big"))


def _reap(statuses: dict[int, socket.socket]) -> None:
    """Pass on how processes have ended."""
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with statuses.pop(pid) as waiter, contextlib.suppress(OSError):
            waiter.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def _become(request: Request, descriptors: list[int]) -> None:
    """Have the session, the files and the environment that a process started for the request would have."""
    stdin, log, status, *handed = descriptors
    os.setsid()
    for source, target in ((stdin, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    for descriptor in (stdin, log, status):
        os.close(descriptor)
    numbers = dict(zip(request.named, map(str, handed), strict=True))
    os.environ.clear()
    os.environ.update({**request.env, **numbers})
    sys.argv = [request.module, *request.arguments]


def main() -> None:
    _, descriptor, *imports = sys.argv
    for module in imports:
        importlib.import_module(module)
    _require_one_thread()
    with socket.socket(fileno=int(descriptor)) as control:
        request = serve(control)
    if request is not None:
        runpy.run_module(request.module, run_name="__main__", alter_sys=True)


def _require_one_thread() -> None:
    tasks = Path("/proc/self/task")
    if tasks.exists():
        deadline = time.monotonic() + 10
        while len(list(tasks.iterdir())) > 1 and time.monotonic() < deadline:
            time.sleep(0.01)  # one that has ended may still be shown
        names = [(task / "comm").read_text().strip() for task in tasks.iterdir()]
        assert len(names) == 1, f"a process with threads must not fork: {names}"


def start(
    imports: tuple[str, ...],
    module: str,
    log: IO[bytes],
    *,
    arguments: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    descriptors: Mapping[str, int] | None = None,
    stdin: bool = False,
) -> Process:
    """Run ``python -m module`` from the fork server with these imports. Where a fork after such imports is not safe
    (macOS) it is started as ever."""
    if sys.platform != "linux":
        return start_process(
            sys.executable, module, log, arguments=arguments, env=env, descriptors=descriptors, stdin=stdin
        )
    environment = {**os.environ, **(env or {})}
    return server(imports).start(module, arguments, log, environment, descriptors or {}, stdin)


def start_process(
    python: str,
    module: str,
    log: IO[bytes],
    *,
    arguments: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    descriptors: Mapping[str, int] | None = None,
    stdin: bool = False,
) -> subprocess.Popen[bytes]:
    """The same as a new process of an interpreter."""
    handed = descriptors or {}
    numbers = {name: str(number) for name, number in handed.items()}
    return subprocess.Popen(
        [python, "-m", module, *arguments],
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        pass_fds=list(handed.values()),
        env={**os.environ, **(env or {}), **numbers},
        start_new_session=True,
    )


if __name__ == "__main__":
    main()
