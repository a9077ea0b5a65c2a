"""The observed state. It is always old and may be partial, which every reader has to take into account."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from signal import SIGKILL

from reconciler.wire.generation import Jump
from reconciler.wire.keys import KeyUsage
from reconciler.wire.launch import ExitCode, Phase, exit_reason
from reconciler.wire.node import ModelReport, NodeReport, RankReport
from reconciler.wire.prompts import QuarantinedPrompt

from .answers import Asked
from .identity import NodeName, WorkloadId, workload_named
from .machine.facts import MachineFacts
from .memory import GroupRecord


class Contact(Enum):
    """The contact between the controller and a node's agent."""

    UNKNOWN = "unknown"
    """Not contacted since the controller started."""
    REACHED = "reached"
    AGENT_DOWN = "down"
    """The machine answers, but no agent does."""
    UNREACHABLE = "unreachable"
    """No answer at all: everything that runs there may continue or be gone. Unreachable is not dead."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The addresses of the controller's connection to a machine; empty for its own machine, or if they are not
    known."""

    here: str = ""
    there: str = ""
    port: int = 0
    jumps: tuple[Jump, ...] = ()
    """The jump hosts of the connection, in order."""
    inner: tuple[str, int] = ("", 0)
    """Address of the SSH server, as seen from the last jump host."""


CABLES_SECONDS = 45.0
"""Time after which both ends of a cable were probed: the RDMA driver is probed every 30 s at most."""
BOOT_SECONDS = 90.0
"""Time from the start of a Mac's kernel until its ports are up."""
KILL_SECONDS = 30.0
"""Time in which a rank ends after SIGKILL, with all the memory that it has to give back. A rank that has not ended by
then is held in the kernel, which only a restart of its machine ends."""


@dataclass(frozen=True)
class NodeObservation(Asked):
    """A node as last seen. ``report`` stays after contact is lost, and shows the state at that time."""

    name: NodeName
    contact: Contact
    since: float
    """Beginning of the current series of contacts, or of failures, in seconds of the controller's clock: a node that is
    first down and then unreachable was lost once."""
    link: int = 0
    """Counts connections to this node; with the report's sequence, it orders observations."""
    report: NodeReport | None = None
    problem: str = ""
    """Why there is no contact, for people."""
    facts: MachineFacts = field(default_factory=MachineFacts)
    facts_link: int = 0
    """Number of the connection over which they were reported, as ``link``."""
    ends: Ends = Ends()
    skew_seconds: float = 0.0
    """Seconds by which the node's clock is ahead of the controller's; negative if it is behind. Differences within the
    time of an answer count as 0."""
    barred: str = ""
    """The CamelCase reason why access is denied, if a person has to act."""
    remedy: str = ""
    """The command or setting that gives access, where it is known and not in the problem."""
    silent: bool = False
    """True if it gave no answer at some time since that report, or nobody watched: ranks of that report may be gone."""
    probed: bool = True
    """True if its probes have run since it booted: afterwards, missing facts are unknown."""
    examined: bool = True
    """True if its probes have also run since a rank of a group there failed: only then may facts explain the
    failure."""

    def settled(self, now: float) -> bool:
        """Return whether both ends of its cables were probed since it came up. Before that, they look as they did while
        it was away. A machine that answers again without a restart had its cables all the time."""
        if self.contact is not Contact.REACHED:
            return False
        booted_at = self.facts.booted_at
        long_up = (
            booted_at is not None and now + self.skew_seconds - booted_at >= BOOT_SECONDS + CABLES_SECONDS
        )
        return long_up or abs(now - self.since) >= CABLES_SECONDS

    def model(self, path: str) -> ModelReport | None:
        """Return the node's report on the weights at ``path``; None before the first report."""
        models = self.report.models if self.report else ()
        return next((m for m in models if m.path == path), None)

    @cached_property
    def ranks(self) -> tuple[ObservedRank, ...]:
        """Return its ranks, sorted by id. They are sorted once, because most nodes do not change between passes."""
        if self.report is None:
            return ()
        ranks = sorted(self.report.ranks, key=lambda rank: rank.id)
        return tuple(ObservedRank(self.name, rank, self.skew_seconds) for rank in ranks)


