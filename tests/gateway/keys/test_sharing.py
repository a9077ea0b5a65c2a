"""The ledger by which a gateway counts follows the routes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from reconciler.gateway.keys import sharing as of_routes
from reconciler.gateway.keys.desk import Desk
from reconciler.gateway.keys.shared.ledger import SharedLedger
from reconciler.gateway.keys.sharing import Sharing
from reconciler.wire.gateway import LimitsStore
from reconciler.wire.generation import Routes

SHARED = Routes(1, 1, "127.0.0.1:1", 20.0, auth="keys", limits_store=LimitsStore("127.0.0.1:1", "test"))


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk whose store never answers."""

    async def run(ledger: SharedLedger) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(SharedLedger, "run", run)
    return Desk(lambda: 0.0, lambda: 0.0)


@pytest.mark.parametrize("change", [{"limits_store": None}, {"auth": "none"}], ids=["no store", "no keys"])
async def test_a_gateway_whose_routes_name_a_store_no_more_counts_alone(
    desk: Desk, change: dict[str, Any]
) -> None:
    sharing = Sharing(desk, "process")
    await sharing.follow(SHARED)
    assert isinstance(desk.ledger, SharedLedger)
    await sharing.follow(replace(SHARED, **change))
    alone: list[object] = [desk.ledger, sharing.state(), [*sharing.collect()]]
    assert alone == [sharing.own, None, []]
    await sharing.follow(SHARED)
    assert isinstance(desk.ledger, SharedLedger)
    await sharing.close()


async def test_a_store_is_asked_by_another_ledger_only_if_it_or_the_gateways_name_has_changed(
    desk: Desk,
) -> None:
    sharing, found = Sharing(desk, "process"), []
    other = LimitsStore("127.0.0.1:2", "test")
    for change in ({}, {"sequence": 2}, {"gateway": "node-a"}, {"limits_store": other}):
        await sharing.follow(replace(SHARED, **change))
        found.append(desk.ledger)
    await sharing.close()
    assert found[0] is found[1]
    assert len({id(ledger) for ledger in found}) == 3


async def test_the_last_word_to_a_store_is_not_cut_short_and_is_not_waited_for_long(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, may_say = asyncio.Event(), asyncio.Event()

    async def run(ledger: SharedLedger) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await may_say.wait()
            said.set()

    monkeypatch.setattr(SharedLedger, "run", run)
    monkeypatch.setattr(of_routes, "CLOSE_SECONDS", 0.05)
    sharing = Sharing(desk, "process")
    await sharing.follow(SHARED)
    await asyncio.sleep(0)
    await sharing.close()
    may_say.set()
    async with asyncio.timeout(20):
        await said.wait()
