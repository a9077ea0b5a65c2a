"""The collector and a real agent: what is pushed is seen, what is gone is told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.errors import Refused, Silent, Unreachable
from reconciler.inventory import Collector, collector
from reconciler.remote.agent_connection import AgentConnection
from reconciler.state import Contact, MachineFacts, NodeName, NodeObservation, PortFacts
from reconciler.wire import SPOKEN, frames
from reconciler.wire.codec import Hello, to_wire
from reconciler.wire.launch import RankId
from reconciler.wire.node import Changed, NodeReport, RankReport
from tests.agent.bench import RANK, WAIT_SECONDS, Bench
from tests.machines import LocalMachines
from tests.processes import standing_still

pytestmark = pytest.mark.processes

NODE = NodeName("bench")


async def no_answer(name: NodeName) -> bool:
    """Of a machine that is cut off with its agent."""
    return False


class Watched:
    """One node under watch."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.news = asyncio.Event()
        self.machines = LocalMachines(lambda name: bench.node())
        self.collector = Collector(self.machines, time.time, self.news.set)
        self.collector.watch(frozenset({NODE}), ("tiny",))

    def seen(self) -> NodeObservation:
        return self.collector.nodes()[NODE]

    async def until(self, true: Callable[[NodeObservation], object]) -> NodeObservation:
        async with asyncio.timeout(WAIT_SECONDS):
            while not true(self.seen()):
                self.news.clear()
                await self.news.wait()
        return self.seen()


def report(sequence: int) -> NodeReport:
    """Of a node without ranks."""
    return NodeReport(
        sequence=sequence, boot_id="boot", agent_id="agent", system="Linux", release="6.1", machine="x86_64",
        hostname="bench", memory_bytes=2**34, cpus=2, host_id="host", python="/usr/bin/python3", runtime={},
        run_directory="/run/r", token=1,
    )  # fmt: skip


