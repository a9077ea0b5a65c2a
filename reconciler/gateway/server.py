"""One gateway: waits for routes, listens at their address, follows it when it changes, stops in order.

It may take over from a gateway that runs, once it is ready. It hands over to the next one in turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from reconciler import descriptors
from reconciler.errors import Conflict, Invalid
from reconciler.services.lock import Lock
from reconciler.serving.addresses import address_of, bind, parse_listen, reached_at
from reconciler.serving.certificates import Certificates
from reconciler.serving.limiter import ConnectionLimiter, ConnectionLimits, shortage
from reconciler.serving.listener import Listener, end_overdue
from reconciler.wire.handover import Given, Report
from reconciler.wire.keys import digest_of

from . import state_file
from .app import build_app
from .collectors import AccessLog, Connections
from .dialects.dialect import Sources
from .files import Files, write_state
from .handover.channel import SOCKET, Channel, listening_at
from .handover.handing_over import hand_over, report
from .handover.reports import Reports
from .handover.taking_over import NotHandedOver, OldGateway, ask
from .hooks.announcer import Announcer
from .http.answer import refuse
from .keys.sharing import Sharing
from .keys.usage import KeyMetrics
from .records.logs import Logs
from .routing.pool import Pool
from .routing.reach import Reach
from .routing.routes import RoutesFile
from .routing.timeouts import Timing

log = logging.getLogger(__name__)

CONTROLLER_SOCKET = "controller.sock"
RETRY_SECONDS = 1.0
"""The interval of attempts at an address that is in use."""
GROUPS_SECONDS = 5.0
"""The longest time that a gateway waits for connections to all groups before it takes over. Requests wait for the
rest."""
DRAIN_SECONDS = 3600.0
"""The longest time that a gateway finishes answers after another has taken over: the longest answer that the console
waits for. Nobody waits for this gateway's end, so a long answer costs only memory."""
_DRAIN_LOOK_SECONDS = 0.1
_REPORT_SECONDS = 2.0
"""The longest time for the last report to the gateway that has taken over."""
_STATE_RETRY_SECONDS = 1.0
_CLOSE_LOOKS, _CLOSE_LOOK_SECONDS = 50, 0.02
"""The number of looks until a listening socket is closed, and their interval."""
_LAST_WORDS_SECONDS = 5.0
"""The time that clients have to read the error that ends their stream when the gateway stops."""


