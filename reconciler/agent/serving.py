"""The agent of a node, from its arguments to its end, with its log: one for each node, which a lock enforces."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import logging
import logging.handlers
import os
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Tuple

from reconciler.wire.file_identity import FileIdentity
from reconciler.wire.log_lines import Stamped
from reconciler.wire.node import HeldBy
from reconciler.wire.paths import agent_socket

from . import hung

if TYPE_CHECKING:
    from .local_host import Settings
    from .server import Agent

EXIT_USAGE = 64
EXIT_SECOND = 75
"""Exit status: another agent serves this node (``EX_TEMPFAIL`` in sysexits.h)."""
EXIT_FENCED = 77
"""Exit status: another controller has replaced the one that asks (``EX_NOPERM`` in sysexits.h)."""
LOG_BYTES_MAX = 4 * 1024 * 1024
DESCRIPTORS_WANTED = 10240
"""As many as macOS gives any process (``OPEN_MAX``); launchd and SSH sessions begin with 256."""
_BACKLOG = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``serve``."""
    parser.add_argument("--node", required=True)
    parser.add_argument("--directory", required=True, help="state: ranks, logs, the fencing token")
    parser.add_argument("--models", required=True, help="base of relative paths of models")
    parser.add_argument("--run-directory", required=True, help="short directory for sockets")
    parser.add_argument("--python", required=True, help="interpreter of the ranks")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--detach", action="store_true", help="return once the agent serves in the background")
    holders = (HeldBy.LAUNCHD, HeldBy.SYSTEMD, HeldBy.SESSION, HeldBy.PROCESS)
    how.add_argument("--held-by", choices=holders, default=HeldBy.PROCESS, help="what keeps it running")
    how.add_argument(
        "--ask",
        action="store_true",
        help="only check whether an agent may be started with this token, and end one that gives no answer",
    )
    parser.add_argument("--token", type=int, default=0, help="token of the requesting controller; 0 for any")
    parser.add_argument("--tools", help="folders of the system's tools, separated by colons")