@contextlib.contextmanager
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within the block an agent that stands still is soon known to; outside of it no slow one is taken for that."""
    with monkeypatch.context() as changed:
        changed.setattr(collector, "OBSERVE_SECONDS_MAX", 0.3)
        yield


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    bench = Bench.make()
    made = Watched(bench)
    yield made
    await made.collector.close()
    await bench.close()


async def test_a_node_without_an_agent_is_down_with_the_reason(watched: Watched) -> None:
    seen = await watched.until(lambda node: node.contact is Contact.AGENT_DOWN)
    assert "does not answer" in seen.problem
    with pytest.raises(Unreachable):
        watched.collector.link(NODE)


async def test_an_agent_that_was_started_is_seen_at_once_when_it_is_looked_for(watched: Watched) -> None:
    await watched.until(lambda node: node.contact is Contact.AGENT_DOWN)
    await watched.bench.node().start_agent()
    await watched.collector.reach(NODE)
    seen = watched.seen()
    assert seen.contact is Contact.REACHED
    assert seen.link == 1
    model = seen.model("tiny")
    assert model is not None
    assert not model.present


async def test_the_end_of_a_rank_is_seen_without_asking(watched: Watched) -> None:
    link = await watched.bench.agent()
    await watched.until(lambda node: node.report is not None)
    await watched.bench.start(link, "sys.exit(3)")
    seen = await watched.until(lambda node: node.report and any(rank.exit for rank in node.report.ranks))
    assert seen.report is not None
    (rank,) = seen.report.ranks
    assert rank.id == RANK
    assert rank.exit is not None
    assert rank.exit.code == 3


async def test_a_lost_agent_leaves_its_last_report_and_its_successor_has_a_new_link(watched: Watched) -> None:
    await watched.bench.agent()
    before = await watched.until(lambda node: node.contact is Contact.REACHED)
    await watched.bench.kill_agent()
    lost = await watched.until(lambda node: node.contact is Contact.AGENT_DOWN)
    assert lost.report == before.report
    await watched.bench.node().start_agent()
    again = await watched.until(lambda node: node.contact is Contact.REACHED)
    assert again.link == before.link + 1
    assert again.report is not None
    assert lost.report is not None
    assert again.report.agent_id != lost.report.agent_id


async def test_an_agent_that_stands_still_is_down_where_its_machine_answers(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.collector.resync_seconds = 0.1
    await watched.bench.agent()
    before = await watched.until(lambda node: node.contact is Contact.REACHED)
    with standing_still(watched.bench.agent_pid()), impatient(monkeypatch):
        hung = await watched.until(lambda node: node.contact is Contact.AGENT_DOWN)
    assert hung.report is not None
    assert "its agent gives no answer, and the machine does: no answer to observe" in hung.problem
    assert not hung.silent, "its ranks go on"
    again = await watched.until(lambda node: node.contact is Contact.REACHED)
    assert again.link > before.link


async def test_an_agent_that_stands_still_is_unreachable_and_not_down_where_nothing_answers(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.machines.put(answers=no_answer)
    watched.collector.resync_seconds = 0.1
    await watched.bench.agent()
    before = await watched.until(lambda node: node.contact is Contact.REACHED)
    with standing_still(watched.bench.agent_pid()), impatient(monkeypatch):
        silent = await watched.until(lambda node: node.contact is Contact.UNREACHABLE)
    assert silent.report is not None
    assert "no answer to observe" in silent.problem
    again = await watched.until(lambda node: node.contact is Contact.REACHED)
    assert again.link > before.link
    assert not again.silent
    os.kill(watched.bench.agent_pid(), signal.SIGSTOP)
    with impatient(monkeypatch):
        silent = await watched.until(lambda node: node.contact is Contact.UNREACHABLE)
    await watched.bench.kill_agent()
    down = await watched.until(lambda node: node.contact is Contact.AGENT_DOWN)
    assert down.since == silent.since, "it was lost once"
    assert down.silent, "what it reported before may be gone"


async def test_a_path_that_cannot_be_looked_at_is_a_fault_of_the_model_alone(watched: Watched) -> None:
    await watched.bench.agent()
    watched.collector.watch(frozenset({NODE}), ("x" * 5000, "tiny"))
    seen = await watched.until(lambda node: node.model("x" * 5000))
    found = seen.model("x" * 5000)
    assert found is not None
    assert not found.present
    assert "too long" in found.problem
    assert seen.model("tiny") is not None


async def test_a_node_watched_again_has_a_newer_link_than_ever(watched: Watched) -> None:
    await watched.bench.agent()
    before = await watched.until(lambda node: node.contact is Contact.REACHED)
    watched.collector.watch(frozenset(), ())
    watched.collector.watch(frozenset({NODE}), ())
    again = await watched.until(lambda node: node.contact is Contact.REACHED)
    assert again.link > before.link


async def test_a_watcher_that_fails_is_reported_and_replaced() -> None:
    calls = 0

    async def dial(name: NodeName) -> AgentConnection:
        nonlocal calls
        calls += 1
        raise ValueError("a fault of the product") if calls == 1 else Unreachable("nobody there")

    news = asyncio.Event()
    collector = Collector(LocalMachines(dial=dial), time.time, news.set)
    collector.watch(frozenset({NODE}), ())
    async with asyncio.timeout(WAIT_SECONDS):
        while "nobody there" not in collector.nodes()[NODE].problem:
            news.clear()
            await news.wait()
    await collector.close()


async def test_what_changes_while_a_report_is_on_its_way_is_looked_at_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent whose push overtakes the report that was asked for before it: the report may be of before."""
    monkeypatch.setattr("reconciler.inventory.collector.RESYNC_SECONDS", 3600.0)
    requests = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        writer.write(frames.encode(to_wire(Hello("agent", SPOKEN))))
        await frames.read(reader)
        while (frame := await frames.read(reader)) is not None:
            requests += 1
            pushed = frames.encode(to_wire(Changed(2))) if requests == 1 else b""
            seen = replace(report(requests), cpus=requests)
            writer.write(pushed + frames.encode({**to_wire(seen), "reply": frame["call"]}))
        writer.close()

    async def dial(name: NodeName) -> AgentConnection:
        return await AgentConnection(*await asyncio.open_unix_connection(tmp_path / "agent.sock")).open(
            "controller"
        )

    server = await asyncio.start_unix_server(answer, tmp_path / "agent.sock")
    news = asyncio.Event()
    collector = Collector(LocalMachines(dial=dial), time.time, news.set)
    collector.watch(frozenset({NODE}), ())
    async with asyncio.timeout(WAIT_SECONDS):
        while (seen := collector.nodes()[NODE].report) is None or seen.sequence < 2:
            news.clear()
            await news.wait()
    await collector.close()
    server.close()
    await server.wait_closed()


