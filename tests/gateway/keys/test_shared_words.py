"""The words of a store that several gateways share, as one of them takes them."""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import Any

import orjson
import pytest

from reconciler.gateway.keys.ledger import Grant, Limit, MemoryLedger, Moment, Refusal
from reconciler.gateway.keys.shared import ledger as shared
from reconciler.gateway.keys.shared.ledger import Gateway, SharedLedger
from reconciler.wire.keys import KeyLimits

LIMITS = KeyLimits(requests_per_minute=3)
NOW = Moment(0.0, 1_000_000.0)


class Store:
    """Answers each request with the same verdict."""

    def __init__(self, verdict: list[float]) -> None:
        self.verdict = verdict

    async def call(self, names: list[str], said: bytes) -> dict[str, Any]:
        keys = orjson.loads(said)["keys"]
        answers: list[dict[str, Any]] = [
            {"ahead": 0, "verdicts": [self.verdict for _ in key["asks"]] or {}} for key in keys
        ]
        return {"now": str(NOW.wall), "known": True, "settled": True, "answers": answers or {}}

    async def close(self) -> None:
        pass


async def verdict(*said: float, monkeypatch: pytest.MonkeyPatch) -> Grant | Refusal:
    monkeypatch.setattr(shared, "WAIT_SECONDS", 30.0)
    told = asyncio.Event()
    store: Any = Store(list(said))
    ledger = SharedLedger(MemoryLedger(), store, Gateway("n0", "p0"), lambda: 0.0, told.set)
    running = asyncio.create_task(ledger.run())
    try:
        await told.wait()
        return await ledger.reserve("webui", LIMITS, 10, NOW)
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@pytest.mark.parametrize(
    ("seconds", "retry"),
    [(-1.0, math.inf), (0.0, 0.0), (0.25, 0.25), (0.999, 0.999), (1.0, 1.0), (60.5, 60.5)],
)
@pytest.mark.parametrize("limit", Limit)
async def test_a_refused_request_may_try_again_after_the_seconds_of_the_store_and_never_where_it_names_none(
    limit: Limit, seconds: float, retry: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = list(Limit).index(limit) + 1
    refusal = await verdict(code, seconds, 3, 60, 0, 0, 0, monkeypatch=monkeypatch)
    assert isinstance(refusal, Refusal)
    assert (refusal.limit, refusal.retry_seconds) == (limit, retry)


async def test_a_request_that_the_store_lets_begin_has_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    grant = await verdict(0, -1, 2, 30, 0, 0, 0, monkeypatch=monkeypatch)
    assert isinstance(grant, Grant)
    assert grant.tokens == 10
    assert grant.figures.requests is not None
    assert (grant.figures.requests.remaining, grant.figures.requests.reset_seconds) == (1, 30)
