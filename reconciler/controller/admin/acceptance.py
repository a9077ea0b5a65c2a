"""Answers ``reconciler verify``: measures a deployment's groups, and judges them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.controller.parts import Parts
from reconciler.doctor.acceptance import Check, Stream, Trial, Work, judge
from reconciler.errors import Refused, Unreachable, listing
from reconciler.execution import trial
from reconciler.execution.proof import Connect
from reconciler.state import DeploymentName, GroupRecord, NodeName, ObservedRank
from reconciler.wire import answers
from reconciler.wire.admin import Accept
from reconciler.wire.launch import Phase
from reconciler.wire.measuring import Measured

RUNS_MAX = 8
WAIT_SECONDS_MAX = 60.0
STREAMS = (1, 2, 4)
TOKENS = 64
"""Tokens of each answer: enough to measure, and a few seconds on a large model."""
LOOK_SECONDS = 0.25
LOOKS_MAX = 20


@dataclass(slots=True)
class _Run:
    task: asyncio.Task[answers.Tried]
    progress: list[str]
    """Progress messages, the latest last."""


@dataclass(slots=True)
class Acceptances:
    """All running verifications."""

    parts: Parts
    _runs: dict[str, _Run] = field(default_factory=dict)

    async def answer(self, message: Accept) -> answers.Trial:
        """Answer ``wire.admin.Accept``. Raises ``Refused`` if there is no group to measure."""
        if not message.run:
            return self._begin(message)
        run = self._runs.get(message.run)
        if run is None:
            raise Refused("NotFound", "that run has expired; start it again")
        if not run.task.done():
            await asyncio.wait([run.task], timeout=min(message.wait_seconds, WAIT_SECONDS_MAX))
        if not run.task.done():
            return {"run": message.run, "doing": run.progress[-1]}
        self._runs.pop(message.run, None)
        found = run.task.result()
        return {
            "run": message.run,
            "doing": "",
            "deployment": found["deployment"],
            "ok": found["ok"],
            "replicas": found["replicas"],
        }

    def _begin(self, message: Accept) -> answers.Trial:
        name = DeploymentName(message.deployment)
        groups = _serving(self.parts, name)
        progress = ["the ranks are measuring"]
        task = asyncio.create_task(_accept(self.parts, groups, message, progress), name=f"verify {name}")
        while len(self._runs) >= RUNS_MAX:
            self._runs.pop(next(iter(self._runs))).task.cancel()
        number = self.parts.entropy()[:12]
        self._runs[number] = _Run(task, progress)
        return {"run": number, "doing": progress[-1]}


def _serving(parts: Parts, name: DeploymentName) -> tuple[GroupRecord, ...]:
    """Return the proven groups whose ranks all run."""
    last = parts.last
    if name not in last.desired.deployments:
        raise Refused("NotFound", f'there is no deployment "{name}"; {listing("deployments")}')
    found = tuple(
        record
        for record in last.memory.groups_of(name)
        if record.proven_at is not None and len(_ready(parts, record)) == len(record.members)
    )
    if not found:
        raise Refused(
            "NotServing",
            f"no group of {name} serves now; see what it waits for with: reconciler describe deployment {name}",
        )
    return found


def _ready(parts: Parts, record: GroupRecord) -> Mapping[int, ObservedRank]:
    group = parts.last.observed.group(record)
    return {rank: each for rank, each in group.items() if each.report.phase == Phase.READY}


async def _accept(
    parts: Parts, groups: tuple[GroupRecord, ...], request: Accept, progress: list[str]
) -> answers.Tried:
    tried = [(record, await _Trial(parts, record, progress).all(request.under_load)) for record in groups]
    rates = {int(nodes): rate for nodes, rate in request.smaller.items() if nodes.isdigit()}
    rates |= {
        len(record.members): found.streams[0].tokens_per_second for record, found in tried if found.streams
    }
    replicas = [_replica(record, found, judge(found, rates)) for record, found in tried]
    ok = all(check["ok"] is not False for replica in replicas for check in replica["checks"])
    return {"deployment": groups[0].replica.deployment, "ok": ok, "replicas": replicas}


@dataclass(slots=True)
class _Trial:
    """One group, step by step."""

    parts: Parts
    record: GroupRecord
    progress: list[str]

    async def all(self, under_load: bool) -> Trial:
        pace, why = await self._pace(under_load)
        works: dict[int, Work] = {}
        streams: list[Stream] = []
        for count in STREAMS:
            self._report(f"{count} answer{'s' * (count > 1)} at once")
            streams.append(await self._stream(count, works))
        members = self.record.members
        return Trial(members, self.record.charges, pace, why, works, tuple(streams))

    def _report(self, what: str) -> None:
        self.progress.append(f"{self.record.workload}: {what}")

    async def _pace(self, under_load: bool) -> tuple[Measured | None, str]:
        self._report("the ranks are measuring")
        try:
            return await trial.measure(self._connect(), under_load), ""
        except Refused as error:
            more = "; to measure anyway, use --under-load" if error.code == "busy" else ""
            return None, f"{error}{more}"
        except Unreachable as error:
            return None, str(error)

    async def _stream(self, count: int, works: dict[int, Work]) -> Stream:
        """Measure several answers at once, and observe every rank meanwhile."""
        before = {rank: each.report.steps for rank, each in self._ranks().items()}
        answering = asyncio.ensure_future(trial.answer(self._connect(), count, TOKENS))
        try:
            while not answering.done():
                await asyncio.wait([answering], timeout=LOOK_SECONDS)
                self._note(before, works)
            found = answering.result()
        except (Unreachable, Refused):
            return Stream(count, 0.0, count)
        finally:
            answering.cancel()
            with contextlib.suppress(asyncio.CancelledError, Unreachable, Refused):
                await answering
        await self._last_reports(before, works)
        return Stream(count, found.tokens_per_second, found.failures)

    async def _last_reports(self, before: Mapping[int, int], works: dict[int, Work]) -> None:
        """Wait for the next report of each agent, which has the latest work of the ranks."""
        for _ in range(LOOKS_MAX):
            for name in self.record.members:
                self.parts.collector.look(name)
            await asyncio.sleep(LOOK_SECONDS)
            self._note(before, works)
            if all(rank in works and works[rank].steps for rank in range(len(self.record.members))):
                return

    def _note(self, before: Mapping[int, int], works: dict[int, Work]) -> None:
        nodes = self.parts.collector.nodes()
        for rank, each in self._ranks().items():
            known = works.get(rank, Work(0, 0.0))
            watts = nodes[each.node].facts.gpu_watts if each.node in nodes else None
            steps = max(known.steps, each.report.steps - before.get(rank, each.report.steps))
            works[rank] = Work(steps, max(known.cores, each.report.cores), watts)

    def _ranks(self) -> Mapping[int, ObservedRank]:
        """Return the ranks by their agents' newest reports, which may be newer than the last pass."""
        found: dict[int, ObservedRank] = {}
        nodes = self.parts.collector.nodes()
        for rank, name in enumerate(self.record.members):
            seen = nodes.get(name)
            for each in seen.ranks if seen else ():
                if each.report.id == self.record.rank_id(rank):
                    found[rank] = each
        return found

    def _connect(self) -> Connect:
        node: NodeName = self.record.members[0]
        first = self._ranks().get(0)
        if first is None:
            raise Unreachable(f"rank 0 of {self.record.workload} is gone")
        socket = first.report.socket
        return lambda: self.parts.around.machines.stream(node, socket)