async def test_a_report_in_which_only_time_has_passed_is_seen_and_a_silence_is_news(tmp_path: Path) -> None:
    """A pass for every look at every node would be most of what a quiet cluster's controller does."""
    rank = RankReport(
        RankId("tiny", 0, 1, 0), "print", "/run/s", 9, 8, "ready", 5, 0, 0, 0, "", 1.0, idle_seconds=3.0
    )
    older, busy = replace(rank, age_seconds=5.0, idle_seconds=8.0), replace(rank, steps=9, demand=2)
    reports = [rank, older, busy, replace(rank, silent_seconds=6.0)]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frames.encode(to_wire(Hello("agent", SPOKEN))))
        await frames.read(reader)
        while (frame := await frames.read(reader)) is not None:
            now = reports.pop(0) if len(reports) > 1 else reports[0]
            writer.write(frames.encode({**to_wire(replace(report(1), ranks=(now,))), "reply": frame["call"]}))
        writer.close()

    async def dial(name: NodeName) -> AgentConnection:
        return await AgentConnection(*await asyncio.open_unix_connection(tmp_path / "agent.sock")).open(
            "controller"
        )

    def see() -> None:
        news.extend((r.report.idle_seconds, r.report.silent_seconds) for r in collector.nodes()[NODE].ranks)
        if news and news[-1][1]:
            silent.set()

    server = await asyncio.start_unix_server(answer, tmp_path / "agent.sock")
    news: list[tuple[float, float]] = []
    silent = asyncio.Event()
    collector = Collector(LocalMachines(dial=dial), time.time, see)
    collector.resync_seconds = 0.01
    collector.watch(frozenset({NODE}), ())
    async with asyncio.timeout(WAIT_SECONDS):
        await silent.wait()
    assert set(news) == {(3.0, 0.0), (3.0, 6.0)}
    await collector.close()
    server.close()
    await server.wait_closed()


async def test_what_somebody_has_asked_for_is_news_even_if_it_is_the_same(watched: Watched) -> None:
    """Whoever has changed something waits for a report that is newer than that."""
    await watched.bench.agent()
    seen = await watched.until(lambda node: node.report and node.report.runtime is not None and node.probed)
    await standing(watched)
    watched.news.clear()
    watched.collector.look(NODE)
    async with asyncio.timeout(WAIT_SECONDS):
        await watched.news.wait()
    assert seen.report is not None


async def test_a_look_that_was_asked_for_is_under_way_until_its_report_is_there(watched: Watched) -> None:
    """Meanwhile whoever waits for it needs no other news; where nobody is connected, none would come."""
    watched.collector.look(NODE)
    assert not watched.collector.looking(NODE)
    await watched.bench.agent()
    await watched.until(lambda node: node.report and node.report.runtime is not None and node.probed)
    await standing(watched)
    before = watched.seen().report
    watched.collector.look(NODE)
    assert watched.collector.looking(NODE)
    async with asyncio.timeout(WAIT_SECONDS):
        while watched.collector.looking(NODE):
            assert watched.seen().report is before
            watched.news.clear()
            await watched.news.wait()
    assert watched.seen().report is not before


async def standing(watched: Watched) -> None:
    """Wait until there was no news for a while."""
    for _ in range(100):
        watched.news.clear()
        await asyncio.sleep(0.05)
        if not watched.news.is_set():
            return
    raise AssertionError("there is always something new")


async def test_a_node_no_longer_watched_is_forgotten(watched: Watched) -> None:
    watched.collector.watch(frozenset(), ())
    assert watched.collector.nodes() == {}


@pytest.mark.parametrize("leaving", [("a",), ("a", "b"), ("b", "c"), ("a", "b", "c")])
async def test_every_node_that_leaves_is_dialled_no_more(leaving: tuple[str, ...]) -> None:
    names = frozenset(map(NodeName, "abc"))
    dialled: set[NodeName] = set()
    all_dialled = asyncio.Event()
    given_up: set[NodeName] = set()

    async def dial(name: NodeName) -> AgentConnection:
        dialled.add(name)
        if dialled == names:
            all_dialled.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.add(name)
        raise AssertionError("nobody sets it")

    collector = Collector(LocalMachines(dial=dial), time.time, lambda: None)
    collector.watch(names, ())
    async with asyncio.timeout(WAIT_SECONDS):
        await all_dialled.wait()
    collector.watch(names.difference(leaving), ())
    for _ in range(10):
        await asyncio.sleep(0)
    assert given_up == set(leaving)
    await collector.close()