def run(options: argparse.Namespace, tools: Tuple[str, ...]) -> int:
    """Run the agent of a node with these folders of the system's tools. Return the exit status."""
    from .local_host import Settings

    settings = Settings(
        node=options.node,
        directory=_absolute(options.directory),
        models=_absolute(options.models),
        run_directory=_absolute(options.run_directory),
        python=str(_absolute(options.python)),
        program=(sys.executable, "-I", "-S", str(_absolute(sys.argv[0]))),
        held_by=options.held_by,
        tools=tools,
    )
    try:
        path = Path(agent_socket(str(settings.run_directory), settings.node))
        for needed in (settings.directory, settings.run_directory):
            needed.mkdir(0o700, parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        return _complain(str(error), EXIT_USAGE)
    if options.ask:
        return _ask(settings, options.token, path)
    on_ready: Callable[[], None] = _detach() if options.detach else _nothing
    if options.held_by == HeldBy.SESSION:
        on_ready = confirm_to_session
    lock = os.open(settings.directory / "agent.lock", os.O_RDWR | os.O_CREAT, 0o600)
    if not hung.try_lock(lock):
        refused = _refusal(settings, options.token)
        if refused or not hung.take_over(settings.directory, lock, path):
            return _complain(
                "another agent serves {}: process {}".format(settings.directory, _holder(lock)), EXIT_SECOND
            )
    hung.remember(settings.directory)
    os.truncate(lock, 0)
    os.write(lock, b"%d\n" % os.getpid())
    if _answers(path):
        return _complain("another agent serves node {} at {}".format(settings.node, path), EXIT_SECOND)
    program = os.open(sys.argv[0], os.O_RDONLY)
    fcntl.flock(program, fcntl.LOCK_SH)  # marks it as in use: shims are started from it
    _log_to(settings.directory / "agent.log")
    logging.getLogger("agent").info("ranks may have %d files and connections open", raise_limit())
    os.chdir("/")
    return _run(settings, options.token, path, lock, on_ready)


def raise_limit() -> int:
    """Raise the soft limit of open files and connections, which shims and ranks inherit, as far as the hard one allows, at most
    to ``DESCRIPTORS_WANTED``; a higher one stays. Return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(DESCRIPTORS_WANTED, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _watch_session(loop: asyncio.AbstractEventLoop, agent: Agent) -> None:
    """Notice the end of the SSH session by the end of its input. The agent and its ranks continue."""

    def over() -> None:
        if not os.read(0, 1024):
            loop.remove_reader(0)
            agent.end_with_session()

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    loop.add_reader(0, over)


def confirm_to_session() -> None:
    """Report to the SSH session that the agent serves; later output goes to the log."""
    os.write(1, b"serving\n")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def _run(settings: Settings, token: int, path: Path, lock: int, on_ready: Callable[[], None]) -> int:
    from .local_host import LocalHost
    from .server import Agent

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        host = LocalHost(settings)
        if host.token() > token > 0:
            return _fenced(host.token(), token)
        agent = Agent(loop, host)
        if settings.held_by == HeldBy.SESSION:
            _watch_session(loop, agent)
        with _listen(path) as listener:
            own = FileIdentity.at(str(path))
            identities = (FileIdentity.held(str(settings.directory / "agent.lock"), lock), own)
            loop.run_until_complete(agent.run(listener, identities, on_ready))
            if not own.replaced:
                path.unlink()
    except (OSError, ValueError) as error:
        logging.getLogger("agent").exception("the agent ends")
        return _complain(str(error), 1)
    finally:
        loop.close()
    return 0


def _ask(settings: Settings, token: int, path: Path) -> int:
    """Check the token of a controller whose agent a service starts without a token, and end an agent that hangs, so that the
    service starts another. Keeps no lock, because the service needs it."""
    if status := _refusal(settings, token):
        return status
    with contextlib.suppress(FileNotFoundError):
        lock = os.open(settings.directory / "agent.lock", os.O_RDWR)
        try:
            if not hung.try_lock(lock):
                hung.take_over(settings.directory, lock, path)
        finally:
            os.close(lock)
    return 0


def _refusal(settings: Settings, token: int) -> int:
    """Return the exit status for a controller that may start no agent here; 0 for others."""
    from .local_host import LocalHost

    try:
        kept = LocalHost(settings).token()
    except (OSError, ValueError) as error:
        return _complain(str(error), 1)
    return _fenced(kept, token) if kept > token > 0 else 0


def _fenced(kept: int, token: int) -> int:
    return _complain("token {} is older than {}".format(token, kept), EXIT_FENCED)


def _holder(lock: int) -> str:
    """Return the pid that the agent with the lock has written into its file."""
    return os.pread(lock, 20, 0).decode("ascii", "replace").strip()


def _absolute(path: str) -> Path:
    """Return an absolute path without following symbolic links, because a virtual environment's interpreter is one."""
    return Path(path).expanduser().absolute()


def _nothing() -> None:
    """Do nothing: in the foreground nobody waits for the agent to serve."""


def _complain(text: str, status: int) -> int:
    sys.stderr.write("agent: {}\n".format(text))
    return status


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(1)
        return caller.connect_ex(str(path)) == 0


def _listen(path: Path) -> socket.socket:
    """Return a listening socket at ``path`` (mode 0600), in place of a dead agent's."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(_BACKLOG)
    return listener


def _log_to(path: Path) -> None:
    handler = logging.handlers.RotatingFileHandler(
        path, maxBytes=LOG_BYTES_MAX, backupCount=1, encoding="utf-8"
    )
    handler.setFormatter(Stamped("%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _detach() -> Callable[[], None]:
    """Continue in a new process and session. The old process ends when the result is called, or fails like the new one.

    Until then the new process keeps the old one's standard error, so that the starter sees errors.
    """
    ready, signal_end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(signal_end)
        if os.read(ready, 1):
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)
    os.close(ready)
    os.setsid()

    def on_ready() -> None:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        os.close(nowhere)
        os.write(signal_end, b"1")
        os.close(signal_end)

    return on_ready
