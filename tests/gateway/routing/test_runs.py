"""All choices of one HTTP request, waited for together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from reconciler.gateway.errors import ApiError, ClientGone
from reconciler.gateway.routing.runs import Runs
from reconciler.wire.generation import Delta
from tests.gateway.rank_double import Turn, silent, story

from .test_run import HELLO, Asked, Groups, begun


@pytest.fixture
async def groups() -> AsyncIterator[Groups]:
    async with begun() as found:
        yield found


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
