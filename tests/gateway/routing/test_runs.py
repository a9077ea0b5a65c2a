"""All choices of one HTTP request, waited for together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from reconciler.gateway.errors import ApiError, ClientGone
from reconciler.gateway.events import Piece
from reconciler.gateway.routing.runs import Runs
from reconciler.wire.generation import Delta
from tests.gateway.rank_double import Script, Turn, eventually, silent, story

from .conftest import Groups
from .test_run import HELLO, Asked


def two(groups: Groups) -> Runs:
    """Two choices of one request."""
    return Runs(groups.pool, "llama", (HELLO, replace(HELLO, tokens_max=5)), "chat")


async def go_on(runs: Runs) -> None:
    """Take what comes, until nothing does."""
    while not runs.done:
        await runs.next(1000.0)


async def test_pieces_come_with_the_number_of_their_choice_until_the_last_one_is_done(groups: Groups) -> None:
    await groups.route(story(2))
    texts = {0: "", 1: ""}
    with two(groups) as runs:
        while not runs.done:
            for choice, answer in await runs.next(60.0):
                texts[choice] += answer.text if isinstance(answer, Delta) else ""
    assert texts == {0: "w0 w1 ", 1: "w0 w1 "}
    assert {each.request for each in groups.at.ranks[0].asked} == {"chat.0.0", "chat.1.0"}


async def test_without_news_it_returns_nothing_and_not_before_its_time(groups: Groups) -> None:
    async def says_nothing(turn: Turn) -> None:
        await turn.hang()

    await groups.route(says_nothing)
    with two(groups) as runs:
        began = asyncio.get_running_loop().time()
        assert await runs.next(0.05) == ()
        assert asyncio.get_running_loop().time() - began >= 0.05
        assert not runs.done


async def test_one_choice_that_cannot_be_given_is_an_error_of_all(groups: Groups) -> None:
    async def fails_one(turn: Turn) -> None:
        if turn.generate.tokens_max == 5:
            turn.fail("invalid_request")
        else:
            await silent(turn)

    (rank,) = await groups.route(fails_one)
    with two(groups) as runs, pytest.raises(ApiError):
        await go_on(runs)
    await rank.until(lambda rank: rank.cancelled == ["chat.0.0"])


@pytest.mark.parametrize("how", ["the client has gone", "the gateway is stopped"])
async def test_who_waits_is_told_at_once_that_it_waits_in_vain(groups: Groups, how: str) -> None:
    await groups.route(silent)
    with two(groups) as runs:
        await runs.next(0.0)
        loop = asyncio.get_running_loop()
        if how == "the client has gone":
            loop.call_later(0.01, runs.abandon)
        else:
            loop.call_later(0.01, groups.pool.close)
        with pytest.raises(ClientGone if how == "the client has gone" else ApiError):
            await go_on(runs)


async def test_a_request_that_its_client_does_not_read_gives_its_place_to_another(groups: Groups) -> None:
    (rank,) = await groups.route(silent, batch=1)
    unread, other = Runs(groups.pool, "llama", (HELLO,), "unread"), Asked(groups.pool, "other")
    with unread, other.run:
        await unread.next(0.0)
        unread.read(unread=True)
        other.run.next_look()
        await rank.until(lambda rank: len(rank.asked) == 2)
    assert rank.cancelled[0] == "unread.0.0"


class Straight:
    """An outlet that notes the text of each write, and lets the next one come."""

    def __init__(self, may: asyncio.Semaphore | None = None) -> None:
        self.open = True
        self.writes: list[str] = []
        self._may = may

    def take(self, pieces: Sequence[Piece]) -> bool:
        if self.open:
            self.writes.append(text_of(pieces))
            if self._may is not None:
                self._may.release()
        return self.open


def text_of(pieces: Sequence[Piece]) -> str:
    return "".join(answer.text for _, answer in pieces if isinstance(answer, Delta))


def told_in_steps(may: asyncio.Semaphore) -> Script:
    """Three words; two at a time, in one write, and then the end: each once it may come."""

    async def tell(turn: Turn) -> None:
        turn.accept()
        for words in (("a ", "b "), ("c ",)):
            await may.acquire()
            turn.send(*(Delta(turn.generate.request, (len(word),), word) for word in words))
        await may.acquire()
        turn.finish()

    return tell


async def test_text_goes_to_the_outlet_all_of_one_read_at_once_and_the_end_to_who_waits(
    groups: Groups,
) -> None:
    may = asyncio.Semaphore(0)
    await groups.route(told_in_steps(may))
    with Runs(groups.pool, "llama", (HELLO,), "chat") as runs:
        await runs.next(60.0)  # that it was accepted
        runs.outlet = outlet = Straight(may)
        may.release()
        rest = await runs.next(60.0)
        assert (outlet.writes, text_of(rest), runs.done) == (["a b ", "c "], "", True)
    assert groups.sample('vllm:generation_tokens_total{model_name="llama"}') == 3


async def test_what_an_outlet_does_not_take_comes_in_its_order_from_next(groups: Groups) -> None:
    await groups.route(story(40, pause=0.005))
    with Runs(groups.pool, "llama", (HELLO,), "chat") as runs:
        text = text_of(await runs.next(60.0))
        runs.outlet = outlet = Straight()
        while not runs.done:
            outlet.open = not outlet.open
            pieces = await runs.next(0.03)
            text += "".join(outlet.writes) + text_of(pieces)
            outlet.writes.clear()
    assert text == "".join(f"w{number} " for number in range(40))


async def test_an_answer_whose_text_went_to_the_outlet_goes_on_with_another_group(groups: Groups) -> None:
    await groups.route(story(6, die_after=3, pause=0.02))
    with Runs(groups.pool, "llama", (HELLO,), "chat") as runs:
        begun_with = text_of(await runs.next(60.0))
        runs.outlet = outlet = Straight()
        (other,) = await groups.route(story(6), epoch=2)
        while not runs.done:
            outlet.writes.append(text_of(await runs.next(60.0)))
    assert other.asked[0].resume == (0, 1, 2)
    assert begun_with + "".join(outlet.writes) == "".join(f"w{number} " for number in range(6))


async def test_a_defect_of_one_outlet_ends_its_request_alone(groups: Groups) -> None:
    class Broken(Straight):
        def take(self, pieces: Sequence[Piece]) -> bool:
            raise ZeroDivisionError

    may = asyncio.Semaphore(0)
    (rank,) = await groups.route(told_in_steps(may))
    broken, other = (Runs(groups.pool, "llama", (HELLO,), name) for name in ("broken", "other"))
    with broken, other:
        for runs in (broken, other):
            await runs.next(60.0)
        broken.outlet, other.outlet = Broken(), Straight()
        for _ in range(6):
            may.release()
        with pytest.raises(ZeroDivisionError):
            await broken.next(60.0)
        await go_on(other)
    await eventually(lambda: rank.connections == 1)
