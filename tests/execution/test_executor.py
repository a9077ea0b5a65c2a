"""Steps against a real agent and a real store: done, repeated, refused, failed."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import Deposed, Silent, Unreachable, Unwritable
from reconciler.execution import Executor, Tools
from reconciler.execution.executor import BEGUN_MAX
from reconciler.inventory import Collector
from reconciler.resources import LOCAL
from reconciler.state import (
    AllocateEpoch,
    Cause,
    Contact,
    DeploymentName,
    EmptyNode,
    ForgetAgent,
    ForgetRank,
    GroupRecord,
    NodeName,
    Outcome,
    ProveGroup,
    Reboot,
    RebootNode,
    ReplicaId,
    StartAgent,
    StartRank,
    Step,
    StopAgent,
    StopRank,
)
from reconciler.store import Store
from reconciler.wire.node import NodeReport, Observe, RankReport
from tests.agent.bench import RANK, WAIT_SECONDS, Bench, program
from tests.machines import LocalMachines
from tests.processes import standing_still

NODE = NodeName("bench")
REPLICA = ReplicaId(DeploymentName("llama"), 0)
GROUP = GroupRecord(REPLICA, 1, (NODE,), 21000, "secret", "wish", 1.0)


class Bed:
    """An executor with everything that it acts on."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench.make()
        self.store = Store(folder / "store.db")
        self.outcomes: asyncio.Queue[Outcome] = asyncio.Queue()
        self.deposed: asyncio.Queue[Deposed] = asyncio.Queue()
        self.machines = LocalMachines(lambda name: self.bench.node())
        self.collector = Collector(self.machines, time.time, lambda: None, lambda name: self.store.token)
        self.collector.watch(frozenset({NODE}), ())
        self.tools = Tools(self.store, self.collector, self.machines, time.time)
        self.executor = Executor(self.tools, self.outcomes.put_nowait, self.deposed.put_nowait)

    async def do(self, *steps: Step) -> list[Outcome]:
        self.executor.launch(steps)
        assert self.executor.in_flight == {step.subject for step in steps}
        async with asyncio.timeout(WAIT_SECONDS):
            done = [await self.outcomes.get() for _ in steps]
        assert self.executor.in_flight == frozenset()
        return done

    async def collected(self, true: Callable[[NodeReport], Any]) -> NodeReport:
        """The newest report of the node, once it is as expected."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                report = self.collector.nodes()[NODE].report
                if report is not None and true(report):
                    return report
                await asyncio.sleep(0.05)

    async def rank(self, true: Callable[[RankReport], bool]) -> RankReport:
        """The one rank of the node, once it is as expected."""
        found = await self.collected(lambda report: report.ranks and true(report.ranks[0]))
        return found.ranks[0]

    def start_rank(self, body: str) -> StartRank:
        return StartRank(REPLICA, NODE, self.bench.spec(program(body)))

    async def close(self) -> None:
        await self.executor.close()
        await self.collector.close()
        await self.bench.close()
        self.store.close()


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[Bed]:
    made = Bed(tmp_path)
    yield made
    await made.close()


async def test_of_many_steps_a_few_begin_at_a_time_and_all_are_in_flight(bed: Bed) -> None:
    """Each writes to the store: nothing else would be done until all have begun."""
    names = [NodeName(f"node-{number:02}") for number in range(3 * BEGUN_MAX)]
    for name in names:
        bed.store.keep_agent(name)
    bed.executor.launch(tuple(ForgetAgent(name) for name in names))
    left = []
    while bed.executor.in_flight:
        left.append(len(bed.executor.in_flight))
        await asyncio.sleep(0)
    assert left[0] == len(names)
    assert max(before - after for before, after in itertools.pairwise(left)) <= BEGUN_MAX
    assert bed.store.agents.all() == {}


async def test_after_a_takeover_no_step_begins_that_waits_its_turn(bed: Bed) -> None:
    names = [NodeName(f"node-{number:02}") for number in range(3 * BEGUN_MAX)]
    for name in names:
        bed.store.keep_agent(name)
    bed.executor.launch(tuple(ForgetAgent(name) for name in names))
    bed.executor.abandon()
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(bed.store.agents.all()) == len(names)


async def test_the_life_of_a_rank_step_by_step(bed: Bed) -> None:
    steps: list[Step] = [
        StartAgent(NODE),
        AllocateEpoch(REPLICA, GROUP, Cause.NEW_REPLICA, "new"),
        bed.start_rank("say('ready'); sleep()"),
    ]
    for step in steps[:2]:
        (outcome,) = await bed.do(step)
        assert outcome.problem == ""
    unchanged = await bed.collected(lambda report: report.runtime is not None)
    (outcome,) = await bed.do(steps[2])
    assert outcome.problem == ""
    assert bed.store.groups() == {REPLICA: GROUP}
    write = bed.tools.volatile.writes[NODE]
    assert write.link == 1
    shown = await bed.collected(lambda report: report.ranks)
    assert shown.sequence >= write.sequence > unchanged.sequence
    (again,) = await bed.do(steps[2])  # as after a crash right behind the step
    assert again.done
    assert bed.tools.volatile.writes[NODE].sequence >= write.sequence

    (stopped,) = await bed.do(StopRank(REPLICA, NODE, RANK, 1.0, "test"))
    assert stopped.done
    assert bed.tools.volatile.stops[RANK].gone_by > time.time()
    await bed.do(StopRank(REPLICA, NODE, other := replace(RANK, rank=1), 1.0, "test"))
    assert set(bed.tools.volatile.stops) == {RANK, other}
    await bed.do(StopRank(REPLICA, NODE, other, 3600.0, "a request with a long grace makes no other one old"))
    assert set(bed.tools.volatile.stops) == {RANK, other}
    await bed.rank(lambda rank: rank.exit is not None)
    (forgotten,) = await bed.do(ForgetRank(REPLICA, NODE, RANK))
    assert forgotten.done
    assert set(bed.tools.volatile.stops) == {other}
    await bed.collected(lambda report: not report.ranks)
    assert bed.store.agents.all() == {NODE: LOCAL}
    assert [outcome.problem for outcome in await bed.do(StopAgent(NODE))] == [""]
    assert bed.collector.nodes()[NODE].contact is Contact.AGENT_DOWN
    assert bed.store.agents.all() == {}


async def test_an_agent_that_ends_before_it_answers_has_ended(bed: Bed) -> None:
    """Of an ending agent the last words may be lost: what counts is that it is gone."""
    await bed.do(StartAgent(NODE))
    agent = bed.bench.agent_pid()
    with standing_still(agent):
        bed.executor.launch((StopAgent(NODE),))
        await asyncio.sleep(0.1)  # it is asked by then
        os.kill(agent, signal.SIGKILL)
    async with asyncio.timeout(WAIT_SECONDS):
        outcome = await bed.outcomes.get()
    assert outcome.problem == ""
    assert bed.store.agents.all() == {}


async def test_an_agent_that_cannot_be_asked_to_end_is_not_forgotten_by_that(bed: Bed) -> None:
    bed.store.keep_agent(NODE)
    assert [outcome.problem for outcome in await bed.do(StopAgent(NODE))] == [
        "no connection to the agent of bench"
    ]
    assert bed.store.agents.all() == {NODE: LOCAL}
    assert [outcome.problem for outcome in await bed.do(ForgetAgent(NODE))] == [""]
    assert bed.store.agents.all() == {}


async def test_a_step_that_fails_says_why_and_may_be_tried_again_later(bed: Bed) -> None:
    step = bed.start_rank("sleep()")
    for attempt in (1, 2):
        (outcome,) = await bed.do(step)
        assert outcome.problem == "no connection to the agent of bench"
        failure = bed.executor.volatile.failures[step.key]
        assert failure.attempts == attempt
        assert failure.retry_at > time.time()
    await bed.do(StartAgent(NODE))
    (outcome,) = await bed.do(step)
    assert outcome.done
    assert step.key not in bed.executor.volatile.failures


async def test_a_step_that_succeeds_forgives_itself_alone_and_each_counts_its_own_failures(bed: Bed) -> None:
    steps = (
        bed.start_rank("sleep()"),
        StopRank(ReplicaId(DeploymentName("other"), 0), NODE, RANK, 1.0, "late"),
    )
    for attempt in (1, 2):
        for step in steps:
            await bed.do(step)
        found = bed.executor.volatile.failures
        assert {key: failure.attempts for key, failure in found.items()} == {s.key: attempt for s in steps}
    await bed.do(StartAgent(NODE))
    assert bed.executor.volatile.failures == found
    await bed.do(steps[0])
    assert set(bed.executor.volatile.failures) == {steps[1].key}


async def test_a_controller_that_a_node_refuses_is_told_that_it_is_deposed(bed: Bed) -> None:
    await bed.do(StartAgent(NODE))
    await bed.do(bed.start_rank("sleep()"))
    newer, _ = bed.collector.link(NODE)
    await newer.request(Observe(token=7), timeout=WAIT_SECONDS)
    bed.executor.launch((StopRank(REPLICA, NODE, RANK, 1.0, "deposed"),))
    async with asyncio.timeout(WAIT_SECONDS):
        error = await bed.deposed.get()
    assert "a node obeys another controller: token 1 is older than 7" in str(error)
    assert bed.outcomes.empty()
    assert (await bed.rank(lambda rank: rank.pid is not None)).exit is None


async def test_a_controller_whose_store_was_taken_over_begins_nothing(bed: Bed, tmp_path: Path) -> None:
    newer = Store(tmp_path / "store.db")
    bed.executor.launch((StartAgent(NODE),))
    async with asyncio.timeout(WAIT_SECONDS):
        await bed.deposed.get()
    assert newer.agents.all() == {}
    assert not (bed.bench.directory / "agent.lock").exists()
    newer.close()


async def test_an_agent_is_replaced_when_its_successor_is_there_and_ranks_go_on(bed: Bed) -> None:
    staged = []

    async def stage(name: NodeName, token: int) -> None:
        staged.append(bed.bench.agent_pid())

    bed.machines.put(stage=stage)
    await bed.do(StartAgent(NODE))
    await bed.do(bed.start_rank("sleep()"))
    pid, rank = bed.bench.agent_pid(), await bed.rank(lambda rank: rank.pid is not None)
    (outcome,) = await bed.do(StartAgent(NODE, replaces="an older one"))
    assert outcome.done
    assert staged == [pid], "the old one runs until then"
    assert bed.bench.agent_pid() != pid
    assert (await bed.rank(lambda rank: rank.pid is not None)).pid == rank.pid


async def test_an_agent_whose_successor_cannot_be_put_there_goes_on(bed: Bed) -> None:
    async def stage(name: NodeName, token: int) -> None:
        raise Unreachable("no space left on device")

    bed.machines.put(stage=stage)
    await bed.do(StartAgent(NODE))
    pid = bed.bench.agent_pid()
    (outcome,) = await bed.do(StartAgent(NODE, replaces="an older one"))
    assert outcome.problem == "no space left on device"
    assert bed.bench.agent_pid() == pid


async def test_what_is_given_up_is_neither_finished_nor_followed_by_more(bed: Bed) -> None:
    await bed.do(StartAgent(NODE))
    bed.executor.launch((bed.start_rank("sleep()"),))
    bed.executor.abandon()
    more = StartAgent(NodeName("another"))
    bed.executor.launch((more,))
    assert more.subject not in bed.executor.in_flight
    await bed.executor.close()
    assert bed.executor.in_flight == frozenset()
    assert bed.outcomes.empty()
    assert bed.store.agents.all() == {NODE: LOCAL}


async def test_what_a_look_with_the_next_token_shows_no_late_request_changes(bed: Bed) -> None:
    await bed.do(StartAgent(NODE))
    with standing_still(bed.bench.agent_pid()):
        link, _ = bed.collector.link(NODE)
        starting = asyncio.create_task(bed.do(bed.start_rank("sleep()")))
        await asyncio.sleep(0.1)
        await link.close()  # as when the line is cut: nobody knows what becomes of the request
        (outcome,) = await starting
        assert not outcome.done
    first = await bed.collected(lambda report: report.asked_with == bed.store.token)
    await asyncio.sleep(0.5)
    bed.collector.look(NODE)
    later = await bed.collected(lambda report: report.sequence >= first.sequence)
    assert [rank.id for rank in later.ranks] == [rank.id for rank in first.ranks]


async def test_an_epoch_that_is_not_new_is_not_allocated(bed: Bed) -> None:
    step = AllocateEpoch(REPLICA, GROUP, Cause.NEW_REPLICA, "new")
    assert [o.done for o in await bed.do(step)] == [True]
    (outcome,) = await bed.do(step)
    assert "epoch 1 is not above 1" in outcome.problem


async def test_a_group_that_does_not_answer_is_not_proven(bed: Bed) -> None:
    await bed.do(AllocateEpoch(REPLICA, GROUP, Cause.NEW_REPLICA, "new"))
    (outcome,) = await bed.do(ProveGroup(REPLICA, 1, NODE, str(bed.bench.home / "nobody.sock")))
    assert "nothing answers at" in outcome.problem
    assert bed.store.groups()[REPLICA].proven_at is None


async def test_a_step_that_breaks_off_unexpectedly_has_failed(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def allocate(*_: object) -> None:
        raise ZeroDivisionError("a fault of the product")

    monkeypatch.setattr(bed.store, "allocate", allocate)
    (outcome,) = await bed.do(AllocateEpoch(REPLICA, GROUP, Cause.NEW_REPLICA, "new"))
    assert outcome.problem == "internal error: ZeroDivisionError('a fault of the product')"
    assert "step failed unexpectedly" in caplog.text


async def test_an_agent_is_not_ended_before_the_gateway_s_key_is_taken_back(bed: Bed) -> None:
    refusals = ["no room"]

    async def withdraw(name: NodeName) -> None:
        if refusals:
            raise Unreachable(refusals.pop())

    await bed.do(StartAgent(NODE))
    bed.machines.put(withdraw=withdraw)
    assert [outcome.problem for outcome in await bed.do(StopAgent(NODE))] == ["no room"]
    assert bed.collector.link(NODE)
    assert [outcome.problem for outcome in await bed.do(StopAgent(NODE))] == [""]
    with pytest.raises(Unreachable):
        bed.collector.link(NODE)


async def test_an_agent_that_is_gone_is_forgotten_whether_the_key_can_be_taken_back_or_not(bed: Bed) -> None:
    async def withdraw(name: NodeName) -> None:
        raise Silent("no answer")

    bed.machines.put(withdraw=withdraw)
    assert [outcome.problem for outcome in await bed.do(ForgetAgent(NODE))] == [""]


async def test_what_could_only_not_be_written_down_says_nothing_against_what_it_was_about(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = AllocateEpoch(REPLICA, GROUP, Cause.NEW_REPLICA, "new")

    def allocate(*_: object) -> None:
        raise Unwritable("the disk is full")

    with monkeypatch.context() as full:
        full.setattr(bed.store, "allocate", allocate)
        await bed.do(step)
        await bed.do(step)
    failure = bed.executor.volatile.failures[step.key]
    assert (failure.attempts, failure.counted) == (2, 0)
    await bed.do(step)
    await bed.do(step)  # once more the same epoch
    failure = bed.executor.volatile.failures[step.key]
    assert (failure.attempts, failure.counted) == (1, 1)


def restart_of(name: NodeName) -> RebootNode:
    return RebootNode(name, Reboot(5.0, "boot", "C7: 5 protection domains are held"))


async def test_the_controllers_own_machine_is_not_restarted_and_nothing_is_noted(bed: Bed) -> None:
    (outcome,) = await bed.do(restart_of(NODE))
    assert outcome.problem == (
        "bench is the controller's own machine, which it does not restart: restart it yourself"
    )
    assert bed.store.reboots.all() == {}


async def test_a_restart_is_noted_before_it_is_done_whatever_becomes_of_it(bed: Bed) -> None:
    noted = []

    async def reboot(name: NodeName) -> None:
        noted.append(bed.store.reboots.all())
        raise Unreachable("the connection was cut")

    bed.machines.put(reboot=reboot)
    step = restart_of(NODE)
    (outcome,) = await bed.do(step)
    assert noted == [{NODE: step.reboot}]
    assert outcome.problem == "the connection was cut"
    assert bed.store.reboots.all() == {NODE: step.reboot}


async def test_a_restart_that_somebody_wants_and_that_is_refused_may_begin_again(bed: Bed) -> None:
    """The machine stays empty for it."""
    step = RebootNode(NODE, Reboot(5.0, "boot", "somebody asked for it"), on_request=True)
    await bed.do(EmptyNode(NODE, Reboot(1.0, "boot", "somebody asked for it", requested=False)))
    assert bed.store.reboots.all() == {NODE: Reboot(1.0, "boot", "somebody asked for it", requested=False)}
    (outcome,) = await bed.do(step)
    assert "restart it yourself" in outcome.problem
    assert bed.store.reboots.all() == {NODE: Reboot(5.0, "boot", "somebody asked for it", requested=False)}