@pytest.mark.parametrize(
    ("failure", "probed_in_vain"),
    [(Refused("Malformed", "it runs no tools"), False), (Silent("no answer"), True)],
    ids=["it has said all that it can", "its way here has failed"],
)
async def test_what_probes_tell_is_seen_beside_the_report_and_not_known_when_they_fail(
    failure: Exception, probed_in_vain: bool
) -> None:
    """Without a word from them nothing is begun there: what they had said may have forbidden it."""
    bench = Bench.make()
    answers: list[MachineFacts | Exception] = [MachineFacts(rdma_enabled=True), failure]
    begun, may_answer = asyncio.Event(), asyncio.Event()

    async def dial(name: NodeName) -> AgentConnection:
        return await bench.node().dial()

    async def probe(link: AgentConnection, report: NodeReport, anew: bool) -> MachineFacts:
        await begun.wait()
        if len(answers) == 1:
            await may_answer.wait()
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    news = asyncio.Event()
    collector = Collector(LocalMachines(dial=dial, probe=probe), time.time, news.set)
    collector.probes_seconds = 0.01

    async def until(facts: MachineFacts) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while collector.nodes()[NODE].facts != facts:
                news.clear()
                await news.wait()

    await bench.agent()
    collector.watch(frozenset({NODE}), ())
    async with asyncio.timeout(WAIT_SECONDS):
        while collector.nodes()[NODE].report is None:
            news.clear()
            await news.wait()
    assert not collector.nodes()[
        NODE
    ].probed  # nothing is known yet, which is not the same as nothing to know
    begun.set()
    await until(MachineFacts(rdma_enabled=True))
    assert collector.nodes()[NODE].probed
    assert collector.nodes()[NODE].contact is Contact.REACHED
    may_answer.set()
    await until(MachineFacts())
    assert collector.nodes()[NODE].probed is not probed_in_vain
    await collector.close()
    await bench.close()


async def test_after_a_clock_gap_probes_are_asked_again_before_they_are_believed(watched: Watched) -> None:
    answers = [MachineFacts(rdma_enabled=True), MachineFacts(rdma_enabled=False)]
    probing, answered = asyncio.Event(), asyncio.Event()
    answered.set()

    async def probe(link: AgentConnection, report: NodeReport, anew: bool) -> MachineFacts:
        probing.set()
        await answered.wait()
        return answers.pop(0)

    watched.machines.put(probe=probe)
    watched.collector.probes_seconds = 3600.0
    await watched.bench.agent()
    assert (await watched.until(lambda node: node.probed and node.report)).facts.rdma_enabled is True
    probing.clear()
    answered.clear()
    watched.collector.shift(60.0)
    async with asyncio.timeout(WAIT_SECONDS):
        await probing.wait()
    assert not watched.seen().probed
    answered.set()
    assert (await watched.until(lambda node: node.probed)).facts.rdma_enabled is False


def on_and_off(watched: Watched) -> asyncio.Event:
    """Have its probes say that RDMA is on, and once they are asked again that it is off: when that is set."""
    answers = [MachineFacts(rdma_enabled=True), MachineFacts(rdma_enabled=False)]
    answered = asyncio.Event()
    answered.set()

    async def probe(link: AgentConnection, report: NodeReport, anew: bool) -> MachineFacts:
        await answered.wait()
        return answers.pop(0)

    watched.machines.put(probe=probe)
    watched.collector.probes_seconds = 3600.0
    return answered


