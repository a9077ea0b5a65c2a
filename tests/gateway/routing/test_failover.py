"""What happens to requests when there is no group, or when the group that works on one goes away."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any

import openai
import orjson
import pytest
from openai.types.chat import ChatCompletionChunk

from reconciler.gateway.routing.prompts import digest
from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire.codec import from_wire
from reconciler.wire.generation import Accepted, Formed, Generate
from reconciler.wire.prompts import EndedGroup, QuarantinedPrompt, QuarantinedPrompts
from reconciler.wire.sampling import Sampling
from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.rank_double import RankDouble, Script, Turn, silent, story, told

ASK: dict[str, Any] = {"model": "llama", "messages": HELLO}
QUICK = Timing(shutdown=0.5, retry_same_backend=0.05)


async def text_of(cluster: Cluster, stream: bool) -> str:
    """The whole text of one answer, asked for either way."""
    if not stream:
        reply = await cluster.client.chat.completions.create(model="llama", messages=HELLO)
        return reply.choices[0].message.content or ""
    text = ""
    chunks = await cluster.client.chat.completions.create(model="llama", messages=HELLO, stream=True)
    async for chunk in chunks:
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    return text


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_cut_in_the_middle_is_continued_on_another_group(start: Start, stream: bool) -> None:
    cluster = await start(story(20, die_after=7), story(20, die_after=7))
    for rank in cluster.ranks:
        rank.script = _dies_once(cluster.ranks, story(20, die_after=7), story(20))
    assert await text_of(cluster, stream) == told(20)
    first, second = (generate for rank in cluster.ranks for generate in rank.asked)
    resumed = first if first.resume else second
    assert resumed.resume == tuple(range(7))
    assert first.sampling == second.sampling
    assert first.messages == second.messages


async def test_an_answer_goes_on_with_the_sampling_that_its_first_group_took_from_the_model(
    start: Start,
) -> None:
    own = Sampling(temperature=0.6, top_k=20, seed=3)

    async def choose(turn: Turn) -> None:
        generate = turn.generate
        turn.send(Accepted(generate.request, (1, 2), sampling=own if generate.unset else None))
        turn.say("w0 ", 0)
        if not generate.resume:
            turn.die()
        turn.finish()

    cluster = await start(choose)
    await text_of(cluster, stream=True)
    first, second = cluster.ranks[0].asked
    assert "temperature" in first.unset
    assert (second.sampling, second.unset, second.resume) == (own, (), (0,))


def _dies_for_good(rank: RankDouble, dying: Script) -> Script:
    """Nobody can connect again after the loss."""

    async def play(turn: Turn) -> None:
        rank.refuse()
        await dying(turn)

    return play


def _dies_once(ranks: list[RankDouble], dying: Script, living: Script) -> Script:
    """Whoever is asked first dies."""

    async def play(turn: Turn) -> None:
        asked = sum(len(rank.asked) for rank in ranks)
        await (dying if asked == 1 else living)(turn)

    return play


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_is_continued_by_the_group_formed_anew(start: Start, stream: bool) -> None:
    cluster = await start(silent)
    cluster.ranks[0].script = _dies_for_good(cluster.ranks[0], story(20, die_after=5))
    asking = asyncio.create_task(text_of(cluster, stream))
    await cluster.ranks[0].until(lambda rank: bool(rank.asked))
    cluster.route()
    await asyncio.sleep(0.2)
    formed = await cluster.rank(story(20), epoch=2)
    cluster.route(formed)
    assert await asking == told(20)
    assert formed.asked[0].resume == tuple(range(5))


async def test_a_rank_that_drains_hands_its_requests_over(start: Start) -> None:
    async def drain(turn: Turn) -> None:
        if not turn.generate.resume:
            turn.accept()
            turn.say("w0 ", 0)
        turn.fail("draining")

    cluster = await start(drain)
    other = await cluster.rank(story(3))
    asking = asyncio.create_task(text_of(cluster, stream=True))
    await cluster.ranks[0].until(lambda rank: bool(rank.asked))
    cluster.route(cluster.ranks[0], other)
    assert await asking == told(3)
    assert other.asked[0].resume == (0,)


async def test_the_clients_seed_goes_to_every_attempt_and_a_drawn_one_too(start: Start) -> None:
    cluster = await start(story(4, die_after=2), timing=QUICK)
    cluster.ranks[0].script = _dies_once(cluster.ranks, story(4, die_after=2), story(4))
    await cluster.post({**ASK, "seed": 7})
    assert [generate.sampling.seed for generate in cluster.ranks[0].asked] == [7, 7]
    await cluster.post(ASK)
    await cluster.post(ASK)
    drawn = [generate.sampling.seed for generate in cluster.ranks[0].asked[2:]]
    assert drawn[0] != drawn[1]
    assert all(0 <= seed < 2**63 for seed in drawn)


async def test_a_backend_is_connected_before_the_first_request(start: Start) -> None:
    cluster = await start(story(1))
    await cluster.ranks[0].until(lambda rank: rank.connections == 1)
    assert await text_of(cluster, stream=False) == told(1)
    assert cluster.ranks[0].connections == 1


async def test_a_request_waits_for_the_group_that_is_being_formed(start: Start) -> None:
    cluster = await start()
    asking = asyncio.create_task(text_of(cluster, stream=False))
    await cluster.until_waiting(1)
    assert not asking.done()
    cluster.route(await cluster.rank(story(3)))
    assert await asking == told(3)


async def test_a_backend_that_comes_up_after_its_route_is_found(start: Start) -> None:
    cluster = await start()
    rank = await cluster.rank(story(3))
    await rank.stop()
    cluster.route(rank)
    asking = asyncio.create_task(text_of(cluster, stream=False))
    await cluster.until_waiting(1)
    await rank.start()
    assert await asking == told(3)


@pytest.mark.parametrize("stream", [False, True])
async def test_after_the_hold_time_the_answer_is_503_with_retry_after(start: Start, stream: bool) -> None:
    cluster = await start(hold_seconds=0.3)
    status, headers, body = await cluster.post({**ASK, "stream": stream})
    assert (status, body["error"]["code"], body["error"]["type"]) == (503, "model_loading", "server_error")
    assert int(headers["retry-after"]) >= 1
    assert headers["x-should-retry"] == "true"
    assert headers["content-type"] == "application/json"


async def test_only_so_many_requests_are_held(start: Start) -> None:
    cluster = await start(timing=dataclasses.replace(QUICK, held_max=2))
    held = [asyncio.create_task(text_of(cluster, stream=False)) for _ in range(2)]
    await cluster.until_waiting(2)
    status, headers, body = await cluster.post(ASK)
    assert (status, body["error"]["code"]) == (503, "overloaded")
    assert int(headers["retry-after"]) >= 1
    cluster.route(await cluster.rank(story(2)))
    assert await asyncio.gather(*held) == [told(2), told(2)]


async def test_a_stream_whose_group_does_not_come_back_ends_with_an_error(start: Start) -> None:
    cluster = await start(silent, hold_seconds=0.4)
    cluster.ranks[0].script = _dies_for_good(cluster.ranks[0], story(20, die_after=3))
    received: list[ChatCompletionChunk] = []
    chunks = await cluster.client.chat.completions.create(model="llama", messages=HELLO, stream=True)
    with pytest.raises(openai.APIError) as caught:
        await _receive(chunks, received)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in received) == told(3)
    assert all(chunk.choices[0].finish_reason is None for chunk in received)
    assert caught.value.code == "model_loading"


async def _receive(chunks: AsyncIterable[ChatCompletionChunk], received: list[ChatCompletionChunk]) -> None:
    async for chunk in chunks:
        received.append(chunk)  # noqa: PERF401  # what came before the error is wanted


async def test_a_broken_stream_has_no_done(start: Start) -> None:
    async def fail(turn: Turn) -> None:
        turn.accept()
        if not turn.generate.resume:
            turn.say("w0 ", 0)
        turn.fail("internal", "the sampler met a NaN")

    cluster = await start(fail, timing=QUICK)
    lines = await cluster.events()
    error = orjson.loads(lines[-1].removeprefix("data: "))["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == "internal_error"
    assert "NaN" in error["message"]
    assert not any("[DONE]" in line or '"stop"' in line for line in lines)


async def test_a_full_rank_sends_the_request_to_another(start: Start) -> None:
    async def full(turn: Turn) -> None:
        turn.fail("overloaded")

    cluster = await start(full, story(2))
    for _ in range(3):
        assert (await cluster.post(ASK))[0] == 200


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({}, {}),
        ({"prompt_cache_key": "mine"}, {}),
        ({}, {"x-session-affinity": "mine"}),
    ],
    ids=["conversation", "prompt_cache_key", "x-session-affinity"],
)
async def test_a_conversation_goes_to_the_backend_that_has_read_it(
    start: Start, fields: dict[str, Any], headers: dict[str, str]
) -> None:
    """By its messages, or by what its client calls it; although another, which was busy at first, has as few requests."""

    async def unless_busy(turn: Turn) -> None:
        await (silent if _is_about(turn.generate, "busy") else story(2))(turn)

    cluster = await start(unless_busy, unless_busy)
    busy = asyncio.create_task(cluster.post(_body(["busy"])))
    await cluster.until(lambda: any(rank.asked for rank in cluster.ranks))
    (idle,) = [rank for rank in cluster.ranks if not rank.asked]
    for turn in range(4):
        said = [f"hello {turn}"] if fields or headers else ["hello", *["more"] * 2 * turn]
        status, _, _ = await cluster.post({**_body(said), **fields}, **headers)
        assert status == 200
        if not busy.done():
            busy.cancel()
            await asyncio.wait([busy])
    assert [_is_about(generate, "hello") for generate in idle.asked] == [True] * 4


def _body(said: list[str]) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)]
    return {"model": "llama", "messages": messages}


def _is_about(generate: Generate, text: str) -> bool:
    return str(generate.messages[0]["content"]).startswith(text)


async def test_requests_go_to_the_backend_with_the_fewest(start: Start) -> None:
    cluster = await start(silent, silent)
    asking: list[asyncio.Task[Any]] = []
    for count in range(1, 7):
        asking.append(asyncio.create_task(cluster.post(_body([f"hello {count}"]))))
        await cluster.until(lambda count=count: sum(len(rank.asked) for rank in cluster.ranks) == count)  # type: ignore[misc]
    assert sorted(len(rank.asked) for rank in cluster.ranks)[0] >= 2
    assert all(rank.connections == 1 for rank in cluster.ranks)
    for task in asking:
        task.cancel()
    await asyncio.wait(asking)


async def test_a_withdrawn_backend_that_says_nothing_is_left(start: Start) -> None:
    cluster = await start(silent, timing=dataclasses.replace(QUICK, withdrawn_silence=0.2))
    asking = asyncio.create_task(text_of(cluster, stream=True))
    await cluster.ranks[0].until(lambda rank: bool(rank.asked))
    cluster.route(await cluster.rank(story(3), epoch=2))
    assert await asking == told(3)
    await cluster.ranks[0].until(lambda rank: bool(rank.cancelled))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_cancels_its_request(start: Start, stream: bool) -> None:
    cluster = await start(silent)
    asking = asyncio.create_task(text_of(cluster, stream))
    await cluster.ranks[0].until(lambda rank: bool(rank.asked))
    asking.cancel()
    await cluster.ranks[0].until(lambda rank: bool(rank.cancelled))
    assert cluster.ranks[0].cancelled == [cluster.ranks[0].asked[0].request]


async def test_a_client_that_goes_away_in_the_middle_of_a_stream_cancels_it(start: Start) -> None:
    cluster = await start(story(100_000, pause=0.001))
    chunks = await cluster.client.chat.completions.create(model="llama", messages=HELLO, stream=True)
    async for _ in chunks:
        break
    await chunks.close()
    await cluster.ranks[0].until(lambda rank: bool(rank.cancelled))


async def test_a_client_that_goes_away_while_it_sends_has_asked_nothing(start: Start) -> None:
    cluster = await start(story(1))
    body = orjson.dumps(ASK)
    _, writer = await asyncio.open_connection(*cluster.address)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body) + 1}\r\n\r\n"
    writer.write(head.encode() + body)
    await asyncio.sleep(0.2)
    writer.close()
    await writer.wait_closed()
    assert (await cluster.post(ASK))[0] == 200
    assert len(cluster.ranks[0].asked) == 1


async def test_a_client_that_goes_away_while_held_is_forgotten(start: Start) -> None:
    cluster = await start(timing=dataclasses.replace(QUICK, held_max=1))
    asking = asyncio.create_task(text_of(cluster, stream=False))
    await cluster.until_waiting(1)
    assert (await cluster.post(ASK))[0] == 503
    asking.cancel()
    await cluster.until_waiting(0)
    waiting = asyncio.create_task(text_of(cluster, stream=False))
    await cluster.until_waiting(1)
    rank = await cluster.rank(story(2))
    cluster.route(rank)
    assert await waiting == told(2)
    assert len(rank.asked) == 1


async def test_a_finished_answer_cancels_nothing(start: Start) -> None:
    cluster = await start(story(3))
    assert await text_of(cluster, stream=True) == told(3)
    assert await text_of(cluster, stream=False) == told(3)
    assert cluster.ranks[0].cancelled == []


async def test_new_requests_avoid_a_group_that_stands_still_while_there_is_another(start: Start) -> None:
    cluster = await start(story(3), story(3))
    stuck, well = cluster.ranks
    await cluster.routed(stuck, well, stall_seconds=0.5)
    stuck.script = silent
    hanging = [asyncio.create_task(text_of(cluster, stream=True))]
    while not stuck.asked:  # whichever was chosen for the first
        hanging.append(asyncio.create_task(text_of(cluster, stream=True)))
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.7)
    asked = len(stuck.asked)
    well.script = story(3, pause=0.05)
    async with asyncio.timeout(20):
        answers = await asyncio.gather(*(text_of(cluster, stream=True) for _ in range(6)))
    assert answers == [told(3)] * 6
    assert len(stuck.asked) == asked
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)


# --- prompts that end groups ------------------------------------------------------------------------


class Groups:
    """One group at a time, formed anew by a controller that says what the last one died of."""

    def __init__(
        self, cluster: Cluster, script: Callable[[Turn], Script], suspicion: int = 2, batch: int = 0
    ) -> None:
        """``script`` chooses what becomes of a request."""
        self.cluster = cluster
        self.epoch = 0
        self.suspicion = suspicion
        self.batch = batch
        self._script = script
        self._formed: tuple[Formed, ...] = ()

    async def form(self) -> RankDouble:
        """The next group is there, and the routes name it."""
        self.epoch += 1
        self._formed = (*self._formed, Formed(0, self.epoch, self.suspicion if self._formed else 0))
        rank = await self.cluster.rank(silent, self.epoch)

        async def play(turn: Turn) -> None:
            chosen = self._script(turn)
            await (_dies_for_good(rank, deadly) if chosen is deadly else chosen)(turn)

        rank.script = play
        self.cluster.route(rank, formed=self._formed, batch=self.batch)
        return rank

    async def heal(self, rank: RankDouble) -> None:
        """Form a group whenever the last one has died, until cancelled."""
        while True:
            await rank.until(lambda rank: rank.left)
            await rank.stop()
            rank = await self.form()


@contextlib.asynccontextmanager
async def healing(groups: Groups) -> AsyncIterator[None]:
    """Groups are formed anew for as long as this is entered."""
    first = await groups.form()
    await groups.cluster.until_connected(1)
    task = asyncio.create_task(groups.heal(first))
    try:
        yield
    finally:
        task.cancel()


async def deadly(turn: Turn) -> None:
    """Accept, and die."""
    turn.accept()
    await asyncio.sleep(0.02)
    turn.die()


def poisonous(words: int) -> Callable[[Turn], Script]:
    """Tell a story, but die of a prompt that begins with ``bad``."""

    def choose(turn: Turn) -> Script:
        bad = turn.generate.messages[0]["content"].startswith("bad")
        return deadly if bad else story(words, pause=0.005)

    return choose


def asking(said: str) -> dict[str, Any]:
    return {"model": "llama", "messages": [{"role": "user", "content": said}]}


async def test_a_prompt_that_ended_two_groups_is_refused_and_the_others_go_on(start: Start) -> None:
    cluster = await start(timing=QUICK)
    groups = Groups(cluster, poisonous(60))
    async with healing(groups):
        others = [asyncio.create_task(cluster.post(asking(f"good {number}"))) for number in range(4)]
        await cluster.until(lambda: len(cluster.ranks[0].asked) == 4)
        status, headers, body = await cluster.post(asking("bad news"))
        assert (status, body["error"]["code"]) == (422, "prompt_quarantined")
        assert headers["x-should-retry"] == "false"
        assert headers["x-request-id"] in body["error"]["message"]
        assert groups.epoch <= 3
        for status, _, answer in await asyncio.gather(*others):
            assert status == 200
            assert answer["choices"][0]["message"]["content"] == told(60)
        epoch = groups.epoch
        status, _, body = await cluster.post(asking("bad news"))
        assert (status, body["error"]["code"]) == (422, "prompt_quarantined")
        assert groups.epoch == epoch, "it did not reach a group any more"
    (prompt,) = from_wire(
        QuarantinedPrompts, orjson.loads((cluster.home / "prompts.json").read_bytes())
    ).prompts
    assert prompt.model == "llama"
    assert prompt.ended == (EndedGroup(0, 1), EndedGroup(0, 2))
    assert prompt.request == headers["x-request-id"]
    assert prompt.shape == f"1 message, {prompt.shape.split(', ')[1]}, 3 tokens"
    assert "news" not in (cluster.home / "prompts.json").read_text()


async def test_three_such_prompts_at_once_are_found_one_by_one(start: Start) -> None:
    cluster = await start(timing=QUICK)
    groups = Groups(cluster, poisonous(40))
    async with healing(groups):
        bad = [asyncio.create_task(cluster.post(asking(f"bad {number}"))) for number in range(3)]
        good = [asyncio.create_task(cluster.post(asking(f"good {number}"))) for number in range(3)]
        assert [status for status, _, _ in await asyncio.gather(*bad)] == [422] * 3
        for status, _, answer in await asyncio.gather(*good):
            assert (status, answer["choices"][0]["message"]["content"]) == (200, told(40))
        assert groups.epoch <= 7


async def test_a_suspect_that_waits_for_its_trial_keeps_nobody_from_a_place_in_the_batch(
    start: Start,
) -> None:
    cluster = await start(timing=QUICK)
    groups = Groups(cluster, poisonous(20), batch=1)
    async with healing(groups):
        bad = [asyncio.create_task(cluster.post(asking(f"bad {number}"))) for number in range(2)]
        good = [asyncio.create_task(cluster.post(asking(f"good {number}"))) for number in range(3)]
        assert [status for status, _, _ in await asyncio.gather(*bad)] == [422] * 2
        for status, _, answer in await asyncio.gather(*good):
            assert (status, answer["choices"][0]["message"]["content"]) == (200, told(20))
        assert groups.epoch <= 5


async def test_what_a_machine_explains_is_held_against_no_prompt(start: Start) -> None:
    cluster = await start(timing=QUICK)
    groups = Groups(cluster, lambda _: deadly if groups.epoch <= 3 else story(3), suspicion=0)
    async with healing(groups):
        status, _, answer = await cluster.post(asking("hello"))
        assert (status, answer["choices"][0]["message"]["content"]) == (200, told(3))
        assert groups.epoch == 4


async def test_a_restarted_gateway_goes_on_to_refuse(start: Start) -> None:
    bad = digest("llama", Generate("", ({"role": "user", "content": "bad news"},)))
    now = time.time()
    prompt = QuarantinedPrompt("llama", bad, "req-1", "1 message", (EndedGroup(0, 1),), now, now + 600)
    cluster = await start(story(1), timing=QUICK, prompts=(prompt,))
    status, _, body = await cluster.post(asking("bad news"))
    assert (status, body["error"]["code"]) == (422, "prompt_quarantined")
    assert "req-1" in body["error"]["message"]
    status, _, _ = await cluster.post(asking("good"))
    assert status == 200


async def test_a_request_fails_at_once_where_the_next_attempt_comes_too_late(start: Start) -> None:
    cluster = await start(hold_seconds=60)
    cluster.route(attempt_at=time.time() + 240)
    status, headers, body = await cluster.post(ASK)
    assert (status, body["error"]["code"]) == (503, "model_unavailable")
    assert 230 <= int(headers["retry-after"]) <= 240
    assert f"in {headers['retry-after']} s" in body["error"]["message"]


async def test_a_held_request_fails_as_soon_as_it_is_known_that_it_would_wait_too_long(start: Start) -> None:
    cluster = await start(hold_seconds=60)
    asked = asyncio.create_task(cluster.post(ASK))
    await cluster.until_waiting(1)
    cluster.route(attempt_at=time.time() + 20)
    await asyncio.sleep(0.1)
    assert not asked.done(), "that is soon enough"
    cluster.route(attempt_at=time.time() + 120)
    status, _, body = await asked
    assert (status, body["error"]["code"]) == (503, "model_unavailable")
