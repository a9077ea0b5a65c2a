"""The chat endpoint, asked by OpenAI's own SDK."""

from __future__ import annotations

from typing import Any

import openai
import orjson
import pytest

from reconciler.wire.generation import CallPart
from tests.gateway.conftest import HELLO, Start
from tests.gateway.dialects.conftest import FULL, TOO_LONG
from tests.gateway.rank_double import CACHED, PROMPT, Turn, story, told


async def test_models_are_listed_with_their_aliases(start: Start) -> None:
    cluster = await start(story(1))
    models = (await cluster.client.models.list()).data
    assert [(model.id, model.object, model.created, model.owned_by) for model in models] == [
        ("llama", "model", 1_700_000_000, "reconciler"),
        ("gpt-4o", "model", 1_700_000_000, "reconciler"),
    ]


async def test_a_whole_answer_has_text_finish_reason_and_usage(start: Start) -> None:
    cluster = await start(story(5))
    reply = await cluster.client.chat.completions.create(model="llama", messages=HELLO)
    assert reply.id.startswith("chatcmpl-")
    assert reply.object == "chat.completion"
    assert reply.model == "llama"
    assert reply.choices[0].message.content == told(5)
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == len(PROMPT)
    assert reply.usage.completion_tokens == 5
    assert reply.usage.total_tokens == len(PROMPT) + 5
    assert reply.usage.prompt_tokens_details is not None
    assert reply.usage.prompt_tokens_details.cached_tokens == CACHED