async def test_after_a_silence_probes_are_asked_again_before_they_are_believed(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happened to its network meanwhile, nothing was told of it."""
    answered = on_and_off(watched)
    watched.machines.put(answers=no_answer)
    watched.collector.resync_seconds = 0.1
    await watched.bench.agent()
    assert (await watched.until(lambda node: node.examined and node.report)).facts.rdma_enabled is True
    answered.clear()
    with standing_still(watched.bench.agent_pid()), impatient(monkeypatch):
        await watched.until(lambda node: node.contact is Contact.UNREACHABLE)
    again = await watched.until(lambda node: node.contact is Contact.REACHED)
    assert not again.probed
    answered.set()
    assert (await watched.until(lambda node: node.examined)).facts.rdma_enabled is False


async def test_an_agent_that_is_down_after_a_clock_gap_may_have_gone_with_its_machine(
    watched: Watched,
) -> None:
    """Nobody saw whether the machine restarted meanwhile, and its ranks with it."""
    await watched.bench.agent()
    await watched.until(lambda node: node.contact is Contact.REACHED)
    await watched.bench.kill_agent()
    down = await watched.until(lambda node: node.contact is Contact.AGENT_DOWN)
    assert not down.silent, "that was seen: its ranks go on"
    watched.collector.shift(60.0)
    await watched.until(lambda node: node.silent)
    assert watched.collector.tried
    await watched.bench.node().start_agent()
    again = await watched.until(lambda node: node.contact is Contact.REACHED)
    assert not again.silent


async def test_when_a_rank_has_failed_probes_are_asked_again_for_they_may_explain_it(
    watched: Watched,
) -> None:
    answered = on_and_off(watched)
    link = await watched.bench.agent()
    assert (await watched.until(lambda node: node.examined and node.report)).facts.rdma_enabled is True
    answered.clear()
    await watched.bench.start(link, "sys.exit(3)")
    seen = await watched.until(lambda node: any(not rank.alive for rank in node.ranks))
    assert (seen.probed, seen.examined) == (True, False)
    answered.set()
    assert (await watched.until(lambda node: node.examined)).facts.rdma_enabled is False
    await watched.bench.start(link, "sys.exit(0)", RankId("llama", 0, 2, 0))
    seen = await watched.until(lambda node: sum(not rank.alive for rank in node.ranks) == 2)
    assert seen.examined, "one that ended in order has not failed"


class Joined:
    """Two nodes under watch, which are one machine; what is told of each is in ``facts``."""

    def __init__(self, bench: Bench) -> None:
        self.facts: dict[NodeName, MachineFacts] = {}
        self.reports: list[NodeReport] = []
        self._bench = bench
        self.passes = 0
        self.news = asyncio.Event()
        self.machines = LocalMachines(dial=self._dial, probe=self._probe, answers=no_answer)
        self.collector = Collector(self.machines, time.time, self._changed)
        self.collector.probes_seconds = 0.01
        self._names: dict[AgentConnection, NodeName] = {}
        self.links: list[AgentConnection] = []

    async def _dial(self, name: NodeName) -> AgentConnection:
        link = await self._bench.node().dial()
        self._names[link] = name
        self.links.append(link)
        return link

    async def _probe(self, link: AgentConnection, report: NodeReport, anew: bool) -> MachineFacts:
        self.reports.append(report)
        return self.facts.get(self._names[link], MachineFacts())

    def _changed(self) -> None:
        self.passes += 1
        self.news.set()

    async def until(self, true: Callable[[], object]) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not true():
                self.news.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.news.wait(), 0.05)


@pytest.fixture
async def pair() -> AsyncIterator[Joined]:
    bench = Bench.make()
    made = Joined(bench)
    await bench.agent()
    yield made
    await made.collector.close()
    await bench.close()


async def test_where_a_cable_leads_is_known_when_both_machines_have_told_of_it(pair: Joined) -> None:
    here, there = NodeName("here"), NodeName("there")
    pair.facts[here] = MachineFacts(ports=(PortFacts(3, domain="A", peer_domain="B"),))
    pair.collector.watch(frozenset({here, there}), ())
    nodes = pair.collector.nodes
    await pair.until(lambda: nodes()[here].facts.ports)
    assert nodes()[here].facts.ports[0].peer is None
    pair.facts[there] = MachineFacts(ports=(PortFacts(4, domain="B", peer_domain="A"),))
    await pair.until(lambda: nodes()[here].facts.ports[0].peer == (there, 4))
    assert nodes()[there].facts.ports[0].peer == (here, 3)
    pair.facts[there] = MachineFacts(ports=(PortFacts(4, domain="B"),))
    await pair.until(lambda: nodes()[here].facts.ports[0].peer is None)


async def test_a_connection_that_is_made_again_loses_nothing_and_one_that_cannot_be_does(
    pair: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, contacts = NodeName("here"), set[tuple[Contact, str]]()
    pair.facts[name] = MachineFacts(model="Mac16,9")
    pair.collector.watch(frozenset({name}), ())
    seen = pair.collector.nodes
    await pair.until(lambda: seen()[name].facts.model and seen()[name].examined)
    before = seen()[name]
    gone: list[NodeName] = []

    async def reconnect(name: NodeName) -> None:
        gone.append(name)
        await pair.links[-1].close()

    noted = pair.collector._changed

    def note() -> None:
        contacts.add((seen()[name].contact, seen()[name].facts.model))
        noted()

    monkeypatch.setattr(pair.collector, "_changed", note)
    pair.machines.put(reconnect=reconnect)
    monkeypatch.setattr(collector, "RENEWED_SECONDS", WAIT_SECONDS)
    await pair.collector.renew(name)
    await pair.collector.reach(name)
    await pair.until(lambda: seen()[name].link > before.link and seen()[name].examined)
    assert (gone, contacts, seen()[name].since) == ([name], {(Contact.REACHED, "Mac16,9")}, before.since)

    monkeypatch.setattr(collector, "RENEWED_SECONDS", 0.1)
    pair.machines.put(dial=_never)
    await pair.collector.renew(name)
    await pair.until(lambda: seen()[name].contact is Contact.AGENT_DOWN)
    assert seen()[name].problem == "it does not answer over a new connection"

    monkeypatch.setattr(collector, "REACH_SECONDS_MAX", 100 * WAIT_SECONDS)
    with pytest.raises(Unreachable, match="the agent of here does not answer"):
        async with asyncio.timeout(WAIT_SECONDS):  # an agent that is down has to be started before it is seen
            await pair.collector.reach(name, starts=False)


async def test_a_connection_that_is_made_again_twice_has_all_the_time_for_it_each_time(
    pair: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two repairs of one machine, one soon after the other: what was left of the first one's time is over."""
    name, loop = NodeName("here"), asyncio.get_running_loop()
    timers: list[tuple[asyncio.TimerHandle, Callable[[], object]]] = []
    call_later = loop.call_later

    def noted(delay: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        timer = call_later(delay, callback, *args)
        if delay == collector.RENEWED_SECONDS:
            timers.append((timer, lambda: callback(*args)))
        return timer

    monkeypatch.setattr(collector, "RENEWED_SECONDS", 10 * WAIT_SECONDS)
    monkeypatch.setattr(loop, "call_later", noted)
    pair.collector.watch(frozenset({name}), ())
    seen = pair.collector.nodes
    await pair.until(lambda: seen()[name].report)
    await pair.collector.renew(name)
    await pair.collector.reach(name)
    pair.machines.put(dial=_never)
    await pair.collector.renew(name)

    (first, over), (second, over_too) = timers
    if not first.cancelled():
        over()
    assert seen()[name].contact is Contact.REACHED
    assert not second.cancelled()
    over_too()
    assert seen()[name].contact is Contact.AGENT_DOWN


async def test_a_machine_that_falls_silent_before_its_connection_is_ended_from_here_is_lost(
    pair: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = NodeName("here")
    pair.collector.watch(frozenset({name}), ())
    seen = pair.collector.nodes
    await pair.until(lambda: seen()[name].report)
    pair.machines.put(dial=_never)

    async def silenced(name: NodeName) -> None:
        os.kill(pair._bench.agent_pid(), signal.SIGSTOP)
        pair.collector.look(name)
        with impatient(monkeypatch):
            await pair.until(lambda: seen()[name].contact is Contact.UNREACHABLE)

    pair.machines.put(reconnect=silenced)
    await pair.collector.renew(name)
    assert seen()[name].silent, "what it reported before may be gone"
    os.kill(pair._bench.agent_pid(), signal.SIGCONT)


@pytest.mark.parametrize("silent", [True, False], ids=["lost", "reached-again"])
async def test_whoever_waits_for_the_probes_of_a_machine_waits_no_longer_than_it_is_reached(
    pair: Joined, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    """The connection ends while they are asked: for good, or for another one that they are asked over."""
    monkeypatch.setattr(collector, "EXAMINE_SECONDS_MAX", 10 * WAIT_SECONDS)
    name, probing = NodeName("here"), asyncio.Event()
    pair.collector.watch(frozenset({name}), ())
    seen = pair.collector.nodes
    await pair.until(lambda: seen()[name].report and seen()[name].examined)
    probe, first = pair._probe, pair.links[-1]

    async def cut_off(link: AgentConnection, report: NodeReport, anew: bool) -> MachineFacts:
        probing.set()
        if link is first:
            await asyncio.Event().wait()
        return await probe(link, report, anew)

    pair.machines.put(probe=cut_off)
    examining = asyncio.create_task(pair.collector.examine(name))
    await probing.wait()
    if silent:
        os.kill(pair._bench.agent_pid(), signal.SIGSTOP)
        monkeypatch.setattr(collector, "OBSERVE_SECONDS_MAX", 0.3)
        pair.collector.look(name)
    else:
        await pair.collector.renew(name)
    async with asyncio.timeout(WAIT_SECONDS):
        assert await examining is not silent
    assert (seen()[name].contact is Contact.UNREACHABLE) is silent
    os.kill(pair._bench.agent_pid(), signal.SIGCONT)


async def _never(name: NodeName) -> AgentConnection:
    await asyncio.Event().wait()
    raise AssertionError


async def test_what_changes_all_the_time_is_kept_and_no_news(pair: Joined) -> None:
    name = NodeName("here")
    pair.facts[name] = MachineFacts(model="Mac16,9", gpu_watts=1.0)
    pair.collector.watch(frozenset({name}), ())
    seen = pair.collector.nodes
    await pair.until(
        lambda: (at := seen()[name].report) and at.runtime is not None and seen()[name].facts.model
    )
    passes = pair.passes
    pair.facts[name] = MachineFacts(model="Mac16,9", gpu_watts=80.0)
    await pair.until(lambda: seen()[name].facts.gpu_watts == 80.0)
    assert pair.passes == passes


async def test_probes_are_given_the_newest_report(pair: Joined) -> None:
    name = NodeName("here")
    pair.collector.resync_seconds = 0.01
    pair.collector.watch(frozenset({name}), ())
    await pair.until(lambda: pair.reports)
    link = await pair._bench.controller()
    await pair._bench.start(link, "say('ready'); sleep()")
    await pair.until(lambda: pair.reports[-1].ranks)


async def test_what_probes_tell_is_known_also_where_one_rank_after_the_other_fails(watched: Watched) -> None:
    answers: asyncio.Queue[MachineFacts] = asyncio.Queue()

    async def probe(link: AgentConnection, report: NodeReport, anew: bool) -> MachineFacts:
        return await answers.get()

    watched.machines.put(probe=probe)
    watched.collector.probes_seconds = 3600.0
    link = await watched.bench.agent()
    answers.put_nowait(MachineFacts(rdma_enabled=True))
    await watched.until(lambda node: node.examined and node.report)
    await watched.bench.start(link, "sys.exit(3)")
    await watched.until(lambda node: len([rank for rank in node.ranks if not rank.alive]) == 1)
    await watched.bench.start(link, "sys.exit(3)", RankId("llama", 0, 2, 0))
    await watched.until(lambda node: len([rank for rank in node.ranks if not rank.alive]) == 2)
    answers.put_nowait(MachineFacts(rdma_enabled=False))
    assert not (await watched.until(lambda node: node.facts.rdma_enabled is False)).examined
    answers.put_nowait(MachineFacts(rdma_enabled=False))
    await watched.until(lambda node: node.examined)


async def test_the_probes_of_a_machine_can_be_asked_for_and_waited_for() -> None:
    bench = Bench.make()
    requests: list[bool] = []
    expired: list[str] = []

    async def dial(name: NodeName) -> AgentConnection:
        return await bench.node().dial()

    async def probe(link: AgentConnection, report: NodeReport, anew: bool) -> MachineFacts:
        requests.append(anew)
        return MachineFacts(panics=len(requests))

    news = asyncio.Event()
    machines = LocalMachines(
        dial=dial, probe=probe, expire_probes=lambda report: expired.append(report.boot_id)
    )
    collector = Collector(machines, time.time, news.set)
    assert not await collector.examine(NODE)
    await bench.agent()
    collector.watch(frozenset({NODE}), ())
    async with asyncio.timeout(WAIT_SECONDS):
        while collector.nodes()[NODE].facts.panics is None:
            news.clear()
            await news.wait()
        before = len(requests)
        assert await collector.examine(NODE)
    assert (len(expired), requests[before:]) == (1, [True])
    assert collector.nodes()[NODE].facts.panics == len(requests)
    await collector.close()
    await bench.close()
