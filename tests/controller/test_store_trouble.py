"""A store that is damaged or locked while a controller runs: it neither trusts the one nor waits for the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.bootstrap.controller import EXIT_DEPOSED
from reconciler.errors import Damaged
from reconciler.state import WaitingFor
from reconciler.state.identity import CLUSTER
from reconciler.state.reports.status import Event
from reconciler.store import EventFilter
from reconciler.wire.admin import Doctor
from tests.store.test_damage import spoil
from tests.store.test_locked import locked

from .test_controller import Controller, controller, stalled
from .test_loop import WAIT_SECONDS, Controlled

__all__ = ["controller"]

PASSES = 20
"""So many that a wait of 5 s for the store in each would exceed ``WAIT_SECONDS``."""


@pytest.fixture
async def controlled(tmp_path: Path) -> AsyncIterator[Controlled]:
    made = Controlled(tmp_path)
    made.loop.home_poll_seconds = 0.01
    yield made
    made.loop.end()
    await made.close()


def waits(controlled: Controlled) -> bool:
    return any(each.reason is WaitingFor.STORE for each in controlled.loop.plan.waiting)


async def passed(controlled: Controlled) -> None:
    """Have a pass run, and wait for it."""
    news = controlled.parts.publisher.news
    controlled.loop.trigger()
    await news.wait()


async def test_damage_ends_the_controller_without_another_pass(
    controlled: Controlled, tmp_path: Path
) -> None:
    running = asyncio.create_task(controlled.loop.run())
    async with asyncio.timeout(WAIT_SECONDS):
        await controlled.attempts.get()
        spoil(tmp_path / "store.db")
        with pytest.raises(Damaged, match=r"store\.db is damaged"):
            await running


async def test_a_locked_store_delays_what_is_written_and_not_the_loop(
    controlled: Controlled, tmp_path: Path
) -> None:
    running = asyncio.create_task(controlled.loop.run())
    events = [Event(1.0, CLUSTER, False, "Tested", "written late")]
    async with asyncio.timeout(WAIT_SECONDS):
        await controlled.attempts.get()
        with locked(tmp_path / "store.db"):
            controlled.parts.publisher.publish_events(events)
            for _ in range(PASSES):
                await passed(controlled)
            assert waits(controlled)
        while waits(controlled):
            await passed(controlled)
        await passed(controlled)
        reasons = [event.reason for _, event in controlled.store.events(EventFilter())]
        assert [each for each in reasons if each in ("Tested", "StoreLocked", "StateWritable")] == [
            "Tested",
            "StoreLocked",
            "StateWritable",
        ]
        controlled.loop.end()
        await running


def findings(controller: Controller) -> list[str]:
    run = controller.ask(Doctor(()))["run"]
    body = controller.ask(Doctor((), run, 5.0))
    return [each["seen"] for each in body["findings"] if each["title"] == "State directory"]


@pytest.mark.second_tier
def test_a_controller_whose_store_is_damaged_gives_way_to_one_that_adopts_everything(
    controller: Controller,
) -> None:
    controller.wait(lambda: stalled(controller))
    agents = controller.agents()
    spoil(controller.home / "store.db")
    assert controller.process.wait(WAIT_SECONDS) == EXIT_DEPOSED
    assert "is damaged" in controller.log.read_text().splitlines()[-1]
    for _ in range(2):
        controller.start()
        controller.wait(lambda: stalled(controller))
        assert controller.agents() == agents
        assert controller.reasons().count("StoreDamaged") == 1
        (kept,) = [file.name for file in controller.home.glob("store.db.damaged-*Z")]
        assert findings(controller) == [f"the store was damaged, and is kept as {kept}"]
        controller.kill()
