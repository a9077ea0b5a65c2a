"""What carries a repair out on a simulated machine: the product's own story, and settings that are facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.agent.repairs import script
from reconciler.agent.repairs.runner import CONFIRMED, UNDO, Unconfirmed, check, recorded
from reconciler.agent.repairs.script import Acts, Await, Failure, Keep, Record, Run
from reconciler.wire.repair import Repair, RepairReport, RepairState
from tests.settings import changed
from tests.simulation.schedules.points import DIE_AFTER, DIE_BEFORE

from .loop import Killed, Process

if TYPE_CHECKING:
    from .machines import Machine

COMMAND_SECONDS = 0.05
POLL_SECONDS = 0.5
NO_SUDO = "sudo: a password is required"


@dataclass
class KeptRepair:
    """On disk."""

    record: Record | None = None
    verdict: str = ""


class Repairs:
    """The last repair of a machine, and the process that carries it out."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._world = machine.world
        self._kept = KeptRepair()
        self._watchdog: Process | None = None
        self._before = machine.facts
        """The settings when the last repair began."""
        self._begun_at = 0.0

    def begin(self, request: Repair) -> None:
        """As ``agent.repairs.Repairs``."""
        before = self._kept.record
        if before is not None and not before.over:
            if before.id == request.id:
                return
            raise Unconfirmed(f"the repair {before.id} is {before.state}")
        check(request, self._machine.boot_id)
        self._kept.verdict = ""
        self._kept.record = script.begin(before, recorded(request), self._world.loop.now)
        self._before = self._machine.facts
        self._begun_at = self._world.loop.now
        self._watch(script.carry_out(self._kept.record))

    def confirm(self, id: str) -> bool:
        """As ``agent.repairs.Repairs``."""
        record = self._kept.record
        if record is None or record.id != id:
            return False
        if record.over:
            return record.state == RepairState.CONFIRMED
        return record.state == RepairState.WAITING and self._decided(CONFIRMED)

    def report(self) -> RepairReport | None:
        """As ``agent.repairs.Repairs``."""
        record = self._kept.record
        if record is None:
            return None
        stays = record.state == RepairState.WAITING and self._kept.verdict == CONFIRMED
        return script.report(record, self._world.loop.now, stays)

    def tend(self) -> bool:
        """As ``agent.repairs.Repairs``."""
        record = self._kept.record
        if record is None or record.over:
            return False
        if self._watchdog is None or not self._watchdog.alive:
            confirmed = not self._decided(UNDO)
            self._watch(script.finish_abandoned(record, self._machine.boot_id, confirmed))
        return True

    def power_off(self) -> None:
        """Every process ends."""
        if self._watchdog is not None:
            self._watchdog.alive = False

    def _decided(self, wish: str) -> bool:
        self._kept.verdict = self._kept.verdict or wish
        return self._kept.verdict == wish

    def _watch(self, acts: Acts) -> None:
        self._watchdog = Process(f"repair of {self._machine.name}")
        self._world.loop.spawn(self._watchdog, self._perform(acts, self._watchdog), "repair")

    async def _perform(self, acts: Acts, process: Process) -> None:
        answer: script.Answer = None
        while True:
            try:
                act = acts.send(answer)
            except StopIteration:
                process.alive = False
                self._judge()
                return
            answer = None
            if isinstance(act, Keep):
                self._kept.record = act.record
            elif isinstance(act, Run):
                answer = await self._run(act.argv, process)
            else:
                answer = await self._confirmed(act)

    def _judge(self) -> None:
        record = self._kept.record
        assert record is not None
        undisturbed = self._world.changed_at < self._begun_at and record.boot_id == self._machine.boot_id
        if record.state == RepairState.UNDONE and undisturbed:
            self._world.oracles.undone(self._machine, self._before)

    async def _run(self, argv: tuple[str, ...], process: Process) -> Failure | None:
        await self._world.sleep(COMMAND_SECONDS)
        words = " ".join(argv)
        kind = self._world.pass_by(f"{self._machine.name}: {words}", (DIE_BEFORE, DIE_AFTER))
        if kind == DIE_BEFORE:
            process.alive = False
            raise Killed
        self._world.oracles.repaired(self._machine, argv)
        if not self._machine.sudo:
            return Failure(NO_SUDO, barred=True)
        self._machine.facts = changed(self._machine.facts, argv)
        if kind == DIE_AFTER:
            process.alive = False
            raise Killed
        return None

    async def _confirmed(self, act: Await) -> bool:
        deadline = self._world.loop.now + act.seconds
        while self._world.loop.now < deadline and not self._kept.verdict:
            await self._world.sleep(POLL_SECONDS)
        return not self._decided(UNDO)
