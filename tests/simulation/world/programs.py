"""Ranks of jobs: programs that meet, run for a while, and end of themselves or as they are asked."""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass

from reconciler.wire.launch import JOB_PREFIX, Phase

from .loop import Process
from .ranks import END_SECONDS, Rank

HARM_SECONDS = 1.0
BOOT_SECONDS = 4.0


@dataclass(frozen=True)
class Program:
    """What the program of a job does, attempt by attempt."""

    seconds: float = 6.0
    ends: tuple[int, ...] = (0,)
    """How the last rank ends in each attempt: a status, or a signal if negative. The last entry counts for all others."""
    stubborn: bool = False
    """Whether SIGTERM does not end it."""
    harm: int = 0
    """In so many attempts it brings its first machine down."""


class ProgramRank(Rank):
    """What a launcher and its program show of themselves."""

    @property
    def program(self) -> Program:
        return self.machine.world.programs.get(self.id.deployment.removeprefix(JOB_PREFIX), Program())

    def load(self) -> None:
        """All are there: the program begins."""
        if self.hung or self.phase != Phase.RENDEZVOUS:
            return
        self.report(Phase.READY)
        world, program = self.machine.world, self.program
        draw = random.Random(f"{world.seed} {self.id.deployment} {self.id.replica} {self.id.epoch}")
        factor = draw.uniform(0.3, 1.5) if world.seed else 1.0
        self.later(program.seconds * factor + 0.1 * self.id.rank, self._finish)
        if self.id.rank == 0 and self.id.epoch <= program.harm:
            self.later(HARM_SECONDS, self._harm)

    def _finish(self) -> None:
        if self.hung or self.phase != Phase.READY:
            return
        ends = self.program.ends
        last = self.id.rank == self.config.size - 1
        end = ends[min(self.id.epoch, len(ends)) - 1] if last else 0
        if end < 0:
            self.end(None, -end, "")
        else:
            self.end(end, None, "the program says so" if end else "", program=True)

    def _harm(self) -> None:
        machine = self.machine
        machine.world.note(f"{self} brings {machine.name} down")
        machine.world.oracles.excuse_on(machine)
        machine.world.disturbed.append(machine.world.loop.now)
        machine.world.oracles.service.fault("reboot")
        machine.power_off()
        machine.world.loop.call_later(BOOT_SECONDS, machine.power_on, context=Process("power").context)

    def terminate(self) -> None:
        """Whoever is asked to end never ends with 0."""
        if self.hung or self.phase == Phase.DRAINING:
            return
        self.report(Phase.DRAINING)
        if not self.program.stubborn:
            self.later(END_SECONDS, self.end, None, signal.SIGTERM, "")

    def takes_along(self, other: Rank, code: int | None) -> bool:
        """The others go on where it has ended well, and end by themselves where they were asked to."""
        return code != 0 and other.phase != Phase.DRAINING and super().takes_along(other, code)
