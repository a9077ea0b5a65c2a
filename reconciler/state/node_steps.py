"""The steps of a plan for a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from reconciler.resources import LOCAL, Access
from reconciler.wire.repair import Change

from .faults import Reboot
from .identity import NodeName, ObjectKey
from .subjects import GatewaySubject


@dataclass(frozen=True, slots=True)
class _OfNode:
    """Common part of steps about a node."""

    verb: ClassVar[str]
    node: NodeName

    @property
    def key(self) -> str:
        return f"{self.verb}/{self.node}"

    @property
    def subject(self) -> str:
        """Return the subject of the step, for ``Memory.in_flight``."""
        return f"node/{self.node}"

    @property
    def object(self) -> ObjectKey:
        """Return the object of its events."""
        return ObjectKey("Node", self.node)


@dataclass(frozen=True, slots=True)
class StartAgent(_OfNode):
    """Start the agent of a node."""

    verb: ClassVar[str] = "start-agent"
    access: Access = LOCAL
    """The access to the node: later controllers have to find the agent even without a manifest."""
    replaces: str = ""
    """The running agent that is replaced; it ends as soon as its successor serves. Ranks continue."""

    def __str__(self) -> str:
        if self.replaces:
            return f"replace the agent of {self.node} ({self.replaces})"
        return f"start the agent of {self.node}"


@dataclass(frozen=True, slots=True)
class StopAgent(_OfNode):
    """End the agent of a node that is no longer wanted and has no rank left."""

    verb: ClassVar[str] = "stop-agent"

    def __str__(self) -> str:
        return f"stop the agent of {self.node}"


@dataclass(frozen=True, slots=True)
class ForgetAgent(_OfNode):
    """Stop expecting an agent on a node that is no longer wanted, and has none or has not answered for too long."""

    verb: ClassVar[str] = "forget-agent"
    left: str = ""
    """The leftovers that may remain there, for people; empty if there are none."""

    def __str__(self) -> str:
        return f"expect no agent on {self.node} any more{f': {self.left}' if self.left else ''}"


@dataclass(frozen=True, slots=True)
class EmptyNode(_OfNode):
    """Note that a machine will be restarted as soon as nothing runs on it; from now on it is drained."""

    verb: ClassVar[str] = "empty"
    reboot: Reboot

    def __str__(self) -> str:
        return f"drain {self.node} for a restart"


@dataclass(frozen=True, slots=True)
class RebootNode(_OfNode):
    """Restart a machine: the most expensive remedy. One at a time in the whole cluster."""

    verb: ClassVar[str] = "reboot"
    reboot: Reboot
    on_request: bool = False
    """True if a person requested it: after a failure it is tried again."""

    def __str__(self) -> str:
        return f"restart {self.node} ({self.reboot.reason})"


@dataclass(frozen=True, slots=True)
class _OfSettings(_OfNode):
    """Common part of steps that run in parallel to those about the node's agent."""

    id: str
    """The id, which is equal for equal changes in the same boot."""

    @property
    def key(self) -> str:
        return f"{self.verb}/{self.node}/{self.id}"

    @property
    def subject(self) -> str:
        return f"repair/{self.node}"


@dataclass(frozen=True, slots=True)
class RepairNode(_OfSettings):
    """Change settings of a machine. The machine undoes them unless they are confirmed in time."""

    verb: ClassVar[str] = "repair"
    boot_id: str
    changes: tuple[Change, ...]
    why: str

    def __str__(self) -> str:
        typed = "; ".join(" ".join(change.argv) for change in self.changes)
        return f"repair {self.node} ({self.why}): {typed}"


@dataclass(frozen=True, slots=True)
class ConfirmRepair(_OfSettings):
    """Confirm new settings of a machine, after it was reached again and its facts show that the settings helped."""

    verb: ClassVar[str] = "confirm-repair"

    def __str__(self) -> str:
        return f"keep the new settings of {self.node}"


class _OfRuntime(_OfNode):
    """Common part of steps about runtimes, which take minutes and run in parallel to those about the node's agent."""

    __slots__ = ()

    @property
    def subject(self) -> str:
        return f"runtime/{self.node}"


@dataclass(frozen=True, slots=True)
class BuildRuntime(_OfRuntime):
    """Build the managed runtime of this version on a node. Parts that were sent before are not sent again."""

    verb: ClassVar[str] = "build-runtime"

    def __str__(self) -> str:
        return f"build the runtime of {self.node}"


@dataclass(frozen=True, slots=True)
class PruneRuntimes(_OfRuntime):
    """Remove the unused runtimes of a node, except for its own and the last one before that."""

    verb: ClassVar[str] = "prune-runtimes"
    runtime: str

    def __str__(self) -> str:
        return f"remove old runtimes of {self.node}"


@dataclass(frozen=True, slots=True)
class _OfGateway(_OfNode):
    """Common part of steps about the gateway of a node, which run in parallel to those about the node's agent."""

    about: ObjectKey
    """The Gateway that names the node; the Node itself if there is none."""

    @property
    def subject(self) -> str:
        return str(GatewaySubject(self.node))

    @property
    def object(self) -> ObjectKey:
        return self.about


@dataclass(frozen=True, slots=True)
class SendRoutes(_OfGateway):
    """Have the gateway of a node use the routes and keys in force."""

    verb: ClassVar[str] = "send-routes"
    digest: str
    """``GatewaysInForce.files`` of the node."""

    def __str__(self) -> str:
        return f"send routes and keys to the gateway on {self.node}"


@dataclass(frozen=True, slots=True)
class StartGateway(_OfGateway):
    """Start the gateway of a node, with the routes and keys that lie there."""

    verb: ClassVar[str] = "start-gateway"

    def __str__(self) -> str:
        return f"start the gateway on {self.node}"


@dataclass(frozen=True, slots=True)
class ContinueGateway(_OfGateway):
    """Continue the gateway of a node that was stopped by a signal."""

    verb: ClassVar[str] = "continue-gateway"

    def __str__(self) -> str:
        return f"continue the gateway on {self.node}, which was stopped by a signal"


@dataclass(frozen=True, slots=True)
class ReplaceGateway(_OfGateway):
    """End the gateway of a node that runs another version. Once it has ended, one of this version is started."""

    verb: ClassVar[str] = "replace-gateway"
    runs: str
    """The file that it runs."""

    def __str__(self) -> str:
        return f"end the gateway on {self.node}, which runs {self.runs}, to start another one"


@dataclass(frozen=True, slots=True)
class StopGateway(_OfGateway):
    """End the gateway of a node that is to have none any more, and remove its routes and keys."""

    verb: ClassVar[str] = "stop-gateway"

    def __str__(self) -> str:
        return f"end the gateway on {self.node}, and remove its routes and keys"


GatewayStep = SendRoutes | StartGateway | ContinueGateway | ReplaceGateway | StopGateway
NodeStep = (
    StartAgent
    | StopAgent
    | ForgetAgent
    | EmptyNode
    | RebootNode
    | RepairNode
    | ConfirmRepair
    | BuildRuntime
    | PruneRuntimes
    | GatewayStep
)
