"""The interfaces with which handlers act, and note their acts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from reconciler.remote.agent_connection import AgentConnection
from reconciler.remote.machines import Machines
from reconciler.resources import Access
from reconciler.state import (
    Attempt,
    DeploymentName,
    GroupRecord,
    NodeName,
    ObjectKey,
    Reboot,
    ReplicaId,
    RunId,
    TransportFailure,
    Volatile,
    Write,
)
from reconciler.state.jobs import Run
from reconciler.state.rollback import Rollback
from reconciler.wire.launch import TransportProof

from .gateways import Gateways
from .hub import Hub
from .runtimes import Builder


class Groups(Protocol):
    """Stores groups (implemented by the store). Every method may raise ``Deposed``."""

    @property
    def token(self) -> int: ...
    def renew(self) -> None: ...
    def allocate(
        self,
        group: GroupRecord,
        attempt: Attempt,
        failed: TransportFailure | None = None,
        wasted_verbs: Sequence[tuple[NodeName, str]] = (),
    ) -> None: ...
    def adopt(self, group: GroupRecord) -> None: ...
    def prove(
        self,
        replica: ReplicaId,
        epoch: int,
        at: float,
        combination: str = "",
        proof: TransportProof | None = None,
    ) -> None: ...
    def release(self, replica: ReplicaId) -> None: ...
    def create_run(self, run: Run, group: GroupRecord | None = None) -> None: ...
    def put_run(self, run: Run) -> None: ...
    def end_attempt(self, run: Run) -> None: ...
    def remove_runs(self, ids: Sequence[RunId]) -> None: ...
    def free_transport(self, replica: ReplicaId, transport: str) -> None: ...
    def set_back(self, deployment: DeploymentName, rollback: Rollback) -> None: ...
    def keep_agent(self, node: NodeName, access: Access) -> None: ...
    def drop_agent(self, node: NodeName) -> None: ...
    def note_reboot(self, node: NodeName, reboot: Reboot) -> None: ...
    def drop_reboot(self, node: NodeName) -> None: ...
    def remove_object(self, key: ObjectKey) -> None: ...


class Links(Protocol):
    """Has the connections to agents (implemented by the collector)."""

    def link(self, name: NodeName) -> tuple[AgentConnection, int]: ...
    def look(self, name: NodeName) -> None: ...
    async def reach(self, name: NodeName, starts: bool = True) -> None: ...
    async def lose(self, name: NodeName) -> None: ...
    async def renew(self, name: NodeName) -> None: ...
    def token(self, name: NodeName) -> int: ...


@dataclass(slots=True)
class Tools:
    """The tools of every handler."""

    groups: Groups
    links: Links
    machines: Machines
    clock: Callable[[], float]
    """Seconds since the Unix epoch."""
    hub: Hub = field(default_factory=Hub)
    gateways: Gateways = field(default_factory=Gateways)
    artifacts: Path = field(default_factory=lambda: Path("artifacts"))
    """Folder of the artifacts of jobs."""
    volatile: Volatile = field(default_factory=Volatile)
    runtimes: Builder = field(init=False)

    def __post_init__(self) -> None:
        self.runtimes = Builder(self.machines, self.clock)

    @property
    def token(self) -> int:
        """Return the fencing token for requests that change something."""
        return self.groups.token

    def wrote(self, name: NodeName, write: Write) -> None:
        """Remember the last change to a node."""
        self.volatile = replace(self.volatile, writes={**self.volatile.writes, name: write})
