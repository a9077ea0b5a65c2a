"""Stories of jobs beside deployments, and random schedules of them. They have names of their own, so that what other
seeds mean stays as it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from reconciler.resources import Job, Manifest, ModelDeployment, Node
from reconciler.state import JobName, RunId
from reconciler.state.identity import workload_name
from reconciler.wire.launch import Phase
from tests.simulation.world.programs import Program
from tests.simulation.world.ranks import Rank
from tests.simulation.world.world import World
from tests.worlds import deployment, gateway, job, model, worker

from .acts import (
    Act,
    back,
    back_up,
    begin_again,
    commit,
    cut_off,
    kill_controller,
    lose_store,
    nothing,
    power_off,
    power_on,
    restore_backup,
    stop_everything,
)
from .fuzz import GOOD_CLIENTS, KINDS, POINT_FAULTS, Drawn, Schedule
from .scenarios import GIB, PAIR, THREE, Scenario, big, small

WORLD_FAULTS_MAX = 5
ENDS = (0, 0, 0, 1, 3, -9, -11, -6)
"""What programs end with, in random schedules."""


def workers(*wanted: Manifest, nodes: Sequence[str] = THREE, **drained: bool) -> tuple[Manifest, ...]:
    """Manifests of a cluster whose nodes run jobs."""
    machines = [worker(name, drain=drained.get(name, False)) for name in nodes]
    return (*machines, model(), *wanted, gateway())


def train(**spec: Any) -> Job:
    return job("train", **{"nodes": 2, **spec})


_BUSY = small(1)
_PREEMPTIBLE = big(preemptible=True)
_TAKING = {"priority": 10, "preempt": True}
EVERY_MINUTE = {"schedule": "* * * * *", "startingDeadline": "60s"}
IN_NEW_YORK = {"schedule": "30 1 * * *", "timeZone": "America/New_York", "startingDeadline": "10m"}
BEFORE_CLOCKS_CHANGE = 1_699_162_180.0
"""2023-11-05 01:29:40 in New York, half an hour before clocks are set back by an hour."""

_three = partial(Scenario, names=THREE)
_pair = partial(Scenario, names=PAIR)

_SCENARIOS = (
    _three("job", workers(_BUSY, train()), ((20, nothing),)),
    _three(
        "job-retries",
        workers(_BUSY, train(backoffLimit=4)),
        ((60, nothing),),
        programs={"train": Program(3.0, (1, -11, 0))},
    ),
    _three(
        "job-fails",
        workers(
            _BUSY,
            train(backoffLimit=1, memory="1GiB"),
            job("bench", nodes=1, memory="1GiB", failOnExitCodes=[64]),
        ),
        ((30, nothing),),
        programs={"train": Program(3.0, (1,)), "bench": Program(2.0, (64,))},
    ),
    _three(
        "job-deadline",
        workers(_BUSY, train(activeDeadline="20s", gracePeriod="3s")),
        ((40, nothing),),
        programs={"train": Program(100_000.0, stubborn=True)},
    ),
    _three(
        "job-cancelled",
        workers(_BUSY, train()),
        (
            (6, commit(*workers(_BUSY, train(cancelledRun=1)))),
            (16, commit(*workers(_BUSY, train(cancelledRun=1, restartedAt="now")))),
        ),
        programs={"train": Program(30.0)},
    ),
    _three(
        "job-suspended",
        workers(_BUSY, train()),
        (
            (6, commit(*workers(_BUSY, train(suspend=True)))),
            (16, commit(*workers(_BUSY, train()))),
        ),
        programs={"train": Program(12.0)},
    ),
    _three(
        "job-changed",
        workers(_BUSY, train()),
        (
            (6, commit(*workers(_BUSY, train(env={"SIZE": "2"})))),
            (18, commit(*workers(_BUSY, train()))),
            (30, commit(*workers(_BUSY, train(env={"SIZE": "3"})))),
        ),
        programs={"train": Program(9.0)},
    ),
    _three(
        "job-deleted",
        workers(_BUSY, train()),
        ((6, commit(*workers(_BUSY))), (16, commit(*workers(_BUSY, train())))),
        programs={"train": Program(10.0)},
    ),
    _three(
        "job-scheduled",
        workers(_BUSY, train(**EVERY_MINUTE)),
        ((200, commit(*workers(_BUSY, train(**EVERY_MINUTE, suspend=True)))),),
        programs={"train": Program(20.0, (0,))},
    ),
    _three(
        "job-replaced",
        workers(_BUSY, train(**EVERY_MINUTE, concurrencyPolicy="Replace")),
        ((190, commit(*workers(_BUSY, train(**EVERY_MINUTE, suspend=True)))), (200, commit(*workers(_BUSY)))),
        programs={"train": Program(80.0, stubborn=True)},
    ),
    _three(
        "job-over-a-change-of-clocks",
        workers(_BUSY, train(**IN_NEW_YORK)),
        (
            (40, lambda world: world.jump(3590.0)),
            (80, kill_controller),
            (120, commit(*workers(_BUSY, train(**IN_NEW_YORK, suspend=True)))),
        ),
        begins=BEFORE_CLOCKS_CHANGE,
        programs={"train": Program(8.0)},
    ),
    _pair(
        "job-preempts",
        workers(_PREEMPTIBLE, nodes=PAIR),
        ((8, commit(*workers(_PREEMPTIBLE, train(**_TAKING), nodes=PAIR))), (60, nothing)),
        programs={"train": Program(8.0, (1, 0))},
    ),
    _pair(
        "job-preempts-nobody",
        workers(big(), nodes=PAIR),
        ((8, commit(*workers(big(), train(**_TAKING), nodes=PAIR))),),
        waiting=("train",),
    ),
    _three(
        "job-preempts-one-of-two",
        workers(big(priority=10, preemptible=True), deployment("little", nodes=1, preemptible=True)),
        (
            (
                8,
                commit(
                    *workers(
                        big(priority=10, preemptible=True),
                        deployment("little", nodes=1, preemptible=True),
                        train(nodes=1, **_TAKING),
                    )
                ),
            ),
        ),
        programs={"train": Program(10.0)},
    ),
    _three(
        "job-shares",
        workers(_BUSY, train(memory="10GiB"), job("bench", nodes=2, memory="12GiB", priority=5)),
        ((30, nothing),),
        memory_bytes=24 * GIB,
        programs={"train": Program(8.0), "bench": Program(5.0)},
    ),
    _three(
        "job-drained",
        workers(_BUSY, train()),
        ((6, commit(*workers(_BUSY, train(), b=True))), (16, commit(*workers(_BUSY, train())))),
        programs={"train": Program(8.0)},
    ),
    Scenario(
        "job-node-lost",
        workers(_BUSY, train(), nodes=("a", "b", "c", "d")),
        ((6, cut_off("b")), (95, back("b"))),
        persons=(("node/b", "C0"),),
        programs={"train": Program(12.0)},
    ),
    _three(
        "job-loses-nodes",
        workers(small(3), train(memory="1GiB")),
        ((60, nothing),),
        programs={"train": Program(8.0, harm=5)},
    ),
    _three(
        "job-store-lost",
        workers(_BUSY, train()),
        ((6, lose_store), (30, lose_store)),
        programs={"train": Program(12.0)},
    ),
    _three(
        "job-older-store",
        workers(_BUSY, train(env={"A": "1"})),
        ((0.6, back_up), (3, commit(*workers(_BUSY, train()))), (20, restore_backup)),
        programs={"train": Program(5.0)},
    ),
    _three(
        "job-artifacts",
        workers(_BUSY, train(artifacts=["out"], ttlAfterFinished="20s")),
        ((40, lose_store), (60, nothing)),
        programs={"train": Program(4.0)},
    ),
    _three(
        "job-reboot",
        workers(_BUSY, train()),
        ((6, power_off("b")), (20, power_on("b"))),
        programs={"train": Program(10.0)},
    ),
    _three(
        "job-controllers",
        workers(_BUSY, train(backoffLimit=3)),
        ((2.2, kill_controller), (5, kill_controller), (9, kill_controller)),
        programs={"train": Program(4.0, (2, 0))},
    ),
    _three(
        "job-stop-everything",
        workers(_BUSY, train()),
        ((6, stop_everything), (18, begin_again)),
        programs={"train": Program(10.0)},
    ),
)

JOB_SCENARIOS = {scenario.name: scenario for scenario in _SCENARIOS}


# --- what befalls jobs -----------------------------------------------------------------------------


def _ranks(world: World, name: str) -> list[Rank]:
    found = [
        rank for rank in world.ranks() if rank.id.deployment == workload_name(RunId(JobName(name), 1))[0]
    ]
    return sorted(found, key=lambda rank: rank.id)


def _to_job(name: str, number: int, do: Callable[[Rank], None]) -> Act:
    """Do something to a rank of the newest attempt of a job, if there is one."""

    def act(world: World) -> None:
        there = _ranks(world, name)
        newest = max(((r.id.replica, r.id.epoch) for r in there), default=None)
        mine = [rank for rank in there if (rank.id.replica, rank.id.epoch) == newest]
        for rank in mine[number : number + 1]:
            do(rank)

    return act


def crash(name: str, number: int, signal: int | None, code: int | None = None) -> Act:
    return _to_job(name, number, lambda rank: rank.end(code, signal, ""))


def stall(name: str, number: int) -> Act:
    """It does not come to the start of its program."""
    return _to_job(
        name, number, lambda rank: rank.hang() if rank.phase in (Phase.STARTING, Phase.RENDEZVOUS) else None
    )


def freeze(name: str, number: int) -> Act:
    return _to_job(name, number, lambda rank: rank.freeze())


def kill_shim(name: str, number: int) -> Act:
    return _to_job(name, number, lambda rank: rank.shim.die())


def changed(kind: type[Manifest], name: str, **spec: Any) -> Act:
    """Commit the manifests as they are, but for some fields of one."""

    def act(world: World) -> None:
        def of(each: Manifest) -> Manifest:
            if not isinstance(each, kind) or each.metadata.name != name:
                return each
            return each.model_copy(update={"spec": each.spec.model_copy(update=spec)})  # type: ignore[attr-defined]

        world.commit(tuple(map(of, world.commits[-1])))

    return act


def cancel(name: str) -> Act:
    """``reconciler cancel``: of the newest run."""

    def act(world: World) -> None:
        newest = max((id.index for id in world.stored.runs() if id.job == name), default=0)
        if newest:
            changed(Job, name, cancelled_run=newest)(world)

    return act


def restart(name: str) -> Act:
    """``reconciler restart``."""
    return lambda world: changed(Job, name, restarted_at=f"{world.loop.now}")(world)


class Deleted:
    """A manifest that is taken out and put back."""

    def __init__(self, kind: type[Manifest], name: str) -> None:
        self._kind = kind
        self._name = name
        self._kept: dict[World, Manifest] = {}

    def _is(self, each: Manifest) -> bool:
        return isinstance(each, self._kind) and each.metadata.name == self._name

    def delete(self, world: World) -> None:
        mine = [m for m in world.commits[-1] if self._is(m)]
        for each in mine:
            self._kept[world] = each
            world.commit([m for m in world.commits[-1] if m is not each])

    def restore(self, world: World) -> None:
        kept = self._kept.pop(world, None)
        if kept is not None:
            left = (m for m in world.commits[-1] if not self._is(m))
            world.commit([*left, kept])


def _jobs(scenario: Scenario) -> list[str]:
    found = {m.metadata.name for m in scenario.manifests if isinstance(m, Job)}
    return sorted(found | set(scenario.programs)) or ["train"]


_JobKind = Callable[[random.Random, Scenario, str], Drawn]


def _rank_of(make: Callable[[str, int], Act]) -> _JobKind:
    return lambda draw, scenario, name: [(0.0, make(name, draw.randrange(2)))]


def _for_a_while(make: Callable[[bool], Act]) -> _JobKind:
    return lambda draw, scenario, name: [(0.0, make(True)), (draw.uniform(0.3, 40.0), make(False))]


def _crash(draw: random.Random, scenario: Scenario, name: str) -> Drawn:
    signal, code = draw.choice(((9, None), (11, None), (None, 1), (None, 67)))
    return [(0.0, crash(name, draw.randrange(2), signal, code))]


def _suspend(draw: random.Random, scenario: Scenario, name: str) -> Drawn:
    later = draw.uniform(0.3, 40.0)
    return [(0.0, changed(Job, name, suspend=True)), (later, changed(Job, name, suspend=False))]


def _respec(draw: random.Random, scenario: Scenario, name: str) -> Drawn:
    first, later = {"SIZE": str(draw.randrange(9))}, draw.uniform(0.3, 40.0)
    return [(0.0, changed(Job, name, env=first)), (later, changed(Job, name, env=draw.choice((first, {}))))]


def _delete(draw: random.Random, scenario: Scenario, name: str) -> Drawn:
    deleted = Deleted(Job, name)
    return [(0.0, deleted.delete), (draw.uniform(0.3, 60.0), deleted.restore)]


def _drain(draw: random.Random, scenario: Scenario, name: str) -> Drawn:
    node, later = draw.choice(scenario.names), draw.uniform(0.3, 40.0)
    return [(0.0, changed(Node, node, drain=True)), (later, changed(Node, node, drain=False))]


def _deadline(draw: random.Random, scenario: Scenario, name: str) -> Drawn:
    return [(0.0, changed(Job, name, active_deadline=draw.uniform(1.0, 60.0)))]


def _priorities(draw: random.Random, scenario: Scenario, name: str) -> Drawn:
    now, later = draw.choice((0, 5, 20)), draw.uniform(1.0, 40.0)
    return [
        (0.0, changed(Job, name, priority=now, preempt=draw.random() < 0.5)),
        (later, changed(Job, name, priority=0, preempt=False)),
    ]


JOB_KINDS: dict[str, _JobKind] = {
    "job-crash": _crash,
    "job-stall": _rank_of(stall),
    "job-stopped": _rank_of(freeze),
    "job-shim-death": _rank_of(kill_shim),
    "job-cancel": lambda draw, scenario, name: [(0.0, cancel(name))],
    "job-restart": lambda draw, scenario, name: [(0.0, restart(name))],
    "job-suspend": _suspend,
    "job-respec": _respec,
    "job-delete": _delete,
    "job-deadline": _deadline,
    "job-priorities": _priorities,
    "drain": _drain,
}


def _program(draw: random.Random) -> Program:
    ends = tuple(draw.choice(ENDS) for _ in range(draw.randrange(1, 5)))
    harm = draw.choice((0,) * 9 + (1, 3))
    return Program(draw.choice((1.0, 4.0, 12.0, 30.0)), ends, draw.random() < 0.15, harm)


def _within(scenario: Scenario, at: float) -> float:
    """Nobody changes a schedule after the story's end: it would begin runs in the quiet hour."""
    scheduled = any(isinstance(m, Job) and m.spec.schedule for m in scenario.manifests)
    return min(at, scenario.length - 1.0) if scheduled else at


