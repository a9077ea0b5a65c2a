"""The gateway's process: waits for routes, listens at their address, follows it when it changes, stops in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from reconciler.certificates import Certificates
from reconciler.errors import Conflict, Invalid
from reconciler.listening import bind, reached_at
from reconciler.wire.file_identity import FileIdentity, wait_until_removed, wait_until_replaced

from .admission import Admission, ConnectionLimits
from .app import build_app
from .dialects.dialect import Sources
from .hooks.announcer import Announcer
from .http import descriptors
from .http.listener import Listener
from .keys.sharing import Sharing
from .keys.usage import KeyMetrics
from .keys.usage_file import UsageFile
from .records import figures_file
from .records.logs import Logs
from .routing import quarantine_file
from .routing.pool import Pool
from .routing.reach import Reach
from .routing.routes import RoutesFile
from .routing.timeouts import Timing

log = logging.getLogger(__name__)

EXIT_CANNOT_LISTEN = 2
CONTROLLER_SOCKET = "controller.sock"
RETRY_SECONDS = 1.0
"""How often an address that is taken is tried again."""
_ROUTES_POLL_SECONDS = 0.1
_REMIND_SECONDS = 30.0
_STATE_RETRY_SECONDS = 1.0
_ENDS_AT_ONCE = 50
"""Connections that are ended without a request going on in between: ending one takes some 50 µs."""
_CLOSE_LOOKS, _CLOSE_LOOK_SECONDS = 50, 0.02
"""How long a listening socket may take to close, and how often to look."""
_LAST_WORDS_SECONDS = 5.0
"""How long clients have to read the error that ends their stream when the gateway stops."""


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def run_gateway(home: Path, any_port: bool, *held: FileIdentity) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit status: 0, or 2 when it cannot listen.

    Reads ``home/routes.json``, and writes ``home/gateway.json``, ``home/prompts.json``, ``home/usage.json`` and
    ``home/figures.json``. ``held``: the lock in its home,
    which is watched.
    """
    log.info("%d descriptors", descriptors.raised())
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            runner.run(_serve_until_signalled(home, any_port, *held))
        except (Invalid, Conflict) as error:
            _write_state(home, {"version": 1, "pid": os.getpid(), "endpoint": None, "problem": str(error)})
            sys.stderr.write(f"gateway: {error}\n")
            return EXIT_CANNOT_LISTEN
    return 0


async def serve(
    home: Path,
    any_port: bool,
    stop: asyncio.Event,
    timing: Timing,
    sources: Sources,
    limits: ConnectionLimits | None = None,
) -> None:
    """Serve until ``stop`` is set, then let running requests end for ``timing.shutdown`` seconds.

    ``limits``: of connections; by default what the descriptors of this process allow.

    Raises ``Invalid`` or ``Conflict`` when the first address cannot be listened on; a later one that
    cannot leaves the gateway where it is.
    """
    file = RoutesFile(home / "routes.json")
    if not await _wait_for_routes(file, home, stop):
        return
    reach = Reach(home / "keys" / "gateway")
    quarantine = home / "prompts.json"
    pool = Pool(file, timing, reach.connect, sources.now, quarantine_file.read(quarantine))
    pool.quarantined = lambda: quarantine_file.write(quarantine, pool.quarantined_prompts())
    sharing = Sharing(pool.desk, sources.new_id())
    usage = UsageFile(home / "usage.json", pool.desk)
    pool.desk.follow(file.ring)
    saving = asyncio.create_task(usage.keep())
    telling = asyncio.create_task(figures_file.keep(home / "figures.json", pool.metrics))
    watching = asyncio.create_task(pool.watch())
    watching.add_done_callback(lambda _: stop.set())
    try:
        count = descriptors.limit()
        admission = Admission(limits or ConnectionLimits.of(count))
        if shortage := descriptors.shortage(count):
            log.warning("%s", shortage)
        await _Gateway(home, any_port, pool, sources, admission, sharing).run(stop)
    finally:
        await sharing.close()
        pool.close()
        reach.close()
        saving.cancel()
        telling.cancel()
        usage.save()
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching


