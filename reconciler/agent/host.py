"""The machine as its agent uses it: disk, processes, clock, runtime. Everything the agent does goes through here."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Protocol, Tuple, Union

from reconciler.wire.launch import LaunchSpec, RankId
from reconciler.wire.node import (
    FetchWeights,
    ListArtifacts,
    Log,
    ModelReport,
    NodeReport,
    ReadArtifact,
    ShimState,
)
from reconciler.wire.repair import Repair, RepairReport
from reconciler.wire.tools import RunTool, ToolSaid
from reconciler.wire.weights import KeptWeights

from .system.usage import Measured


class Connection(Protocol):
    """One connection with a controller or a shim."""

    @property
    def congested(self) -> bool:
        """Return whether the other side is slow: then postpone messages that can wait."""

    @property
    def greeted(self) -> bool:
        """Return whether the other side has said hello in a supported version; before that, send it nothing."""

    def send(self, message: Any) -> None:
        """Send a message that answers nothing; dropped when the connection is over."""

    def reply(self, request: int, message: Any) -> None:
        """Send the answer to a request."""

    def close(self) -> None:
        """Close once everything is sent."""

    def abort(self) -> None:
        """Close now."""


class Host(Protocol):
    """One machine, and the place on it that belongs to one agent. Methods that change something raise ``OSError``."""

    # --- the machine and its runtime ---

    def identity(self) -> NodeReport:
        """Return the facts that do not change while an agent runs."""

    def boot_id(self) -> str:
        """Return the id of the current boot."""

    def clock(self) -> float:
        """Return the machine's time in seconds since the Unix epoch."""

    def begin(self, on_change: Callable[[bool], None]) -> None:
        """Begin to examine the runtime. ``on_change`` is called when more is known about it or a model, with whether
        that is worth a message at once."""

    def end(self) -> None:
        """Stop all examinations."""

    def runtime(self) -> Optional[Mapping[str, str]]:
        """Return ``NodeReport.runtime``."""

    def model(self, path: str) -> ModelReport:
        """Return a report on the weights at ``path``, as far as known."""

    def fetch(self, request: FetchWeights) -> None:
        """Fetch weights in the background; ``model`` reports the progress. Raises ``ValueError``."""

    def serve_weights(self, path: str) -> None:
        """Give verified weights to other nodes, in the background. Raises ``ValueError``."""

    def stored_weights(self, requested: Iterable[str]) -> Tuple[KeptWeights, ...]:
        """Return ``NodeReport.kept``; ``requested`` are the weights that a controller asks about."""

    def discard(self, path: str) -> None:
        """Remove fetched weights. Raises ``ValueError``."""

    def room(self) -> Tuple[Optional[int], int]:
        """Return ``NodeReport.models_free_bytes`` and ``models_total_bytes``."""

    async def run_tool(self, call: RunTool) -> ToolSaid:
        """Run a tool that looks at the machine. It never raises."""

    def repair(self, request: Repair) -> None:
        """Start a repair in a process that outlives the agent. Raises ``repairs.Unconfirmed`` while another one is in
        progress, ``ValueError`` for a forbidden one."""

    def confirm_repair(self, id: str) -> bool:
        """Confirm a repair. Return whether its changes stay."""

    def repair_report(self) -> Optional[RepairReport]:
        """Return ``NodeReport.repair``."""

    def continue_repair(self) -> bool:
        """Return whether a repair is in progress, and resume one whose process is gone."""

    # --- the disk ---

    def token(self) -> int:
        """Return the highest stored fencing token; 0 if there is none. Raises ``ValueError`` for an invalid one."""

    def save_token(self, token: int) -> None:
        """Keep a fencing token over the death of agent and machine."""

    def ranks(self) -> List[RankId]:
        """Return the ranks that have a directory, and clean up incomplete ones."""

    def create(self, spec: LaunchSpec) -> None:
        """Create the complete directory of a rank. Raises ``ValueError`` if the paths of its sockets would be too long."""

    def remove(self, id: RankId, socket: str) -> None:
        """Remove the directory of a rank that has ended, and ``socket``, on which it answered."""

    def keep_record(self, id: RankId) -> None:
        """Remove output and working directory of a rank that has ended, and keep the facts about it."""

    def pruned(self, id: RankId) -> bool:
        """Return whether only the facts about a rank are left."""

    def redact(self, id: RankId) -> None:
        """Remove the secrets of a job whose rank has ended from the disk."""

    async def artifacts(self, request: Union[ListArtifacts, ReadArtifact]) -> Any:
        """Return ``Artifacts`` or an ``ArtifactPiece``, or ``Refused``."""

    def spec(self, id: RankId) -> Optional[LaunchSpec]:
        """Return the launch spec of a rank; None, which matches no spec, if it cannot be read."""

    def state(self, id: RankId) -> Optional[ShimState]:
        """Return the last state that its shim wrote; None if there is none or it cannot be read."""

    def write_state(self, id: RankId, state: ShimState) -> None:
        """Write the state in place of a shim that is gone."""

    def process(self, id: RankId) -> Optional[Tuple[int, str]]:
        """Return pid and birth of the rank's process; None if it was never started."""

    def owner(self, id: RankId) -> str:
        """Return an ``Owner``: the directory to which that process belongs. A copied directory names a process of the original."""

    def words(self, id: RankId) -> str:
        """Return the last line of its shim's standard error."""

    def read_log(self, id: RankId, bytes_max: int, offset: Optional[int]) -> Log:
        """Return the rank's output as ``rank_log.read_log`` does."""

    # --- processes ---

    def start_shim(self, id: RankId) -> None:
        """Start the shim of a rank that has a directory."""

    def prepare(self, id: RankId) -> None:
        """Start a standby process for the next rank with this one's program, unless there is one."""

    def end_standby(self, seconds: float) -> None:
        """End the standby process if it has been of no use for this long."""

    def reap(self) -> None:
        """Reap shims that have ended."""

    def connect(
        self, id: RankId, on_message: Callable[[Any], None], on_close: Callable[[], None]
    ) -> Connection:
        """Take up the connection with a rank's shim. Raises ``OSError`` if none answers."""

    async def ask_rank(self, socket: str) -> None:
        """Ask rank 0 at ``socket`` a question, and return when it has answered. Raises ``OSError`` if it will not answer."""

    def birth(self, pid: int) -> Optional[str]:
        """Return an identity of a process that no other process has; None if it is gone."""

    async def leftovers_of(self, id: RankId, ports: Tuple[int, ...]) -> Tuple[str, str]:
        """Return the leftovers of an ended rank with these ports: a value of ``Gone``, and a description."""

    async def measure(self, pids: Iterable[int]) -> Optional[Measured]:
        """Measure the machine and these processes; None if that is impossible."""

    async def states(self, pids: Iterable[int]) -> Dict[int, str]:
        """Return the state of each existing process, as one letter of ``ps``."""

    def signal_process(self, pid: int, number: int) -> None:
        """Send a signal to one process, unless it is gone."""

    def signal_group(self, pid: int, number: int) -> None:
        """Send a signal to the process group of ``pid``, if there is one."""
