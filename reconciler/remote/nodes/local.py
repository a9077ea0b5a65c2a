"""A node on this machine: its agent is a process that outlives its starter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reconciler.errors import Refused, Silent, Unreachable
from reconciler.remote.agent_connection import AgentConnection
from reconciler.remote.commands import run_locally
from reconciler.remote.runtime.build import Pruned
from reconciler.wire.paths import agent_socket
from reconciler.wire.shortage import explained

START_SECONDS = 10.0
DIAL_SECONDS = 5.0
ANOTHER_SERVES = 75
FENCED = 77
_TAIL_BYTES = 2000


@dataclass(frozen=True, slots=True)
class LocalNode:
    """One ``local: {}`` node. Paths are absolute. Raises ``ValueError`` if the path of a socket would be too long."""

    name: str
    directory: Path
    """Folder of the agent's state."""
    models: Path
    run_directory: Path
    """Folder of Unix sockets, with a short path."""
    runtime_python: Path
    """Interpreter of the ranks."""
    agent_python: Path
    """Interpreter of agent and shims, 3.9 or newer."""
    bundle: Path
    """The agent's file, from ``write_bundle``."""
    start_seconds: float = START_SECONDS

    def __post_init__(self) -> None:
        agent_socket(str(self.run_directory), self.name)

    @property
    def socket(self) -> str:
        return agent_socket(str(self.run_directory), self.name)

    async def stage(self, token: int = 0) -> None:
        """Do nothing: the controller has already put the agent's file there."""

    async def start_agent(self, token: int = 0) -> None:
        """Start an agent unless one is running.

        Raises ``Unreachable`` with the agent's last output if it does not answer in time, ``Refused`` (``Fenced``) if
        the node has obeyed a controller with a higher token; a token of 0 is not checked.
        """
        places = {
            "--directory": self.directory,
            "--models": self.models,
            "--run-directory": self.run_directory,
            "--python": self.runtime_python,
            "--token": token,
        }
        serve = (str(self.agent_python), "-I", str(self.bundle), "serve", "--detach", "--node", self.name)
        command = [*serve, *(str(word) for place in places.items() for word in place)]
        try:
            starter = await run_locally(*command, timeout=self.start_seconds)
        except TimeoutError:
            reason = f"not serving after {self.start_seconds:g} s"
            raise Unreachable(self._failure(reason)) from None
        except OSError as error:
            raise Unreachable(explained(f"cannot start the agent of {self.name}: {error}")) from error
        words = starter.err.strip()[-_TAIL_BYTES:]
        if starter.status == FENCED:
            raise Refused("Fenced", words)
        if starter.status not in (0, ANOTHER_SERVES):
            raise Unreachable(self._failure(explained(words)))

    def _failure(self, reason: str) -> str:
        log = self.directory / "agent.log"
        words = log.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace").strip() if log.exists() else ""
        return f"the agent of {self.name} did not start: {reason}" + (
            f"\n{log} ends:\n{words}" if words else ""
        )

    async def dial(self) -> AgentConnection:
        """Return a new connection to the agent. Raises ``Unreachable`` if there is none, ``Silent`` if it is
        suspended."""
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self.socket)
        except TimeoutError:
            raise self._silent() from None
        except OSError as error:
            raise Unreachable(
                f"the agent of {self.name} does not answer at {self.socket}: {error}"
            ) from error
        if writer.get_extra_info("peername") is None:
            # asyncio's form of EAGAIN, for a socket with a full queue: its agent listens but accepts nobody.
            writer.transport.abort()
            raise self._silent()
        return await AgentConnection(reader, writer).open("controller")

    async def stream(self, socket: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to a Unix socket. Raises ``Unreachable``."""
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                return await asyncio.open_unix_connection(socket)
        except OSError as error:  # a time-out is one, too
            why = str(error) or f"no answer within {DIAL_SECONDS:g} s"
            raise Unreachable(f"nothing answers at {socket}: {why}") from error

    async def disable_service(self) -> None:
        """Do nothing: only the controller starts this agent."""

    async def withdraw(self) -> None:
        """Do nothing: the gateway is on the same machine and needs no access."""

    async def build_runtime(self, tell: Callable[[str], None]) -> str:
        """Raise ``Refused``: ranks on the controller's own machine use the controller's runtime."""
        raise Refused(
            "NotManaged", f"{self.name} is the controller's own machine and uses the controller's runtime"
        )

    async def prune_runtimes(self) -> Pruned:
        """Return an empty result: there are no managed runtimes."""
        return Pruned()

    async def answers(self) -> bool:
        """Return True: it is the controller's own machine."""
        return True

    async def reboot(self) -> None:
        """Raise ``Refused``: a controller cannot watch the restart of its own machine."""
        text = f"{self.name} is the controller's own machine, which it does not restart: restart it yourself"
        raise Refused("OwnMachine", text)

    async def reconnect(self) -> None:
        """Do nothing: every connection to this agent is new anyway."""

    async def close(self) -> None:
        """Do nothing: every connection belongs to its link."""

    def _silent(self) -> Silent:
        return Silent(f"the agent of {self.name} accepts no connection at {self.socket}")