async def test_a_stream_begins_with_the_role_and_ends_with_reason_usage_and_done(start: Start) -> None:
    cluster = await start(story(4))
    lines = await cluster.events(stream_options={"include_usage": True})
    assert lines[-1] == "data: [DONE]"
    chunks = [orjson.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [chunk["choices"][0]["delta"] for chunk in chunks[1:5]] == [
        {"content": f"w{number} "} for number in range(4)
    ]
    assert chunks[5]["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}
    assert chunks[6]["choices"] == []
    assert chunks[6]["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": CACHED},
    }
    assert all(chunk["usage"] is None for chunk in chunks[:6])


async def test_a_stream_without_include_usage_has_no_usage(start: Start) -> None:
    cluster = await start(story(2))
    lines = await cluster.events()
    assert not any("usage" in line for line in lines)


async def test_the_sdk_streams_the_same_text(start: Start) -> None:
    cluster = await start(story(30))
    text, usage = "", None
    stream = await cluster.client.chat.completions.create(
        model="gpt-4o",
        messages=HELLO,
        stream=True,
        stream_options={"include_usage": True},
    )
    async for chunk in stream:
        usage = chunk.usage or usage
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert text == told(30)
    assert usage is not None
    assert usage.completion_tokens == 30


async def _call_two_tools(turn: Turn) -> None:
    turn.accept()
    turn.say("\n", 1)
    turn.say("", 2, 3)
    turn.call(0, "weather", '{"city":"Rome"}')
    turn.call(1, "time", "{}")
    turn.finish("tool_calls")


async def test_tool_calls_come_whole_and_leave_the_content_null(start: Start) -> None:
    cluster = await start(_call_two_tools)
    tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
    reply = await cluster.client.chat.completions.create(model="llama", messages=HELLO, tools=tools)
    message = reply.choices[0].message
    assert message.content is None
    assert reply.choices[0].finish_reason == "tool_calls"
    calls: Any = message.tool_calls
    assert [(call.type, call.function.name, call.function.arguments) for call in calls] == [
        ("function", "weather", '{"city":"Rome"}'),
        ("function", "time", "{}"),
    ]
    assert len({call.id for call in calls}) == 2
    assert cluster.ranks[0].asked[0].tools == tuple(tools)


async def test_streamed_tool_calls_are_assembled_by_the_sdk(start: Start) -> None:
    cluster = await start(_call_two_tools)
    async with cluster.client.chat.completions.stream(model="llama", messages=HELLO) as stream:
        completion = await stream.get_final_completion()
    calls: Any = completion.choices[0].message.tool_calls
    assert [call.function.name for call in calls] == ["weather", "time"]
    assert completion.choices[0].finish_reason == "tool_calls"


async def _call_in_parts(turn: Turn) -> None:
    turn.accept()
    turn.call_part(CallPart(0, "weather", "functions.weather:0", '{"ci'), 1)
    turn.call_part(CallPart(0, arguments='ty": "Rome"}'), 2)
    turn.call_part(CallPart(1, "time", "call_1", "{"), 3)
    turn.call_part(CallPart(1, withdrawn=True), 4, text="<tool_call>broken")
    turn.finish("tool_calls")


async def test_a_call_in_parts_is_one_call_and_a_withdrawn_one_is_none(start: Start) -> None:
    cluster = await start(_call_in_parts)
    reply = await cluster.client.chat.completions.create(model="llama", messages=HELLO)
    message = reply.choices[0].message
    calls: Any = message.tool_calls
    assert [(call.id, call.function.name, call.function.arguments) for call in calls] == [
        ("functions.weather:0", "weather", '{"city": "Rome"}')
    ]
    assert message.content == "<tool_call>broken"


async def test_parts_of_a_call_stream_with_its_name_and_id_in_the_first_alone(start: Start) -> None:
    cluster = await start(_call_in_parts)
    stream = await cluster.client.chat.completions.create(model="llama", messages=HELLO, stream=True)
    parts = [
        part async for chunk in stream if chunk.choices for part in chunk.choices[0].delta.tool_calls or ()
    ]
    assert [
        (p.index, p.id, p.function and p.function.name, p.function and p.function.arguments) for p in parts
    ] == [
        (0, "functions.weather:0", "weather", '{"ci'),
        (0, None, None, 'ty": "Rome"}'),
        (1, "call_1", "time", "{"),
    ]


async def test_reasoning_is_told_under_both_of_its_names(start: Start) -> None:
    async def think(turn: Turn) -> None:
        turn.accept()
        turn.say("", 1, reasoning="hm ")
        turn.say("yes", 2, 3, reasoning="so")
        turn.finish()

    cluster = await start(think)
    _, _, reply = await cluster.post({"model": "llama", "messages": HELLO})
    message = reply["choices"][0]["message"]
    assert (message["reasoning_content"], message["reasoning"], message["content"]) == (
        "hm so",
        "hm so",
        "yes",
    )
    deltas = [orjson.loads(line[6:])["choices"][0]["delta"] for line in (await cluster.events())[:-1]]
    assert deltas[1:4] == [
        {"reasoning_content": "hm ", "reasoning": "hm "},
        {"reasoning_content": "so", "reasoning": "so"},
        {"content": "yes"},
    ]


async def test_token_ids_are_returned_on_request(start: Start) -> None:
    async def speak(turn: Turn) -> None:
        turn.accept()
        turn.say("", 1)
        turn.say("a", 2, 3, reasoning="b")
        turn.finish()

    cluster = await start(speak)
    _, _, reply = await cluster.post({"model": "llama", "messages": HELLO, "return_token_ids": True})
    assert reply["prompt_token_ids"] == list(PROMPT)
    assert reply["choices"][0]["token_ids"] == [1, 2, 3]
    chunks = [orjson.loads(line[6:]) for line in (await cluster.events(return_token_ids=True))[:-1]]
    assert chunks[0]["prompt_token_ids"] == list(PROMPT)
    ids = [token for chunk in chunks for token in chunk["choices"][0].get("token_ids", [])]
    assert ids == [1, 2, 3]


async def test_an_unknown_model_is_a_not_found_error(start: Start) -> None:
    cluster = await start(story(1))
    with pytest.raises(openai.NotFoundError) as caught:
        await cluster.client.chat.completions.create(model="nope", messages=HELLO)
    assert caught.value.code == "model_not_found"
    assert caught.value.param == "model"


async def test_a_wrong_field_is_a_bad_request_that_names_it(start: Start) -> None:
    cluster = await start(story(1))
    with pytest.raises(openai.BadRequestError) as caught:
        await cluster.client.chat.completions.create(model="llama", messages=HELLO, temperature=3)
    assert caught.value.type == "invalid_request_error"
    assert caught.value.param == "temperature"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_beyond_the_context_is_a_bad_request(start: Start, stream: bool) -> None:
    cluster = await start(TOO_LONG)
    with pytest.raises(openai.BadRequestError) as caught:
        await cluster.client.chat.completions.create(model="llama", messages=HELLO, stream=stream)
    assert caught.value.code == "context_length_exceeded"


async def test_a_full_queue_is_503_with_retry_after(start: Start) -> None:
    cluster = await start(FULL)
    status, headers, body = await cluster.post({"model": "llama", "messages": HELLO})
    assert (status, body["error"]["code"]) == (503, "overloaded")
    assert int(headers["retry-after"]) >= 1
    assert headers["x-should-retry"] == "true"


async def test_a_body_that_is_no_json_is_400(start: Start) -> None:
    cluster = await start(story(1))
    assert (await cluster.post(b"{"))[0] == 400
    assert (await cluster.post(b"[]"))[0] == 400


async def test_text_is_the_sum_of_the_pieces_whatever_they_contain(start: Start) -> None:
    pieces = ["\u2028", "data: [DONE]\n\n", "é", "🦙", '"\\', "\x00", "\ud83d"]

    async def speak(turn: Turn) -> None:
        turn.accept()
        for number, piece in enumerate(pieces):
            turn.say(piece, number)
        turn.finish()

    cluster = await start(speak)
    expected = "".join(pieces[:-1]) + "?"
    _, _, reply = await cluster.post({"model": "llama", "messages": HELLO})
    assert reply["choices"][0]["message"]["content"] == expected
    deltas = [orjson.loads(line[6:])["choices"][0]["delta"] for line in (await cluster.events())[:-1]]
    assert "".join(delta.get("content", "") for delta in deltas) == expected
