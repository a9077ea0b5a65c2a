"""A tool that was run on an emulated machine, and what it says. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.sandbox.world.state import Machine, World

NOT_ROOT = "Operation not permitted"


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a machine: a real one."""

    pid: int
    parent: int
    command: str


@dataclass(frozen=True, slots=True)
class Live:
    """What runs on a machine, which no state of it says."""

    processes: tuple[Process, ...] = ()
    ports: tuple[int, ...] = ()
    """TCP ports that they listen on."""
    domains: int = 0
    """Protection domains that they hold, of all devices together."""
    wired_bytes: int = 0
    disk_kib: tuple[int, int] = (2**30, 2**29)
    """Of the disk with the user's folder: all, and free."""


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
    def words(self) -> tuple[str, ...]:
        """The arguments."""
        return self.argv[1:]


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What came of it."""

    stdout: str = ""
    stderr: str = ""
    code: int = 0
    world: World | None = None
    """As it is from now on, where the tool has changed something."""
    become: tuple[str, ...] = ()
    """The command that the tool becomes."""
    as_root: bool = False
    """What it becomes runs as root."""
    hangs: bool = False
    """It does not come back as long as this is so."""
    reboots: bool = False
    """The machine restarts."""


def refused(asked: ToolCall, why: str, code: int = 1) -> ToolOutput:
    """Nothing is changed, and why."""
    return ToolOutput(stderr=f"{asked.argv[0]}: {why}\n", code=code)
