"""The same stories and schedules are decided as they were: each decision, its time, and each sentence about it.

A change of the planner that is meant shows itself here: ``UPDATE_GOLDEN=1 pytest tests/simulation/test_recorded.py`` writes
the files again, and their difference says which stories go otherwise. ``python -m tests.simulation replay`` tells one.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reconciler.status import Snapshots
from tests.recorded import compare, digest, plain
from tests.sentences import all_sentences
from tests.simulation.__main__ import meant
from tests.simulation.schedules.gateways import GATEWAY_SCENARIOS
from tests.simulation.schedules.play import faultless, play
from tests.simulation.schedules.points import Points
from tests.simulation.schedules.scenarios import SCENARIOS, Scenario
from tests.simulation.scrambled import each_pass, other_sentences

RECORDED = Path(__file__).parent / "recorded"
STORIES = {**SCENARIOS, **GATEWAY_SCENARIOS}
NAMES = [*sorted(SCENARIOS), *sorted(GATEWAY_SCENARIOS)]
FIRST_TIER = 5
"""One story of so many is played in the first tier."""
SEEDS = [range(first, first + 8) for first in range(1, 65, 8)]
NOT_DECIDED = frozenset({"agent_file", "gateways", "started_at", "token"})
"""Of what the planner remembers: what no pass has decided."""


class Decided:
    """Each decision of a world's passes that the pass before has not made, with its time."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._before: set[Any] = set()
        self._incidents: dict[str, str] = {}
        self._remembered: dict[str, str] = {}

    def passed(self, world: Any, last: Snapshots) -> None:
        """Note a pass."""
        plan, now = last.plan, f"{world.loop.now:.3f}"
        found = {}
        for part in ("steps", "waiting", "refused", "troubles", "quarantined"):
            for each in getattr(plan, part):
                found[part, digest(plain(each, all_sentences()))] = type(each).__name__
        self.lines += [
            f"{now} {part} {kind} {name}"
            for (part, name), kind in found.items()
            if part == "steps" or (part, name) not in self._before
        ]
        self._before = set(found)
        opened = world.controller.parts.publisher.incident_log.open if world.controller else ()
        self._changed(
            now,
            "incident",
            self._incidents,
            {each.id: digest(plain(each, all_sentences())) for each in opened},
        )
        untold = all_sentences().get(type(last.memory), ())
        remembered = {
            name: digest(bool(value) if name in untold else plain(value, all_sentences()))
            for name, value in vars(last.memory).items()
            if not name.startswith("_") and name not in NOT_DECIDED
        }
        self._changed(now, "memory", self._remembered, remembered)

    def _changed(self, now: str, kind: str, before: dict[str, str], found: dict[str, str]) -> None:
        self.lines += [
            f"{now} {kind} {name} {found[name]}" for name in found if before.get(name) != found[name]
        ]
        before.clear()
        before.update(found)


@contextmanager
def deciding() -> Iterator[list[str]]:
    """Within the block, collect the decisions of the worlds that are played."""
    found = Decided()
    with each_pass(found.passed):
        yield found.lines
    gc.collect()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if at % FIRST_TIER == 0 else pytest.mark.second_tier)
        for at, name in enumerate(NAMES)
    ],
)
def test_a_story_is_decided_as_it_was(name: str) -> None:
    faultless(STORIES[name])  # which is played once in a process, and not while its passes are told
    with deciding() as lines:
        verdict = play(STORIES[name], Points())
    assert verdict.violations == []
    compare(RECORDED / f"{name}.txt", [*lines, verdict.trace_hash])


@pytest.mark.second_tier
@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_a_schedule_of_many_faults_is_decided_as_it_was(seeds: range) -> None:
    found = []
    for seed in seeds:
        schedule = meant(seed, None)
        faultless(schedule.scenario)
        with deciding() as lines:
            verdict = schedule.play()
        found.append(f"{seed} {len(lines)} {digest(lines)} {verdict.trace_hash[:8]}")
    compare(RECORDED / "seeds" / f"{seeds[0]}-{seeds[-1]}.txt", found)


@pytest.mark.second_tier
@pytest.mark.parametrize(
    ("stories", "file"),
    [(SCENARIOS, "sentences.txt"), (GATEWAY_SCENARIOS, "sentences-of-gateways.txt")],
    ids=["deployments", "gateways"],
)
def test_the_stories_say_what_they_said(stories: Mapping[str, Scenario], file: str) -> None:
    """Every sentence of them, without its numbers: a copy editor reads the file."""
    found: set[str] = set()

    def note(kind: str, text: str) -> str:
        found.add(re.sub(r"\d+", "#", text))
        return text

    with other_sentences(note):
        for name in sorted(stories):
            play(stories[name], Points())
            gc.collect()
    compare(RECORDED / file, sorted(found - {""}))