def befall_job(draw: random.Random, scenario: Scenario, kind: str, at: float) -> list[tuple[float, str, Act]]:
    """Draw what befalls a job of a story from a time on."""
    made = JOB_KINDS[kind](draw, scenario, draw.choice(_jobs(scenario)))
    return [(_within(scenario, at + later), kind, act) for later, act in made]


def job_schedule(seed: int, only: str | None = None) -> Schedule:
    """The schedule of jobs of a seed."""
    draw = random.Random(f"jobs {seed}")
    scenario = JOB_SCENARIOS[only or draw.choice(sorted(JOB_SCENARIOS))]
    rate = draw.choice(POINT_FAULTS)
    drawn_programs = {name: _program(draw) for name in _jobs(scenario)}
    programs = drawn_programs if draw.random() < 0.6 else None
    names = [m.metadata.name for m in scenario.manifests if isinstance(m, ModelDeployment)]
    kinds = sorted([*KINDS, *JOB_KINDS])
    drawn: list[tuple[float, str, Act]] = []
    for _ in range(draw.randrange(WORLD_FAULTS_MAX + 1)):
        at, name = draw.uniform(0.5, max(25.0, scenario.length)), draw.choice(kinds)
        if name in JOB_KINDS:
            drawn += befall_job(draw, scenario, name, at)
        else:
            drawn += [(at + later, name, act) for later, act in KINDS[name](draw, scenario, names)]
    good = draw.choice(GOOD_CLIENTS) if draw.random() < 0.3 else 0
    return Schedule(seed, scenario, rate, tuple(sorted(drawn, key=lambda each: each[0])), good, 0, programs)
