"""One watcher for each node: keeps a connection to its agent and the newest report.

The agent announces each change, and the watcher then asks for the complete report. A pass of the loop reads the results
here and never waits for a machine.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from reconciler.errors import Barred, ReconcilerError, Refused, Silent, Unreachable
from reconciler.remote.agent_connection import AgentConnection
from reconciler.remote.machines import Machines
from reconciler.state import Contact, MachineFacts, NodeName, NodeObservation
from reconciler.wire.node import NodeReport, Observe

from .changes import failed, group, is_news, skew
from .probes.cable_ends import Cables

log = logging.getLogger(__name__)

OBSERVE_SECONDS_MAX = 10.0
"""The time after which a node without an answer counts as silent: more than a busy machine needs for a report."""
RESYNC_SECONDS = 5.0
"""The interval of requests for a report without a push."""
REDIAL_SECONDS = 1.0
REACH_SECONDS_MAX = 10.0
REACH_POLL_SECONDS = 0.05
RENEWED_SECONDS = 3.0
"""The longest silence of a machine after its connection was closed here to make a new one."""
EXAMINE_SECONDS_MAX = 50.0
"""Time limit for a requested round of all probes, including the rest of a running round."""
CHANGES_SECONDS = 0.02
"""Minimum time between requests for a report: one report answers all pushes of that time. The first of many pushes
does not wait, because it may announce the end of a rank."""
PROBE_SECONDS_MAX = 60.0
"""Time limit for all probes of a machine together; the facts of a longer round are unknown."""
PROBES_SECONDS = 10.0
"""Time between two rounds of probes. Costly probes, and those of facts that rarely change, skip most rounds."""


@dataclass(slots=True)
class _Watch:
    """The last observation of one watched node, and the questions that are due."""

    seen: NodeObservation
    look: asyncio.Event = field(default_factory=asyncio.Event)
    probe: asyncio.Event = field(default_factory=asyncio.Event)
    """Set if facts from probes are outdated."""
    awaited: list[asyncio.Event] = field(default_factory=list)
    """Events to set after the next round of probes, or when the machine is lost."""
    task: asyncio.Task[None] | None = None
    link: AgentConnection | None = None
    refresh: bool = False
    """True if a new connection outdates the facts from probes."""
    renewing: bool = False
    """True while the connection is closed on purpose, which says nothing about the machine."""
    missed: asyncio.TimerHandle | None = None
    """Timer after which a machine counts as lost if its connection was closed here and no new one was made."""
    tried: bool = False
    """True if the observation is newer than the start and the last clock gap."""
    asked: bool = False
    """True if a caller waits for the next report, whatever its contents, to see a change that it made."""
    answering: bool = False
    """True if the report under way is one that a caller waits for."""


async def _wait(event: asyncio.Event, seconds: float) -> bool:
    """Wait at most ``seconds``, and return whether the event was set."""
    try:
        async with asyncio.timeout(seconds):  # unlike wait_for of 3.11 it never swallows a cancellation
            await event.wait()
    except TimeoutError:
        return False
    return True


async def _relay(link: AgentConnection, look: asyncio.Event) -> None:
    """Wake the watcher after every push, and at the end of the connection."""
    async for _ in link.changes():
        look.set()
    look.set()


class Collector:
    """Watches the requested nodes. ``changed`` is called whenever a report or a fact is new.

    ``token`` is the fencing token for a node; 0 until the node's own token is known.
    """

    def __init__(
        self,
        machines: Machines,
        clock: Callable[[], float],
        changed: Callable[[], None],
        token: Callable[[NodeName], int] = lambda name: 0,
    ) -> None:
        self._machines = machines
        self._clock = clock
        self._changed = changed
        self._token = token
        self.resync_seconds = RESYNC_SECONDS
        self.probes_seconds = PROBES_SECONDS
        self._watches: dict[NodeName, _Watch] = {}
        self._numbers = itertools.count(1)
        self._cables = Cables()
        self._models: tuple[str, ...] = ()
        self._gaps = 0

    def watch(self, names: frozenset[NodeName], models: tuple[str, ...]) -> None:
        """_Watch exactly these nodes, and look for weights at these paths on each."""
        for name in sorted(names - self._watches.keys()):
            watch = _Watch(NodeObservation(name, Contact.UNKNOWN, self._clock()))
            self._watches[name] = watch
            self._start(watch)
        for name in sorted(self._watches.keys() - names):
            task = self._watches.pop(name).task
            self._cables.forget(name)
            if task is not None:
                task.cancel()
        if models != self._models:
            self._models = models
            for watch in self._watches.values():
                watch.look.set()

    def nodes(self) -> Mapping[NodeName, NodeObservation]:
        return {name: watch.seen for name, watch in self._watches.items()}

    @property
    def tried(self) -> bool:
        """Return whether every node was observed, or failed to answer, since the start and the last clock gap."""
        return all(watch.tried for watch in self._watches.values())

    def link(self, name: NodeName) -> tuple[AgentConnection, int]:
        """Return the connection to a node's agent and its number. Raises ``Unreachable`` without one."""
        watch = self._watches.get(name)
        if watch is None or watch.link is None:
            raise Unreachable(f"no connection to the agent of {name}")
        return watch.link, watch.seen.link

    def token(self, name: NodeName) -> int:
        """Return the fencing token to use with a node; 0 until the node's own is known."""
        return self._token(name)

    def look(self, name: NodeName) -> None:
        """Look at once at a node that was just changed or got its agent: its report is news, whatever its contents."""
        watch = self._watches.get(name)
        if watch is not None:
            watch.asked = True
            watch.look.set()

    def looking(self, name: NodeName) -> bool:
        """Return whether a report that ``look`` requested is under way: a call of ``changed`` follows in any case."""
        watch = self._watches.get(name)
        return watch is not None and watch.link is not None and (watch.asked or watch.answering)

    async def reach(self, name: NodeName, starts: bool = True) -> None:
        """Look at a node until it is seen. Raises ``Unreachable`` if it is not.

        ``starts``: its agent was just started, and may be down for the whole time. Otherwise an agent that is down is
        not waited for, because it has to be started first.
        """
        begun = asyncio.get_running_loop().time()
        deadline, known = begun + REACH_SECONDS_MAX, begun + RENEWED_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            watch = self._watches.get(name)
            if watch is not None and watch.link is not None:
                return
            down = watch is None or watch.seen.contact is Contact.AGENT_DOWN
            if down and not starts and asyncio.get_running_loop().time() >= known:
                break
            self.look(name)
            await asyncio.sleep(REACH_POLL_SECONDS)
        raise Unreachable(f"the agent of {name} {'was started but ' if starts else ''}does not answer")

    async def lose(self, name: NodeName) -> None:
        """Wait until the end of a connection has been noticed. Raises ``Unreachable`` if it is not."""
        deadline = asyncio.get_running_loop().time() + REACH_SECONDS_MAX
        while asyncio.get_running_loop().time() < deadline:
            watch = self._watches.get(name)
            if watch is None or (watch.link is None and watch.seen.contact is Contact.AGENT_DOWN):
                return
            await asyncio.sleep(REACH_POLL_SECONDS)
        raise Unreachable(f"the agent of {name} was asked to end but still runs")

    async def renew(self, name: NodeName) -> None:
        """Look at a node over an entirely new connection, and run its probes again over it, because its network has
        changed. The machine is lost only if it is not reached soon."""
        watch = self._watches.get(name)
        link = watch.link if watch else None
        if watch is not None:
            watch.refresh, watch.link, watch.renewing = True, None, link is not None
            if link is not None:
                if watch.missed is not None:  # from an earlier repair, after which it was reached
                    watch.missed.cancel()
                watch.missed = asyncio.get_running_loop().call_later(RENEWED_SECONDS, self._missed, watch)
            if watch.seen.report is not None:
                self._machines.expect_addresses(watch.seen.report)
        await self._machines.reconnect(name)
        if link is not None:
            await link.close()

    def _missed(self, watch: _Watch) -> None:
        """Handle a machine that was not reached again in time."""
        if watch.link is None and watch.seen.contact is Contact.REACHED and watch.task is not None:
            self._on_lost(watch, Unreachable("it does not answer over a new connection"))

    async def examine(self, name: NodeName) -> bool:
        """Run all probes of a machine again. Return whether they finished in time. A machine that is lost meanwhile is
        not waited for, but a new connection in place of one that was closed here is."""
        watch = self._watches.get(name)
        if watch is None or watch.link is None or watch.seen.report is None:
            return False
        over = asyncio.Event()
        self._machines.expire_probes(watch.seen.report)
        watch.awaited.append(over)
        watch.probe.set()
        try:
            return await _wait(over, EXAMINE_SECONDS_MAX) and watch.link is not None
        finally:
            watch.awaited.remove(over)

    def shift(self, seconds: float) -> None:
        """Shift all times after a clock gap of ``seconds`` (negative if the clock was set back), and require new facts
        from every node."""
        self._gaps += 1
        for watch in self._watches.values():
            watch.tried = False
            since = watch.seen.since + seconds
            watch.seen = replace(watch.seen, since=since, probed=False, examined=False)
            watch.probe.set()

    async def close(self) -> None:
        tasks = [watch.task for watch in self._watches.values() if watch.task is not None]
        self._watches.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, watch: _Watch) -> None:
        watch.task = asyncio.create_task(self._follow(watch), name=f"watch {watch.seen.name}")
        watch.task.add_done_callback(lambda task: self._ended(watch, task))

    def _ended(self, watch: _Watch, task: asyncio.Task[None]) -> None:
        """Restart a watcher that failed, and log its error: a watcher never ends on its own."""
        if task.cancelled():
            return
        error = task.exception()
        log.error("watching %s failed", watch.seen.name, exc_info=error)
        self._on_lost(watch, Unreachable(f"watching it failed: {error!r}"))
        if self._watches.get(watch.seen.name) is watch:
            asyncio.get_running_loop().call_later(REDIAL_SECONDS, self._start, watch)

    async def _follow(self, watch: _Watch) -> None:
        while True:
            try:
                link = await self._machines.dial(watch.seen.name)
            except Unreachable as error:
                self._on_lost(watch, await self._explained(watch, error))
                await self._pause(watch, REDIAL_SECONDS)
                continue
            try:
                await self._listen(watch, link)
            except (Refused, Unreachable) as error:
                watch.link = None
                if isinstance(error, Silent) or not watch.renewing:
                    self._on_lost(watch, await self._explained(watch, error))
            finally:
                watch.renewing = False
                watch.link = None
                await link.close()
            watch.look.clear()
            await self._pause(watch, REDIAL_SECONDS)

    async def _explained(self, watch: _Watch, error: ReconcilerError) -> ReconcilerError:
        """Return why there is no answer. If the machine answers and its agent does not, the agent hangs and counts as
        down."""
        silent = isinstance(error, Silent) and not isinstance(error, Barred)
        if not silent or not await self._machines.answers(watch.seen.name):
            return error
        return Unreachable(f"its agent gives no answer, and the machine does: {error}")

    async def _listen(self, watch: _Watch, link: AgentConnection) -> None:
        """Ask for reports until the connection ends, which is ``Unreachable``."""
        number = next(self._numbers)
        listener = asyncio.create_task(_relay(link, watch.look), name=f"changes on {watch.seen.name}")
        prober: asyncio.Task[None] | None = None
        try:
            while True:
                watch.look.clear()
                watch.answering, watch.asked = watch.asked, False
                question = Observe(self._models, self._token(watch.seen.name))
                asked_at, gaps = self._clock(), self._gaps
                report = await link.request(question, timeout=OBSERVE_SECONDS_MAX)
                assert isinstance(report, NodeReport)
                watch.link = None if watch.renewing else link
                watch.tried = watch.tried or gaps == self._gaps
                self._reached(watch, report, number, skew(report, asked_at, self._clock()))
                if prober is None:
                    prober = asyncio.create_task(
                        self._examine(watch, link, report), name=f"probes of {watch.seen.name}"
                    )
                again_at = asyncio.get_running_loop().time() + CHANGES_SECONDS
                await self._pause(watch, self.resync_seconds)
                await asyncio.sleep(max(0.0, again_at - asyncio.get_running_loop().time()))
        finally:
            listener.cancel()
            if prober is not None:
                prober.cancel()

    async def _examine(self, watch: _Watch, link: AgentConnection, report: NodeReport) -> None:
        """Keep the facts from probes up to date as long as the connection lasts: after it, the machine may have
        restarted."""
        while True:
            watch.probe.clear()
            awaited = [over for over in watch.awaited if not over.is_set()]
            refresh, gaps = bool(awaited) or not watch.seen.examined, self._gaps
            facts, answered = MachineFacts(), True
            try:
                async with asyncio.timeout(PROBE_SECONDS_MAX):
                    facts = await self._machines.probe(link, watch.seen.report or report, refresh)
            except (Refused, Unreachable, TimeoutError) as error:
                if watch.renewing:
                    return  # earlier facts hold until the probes run over the next connection
                log.warning("%s: its probes failed: %s", watch.seen.name, error)
                answered = not isinstance(error, Unreachable)
            if gaps == self._gaps:  # else the facts are older than the clock gap
                self._learn(watch, facts, answered, examined=not watch.probe.is_set())
            for over in awaited:
                over.set()
            await _wait(watch.probe, self.probes_seconds)

    def _learn(self, watch: _Watch, facts: MachineFacts, answered: bool, examined: bool) -> None:
        """Keep new facts of a machine, which may also show the other ends of other machines' cables.

        If the connection failed, nothing is known, and anything that earlier facts forbade stays forbidden. If a rank
        failed during the probes, the facts are known but do not explain the failure. So a machine whose ranks fail one
        after the other still gets new facts.
        """
        link = watch.seen.link if answered else watch.seen.facts_link
        updated = replace(watch.seen, probed=answered, examined=examined and answered, facts_link=link)
        if news := updated != watch.seen:
            watch.seen = updated
        for name, known in self._cables.learn(watch.seen.name, facts).items():
            other = self._watches.get(name, watch)
            news = news or known != other.seen.facts
            if known is not other.seen.facts:
                other.seen = replace(other.seen, facts=known)
        if news:
            self._changed()

    @staticmethod
    async def _pause(watch: _Watch, seconds: float) -> None:
        if await _wait(watch.look, seconds):
            watch.look.clear()

    def _reached(self, watch: _Watch, report: NodeReport, number: int, skewed: float) -> None:
        before, asked, watch.answering = watch.seen, watch.answering, False
        since = before.since if before.contact is Contact.REACHED else self._clock()
        same_boot = before.report is not None and before.report.boot_id == report.boot_id
        facts = before.facts if same_boot else MachineFacts()
        probed = same_boot and before.probed and not before.silent
        renewed = watch.refresh and number != before.link
        watch.refresh = watch.refresh and not renewed
        ends = watch.link.ends if watch.link else before.ends
        watch.seen = NodeObservation(
            before.name,
            Contact.REACHED,
            since,
            number,
            report,
            facts=facts,
            probed=probed,
            examined=probed and before.examined and not renewed,
            facts_link=before.facts_link if same_boot else 0,
            ends=ends,
            skew_seconds=skewed,
        )
        if before.report is not None:
            self._reexamine({group(id) for id in failed(report) - failed(before.report)})
        if not same_boot and before.facts.ports:
            self._cables.forget(before.name)
        if asked or is_news(before, watch.seen):
            self._changed()

    def _reexamine(self, groups: set[tuple[str, int, int]]) -> None:
        """Run the probes again on every machine of these groups, each of which has a failed rank."""
        for watch in self._watches.values() if groups else ():
            if not groups.isdisjoint(group(rank.report.id) for rank in watch.seen.ranks):
                watch.seen = replace(watch.seen, examined=False)
                watch.probe.set()

    def _on_lost(self, watch: _Watch, error: ReconcilerError) -> None:
        """Note that a node was lost: its agent is down if the machine answers, else nothing is known. If nobody watched
        since the last report, the machine may have restarted."""
        before, watched, watch.tried = watch.seen, watch.tried, True
        contact = Contact.UNREACHABLE if isinstance(error, Silent) else Contact.AGENT_DOWN
        barred, remedy = (error.code, error.remedy) if isinstance(error, Barred) else ("", "")
        since = self._clock() if before.contact is Contact.REACHED else before.since
        silent = before.silent or contact is Contact.UNREACHABLE or not watched
        watch.seen = replace(
            before,
            contact=contact,
            since=since,
            problem=str(error),
            barred=barred,
            remedy=remedy,
            silent=silent,
        )
        for over in watch.awaited:
            over.set()
        if watch.seen != before:
            self._changed()
