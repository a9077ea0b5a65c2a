"""One answer, through as many groups as it takes, before ranks whose words are scripted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from reconciler.gateway.errors import ApiError
from reconciler.gateway.events import Answer, Event
from reconciler.gateway.routing.pool import Pool
from reconciler.gateway.routing.run import Run
from reconciler.wire.frames import FRAME_BYTES_MAX
from reconciler.wire.generation import Accepted, Delta, Failed, Finished, Generate, Prefill, Route
from reconciler.wire.sampling import OPEN, SamplingDefaults
from tests.gateway.rank_double import Turn, eventually, silent, story

from .conftest import Groups, Home, route

HELLO = Generate("", ({"role": "user", "content": "hello"},))


class Asked:
    """A request, and what has come of it."""

    def __init__(self, pool: Pool, name: str = "chat", generate: Generate = HELLO, client: str = "") -> None:
        self.ring = asyncio.Event()
        self.run = Run(pool, "llama", generate, name, self.ring.set, client)
        self.answers: list[Answer] = []

    async def until(self, tokens: int) -> None:
        """Go on until so many tokens are there, or the end."""
        while self.run.tokens < tokens and not self.run.done:
            self.ring.clear()
            self.answers += self.run.answers()
            if self.run.tokens >= tokens or self.run.done:
                return
            self.run.next_look()
            async with asyncio.timeout(60):
                await self.ring.wait()

    @property
    def text(self) -> str:
        return "".join(each.text for each in self.answers if isinstance(each, Delta))


async def test_a_whole_answer_ends_with_its_reason_and_leaves_nothing_behind(groups: Groups) -> None:
    (rank,) = await groups.route(story(3))
    asked = Asked(groups.pool)
    with asked.run:
        assert not asked.run.done
        await asked.until(99)
        assert asked.run.done
    assert asked.text == "w0 w1 w2 "
    assert groups.ended("stop") == 1
    assert rank.cancelled == []
    assert groups.pool.crowded("llama", asked.run.suspicion) is False


async def test_a_group_is_asked_with_the_defaults_of_the_deployment_and_the_next_one_with_the_same(
    made: Home,
) -> None:
    pool = made.pool()
    asked = Asked(pool, generate=replace(HELLO, unset=OPEN))
    with asked.run:
        for epoch, temperature in ((1, 0.25), (2, 0.75)):
            backend = await made.rank(story(3, die_after=1 if epoch == 1 else None), epoch)
            sampling = SamplingDefaults(temperature=temperature)
            made.write(replace(route(backend), sampling=sampling, max_stall_seconds=7.0 * epoch))
            pool.refresh()
            await eventually(lambda: pool.connected() == {"llama": 1})
            await asked.until(1 if epoch == 1 else 99)
            await eventually(lambda: made.ranks[0].left)
    first, second = (rank.asked[0] for rank in made.ranks)
    assert (first.sampling.temperature, first.max_stall_seconds) == (0.25, 7.0)
    assert (second.sampling.temperature, second.max_stall_seconds) == (0.25, 14.0)


async def test_a_request_that_cannot_be_answered_is_an_error_and_one_that_is_left_an_abort(
    groups: Groups,
) -> None:
    async def fails(turn: Turn) -> None:
        turn.fail("invalid_request")

    (rank,) = await groups.route(fails)
    asked = Asked(groups.pool)
    with pytest.raises(ApiError), asked.run:
        await asked.until(1)
    assert (groups.ended("error"), groups.ended("abort")) == (1, 0)
    rank.script = silent
    left = Asked(groups.pool, "left")
    with left.run:
        left.run.next_look()
        left.run.abandon()
    assert (groups.ended("error"), groups.ended("abort")) == (1, 1)
    await eventually(lambda: rank.cancelled == ["left.0"])


async def test_a_request_that_fits_no_frame_is_413(groups: Groups) -> None:
    await groups.route(story(1))
    large = replace(HELLO, messages=({"role": "user", "content": "a" * FRAME_BYTES_MAX},))
    asked = Asked(groups.pool, generate=large)
    with pytest.raises(ApiError) as refused, asked.run:
        asked.run.next_look()
    assert (refused.value.status, refused.value.code) == (413, "request_too_large")
    assert groups.ended("error") == 1


async def test_an_unknown_model_is_404_and_is_not_measured(groups: Groups) -> None:
    run = Run(groups.pool, "qwen", HELLO, "chat", lambda: None)
    with pytest.raises(ApiError) as refused, run:
        run.next_look()
    assert (refused.value.status, refused.value.code) == (404, "model_not_found")
    assert b"qwen" not in groups.pool.metrics.page()


@pytest.mark.parametrize(("tokens", "fits"), [(4095, True), (4096, False)])
async def test_a_prompt_of_token_ids_leaves_room_for_at_least_one_token(
    groups: Groups, tokens: int, fits: bool
) -> None:
    await groups.route(story(1))
    asked = Asked(groups.pool, generate=Generate("", (), prompt_tokens=(1,) * tokens))
    with asked.run:
        if fits:
            await asked.until(99)
            assert asked.text == "w0 "
        else:
            with pytest.raises(ApiError) as refused:
                asked.run.next_look()
            assert refused.value.code == "context_length_exceeded"


async def test_an_answer_goes_on_with_another_group_from_the_tokens_so_far(groups: Groups) -> None:
    (first,) = await groups.route(story(5, die_after=2))
    asked = Asked(groups.pool)
    with asked.run:
        await asked.until(2)
        assert asked.text == "w0 w1 "
        await eventually(lambda: first.left)
        (second,) = await groups.route(story(5), epoch=2)
        await asked.until(99)
    assert asked.text == "w0 w1 w2 w3 w4 "
    assert [each.resume for each in second.asked] == [(0, 1)]
    assert [first.asked[0].request, second.asked[0].request] == ["chat.0", "chat.1"]
    assert groups.sample("reconciler_requests_continued_total") == 1


async def test_a_group_that_drains_is_left_and_gets_nothing_new(groups: Groups) -> None:
    async def drains(turn: Turn) -> None:
        turn.fail("draining")

    draining, other = await groups.route(drains, story(2))
    other.script = story(2)
    first, second = Asked(groups.pool, "first"), Asked(groups.pool, "second")
    for asked in (first, second):
        with asked.run:
            await asked.until(99)
        assert asked.text == "w0 w1 "
    assert len(draining.asked) <= 1
    assert len(other.asked) == 2


async def test_a_full_group_is_left_for_another_and_is_the_last_word_where_there_is_none(
    groups: Groups,
) -> None:
    async def is_full(turn: Turn) -> None:
        turn.fail("overloaded")

    await groups.route(is_full)
    alone = Asked(groups.pool, "alone")
    with pytest.raises(ApiError) as refused, alone.run:
        await alone.until(1)
    assert (refused.value.status, refused.value.code) == (503, "overloaded")
    await groups.route(is_full, story(2), epoch=2)
    asked = Asked(groups.pool)
    with asked.run:
        await asked.until(99)
    assert asked.text == "w0 w1 "
    assert groups.pool.connected() == {"llama": 2}, "a full one is not a draining one"


async def test_a_group_that_died_under_a_request_makes_it_a_suspect_until_it_goes_on(groups: Groups) -> None:
    (first,) = await groups.route(story(2, die_after=0))
    asked, other = Asked(groups.pool), Asked(groups.pool, "other", replace(HELLO, prompt="another"))
    suspects = groups.pool.suspects("llama")
    with asked.run, other.run:
        asked.run.next_look()
        await eventually(lambda: first.left and groups.pool.connected() == {"llama": 0})
        asked.answers += asked.run.answers()
        assert not suspects.idle
        assert suspects.suspected(asked.run.suspicion.digest)
        await groups.route(silent, epoch=2)
        now = asyncio.get_running_loop().time()
        asked.run.next_look()
        assert other.run.next_look() > now, "it waits until the suspect has shown what it is"
        assert other.run.tokens == 0
        assert len(groups.at.ranks[-1].asked) <= 1


async def test_what_gives_way_keeps_its_text_and_goes_on_in_its_turn(groups: Groups) -> None:
    async def tells_twenty(turn: Turn) -> None:
        turn.accept()
        for number in range(len(turn.generate.resume), 20):
            turn.say(f"w{number} ", number)
        await turn.hang()

    (rank,) = await groups.route(tells_twenty, batch=1)
    long = Asked(groups.pool, "long", client="a")
    short = Asked(groups.pool, "short", replace(HELLO, tokens_max=2), client="b")
    with long.run, short.run:
        await long.until(20)
        rank.script = story(2)
        await short.until(99)
        assert rank.cancelled == ["long.0"]
        rank.script = story(22)
        await long.until(99)
    assert short.text == "w0 w1 "
    assert long.text == "".join(f"w{number} " for number in range(22))
    assert rank.asked[-1].resume == tuple(range(20))
    assert groups.sample("reconciler_requests_gave_way_total") == 1


async def test_what_waits_for_a_place_gets_it_when_the_answer_before_it_has_ended(groups: Groups) -> None:
    (rank,) = await groups.route(silent, batch=1)
    first, second = Asked(groups.pool, "first"), Asked(groups.pool, "second")
    with second.run:
        with first.run:
            first.run.next_look()
            before = asyncio.get_running_loop().time()
            assert second.run.next_look() > before
            await eventually(lambda: len(rank.asked) == 1)
            second.ring.clear()
            rank.script = story(1)
        await asyncio.wait_for(second.ring.wait(), 60)
        await second.until(99)
    assert second.text == "w0 "
    assert rank.cancelled == ["first.0"]


async def test_an_answer_that_has_ended_leaves_its_place_before_its_client_has_read_it(
    groups: Groups,
) -> None:
    (rank,) = await groups.route(story(1), batch=1)
    first, second = Asked(groups.pool, "first"), Asked(groups.pool, "second")
    with first.run, second.run:
        first.run.next_look()
        assert second.run.next_look() > asyncio.get_running_loop().time()
        second.ring.clear()
        await asyncio.wait_for(second.ring.wait(), 60)
        await second.until(99)
        assert (first.text, second.text) == ("", "w0 ")
        await first.until(99)
    assert first.text == "w0 "
    assert rank.cancelled == []


def at_once(groups: Groups, *routes: Route) -> None:
    """Put routes into force under which a withdrawn group may not be silent at all."""
    groups.pool.timing = replace(groups.pool.timing, withdrawn_silence=0.0)
    groups.at.write(*routes, hold_seconds=groups.pool.hold_seconds + 1)
    groups.pool.refresh()


async def test_a_group_that_is_withdrawn_and_silent_has_died_under_its_request(groups: Groups) -> None:
    (rank,) = await groups.route(silent)
    asked = Asked(groups.pool)
    with asked.run:
        asked.run.next_look()
        await rank.until(lambda rank: len(rank.asked) == 1)
        assert groups.pool.suspects("llama").idle
        at_once(groups, route())
        await eventually(lambda: asked.run.next_look() > 0 and rank.cancelled == ["chat.0"])
        assert groups.pool.suspects("llama").suspected(asked.run.suspicion.digest)


async def test_a_group_that_the_routes_name_may_be_silent_for_as_long_as_it_takes(groups: Groups) -> None:
    (rank,) = await groups.route(silent)
    asked = Asked(groups.pool)
    with asked.run:
        asked.run.next_look()
        at_once(groups, *groups.pool.file.current.routes)
        for _ in range(3):
            asked.run.next_look()
            await asyncio.sleep(0)
        assert asked.run.groups == [(0, 1)]
        assert groups.pool.suspects("llama").idle
    await rank.until(lambda rank: rank.cancelled == ["chat.0"])


async def test_a_withdrawn_group_that_goes_on_to_tell_is_not_left(groups: Groups) -> None:
    gate = asyncio.Event()

    async def slowly(turn: Turn) -> None:
        turn.accept()
        turn.say("w0 ", 0)
        await gate.wait()
        turn.say("w1 ", 1)
        turn.finish()

    await groups.route(slowly)
    asked = Asked(groups.pool)
    with asked.run:
        await asked.until(1)
        groups.at.write(route())
        groups.pool.refresh()
        assert asked.run.next_look() > asyncio.get_running_loop().time()
        gate.set()
        await asked.until(99)
    assert asked.text == "w0 w1 "


@pytest.mark.parametrize("before", [Delta("chat.0", (1,), "w1 "), Accepted("chat.0", (5, 6)), None])
async def test_text_is_taken_at_once_only_if_nothing_before_it_is_still_to_be_taken(
    before: Delta | Accepted | None, groups: Groups
) -> None:
    later: list[Delta] = []

    def take(deltas: Sequence[Delta]) -> bool:
        later.extend(deltas)
        return True

    await groups.route(silent)
    asked = Asked(groups.pool)
    text = Delta("chat.0", (2,), "w2 ")
    with asked.run:
        asked.run.next_look()
        if before is not None:
            asked.run.on_events([before], 0.0)
        asked.ring.clear()
        asked.run.take = take
        asked.run.on_events([text], 0.0)
        assert later == ([] if before is not None else [text])
        assert asked.ring.is_set() is (before is not None)
        answers = asked.run.answers()
    assert list(answers) == ([before, text] if before is not None else [])


async def test_text_waits_for_what_was_kept_of_before_the_request_gave_way(groups: Groups) -> None:
    await groups.route(silent)
    asked = Asked(groups.pool)
    first, text = Delta("chat.0", (1,), "w1 "), Delta("chat.1", (2,), "w2 ")
    with asked.run:
        asked.run.next_look()
        asked.run.on_events([first], 0.0)
        asked.run.give_way()
        asked.run.next_look()
        asked.run.take = lambda _: True
        asked.run.on_events([text], 0.0)
        assert list(asked.run.answers()) == [first, text]
        asked.run.on_events([text], 0.0)
        assert list(asked.run.answers()) == []


LATE: list[Event] = [
    Delta("chat.0", (9,), "w9 "),
    Accepted("chat.0", (5, 6)),
    Prefill("chat.0", 1, 2),
    Finished("chat.0", "length", 2, 9),
    Failed("chat.0", "internal", "no"),
]
"""Whatever a rank may tell, after the end of an answer."""


@pytest.mark.parametrize("late", LATE, ids=lambda each: type(each).__name__)
async def test_nothing_follows_the_end_of_an_answer(late: Event, groups: Groups) -> None:
    await groups.route(silent)
    asked = Asked(groups.pool)
    end = Finished("chat.0", "stop", 2, 1)
    with asked.run:
        asked.run.next_look()
        asked.run.on_events([Delta("chat.0", (1,), "w1 "), end, late], 0.0)
        assert list(asked.run.answers()) == [Delta("chat.0", (1,), "w1 "), end]
        assert asked.run.done
        asked.run.on_lost()
        assert list(asked.run.answers()) == []
        assert (asked.run.tokens, asked.run.done) == (1, True)
