"""What a gateway tells the store of the limits in one call, before a store that takes everything."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from reconciler.gateway.keys.ledger import Grant, MemoryLedger, Moment
from reconciler.gateway.keys.shared import ledger as ledgers
from reconciler.gateway.keys.shared.ledger import KEYS_AT_ONCE, Gateway, SharedLedger
from reconciler.gateway.keys.shared.store import StoreAway
from reconciler.wire.keys import KeyLimits
from tests.gateway.rank_double import eventually

GRANTED = [0, 0.0, 0, 0.0, 0, 0.0, 0]


class Store:
    """Grants everything, and notes the keys of each call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    async def call(self, names: Sequence[str], argument: bytes) -> Any:
        self.calls.append(list(names))
        answers = [
            {"ahead": 0, "verdicts": [GRANTED for _ in key["asks"]]} for key in orjson.loads(argument)["keys"]
        ]
        return {"now": time.time(), "known": True, "settled": True, "answers": answers}

    async def close(self) -> None:
        """Nothing is open."""


async def test_every_changed_key_is_told_so_many_at_a_time_and_a_request_that_waits_goes_first() -> None:
    count = 2 * KEYS_AT_ONCE + 50
    own, store = MemoryLedger(2), Store()
    for number in range(count):
        own.add(f"k{number}", 0, 1)
    anything: Any = store
    ledger = SharedLedger(own, anything, Gateway("n", "p"), time.monotonic, lambda: None)
    running = asyncio.create_task(ledger.run())
    await eventually(lambda: ledger.shared and not ledger.behind)
    assert [len(names) for names in store.calls if names] == [KEYS_AT_ONCE, KEYS_AT_ONCE, 50]
    assert {name for names in store.calls for name in names} == {f"k{number}" for number in range(count)}
    store.calls.clear()
    for number in range(count):
        ledger.add(f"k{number}", 0, 1)
    verdict = await ledger.reserve("asks", KeyLimits(), 1, Moment(time.monotonic(), time.time()))
    assert isinstance(verdict, Grant)
    assert "asks" in store.calls[0]
    await eventually(lambda: not ledger.behind)
    assert len({name for names in store.calls for name in names}) == count + 1
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("answers", [False, True], ids=["it is away", "it answers"])
async def test_the_calls_end_at_once_also_when_the_client_of_the_store_loses_the_cancellation(
    answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Losing(Store):
        """As a client that is cancelled while it connects."""

        called = asyncio.Event()

        async def call(self, names: Sequence[str], argument: bytes) -> Any:
            self.called.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            if not answers:
                raise StoreAway("no connection")
            return await super().call(names, argument)

    for bound in ("BEAT_SECONDS", "AGAIN_SECONDS"):
        monkeypatch.setattr(ledgers, bound, 600.0)
    store: Any = Losing()
    ledger = SharedLedger(MemoryLedger(1), store, Gateway("n", "p"), time.monotonic, lambda: None)
    running = asyncio.create_task(ledger.run())
    await store.called.wait()
    running.cancel()
    ended, _ = await asyncio.wait([running], timeout=20)
    running.cancel()
    assert ended
