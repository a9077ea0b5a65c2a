"""What rank 0 answers on its socket, and what it refuses without harm to anybody else."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, to_wire
from reconciler.wire.frames import encode
from reconciler.wire.generation import Accepted, Delta, Failed, Finished, KeptPrefixes, Prefill
from reconciler.wire.sampling import Bias, Sampling
from tests.runner.ranks import Group, connected, question

ENDLESS = Sampling(temperature=0.0, biases=tuple(Bias(token, -100.0) for token in range(4)))
"""Such an answer ends with the context at the earliest."""

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


async def test_an_answer_is_accepted_read_sent_and_finished(pair: Group) -> None:
    async with connected(pair.socket) as client:
        reply = await client.ask("a", "Hello, who are you?", tokens_max=60)
    assert [type(e) for e in reply.events[:2]] == [Accepted, Prefill]
    assert any(isinstance(e, Delta) for e in reply.events)
    nothing = KeptPrefixes(bytes=0, bytes_max=0, entries=0, evictions=0)
    assert reply.last == Finished("a", "stop", len(reply.prompt), len(reply.tokens), prefix_cache=nothing)
    assert "<|" not in reply.text


async def test_tokens_max_ends_an_answer_with_length(pair: Group) -> None:
    async with connected(pair.socket) as client:
        reply = await client.ask("a", "Hello, who are you?", tokens_max=3)
    assert reply.last.reason == "length"
    assert len(reply.tokens) == 3


async def test_a_stop_string_ends_the_answer_before_itself(pair: Group) -> None:
    async with connected(pair.socket) as client:
        complete = await client.ask("whole", "Hello, who are you?", tokens_max=60)
        stop = complete.text[6:11]
        reply = await client.ask("cut", "Hello, who are you?", tokens_max=60, stop=("never said", stop))
        after = await client.ask("after", "Hello, who are you?", tokens_max=60)
    assert reply.text == complete.text[: complete.text.index(stop)]
    assert reply.last.reason == "stop"
    assert after.text == complete.text


async def test_earlier_tool_calls_may_carry_their_arguments_as_json_text(pair: Group) -> None:
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
    }
    messages = (
        {"role": "user", "content": [{"type": "text", "text": "Weather in Paris?"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "sunny"},
    )
    async with connected(pair.socket) as client:
        reply = await client.ask("a", "", messages=messages, tools=(WEATHER,), tokens_max=20)
    assert isinstance(reply.last, Finished)


@pytest.mark.parametrize(
    ("fields", "code", "parameter"),
    [
        ({"messages": ({"role": "user", "content": "long " * 600},)}, "context_length_exceeded", "messages"),
        ({"messages": ({"content": "no role"},)}, "invalid_request", "messages"),
        ({"messages": ({"role": "user", "content": [{"type": "image"}]},)}, "invalid_request", "messages"),
        ({"tools": ({"type": "function", "function": {}},)}, "invalid_request", "tools"),
        ({"tokens_max": 0}, "invalid_request", "tokens_max"),
        ({"stop": ("",)}, "invalid_request", "stop"),
        ({"sampling": Sampling(temperature=-1.0)}, "invalid_request", "temperature"),
        ({"sampling": Sampling(top_p=7.0)}, "invalid_request", "top_p"),
        ({"resume": (10**9,)}, "invalid_request", "messages"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
async def test_a_request_that_cannot_be_answered_is_told_why(
    pair: Group, fields: dict[str, Any], code: str, parameter: str
) -> None:
    async with connected(pair.socket) as client:
        reply = await client.ask("a", "Hello", **fields)
        assert isinstance(reply.last, Failed)
        assert (reply.last.code, reply.last.parameter) == (code, parameter)
        assert (await client.ask("a", "Hello", tokens_max=2)).tokens


async def test_a_malformed_request_fails_alone_and_a_malformed_frame_ends_its_connection(pair: Group) -> None:
    async with connected(pair.socket) as bystander, connected(pair.socket) as client:
        bystander.send(question("long", "Why is the sky blue?", tokens_max=40))
        client.writer.write(encode({"type": "generate", "request": "bad", "messages": 7}))
        failed = await client.reply("bad")
        assert failed.last.code == "invalid_request"
        client.writer.write(encode({"type": "launch_missiles"}))
        client.send(question("late", "Hello"))
        assert await client.closed("late")
        assert isinstance((await bystander.reply("long")).last, Finished)


async def test_a_running_and_a_queued_request_can_be_cancelled(pair: Group) -> None:
    async with connected(pair.socket) as client:
        names = [f"r{n}" for n in range(pair.ranks[0].config.batch_max)]
        for name in names:
            client.send(question(name, "Tell me a story", sampling=ENDLESS))
        for name in names:
            while not isinstance(await client.next(name), Delta):
                pass
        with pair.ranks[1].standing_still():
            client.send(question("queued", "Hello"))
            assert isinstance(await client.next("queued"), Accepted)
            for name in ("queued", *names):
                client.cancel(name)
        assert (await client.reply("queued")).last.reason == "cancelled"
        reasons = {(await client.reply(name)).last.reason for name in names}
        assert "cancelled" in reasons
        client.cancel("nobody knows this one")
        assert (await client.ask("next", "Hello", tokens_max=3)).tokens


async def test_a_closed_connection_takes_its_requests_with_it(pair: Group) -> None:
    async with connected(pair.socket) as client:
        client.send(question("a", "Tell me a story", sampling=ENDLESS))
        while not isinstance(await client.next("a"), Delta):
            pass
        with pair.ranks[1].standing_still():
            begun = pair.ranks[0].last.steps
            await client.close()
    for rank in pair.ranks:
        await asyncio.to_thread(rank.wait_until, lambda report: report.demand == 0)
    assert pair.ranks[0].last.steps < begun + pair.ranks[0].config.context // 2


def test_the_socket_is_for_its_owner_alone(pair: Group) -> None:
    assert Path(pair.socket).stat().st_mode & 0o777 == 0o600


async def test_an_idle_group_comes_to_rest(pair: Group) -> None:
    async with connected(pair.socket) as client, asyncio.timeout(60):
        await client.ask("a", "Hello", tokens_max=3)
        while await _active(pair, seconds=2.0):
            pass  # it has not come to rest, or the machine's other guests make its time long


async def _active(group: Group, seconds: float) -> bool:
    """Whether a rank does a step, or more than a twentieth of what a core can, within so many seconds."""
    before = [rank.cpu_seconds() for rank in group.ranks]
    steps = [rank.last.steps for rank in group.ranks]
    await asyncio.sleep(seconds)
    used = [rank.cpu_seconds() - was for rank, was in zip(group.ranks, before, strict=True)]
    return max(used) >= 0.05 * seconds or [rank.last.steps for rank in group.ranks] != steps


async def test_two_requests_of_one_name_end_the_connection(pair: Group) -> None:
    async with connected(pair.socket) as client:
        client.writer.write(encode(to_wire(question("a", "Hello"))) * 2)
        assert await client.closed("a")


async def test_a_full_queue_refuses_at_once(pair: Group) -> None:
    async with connected(pair.socket) as client:
        names = [f"r{n}" for n in range(4 * pair.ranks[0].config.batch_max + 256 + 5)]
        with pair.ranks[1].standing_still():
            for name in names:
                client.send(question(name, "Tell me a story"))
            first = await client.next(names[-1])
    assert isinstance(first, Failed)
    assert first.code == "overloaded"
    for rank in pair.ranks:
        await asyncio.to_thread(rank.wait_until, lambda report: report.demand == 0)


async def test_a_reader_who_falls_far_behind_is_dropped_and_nobody_else_waits_for_it(pair: Group) -> None:
    reader, writer = await asyncio.open_unix_connection(pair.socket)
    async with connected(pair.socket) as client:
        writer.write(encode(to_wire(Hello("test", SPOKEN))))
        for n in range(20):
            writer.write(encode({"type": "generate", "request": f"{n}" * 500_000, "messages": 7}))
        assert (await client.ask("a", "Hello", tokens_max=3)).tokens
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        with contextlib.suppress(ConnectionError):
            while await reader.read(1 << 16):
                pass
        assert (await client.ask("b", "Hello", tokens_max=3)).tokens
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def test_a_body_far_too_long_is_refused_and_holds_nobody_up(pair: Group) -> None:
    async with connected(pair.socket) as client:
        client.send(question("long", "word " * 2_400_000))
        assert (await client.ask("short", "Hello", tokens_max=2)).tokens
        failed = (await client.reply("long")).last
    assert isinstance(failed, Failed)
    assert failed.code == "context_length_exceeded"


async def test_arguments_of_an_earlier_call_that_are_not_json_reach_the_template_as_they_are(
    pair: Group,
) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Pa'}}
    messages = (
        {"role": "user", "content": "Weather in Paris?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "user", "content": "Go on"},
    )
    async with connected(pair.socket) as client:
        reply = await client.ask("a", "", messages=messages, tools=(WEATHER,), tokens_max=5)
    assert isinstance(reply.last, Finished)


async def test_a_request_cancelled_while_it_is_being_read_is_over(pair: Group) -> None:
    async with connected(pair.socket) as client:
        for n in range(20):
            client.send(question(f"r{n}", "word " * 800, tokens_max=50))
            client.cancel(f"r{n}")
        assert (await client.ask("next", "Hello", tokens_max=2)).tokens
    for rank in pair.ranks:
        await asyncio.to_thread(rank.wait_until, lambda report: report.demand == 0)