@dataclass(frozen=True)
class ObservedRank:
    """One rank as its node last reported it."""

    node: NodeName
    report: RankReport
    skew_seconds: float = 0.0
    """``NodeObservation.skew_seconds`` of its node."""

    @cached_property
    def workload(self) -> WorkloadId:
        return workload_named(self.report.id.deployment, self.report.id.replica)

    @property
    def title(self) -> str:
        """Return its name, for people, wherever it is."""
        return f"rank {self.report.id.rank} of {self.workload}, epoch {self.report.id.epoch}"

    @property
    def alive(self) -> bool:
        """Return whether there may still be a process."""
        return self.report.phase != Phase.EXITED

    @property
    def killed(self) -> bool:
        """Return whether SIGKILL was sent to it and it has not ended."""
        return self.alive and self.report.killed_seconds is not None

    @property
    def unkillable(self) -> bool:
        """Return whether SIGKILL has not ended it in time: nothing waits for its end any more, only for its machine."""
        return self.alive and (self.report.killed_seconds or 0.0) >= KILL_SECONDS

    @property
    def orderly(self) -> bool:
        """Return whether it ended as requested."""
        return self.report.exit is not None and self.report.exit.code == ExitCode.OK

    @property
    def ending(self) -> str:
        """Return the end of the rank, in a short clause for people."""
        report = self.report
        who = f"rank {report.id.rank} on {self.node} (epoch {report.id.epoch}"
        who += f", pid {report.pid})" if report.pid else ")"
        if report.exit is None:
            return f"{who} ended"
        if report.exit.signal is not None:
            return f"{who} was killed by signal {report.exit.signal}"
        return f"{who} exited with {report.exit.code} ({exit_reason(report.exit)})"

    @property
    def killing(self) -> str:
        """Say that it was asked to end and had to be killed, for people; empty if it was not."""
        ended, report = self.report.exit, self.report
        if ended is None or ended.killed_after is None:
            return ""
        who = f"rank {report.id.rank} on {self.node} (epoch {report.id.epoch}, pid {report.pid})"
        return f"{who} did not end within {ended.killed_after:g} s after SIGTERM and was killed"

    @property
    def ended_at(self) -> float | None:
        """Return the time of its end, in seconds of the controller's clock as far as the difference is known; None if
        it is not known."""
        ended = self.report.exit
        return None if ended is None else ended.at - self.skew_seconds

    @property
    def lost_another(self) -> bool:
        """Return whether it ended only because it lost another rank, whose end may be reported later than its own."""
        ended = self.report.exit
        return ended is not None and ended.code == ExitCode.PEER_LOST

    @property
    def failed_by_itself(self) -> bool:
        """Return whether it ended for a reason of its own: not killed, and not because another rank was gone."""
        ended = self.report.exit
        return ended is not None and ended.signal != SIGKILL and ended.code not in _CONSEQUENCES

    @property
    def ending_text(self) -> str:
        """Return the end of the rank, with its own explanation if there is one."""
        ended = self.report.exit
        return f"{self.ending}: {ended.detail}" if ended and ended.detail else self.ending


_CONSEQUENCES = {ExitCode.PEER_LOST: 2, ExitCode.OK: 2, ExitCode.RENDEZVOUS: 1}
"""Ends that another rank's end causes, and how much less they explain than a rank's own end."""


def most_informative(ended: Iterable[ObservedRank]) -> ObservedRank | None:
    """Return the rank to blame among the ended ranks of one attempt. The first error that is not from TCP counts,
    because TCP errors only show that another rank was gone. A rank that was asked to end and had to be killed does not
    count either."""
    return min(ended, key=_blame, default=None)