class _Gateway:
    """Keeps one listener at the address of the routes, and ``gateway.json`` up to date."""

    def __init__(
        self,
        home: Path,
        any_port: bool,
        pool: Pool,
        sources: Sources,
        admission: Admission,
        sharing: Sharing,
    ) -> None:
        self._home = home
        self._admission = admission
        self._descriptors = descriptors.limit()
        self._logs = Logs(home / "logs", sources.now)
        pool.metrics.show(admission, lambda: self._logs.dropped)
        pool.metrics.add(KeyMetrics(pool.desk.book, sources.now))
        self._any_port = any_port
        self._pool = pool
        self._sources = sources
        self._changed = asyncio.Event()
        self._sharing = sharing
        sharing.changed = self._changed.set
        pool.metrics.add(sharing)
        self._certificates = Certificates()
        self._app = build_app(pool, sources, self._logs, Announcer(home / CONTROLLER_SOCKET).announce)
        self._started_at = sources.now()
        self._wanted = ""
        self._problem = ""
        """Why it does not listen at the address of the routes."""
        self._written: dict[str, object] = {}
        self._rewrite: asyncio.TimerHandle | None = None
        self._listener: Listener | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        pool.replaced = self._changed.set

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set, or until a listener ends by itself."""
        stopping = asyncio.create_task(stop.wait())
        sweeping = asyncio.create_task(self._end_overdue(), name="end overdue connections")
        sweeping.add_done_callback(lambda _: stop.set())
        try:
            await self._move()
            while not stopping.done():
                changing = asyncio.create_task(self._changed.wait())
                ends = [changing, stopping, *([self._listener.task] if self._listener else [])]
                again = RETRY_SECONDS if self._problem else None
                await asyncio.wait(ends, timeout=again, return_when=asyncio.FIRST_COMPLETED)
                changing.cancel()
                if self._listener is not None and self._listener.task.done():
                    self._listener.task.result()
                    return
                if self._changed.is_set() or self._problem:
                    self._changed.clear()
                    await self._follow()
        finally:
            stopping.cancel()
            await self._end()
            sweeping.cancel()
            self._logs.close()

    async def _end_overdue(self) -> None:
        """End connections whose clients send nothing, until cancelled."""
        while True:
            await asyncio.sleep(self._admission.limits.leaving_seconds)
            self._follow_descriptors()
            self._follow_certificate()
            await end_overdue(self._admission)

    def _follow_descriptors(self) -> None:
        """Take no more connections than the system allows at this moment: it may be told of another limit meanwhile."""
        count = descriptors.limit()
        if count != self._descriptors:
            self._descriptors = count
            self._admission.limits = ConnectionLimits.of(count)
            log.warning("this process may have %d descriptors now", count)
            self._write_state()

    def _follow_certificate(self) -> None:
        """Use the certificate as it is in its files now."""
        routes = self._pool.file.current
        if routes is not None and self._certificates.follow(routes.tls):
            self._write_state()

    async def _follow(self) -> None:
        try:
            await self._move()
        except (Invalid, Conflict) as error:
            if str(error) != self._problem:
                log.error("still listening on the old address: %s", error)
            self._problem = str(error)
            self._write_state()

    async def _move(self) -> None:
        """Listen at the address of the routes; the old listener ends with its last request."""
        assert self._pool.file.current is not None
        self._certificates.follow(self._pool.file.current.tls)
        self._logs.follow(self._pool.file.current.access_log)
        await self._sharing.follow(self._pool.file.current)
        listen = self._pool.file.current.listen
        if listen != self._wanted:
            sock = await self._bound(listen)
            self._wanted = listen
            old = self._listener
            self._listener = Listener(self._app, sock, self._admission, self._certificates)
            log.info("listening on %s", self._listener.address)
            if old is not None:
                task = old.leave()
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)
        self._problem = ""
        self._write_state()

    async def _bound(self, listen: str) -> socket.socket:
        """Return a socket that listens; the old one stops before where both have one port, as Linux asks for."""
        keys, old = self._pool.file.ring is not None, self._listener
        same_port = old is not None and _port(old.address) == _port(listen)
        try:
            return bind(listen, keys, self._any_port and not same_port)
        except Conflict:
            if old is None or not same_port:
                raise
        old.leave()
        for _ in range(_CLOSE_LOOKS):
            await asyncio.sleep(_CLOSE_LOOK_SECONDS)
            with contextlib.suppress(Conflict):
                return bind(listen, keys, any_port=False)
        return bind(listen, keys, self._any_port)

    def _write_state(self) -> None:
        assert self._pool.file.current is not None
        assert self._listener is not None
        state = {
            "version": 1,
            "pid": os.getpid(),
            "listen": self._listener.address,
            "local": reached_at(self._listener.address),
            "endpoint": self._endpoint(reached_at(self._listener.address)),
            "certificate": self._certificate(),
            "started_at": self._started_at,
            "sequence": self._pool.file.current.sequence,
            "token": self._pool.file.current.token,
            "problem": self._problem,
            "limits": self._sharing.state(),
            "shortage": descriptors.shortage(descriptors.limit()),
        }
        if state == self._written:
            return
        if _write_state(self._home, state):
            self._written = state
        elif self._rewrite is None or self._rewrite.when() <= asyncio.get_running_loop().time():
            self._rewrite = asyncio.get_running_loop().call_later(_STATE_RETRY_SECONDS, self._write_state)

    def _endpoint(self, address: str) -> str:
        """Return the URL for clients: by a declared name that the certificate is good for, if there is one."""
        if not self._certificates.wanted:
            return f"http://{address}/v1"
        shown = self._certificates.certificate
        names = [name for name in self._pool.file.hosts if shown is not None and name in shown.names]
        port = address.rpartition(":")[2]
        return f"https://{names[0]}:{port}/v1" if names else f"https://{address}/v1"

    def _certificate(self) -> dict[str, object] | None:
        if not self._certificates.wanted:
            return None
        shown = self._certificates.certificate
        return {
            "names": shown.names if shown else (),
            "expires_at": shown.expires.timestamp() if shown else None,
            "problem": self._certificates.problem,
        }

    async def _end(self) -> None:
        """Take no new requests, wait for those that run, then fail the rest: none is cut silently."""
        tasks = set(self._leaving)
        if self._listener is not None:
            tasks.add(self._listener.leave())
        if not tasks:
            return
        _, running = await asyncio.wait(tasks, timeout=self._pool.timing.shutdown)
        self._pool.close()
        if running:
            _, stuck = await asyncio.wait(running, timeout=_LAST_WORDS_SECONDS)
            for task in stuck:
                task.cancel()


def _write_state(home: Path, state: dict[str, object]) -> bool:
    """Write ``gateway.json``. Returns whether that worked: a full disk is no reason to stop serving."""
    target = home / "gateway.json"
    draft = target.with_name(f".{target.name}.new")
    try:
        draft.write_bytes(orjson.dumps(state, option=orjson.OPT_APPEND_NEWLINE))
        draft.replace(target)
    except OSError as error:
        log.warning("cannot write %s, trying again later: %s", target, error)
        return False
    return True


async def end_overdue(admission: Admission) -> None:
    """End the connections that are overdue, a few at a time: thousands may have come together, and so end together."""
    overdue = admission.overdue(asyncio.get_running_loop().time())
    for number, (connection, stage) in enumerate(overdue):
        if number and number % _ENDS_AT_ONCE == 0:
            await asyncio.sleep(0)
        if admission.stage(connection) is stage:  # it may have begun a request meanwhile
            connection.expire(stage)


def _new_id() -> str:
    return os.urandom(12).hex()  # what ``secrets`` does, with fewer layers: three are drawn for each request


def _new_seed() -> int:
    return int.from_bytes(os.urandom(8)) >> 1


def _port(address: str) -> str:
    return address.rpartition(":")[2]


async def _serve_until_signalled(home: Path, any_port: bool, *held: FileIdentity) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    sources = Sources(time.time, _new_id, _new_seed)
    watching = asyncio.create_task(_watch_identity(home, stop, *held), name="watch the home")
    try:
        await serve(home, any_port, stop, Timing(), sources)
    finally:
        watching.cancel()


async def _watch_identity(home: Path, stop: asyncio.Event, *held: FileIdentity) -> None:
    """Stop when the home, or the lock in it, is removed: another gateway may serve what replaces it."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if held:
        await wait_until_replaced(*held)
    else:
        await wait_until_removed(home)
    log.error("%s was removed: the gateway stops", held[0].path if held else home)
    stop.set()


async def _wait_for_routes(file: RoutesFile, home: Path, stop: asyncio.Event) -> bool:
    """Wait for routes, as long as it takes the controller, or for ``stop``. Returns whether there are routes."""
    loop = asyncio.get_running_loop()
    remind_at = loop.time() + _REMIND_SECONDS
    while not file.refresh() and not stop.is_set():
        if loop.time() >= remind_at:
            log.info("waiting for %s, which the controller writes", home / "routes.json")
            remind_at += _REMIND_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ROUTES_POLL_SECONDS):
                await stop.wait()
    return not stop.is_set()
