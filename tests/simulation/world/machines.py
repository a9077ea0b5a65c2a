"""Machines that are no more than a state: boots, processes, disks, facts, and the agent of each."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from reconciler.agent.server import Agent
from reconciler.planning.context.lost_nodes import LOST_AFTER_SECONDS
from reconciler.state import MachineFacts, PortFacts, WorkloadId
from reconciler.wire.launch import RankId

from .host import SimHost
from .loop import Process
from .node_gateways import GatewayHome
from .ranks import Files, Rank, Shim
from .repairs import Repairs

if TYPE_CHECKING:
    from .net import Line
    from .world import World

LOAD_SECONDS = 2.0


@dataclass
class Disk:
    """What one agent keeps; it outlives every process and every boot."""

    token: int = 0
    ranks: dict[RankId, Files] = field(default_factory=dict)
    pruned: set[RankId] = field(default_factory=set)
    """The ranks of jobs of which only the record is left."""
    full: bool = False


class Machine:
    """One computer with the place of one agent on it."""

    def __init__(self, world: World, name: str, memory_bytes: int) -> None:
        self.world = world
        self.name = name
        self.memory_bytes = memory_bytes
        self.boots = 1
        self.up_since = world.loop.now - 3600.0
        """Of the world's own seconds."""
        self.up = True
        self.cut_off = False
        """Whether nobody reaches it over the network."""
        self.slow = 1.0
        self.skew = 0.0
        """What its clock is wrong by."""
        self.disk = Disk()
        self.pids = itertools.count(1000)
        self.processes: dict[int, Rank | Shim] = {}
        self.agent: AgentProcess | None = None
        self.start_failed = False
        """Whether the last attempt to start its agent has failed."""
        self.sound = self.facts = MachineFacts(system="Linux")
        """What probes tell when nothing is wrong, as after a boot; and now."""
        self.repairs = Repairs(self)
        self.gateway = GatewayHome(self)
        self.sudo = True
        """Whether whoever repairs it needs no password."""
        self.load_seconds = LOAD_SECONDS
        self.panics = 0
        """Reports of the last hour."""
        self.harmed = 0
        """Those of them that came while a rank of a job was here, which counts as the cause."""
        self.panicked: set[WorkloadId] = set()
        """Whose ranks were here when it panicked last, and nothing has changed since their groups were formed."""
        self.probes_late = 0.0
        """How many seconds each round of its probes takes beyond what it takes elsewhere."""
        self.taken = 0
        """How many of the ports that ranks are to listen on next a stranger takes before them."""
        self.garbage = False
        """Whether groups over RDMA have wrong results with it."""
        self.withheld_at: float | None = None
        """Since when it could be seen that it is not fit for new ranks."""

    def show(self) -> None:
        """Can be asked from now on, after a silence: what has changed meanwhile is known no sooner."""
        self.withheld_at = None if self.withheld_at is None else self.world.loop.now

    @property
    def boot_id(self) -> str:
        return f"{self.name}-boot-{self.boots}"

    @property
    def reachable(self) -> bool:
        return self.up and not self.cut_off

    @property
    def agent_alive(self) -> bool:
        """Whether somebody could tell what is here."""
        return self.agent is not None and self.agent.process.alive and not self.agent.hung

    @property
    def given_up(self) -> bool:
        """Whether nobody could tell what is here for so long that it counts as lost: its agent was not to be started."""
        gone_at = self.agent.gone_at if self.agent is not None else None
        lost = gone_at is not None and self.world.loop.now - gone_at >= LOST_AFTER_SECONDS
        return self.start_failed and lost

    def alive(self) -> list[Rank]:
        """The rank processes that live here."""
        return [each for each in self.processes.values() if isinstance(each, Rank)]

    def probed_facts(self) -> MachineFacts:
        """What probes tell now."""
        booted_at = self.world.wall() + self.skew - (self.world.loop.now - self.up_since)
        return replace(self.facts, boot_id=self.boot_id, panics=self.panics, booted_at=booted_at)

    def start_agent(self, token: int = 0) -> bool:
        """Have an agent; one that is there stays, and none is begun for a controller that was replaced."""
        self.start_failed = False
        if self.agent_alive:
            return True
        if self.disk.token > token > 0:
            return False
        if self.agent is not None:
            self.agent.die()  # where it hangs
        self.agent = AgentProcess(self)
        self.show()
        return True

    def power_off(self) -> None:
        """Everything that runs ends at once; the disk stays."""
        self.world.note(f"{self.name} loses its power")
        self.up = False
        self.world.oracles.jobs.machine_lost(self)
        if self.agent is not None:
            self.agent.die()
        self.repairs.power_off()
        self.gateway.power_off()
        for each in list(self.processes.values()):
            each.vanish()
        self.processes.clear()

    def _booted(self, port: PortFacts) -> PortFacts:
        """A port with its cable as it is, and its settings as after every boot."""
        sound = next((each for each in self.sound.ports if each.receptacle == port.receptacle), port)
        return replace(port, bridged=sound.bridged, address=sound.address, mapped_gid=sound.mapped_gid)

    def power_on(self) -> None:
        """Another boot, of a machine that is down."""
        if self.up:
            return
        self.boots += 1
        self.up_since = self.world.loop.now
        self.up = True
        before, ports = self.facts, tuple(map(self._booted, self.facts.ports))
        self.facts = replace(self.sound, ports=ports)
        self.withheld_at = None
        self.world.note(f"{self.name} is up again")
        if self.facts != before:
            self.world.changed(f"{self.name} is as its boot has left it")
        for link in self.world.links:
            if link.machine is self:
                link.reset()


class AgentProcess:
    """The product's agent, running on a simulated machine."""

    def __init__(self, machine: Machine) -> None:
        world = machine.world
        self.machine = machine
        self.number = next(world.numbers)
        self.process = Process(f"agent of {machine.name} #{self.number}")
        self.lines: list[Line] = []
        self.gone_at: float | None = None
        """Since when it tells nobody anything."""
        self.hung = False
        """Whether it lives, and neither hears nor says anything."""
        self.host = SimHost(self)
        self.agent: Agent | None = None
        world.note(f"{self.process.name} starts")
        world.loop.spawn(self.process, self._run(), "agent")

    async def _run(self) -> None:
        self.agent = Agent(self.machine.world.loop, self.host)
        looking = self.agent.adopt_ranks()
        self.agent.ranks.look_seconds = self.machine.world.pace.look_seconds
        self.agent.inquire()
        await self.agent.ending.wait()
        self.machine.world.oracles.pruning.dismissed(self.machine)
        looking.cancel()
        self.die()

    def hang(self) -> None:
        """Live on, and answer nobody."""
        self.hung, self.gone_at = True, self.machine.world.loop.now

    def die(self) -> None:
        """The end, however it comes: its connections close behind it."""
        if not self.process.alive:
            return
        self.process.alive = False
        self.gone_at = self.machine.world.loop.now if self.gone_at is None else self.gone_at
        self.machine.world.note(f"{self.process.name} ends")
        for line in list(self.lines):
            line.agent_gone()
        self.lines.clear()
