"""Who lets a request in while another gateway takes over: asked once, and counted by one of the two."""

from __future__ import annotations

import asyncio
import time

import pytest

from reconciler.gateway.figures import Figures
from reconciler.gateway.keys.caller import Caller
from reconciler.gateway.keys.desk import Desk, Ticket
from reconciler.gateway.keys.ledger import Grant, Limit, MemoryLedger, Moment, Refusal
from reconciler.gateway.keys.usage import Usage
from reconciler.wire.keys import AccessKey, KeyLimits
from tests.gateway.keys.test_limits import Idle
from tests.gateway.rank_double import eventually

NAME = "agent"
CALLER = Caller(f"key {NAME}", AccessKey(NAME, ()))
ONE = KeyLimits(parallel_requests=1)
NOBODY_ANSWERS, GRANTED = None, Grant(0, 0, Figures())


class Heir:
    """The gateway that has taken over: it answers in the same way each time, or when it is told to."""

    def __init__(self, answer: Grant | Refusal | None, silent: bool = False) -> None:
        self.asked: list[int] = []
        self._answer = answer
        self._silent = silent

    async def begin(self, number: int, name: str, limits: KeyLimits, tokens: int) -> Grant | Refusal | None:
        self.asked.append(number)
        if self._silent:
            await asyncio.Event().wait()
        return self._answer

    def ended(self, number: int, usage: Usage, never_began: bool) -> None:
        pass

    def seen(self, name: str) -> None:
        pass


class TakenMeanwhile(MemoryLedger):
    """Another gateway takes over while this one's ledger decides, as a store of limits may need time for that."""

    def __init__(self, desk: Desk, heir: Heir) -> None:
        super().__init__()
        self._desk = desk
        self._heir = heir

    async def reserve(self, name: str, limits: KeyLimits, tokens: int, now: Moment) -> Grant | Refusal:
        self._desk.heir = self._heir
        return await super().reserve(name, limits, tokens, now)


def desk() -> Desk:
    return Desk(time.time, time.monotonic)


async def begin(at: Desk) -> Ticket | Refusal:
    return await at.open(CALLER, NAME, ONE, 0, Idle())


def open_requests(at: Desk) -> int:
    assert isinstance(at.ledger, MemoryLedger)
    return at.ledger.account(NAME, at.now()).open


async def test_who_does_not_answer_is_asked_once() -> None:
    old, heir = desk(), Heir(NOBODY_ANSWERS)
    old.heir = heir
    ticket = await begin(old)
    assert isinstance(ticket, Ticket)
    assert ticket.counted_here
    assert heir.asked == [ticket.number]


async def test_who_has_taken_over_meanwhile_decides() -> None:
    refusal = Refusal(Limit.PARALLEL, 1.0, Figures(), ONE)
    for answer in (GRANTED, refusal):
        old = desk()
        old.ledger = TakenMeanwhile(old, Heir(answer))
        opened = await begin(old)
        if isinstance(opened, Ticket):
            assert (answer, opened.counted_here) == (GRANTED, False)
        else:
            assert opened is answer
        assert open_requests(old) == 0


async def test_a_client_that_leaves_while_the_other_gateway_is_asked_leaves_nothing_open() -> None:
    old, heir = desk(), Heir(GRANTED, silent=True)
    old.ledger = TakenMeanwhile(old, heir)
    asking = asyncio.create_task(begin(old))
    await eventually(lambda: bool(heir.asked))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert open_requests(old) == 0