def _replica(record: GroupRecord, found: Trial, checks: tuple[Check, ...]) -> answers.TriedReplica:
    pace = found.pace
    return {
        "replica": record.workload.index,
        "epoch": record.epoch,
        "nodes": list(record.members),
        "transport": record.transport,
        "ranks": [_rank(found.nodes[rank], rank, work) for rank, work in sorted(found.works.items())],
        "memoryBytes": [each.memory_bytes for each in pace.ranks] if pace else [],
        "computeSeconds": [each.compute_seconds for each in pace.ranks] if pace else [],
        "collective": {
            "smallBytes": pace.small_bytes,
            "smallSeconds": pace.small_seconds,
            "largeBytes": pace.large_bytes,
            "largeSeconds": pace.large_seconds,
        }
        if pace
        else None,
        "links": [
            {
                "nodes": [found.nodes[rank] for rank in link.ranks],
                "smallSeconds": link.small_seconds,
                "largeSeconds": link.large_seconds,
            }
            for link in (pace.links if pace else ())
        ],
        "streams": [
            {"streams": s.streams, "tokensPerSecond": round(s.tokens_per_second, 2)} for s in found.streams
        ],
        "checks": [
            {"name": check.name, "ok": check.ok, "text": check.text, "blame": list(check.blame)}
            for check in checks
        ],
    }


def _rank(node: NodeName, rank: int, work: Work) -> answers.TriedRank:
    return {"rank": rank, "node": node, "steps": work.steps, "cores": work.cores, "gpuWatts": work.gpu_watts}