async def serve(
    home: Path,
    any_port: bool,
    stop: asyncio.Event,
    timing: Timing,
    sources: Sources,
    limits: ConnectionLimits | None = None,
    lock: Lock | None = None,
    take_over: bool = False,
) -> None:
    """Serve until ``stop`` is set, then let running requests end for ``timing.shutdown`` seconds.

    ``limits``: of connections; by default as many as the descriptors of this process allow. ``lock``: that of the
    home, which the next gateway gets; with ``take_over`` another gateway still holds it, and hands all over.

    Raises ``Invalid`` or ``Conflict`` if it cannot listen at the first address; if a later one fails, it stays at the
    old one. Raises ``NotHandedOver`` if nothing can be taken over.
    """
    file = RoutesFile(home / "routes.json")
    if not await file.wait(stop):
        return
    reach = Reach(home / "keys" / "gateway")
    pool = Pool(file, timing, reach.connect, sources.now, state_file.read_prompts(home / "prompts.json"))
    sharing = Sharing(pool.desk, sources.new_id())
    pool.desk.follow(file.ring)
    watching = asyncio.create_task(pool.watch())
    watching.add_done_callback(lambda _: stop.set())
    try:
        count = descriptors.limit()
        limiter = ConnectionLimiter(limits or ConnectionLimits.of(count))
        if few := shortage("the gateway", count):
            log.warning("%s", few)
        gateway = _Gateway(home, any_port, pool, sources, limiter, sharing, lock)
        with contextlib.closing(gateway):
            await gateway.run(stop, take_over)
    finally:
        await sharing.close()
        pool.close()
        reach.close()
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
        limiter: ConnectionLimiter,
        sharing: Sharing,
        lock: Lock | None,
    ) -> None:
        self._home = home
        self._lock = lock
        self._limiter = limiter
        self._descriptors = descriptors.limit()
        self._logs = Logs(home / "logs", sources.now)
        pool.metrics.add(Connections(limiter))
        pool.metrics.add(AccessLog(lambda: self._logs.dropped))
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
        """The reason that it does not listen at the address of the routes."""
        self._rewrite: asyncio.TimerHandle | None = None
        self._listener: Listener | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._files: Files | None = None
        """None while another gateway writes them."""
        self._old: OldGateway | None = None
        self._reports = Reports(pool.desk)
        self._reporting: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        """Set when the last answer is given after another gateway has taken over."""
        self._moving = asyncio.Lock()
        pool.replaced = self._changed.set

    async def run(self, stop: asyncio.Event, take_over: bool) -> None:
        """Serve until ``stop`` is set, until a listener ends by itself, or until another gateway has taken over and the last
        answer is given."""
        stopping = asyncio.create_task(stop.wait())
        sweeping = asyncio.create_task(self._end_overdue(), name="end overdue connections")
        sweeping.add_done_callback(lambda _: stop.set())
        handing: asyncio.Task[Channel] | None = None
        try:
            if take_over:
                await self._take_over()
            self._files = Files(self._home, self._pool, self._old)
            handing = self._hand_over()  # first: readers of the address may ask it at once
            await self._follow()
            while not stopping.done():
                changing = asyncio.create_task(self._changed.wait())
                others = (handing, self._listener.task if self._listener is not None else None)
                ends = [changing, stopping, *[each for each in others if each is not None]]
                again = RETRY_SECONDS if self._problem else None
                await asyncio.wait(ends, timeout=again, return_when=asyncio.FIRST_COMPLETED)
                changing.cancel()
                if self._listener is not None and self._listener.task.done():
                    self._listener.task.result()
                    return
                if handing is not None and handing.done():
                    await self._drain(handing.result(), stop)
                    return
                if self._changed.is_set() or self._problem:
                    self._changed.clear()
                    await self._follow()
        finally:
            stopping.cancel()
            if handing is not None:
                handing.cancel()
                await asyncio.wait([handing])
            await self._end()
            if self._reporting is not None:
                self._over.set()
                await asyncio.wait([self._reporting], timeout=_REPORT_SECONDS)
            sweeping.cancel()

    def close(self) -> None:
        """Write the last lines and counts."""
        self._logs.close()
        if self._files is not None:
            self._files.close()

    async def _end_overdue(self) -> None:
        """End connections whose clients send nothing, and restore ``gateway.json`` if somebody removes it, until
        cancelled."""
        while True:
            await asyncio.sleep(self._limiter.limits.leaving_seconds)
            self._follow_descriptors()
            self._follow_certificate()
            if self._listener is not None:
                self._write_state()
            await end_overdue(self._limiter)

    def _follow_descriptors(self) -> None:
        """Take no more connections than the system allows at this moment: the limit may change."""
        count = descriptors.limit()
        if count != self._descriptors:
            self._descriptors = count
            self._limiter.limits = ConnectionLimits.of(count)
            log.warning("this process may have %d descriptors now", count)
            self._write_state()

    def _follow_certificate(self) -> None:
        """Use the certificate that is in its files now."""
        if self._certificates.follow(self._pool.file.current.tls):
            self._write_state()

    async def _follow(self) -> None:
        try:
            async with self._moving:
                await self._move()
        except (Invalid, Conflict) as error:
            if self._listener is None:
                raise
            if str(error) != self._problem:
                log.error("still listening on the old address: %s", error)
            self._problem = str(error)
            self._write_state()

    async def _move(self) -> None:
        """Listen at the address of the routes; the old listener ends with its last request."""
        routes = self._pool.file.current
        self._certificates.follow(routes.tls)
        self._logs.follow(routes.access_log)
        await self._sharing.follow(routes)
        listen = routes.listen
        if listen != self._wanted:
            sock = await self._bound(listen)
            self._wanted = listen
            old = self._listener
            self._listener = Listener(self._app, sock, self._limiter, self._certificates, refuse)
            log.info("listening on %s", self._listener.address)
            if old is not None:
                task = old.leave()
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)
        self._problem = ""
        self._write_state()

    async def _bound(self, listen: str) -> socket.socket:
        """Return a listening socket. If both have the same port, the old one stops first, as Linux requires."""
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
        if self._files is None:
            return
        assert self._listener is not None
        routes = self._pool.file.current
        state = {
            "version": 1,
            "pid": os.getpid(),
            "listen": self._listener.address,
            "local": reached_at(self._listener.address),
            "endpoint": self._endpoint(reached_at(self._listener.address)),
            "certificate": self._certificate(),
            "started_at": self._started_at,
            "sequence": routes.sequence,
            "token": routes.token,
            "problem": self._problem,
            "keys": digest_of(routes.keys),
            "limits": self._sharing.state(),
            "shortage": shortage("the gateway", descriptors.limit()),
        }
        if not write_state(self._home, state) and (
            self._rewrite is None or self._rewrite.when() <= asyncio.get_running_loop().time()
        ):
            self._rewrite = asyncio.get_running_loop().call_later(_STATE_RETRY_SECONDS, self._write_state)

    def _endpoint(self, address: str) -> str:
        """Return the URL for clients, with a declared name that the certificate covers, if there is one."""
        if not self._certificates.wanted:
            return f"http://{address}/v1"
        shown = self._certificates.certificate
        names = [name for name in self._pool.file.current.hosts if shown is not None and name in shown.names]
        return f"https://{names[0]}:{_port(address)}/v1" if names else f"https://{address}/v1"

    def _certificate(self) -> dict[str, object] | None:
        if not self._certificates.wanted:
            return None
        shown = self._certificates.certificate
        return {
            "names": shown.names if shown else (),
            "expires_at": shown.expires.timestamp() if shown else None,
            "problem": self._certificates.problem,
        }

    # --- from one gateway to the next --------------------------------------------------------------

    async def _take_over(self) -> None:
        """Accept beside the gateway that runs, and make it drain. Raises ``Invalid`` and ``NotHandedOver``; that one
        continues then."""
        await self._pool.until_ready(GROUPS_SECONDS)
        self._certificates.follow(self._pool.file.current.tls)
        if self._certificates.wanted and self._certificates.context is None:
            raise Invalid(self._certificates.problem)  # the old gateway may have a good one
        old = await ask(self._home, self._pool)
        try:
            listen, address = old.given.listen, address_of(old.sock)
            parse_listen(listen, self._pool.file.ring is not None)
            if not self._any_port and _port(address) != _port(listen):
                raise NotHandedOver(f"the gateway that runs listens on {address} instead of {listen}")
            self._wanted = listen
            self._listener = Listener(self._app, old.sock, self._limiter, self._certificates, refuse)
            await self._listener.begun()
            await old.drain()
        except BaseException:
            old.sock.close()
            old.close()
            raise
        descriptor = old.lock()
        if self._lock is not None and descriptor is not None:
            self._lock.inherit(descriptor)
        log.info("taken over from the old gateway, on %s", address)
        self._old = old

    def _hand_over(self) -> asyncio.Task[Channel] | None:
        """Wait for the next gateway. Return None if that is impossible; the next one then starts after this one has
        ended."""
        try:
            listening = listening_at(self._home / SOCKET)
        except OSError as error:
            log.warning("no other gateway will be able to take over from this one: %s", error)
            return None
        task = asyncio.create_task(hand_over(listening, self._give), name="hand over")
        task.add_done_callback(lambda _: listening.close())
        return task

    async def _give(self) -> tuple[Sequence[int], Sequence[object]]:
        """Return the descriptors of the listening socket and of the lock, and the messages for a new gateway."""
        async with self._moving:
            assert self._listener is not None
            assert self._files is not None
            self._reports = Reports(self._pool.desk)
            used = self._reports.first()
            lock = [] if self._lock is None else [self._lock.fileno()]
            given = Given(self._wanted, self._files.pid, len(used))
            return [self._listener.fileno(), *lock], [given, *used]

    async def _drain(self, channel: Channel, stop: asyncio.Event) -> None:
        """Leave clients that connect to the other gateway, and answer connected ones until all have gone or ``stop``
        is set. Each client's next answer says that its connection is closed: closing an idle one could cross its next
        request."""
        assert self._listener is not None
        assert self._files is not None
        log.info("another gateway has taken over; this one finishes its answers")
        files, self._files = self._files, None
        files.leave()
        if self._lock is not None:
            self._lock.let_go()
        self._limiter.last_answers = True
        await self._listener.accept_no_more()
        await self._sharing.close()

        def news() -> Sequence[object]:
            return [*self._reports.news(), Report(files.figures(), self._pool.quarantined_prompts())]

        reporting = report(channel, news, stop, self._over)
        self._reporting = asyncio.create_task(reporting, name="report to the gateway that has taken over")
        for _ in range(round(DRAIN_SECONDS / _DRAIN_LOOK_SECONDS)):
            reports = self._old is not None and not self._old.hearing.done()  # they pass through this gateway
            if stop.is_set() or not (reports or self._leaving or self._listener.connected):
                return
            await asyncio.sleep(_DRAIN_LOOK_SECONDS)

    async def _end(self) -> None:
        """Take no new requests, wait for running ones, then fail the rest: none is cut silently."""
        tasks = set(self._leaving)
        if self._old is not None and not self._old.hearing.done():
            await self._old.stop()
            tasks.add(self._old.hearing)
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


def _port(address: str) -> str:
    return address.rpartition(":")[2]
