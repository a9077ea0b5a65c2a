"""Streams that pause, before their first part and everywhere else: signs of life that real SDKs read, and that change nothing."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire.generation import CallPart
from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.rank_double import Turn

QUICK = Timing(shutdown=0.5, hello=60.0, headers_after=0.02, keep_alive=0.02, routes_idle=0.02)
PATHS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": HELLO},
    "/v1/completions": {"prompt": "a"},
    "/v1/responses": {"input": "a"},
    "/v1/messages": {"messages": HELLO, "max_tokens": 100},
}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


async def pause() -> None:
    await asyncio.sleep(0.15)


async def hesitant(turn: Turn) -> None:
    """Pause before and within each kind of text, and before the end."""
    call = CallPart(0, "look", "call_1", "")
    await pause()
    turn.accept()
    await pause()
    if turn.generate.messages:
        turn.say("", 0, reasoning="it is ")
        await pause()
        turn.say("", 1, reasoning="easy")
        await pause()
    turn.say("w0 ", 2)
    await pause()
    turn.say("w1 ", 3)
    await pause()
    if turn.generate.tools:
        turn.call_part(call, 4)
        await pause()
        turn.call_part(CallPart(0, arguments='{"a": 1}'), 5)
        await pause()
    turn.finish("tool_calls" if turn.generate.tools else "stop")


@pytest.fixture
async def cluster(start: Start) -> Cluster:
    return await start(hesitant, timing=QUICK)


async def events(cluster: Cluster, path: str, **fields: Any) -> list[bytes]:
    """The events of a stream, as they came."""
    body = orjson.dumps({"model": "llama", "stream": True, **PATHS[path], **fields})
    async with cluster.http.post(cluster.url(path), data=body) as answer:
        assert answer.status == 200
        text = await answer.read()
    assert text.endswith(b"\n\n")
    return text.split(b"\n\n")[:-1]


def data_of(event: bytes) -> Any:
    """The JSON of an event, which clients read that take every line as one."""
    lines = event.split(b"\n")
    assert all(line.startswith((b"data: ", b"event: ")) for line in lines), event
    return lines[-1].removeprefix(b"data: ") and orjson.loads(lines[-1].removeprefix(b"data: "))


@pytest.mark.parametrize("path", PATHS)
async def test_every_line_of_a_stream_is_an_event_also_the_first(cluster: Cluster, path: str) -> None:
    told = await events(cluster, path)
    if told[-1] == b"data: [DONE]":
        told.pop()
    assert len([data_of(event) for event in told]) > 15


@pytest.mark.parametrize("path", PATHS)
async def test_who_wants_comments_gets_them_and_nothing_else_is_different(
    cluster: Cluster, path: str
) -> None:
    cluster.front = {"keep_alive": "comment"}
    await cluster.routed(*cluster.ranks)
    told = await events(cluster, path)
    comments = [event for event in told if event == b": keep-alive"]
    assert len(comments) > 10
    assert not any(b"ping" in event for event in told)


async def chunks(stream: AsyncIterator[Any]) -> list[Any]:
    return [chunk async for chunk in stream]


async def test_openais_sdk_joins_a_chat_to_the_same_message(cluster: Cluster) -> None:
    async with cluster.client.chat.completions.stream(model="llama", messages=HELLO, tools=[TOOL]) as stream:  # type: ignore[list-item]
        async for event in stream:
            assert event
        whole = await stream.get_final_completion()
    choice = whole.choices[0]
    assert (choice.message.role, choice.message.content) == ("assistant", "w0 w1 ")
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert (call.function.name, call.function.arguments, choice.finish_reason) == (
        "look",
        '{"a": 1}',
        "tool_calls",
    )


async def test_the_first_chunk_of_each_choice_that_says_something_has_the_role(cluster: Cluster) -> None:
    told = [data_of(event) for event in (await events(cluster, "/v1/chat/completions", n=2))[:-1]]
    assert {one["object"] for one in told} == {"chat.completion.chunk"}
    assert len({(one["id"], one["created"], one["model"]) for one in told}) == 1
    assert told[0]["choices"] == [{"index": 0, "logprobs": None, "finish_reason": None, "delta": {}}]
    for index in (0, 1):
        deltas = [c["delta"] for one in told for c in one["choices"] if c["index"] == index and c["delta"]]
        assert deltas[0] == {"role": "assistant", "content": ""}
        assert not any("role" in delta for delta in deltas[1:])


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_a_sign_of_life_is_never_of_a_choice_that_is_finished(start: Start, path: str) -> None:
    async def first_ends_early(turn: Turn) -> None:
        turn.accept()
        if len(made.ranks[0].asked) == 2:
            await pause()
            await pause()
        turn.say("w0 ", 0)
        turn.finish()

    made = await start(first_ends_early, timing=QUICK)
    finished: set[int] = set()
    told = await events(made, path, n=2, stream_options={"include_usage": True})
    for one in [data_of(event) for event in told[:-1]]:
        for choice in one["choices"]:
            assert choice["index"] not in finished
            if choice["finish_reason"]:
                finished.add(choice["index"])
    assert finished == {0, 1}


async def test_openais_sdk_reads_completions(cluster: Cluster) -> None:
    told = await chunks(await cluster.client.completions.create(model="llama", prompt="a", stream=True))
    assert "".join(chunk.choices[0].text for chunk in told) == "w0 w1 "
    assert len(told) > 10


async def test_openais_sdk_follows_a_response(cluster: Cluster) -> None:
    tool: Any = {"type": "function", **TOOL["function"]}  # type: ignore[dict-item]
    kinds: list[str] = []
    numbers: list[int] = []
    async with cluster.client.responses.stream(model="llama", input="a", tools=[tool]) as stream:
        async for event in stream:
            kinds.append(event.type)
            numbers.append(event.sequence_number)
        whole = await stream.get_final_response()
    assert whole.output_text == "w0 w1 "
    assert [item.type for item in whole.output] == ["reasoning", "message", "function_call"]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds.count("response.created") == 1
    assert kinds.count("response.in_progress") > 3
    assert kinds.count("response.output_text.delta") > 5
    assert kinds.count("response.function_call_arguments.delta") > 3
    assert numbers == sorted(set(numbers))


async def test_anthropics_sdk_joins_a_message(cluster: Cluster) -> None:
    tool: Any = {"name": "look", "input_schema": {"type": "object"}}
    client = AsyncAnthropic(base_url=cluster.url(""), api_key="unused", max_retries=0)
    asked = client.messages.stream(model="llama", max_tokens=50, messages=HELLO, tools=[tool])
    async with client, asked as stream:
        kinds = [event.type async for event in stream]
        whole = await stream.get_final_message()
    assert kinds[0] == "message_start"
    (text,) = [block.text for block in whole.content if block.type == "text"]
    (call,) = [block for block in whole.content if block.type == "tool_use"]
    assert (text, call.name, call.input) == ("w0 w1 ", "look", {"a": 1})


async def test_a_client_of_an_older_form_of_the_api_finds_a_choice_in_every_chunk(cluster: Cluster) -> None:
    client = AsyncOpenAI(base_url=cluster.url("/v1"), api_key="unused", max_retries=0)
    async with client:
        stream = await client.chat.completions.create(model="llama", messages=HELLO, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == "w0 w1 "


async def test_signs_of_life_go_on_while_a_begun_stream_is_held_for_a_group(start: Start) -> None:
    cluster = await start(timing=dataclasses.replace(QUICK, hello=60.0))
    asking = asyncio.create_task(events(cluster, "/v1/chat/completions"))
    await pause()
    cluster.route(await cluster.rank(hesitant))
    told = [data_of(event) for event in (await asking)[:-1]]
    assert [one["choices"][0]["delta"] for one in told[:3]] == [{}, {}, {}]
