"""A call of a tool on an emulated machine, and its output. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.sandbox.world.state import Machine, World

NOT_ROOT = "Operation not permitted"


@dataclass(frozen=True, slots=True)
class Process:
    """A real process of a machine."""

    pid: int
    parent: int
    command: str


@dataclass(frozen=True, slots=True)
class Live:
    """The live facts of a machine, which are not part of its state."""

    processes: tuple[Process, ...] = ()
    ports: tuple[int, ...] = ()
    """TCP ports that they listen on."""
    domains: int = 0
    """The number of protection domains that they hold, of all devices together."""
    wired_bytes: int = 0
    services: Mapping[str, int] = field(default_factory=dict)
    """The pid of each service that launchd runs, by its label."""
    disk_kib: tuple[int, int] = (2**30, 2**29)
    """Size and free space of the disk with the user's folder."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One run of a tool."""

    world: World
    name: str
    argv: tuple[str, ...]
    root: bool
    now: float
    """Seconds since the Unix epoch."""
    home: str
    """The user's folder."""
    user: str
    live: Live = Live()

    @property
    def machine(self) -> Machine:
        return self.world.machine(self.name)

    @property
    def root_folder(self) -> str:
        """Return the folder that stands for ``/`` where root writes."""
        return self.home.rsplit("/", 2)[0]

    @property
    def words(self) -> tuple[str, ...]:
        return self.argv[1:]


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of a tool."""

    stdout: str = ""
    stderr: str = ""
    code: int = 0
    world: World | None = None
    """The next world, if the tool changed it."""
    become: tuple[str, ...] = ()
    """The command that the tool becomes."""
    as_root: bool = False
    """True if that command runs as root."""
    hangs: bool = False
    """True if it hangs while the fault lasts."""
    reboots: bool = False
    """True if the machine restarts."""


def refused(call: ToolCall, why: str, code: int = 1) -> ToolOutput:
    """Return a refusal with its reason, and no change."""
    return ToolOutput(stderr=f"{call.argv[0]}: {why}\n", code=code)