def _blame(rank: ObservedRank) -> tuple[int, float, int]:
    ended = rank.report.exit
    if ended is None:
        return (0, 0.0, rank.report.id.rank)
    asked = 2 if ended.killed_after is not None else 0
    return (
        _CONSEQUENCES.get(ended.code or 0, 0) if ended.signal is None else asked,
        rank.ended_at or 0.0,
        rank.report.id.rank,
    )


@dataclass(frozen=True, slots=True)
class GatewayAnswer:
    """The gateway's answer to a client that asks at its own address whether it is ready."""

    ready: bool
    unserved: tuple[str, ...] = ()
    """All models, if it is connected to no group of any model."""
    problem: str = ""
    """Why there was no such answer, such as ``no answer within 2 s``; empty where there was one."""


@dataclass(frozen=True, slots=True)
class ServedCertificate:
    """The certificate that the gateway shows its clients."""

    names: tuple[str, ...]
    """The host names and addresses for which it is good."""
    expires_at: float | None
    """Time in seconds since the Unix epoch; None without a certificate: nobody can connect."""
    problem: str = ""
    """Why the declared files cannot be used as they are now."""


@dataclass(frozen=True, slots=True)
class LimitsObservation:
    """The counting of keys' limits by a gateway, where there are several gateways or a store for limits."""

    gateways: int
    store: str = ""
    """The store's address; empty if none is declared."""
    shared: bool = False
    """True if the store decides; else the gateway grants its share."""
    problem: str = ""
    """Reason why the store does not decide; empty too while it has not been asked yet."""


class GatewayProcess(Enum):
    """The process of a gateway on another machine."""

    UNKNOWN = "unknown"
    """Not looked at since the controller started."""
    RUNNING = "running"
    STOPPED = "stopped"
    """Stopped by a signal, which another signal undoes."""
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class NodeGatewayObservation:
    """A gateway on another machine, as the controller last reached it."""

    node: NodeName
    listen: str | None = None
    """Its address; None if it does not listen, or has not been reached yet."""
    pid: int | None = None
    sequence: int = 0
    """The number of its routes."""
    problem: str = ""
    """Why it cannot be reached, does not run or does not listen; a running gateway continues with its routes."""
    limits: LimitsObservation | None = None
    """None where there are no limits."""
    keys: str | None = None
    """``digest_of`` its keys; None where it does not report them."""
    reached: bool = True
    """False if the last look at it failed: all else is from the look before."""
    process: GatewayProcess = GatewayProcess.UNKNOWN
    program: str = ""
    """The name of the file that its process runs."""
    files: str = ""
    """The digest of the routes and keys that lie there; empty if there are none."""
    cannot_listen: bool = False
    """True if it says that it cannot listen as declared."""
    failing_seconds: float = 0.0
    """Seconds for which looks have found it not running, or not listening as declared; 0 if the last one did not."""
    ends_in_a_row: int = 0
    """Times that it ended by itself since it last served for half a minute."""
    last_end: str = ""
    """Its last words before the newest of these ends."""
    ending_seconds: float = 0.0
    """Seconds since the first of these ends; 0 without one."""

    @property
    def serves(self) -> bool:
        """Return whether it ran and listened as declared when it was seen last."""
        running = self.process is GatewayProcess.RUNNING
        return running and self.listen is not None and not self.cannot_listen


