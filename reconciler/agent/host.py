"""The machine as its agent uses it: disk, processes, clock, runtime. Everything the agent does goes through here."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Protocol, Tuple

from reconciler.wire.launch import LaunchSpec, RankId
from reconciler.wire.node import FetchWeights, ModelReport, NodeReport, ShimState
from reconciler.wire.repair import Repair, RepairReport
from reconciler.wire.tools import RunTool, ToolSaid
from reconciler.wire.weights import KeptWeights

from .system.usage import Measured


class Connection(Protocol):
    """One connection with a controller or a shim."""

    @property
    def congested(self) -> bool:
        """The other side is slow: what can wait should."""

    def send(self, message: Any) -> None:
        """Send a message that answers nothing; dropped when the connection is over."""

    def reply(self, request: int, message: Any) -> None:
        """Send the answer to a request."""

    def close(self) -> None:
        """Close once everything is sent."""

    def abort(self) -> None:
        """Close now."""


class Host(Protocol):
    """One machine, and the place on it that belongs to one agent. What changes something raises ``OSError``."""

    # --- the machine and its runtime ---

    def identity(self) -> NodeReport:
        """What does not change while an agent runs."""

    def boot_id(self) -> str:
        """Different after every start of the machine."""

    def clock(self) -> float:
        """Seconds since the Unix epoch, as the machine believes."""

    def begin(self, on_change: Callable[[bool], None]) -> None:
        """Find out what the runtime is; ``on_change`` is called when more is known of it or of a model, and told
        whether that is worth a message at once."""

    def end(self) -> None:
        """Nobody wants to know any more."""

    def runtime(self) -> Optional[Mapping[str, str]]:
        """``NodeReport.runtime``."""

    def model(self, path: str) -> ModelReport:
        """What is known now of the weights at ``path``."""

    def fetch(self, request: FetchWeights) -> None:
        """Have weights, in the background; ``model`` tells how that stands. Raises ``ValueError``."""

    def serve_weights(self, path: str) -> None:
        """Give verified weights to other nodes, in the background. Raises ``ValueError``."""

    def stored_weights(self, asked: Iterable[str]) -> Tuple[KeptWeights, ...]:
        """``NodeReport.kept``; ``asked`` are the weights that a controller wants to know of."""

    def discard(self, path: str) -> None:
        """Take fetched weights away. Raises ``ValueError``."""

    def room(self) -> Tuple[Optional[int], int]:
        """``NodeReport.models_free_bytes`` and ``models_total_bytes``."""

    async def run_tool(self, call: RunTool) -> ToolSaid:
        """Run a tool that looks at the machine. It never raises."""

    def repair(self, request: Repair) -> None:
        """Have a repair carried out, by something that outlives the agent. Raises ``repairs.Unconfirmed`` while
        another goes on, ``ValueError`` for one that is not permitted."""

    def confirm_repair(self, id: str) -> bool:
        """Whether the changes of a repair stay from now on."""

    def repair_report(self) -> Optional[RepairReport]:
        """``NodeReport.repair``."""

    def continue_repair(self) -> bool:
        """Whether a repair goes on; one that nobody looks after any more is taken up again."""

    # --- what is on disk ---

    def token(self) -> int:
        """The highest fencing token that was kept; 0 for none. Raises ``ValueError`` for one that is no number."""

    def save_token(self, token: int) -> None:
        """Keep a fencing token over the death of agent and machine."""

    def ranks(self) -> List[RankId]:
        """The ranks that have a directory; what was left half made or half removed is cleared away."""

    def create(self, spec: LaunchSpec) -> None:
        """Make the directory of a rank, whole. Raises ``ValueError`` where its sockets would have no room."""

    def remove(self, id: RankId, socket: str) -> None:
        """Take away what is left of a rank that has ended; ``socket`` is the one it answered on."""

    def spec(self, id: RankId) -> Optional[LaunchSpec]:
        """What a rank was started with; None, so that it matches no wish, where that cannot be read."""

    def state(self, id: RankId) -> Optional[ShimState]:
        """What its shim wrote last; None for nothing that can be read."""

    def write_state(self, id: RankId, state: ShimState) -> None:
        """The same in place of a shim that is gone."""

    def process(self, id: RankId) -> Optional[Tuple[int, str]]:
        """Pid and birth of the rank's process; None when it was never started."""

    def words(self, id: RankId) -> str:
        """The last that its shim said on its standard error."""

    def read_log(self, id: RankId, bytes_max: int, offset: Optional[int]) -> Tuple[str, int]:
        """``rank_log.read_log`` of what the rank printed."""

    # --- processes ---

    def start_shim(self, id: RankId) -> None:
        """Start the shim of a rank that has a directory."""

    def prepare(self, id: RankId) -> None:
        """Have a spare for the next rank with the program of this one, where there is none yet."""

    def end_standby(self) -> None:
        """No spare is needed any more."""

    def reap(self) -> None:
        """Let go of shims that have ended."""

    def connect(
        self, id: RankId, on_message: Callable[[Any], None], on_close: Callable[[], None]
    ) -> Connection:
        """Take up the connection with a rank's shim. Raises ``OSError`` where none answers."""

    def birth(self, pid: int) -> Optional[str]:
        """What a process has in common with no other; None when it is gone."""

    async def leftovers_of(self, id: RankId, ports: Tuple[int, ...]) -> Tuple[str, str]:
        """Of a rank that has ended, and was to listen on ``ports``: a value of ``Gone``, and what is left."""

    async def measure(self, pids: Iterable[int]) -> Optional[Measured]:
        """How the machine and these processes do; None where it cannot be told."""

    async def states(self, pids: Iterable[int]) -> Dict[int, str]:
        """The state of each process that is there, as one letter of ``ps``."""

    def signal_process(self, pid: int, number: int) -> None:
        """Send a signal to one process; nothing when it is gone."""

    def signal_group(self, pid: int, number: int) -> None:
        """Send a signal to the process group that ``pid`` leads; nothing when there is none left."""
