"""The file of an emulated Mac's examination, without running the script."""

from __future__ import annotations

from dataclasses import replace

from reconciler.inventory.examination.probing import LEFT_OUT, RISK, RISKY, RUN
from reconciler.inventory.examination.record import Record
from reconciler.inventory.examination.report import Report, report
from reconciler.sandbox.tools.call import Live
from reconciler.sandbox.world import changes, macs
from reconciler.sandbox.world.state import World
from tests.sandbox.test_tools import NOW, output_for_agent

NAMES = ("mini-1", "mini-2")


def ready() -> World:
    """Two Macs of which everything is as it should be."""
    boots = [f"boot-{name}" for name in NAMES]
    world = changes.addressed(macs.world(NAMES, "mini", macs.MESH, boots, NOW - 7200))
    for name in NAMES:
        world = changes.with_machine(world, name, gids_from=0.0)
    return world


def record_of(world: World, name: str = "mini-1", verbs: bool = True, **changed: object) -> Record:
    said = {
        probe.name: output_for_agent(world, name, probe.call, Live())
        for probe in RUN
        if probe.name not in LEFT_OUT and (verbs or probe is not RISKY)
    }
    left_out = dict(LEFT_OUT) | ({} if verbs else {RISKY.name: RISK})
    at = "2026-11-24T08:40:00Z"
    return replace(Record(at, "Darwin 25.3.0 arm64", True, "", said, left_out), **changed)  # type: ignore[arg-type]


def report_of(world: World, name: str = "mini-1", verbs: bool = True, **changed: object) -> Report:
    return report(name, record_of(world, name, verbs, **changed))


def verdicts(found: Report) -> dict[str, str]:
    return {each.precondition.name: each.verdict.value for each in found.judgements}