@dataclass(frozen=True, slots=True)
class GatewayObservation:
    """The gateway process, by its own file and its answers."""

    pid: int
    endpoint: str | None
    """None if it is not listening."""
    problem: str = ""
    """Why it is not listening on the declared address."""
    token: int = 0
    """The highest token that it has seen in its routes."""
    quarantined: tuple[QuarantinedPrompt, ...] = ()
    """The prompts that it refuses because they ended groups."""
    shortage: str = ""
    """The resource that the system grants it too little of, for people."""
    address: str = ""
    """The address for this machine, such as ``127.0.0.1:8400``. The endpoint may have a name of its certificate
    instead."""
    certificate: ServedCertificate | None = None
    """None where it speaks plain HTTP."""
    door: GatewayAnswer | None = None
    """None if it was not asked yet."""
    usage: tuple[KeyUsage, ...] = ()
    limits: LimitsObservation | None = None
    """None where this gateway alone counts, or there are no limits."""
    keys: str | None = None
    """``digest_of`` its keys; None where it does not report them."""

    @property
    def local_endpoint(self) -> str | None:
        """Return the endpoint with its address, which works on this machine even where its name leads elsewhere."""
        if self.endpoint is None or not self.address:
            return self.endpoint
        return f"{self.endpoint.partition('://')[0]}://{self.address}/v1"


@dataclass(frozen=True)
class Observed:
    """The complete observed state at the moment of one pass. Its ranks are sorted once, because every decision uses
    them."""

    nodes: Mapping[NodeName, NodeObservation] = field(default_factory=dict)
    gateway: GatewayObservation | None = None
    """The gateway of the controller's own machine."""
    gateways_on_nodes: Mapping[NodeName, NodeGatewayObservation] = field(default_factory=dict)
    """The gateways on other machines, in the order of the names of their nodes."""

    def ranks(self) -> tuple[ObservedRank, ...]:
        """Return all ranks on all nodes, sorted by node and id."""
        return tuple(rank for on_node in self._by_node.values() for rank in on_node)

    def ranks_on(self, node: NodeName) -> tuple[ObservedRank, ...]:
        """Return the ranks on one node, sorted by id."""
        return self._by_node.get(node, ())

    def ranks_of(self, workload: WorkloadId) -> tuple[ObservedRank, ...]:
        """Return the ranks of one workload, of any epoch."""
        return tuple(self._by_workload.get(workload, ()))

    def group(self, record: GroupRecord) -> Mapping[int, ObservedRank]:
        """Return the ranks of a recorded group, by rank. Ranks of its epoch on other nodes come from an earlier store,
        and are ignored."""
        known = self._groups.get((record.workload, record.epoch, record.members))
        if known is None:
            known = {
                id.rank: rank
                for rank in self._by_workload.get(record.workload, ())
                if (id := rank.report.id).epoch == record.epoch and rank.node in record.members[id.rank :][:1]
            }
            self._groups[record.workload, record.epoch, record.members] = known
        return known

    def failed(self, workload: WorkloadId) -> ObservedRank | None:
        """Return the rank to blame for the end of the workload's newest group that did not end in order."""
        bad = [rank for rank in self.ranks_of(workload) if not rank.alive and not rank.orderly]
        newest = max((rank.report.id.epoch for rank in bad), default=0)
        return most_informative(rank for rank in bad if rank.report.id.epoch == newest)

    @cached_property
    def reusing(self) -> Mapping[str, ModelReport]:
        """Return by path the report of a node that says how the weights' prefix cache can be reused."""
        found: dict[str, ModelReport] = {}
        for _, node in sorted(self.nodes.items()):
            for report in node.report.models if node.report else ():
                if report.reuse:
                    found.setdefault(report.path, report)
        return found

    @cached_property
    def _groups(self) -> dict[tuple[WorkloadId, int, tuple[NodeName, ...]], Mapping[int, ObservedRank]]:
        """Cache of the requested groups."""
        return {}

    @cached_property
    def _by_node(self) -> dict[NodeName, tuple[ObservedRank, ...]]:
        return {name: node.ranks for name, node in sorted(self.nodes.items()) if node.report is not None}

    @cached_property
    def _by_workload(self) -> dict[WorkloadId, list[ObservedRank]]:
        found: dict[WorkloadId, list[ObservedRank]] = {}
        for rank in self.ranks():
            found.setdefault(rank.workload, []).append(rank)
        return found
