"""The parts of a controller and its surroundings; ``bootstrap`` builds both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.execution import Executor
from reconciler.execution.gateways import Gateways
from reconciler.execution.hub import Hub
from reconciler.inventory import Collector, GatewaysOnNodes
from reconciler.outgoing.webhooks import Webhooks
from reconciler.remote.machines import Machines
from reconciler.source.sources import Source
from reconciler.state import Desired, GatewayObservation, Memory, NodeName, Observed, Plan, Stored
from reconciler.status import Snapshots
from reconciler.store import Store
from reconciler.wire.figures import GatewayFigures
from reconciler.wire.file_identity import FileIdentity
from reconciler.wire.supervision import Act

from .clock_gaps import ClockGaps, Clocks
from .desired_state import DesiredState
from .figures.keeper import Keeper
from .notifications import Notifications, Post
from .publish import Publisher
from .repository_care import RepositoryCare
from .routes_file import RoutesFile


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Everything outside of a controller that it uses, except its store."""

    source: Source
    routes: RoutesFile
    machines: Machines
    gateway: Callable[[], GatewayObservation | None]
    entropy: Callable[[], str]
    clocks: Clocks
    post: Post = Webhooks({}).post
    """Sends a message to a webhook; by default with an environment that has no URL."""
    hub: Hub = field(default_factory=Hub)
    """The hub from which weights are fetched."""
    figures: Path | None = None
    """The folder in which figures of the last hours survive a restart; None keeps them in memory only."""
    requests: Callable[[], GatewayFigures | None] = lambda: None
    """Returns the gateway's figures about requests."""
    supervision: Callable[[], tuple[Act, ...]] = lambda: ()
    """Returns the acts of `up` on services that gave no answer, the oldest first."""
    stopped_up: Callable[[], int] = lambda: 0
    """Returns the pid of an `up` that a signal has stopped; 0 if none is. It takes a moment."""
    gateways: Gateways = field(default_factory=Gateways)
    """The gateways of nodes; by default no node can have one."""
    artifacts: Path = field(default_factory=lambda: Path("artifacts"))
    """The folder of the artifacts of jobs."""
    console: Callable[[], str] = lambda: ""
    """Returns why the running console does not listen as declared; empty if it does."""


@dataclass(slots=True)
class Lease:
    """The lease of this controller, and how far it may rely on its observations."""

    identity: tuple[FileIdentity, ...] = ()
    """The files that this controller holds: if one is replaced, another controller may have taken over."""
    greeted: set[NodeName] = field(default_factory=set)
    """Nodes whose highest fencing token was read."""
    looked: bool = False
    """True if every node was contacted since the start and the last clock gap, so that statuses may change."""
    lost: bool = False
    """The lease was lost, and a new token could not be taken yet."""

    def token(self, name: NodeName, token: int) -> int:
        """Return the fencing token to use with a node: 0 until the node's own token is known."""
        return token if name in self.greeted else 0


@dataclass(slots=True)
class Parts:
    """The parts of a controller, and the results of its passes."""

    around: Surroundings
    store: Store
    desired_state: DesiredState
    care: RepositoryCare
    collector: Collector
    executor: Executor
    publisher: Publisher
    notifications: Notifications
    clock_gaps: ClockGaps
    figures: Keeper
    gateways: GatewaysOnNodes
    lease: Lease = field(default_factory=Lease)
    stopping: bool = False
    watched: tuple[Desired, Stored] | None = None
    """The values from which the watched nodes were derived, if each of them has an agent that the store knows."""
    last: Snapshots = field(
        default_factory=lambda: Snapshots(Desired(""), Observed(), Memory(token=0), Plan(), 0.0)
    )

    started_at: float = field(init=False)
    """In seconds since the Unix epoch."""

    def __post_init__(self) -> None:
        self.started_at = self.clock()

    def clock(self) -> float:
        """Return the seconds since the Unix epoch."""
        return self.around.clocks.wall()

    def entropy(self) -> str:
        """Return 64 hexadecimal digits that nobody can guess."""
        return self.around.entropy()
