"""The chat endpoint, asked by OpenAI's own SDK."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import orjson
import pytest
from starlette.types import Message

from reconciler.gateway.app import build_app
from reconciler.gateway.routing.pool import Pool
from reconciler.gateway.routing.reach import Reach
from reconciler.gateway.routing.routes import RoutesFile
from reconciler.gateway.routing.timing import Timing
from tests.gateway.conftest import HELLO, SOURCES, Start
from tests.gateway.rank_double import PROMPT, Turn, story, told


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
    assert chunks[6]["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
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
    async def refuse(turn: Turn) -> None:
        turn.fail("context_length_exceeded", "5000 tokens, the context has 4096")

    cluster = await start(refuse)
    with pytest.raises(openai.BadRequestError) as caught:
        await cluster.client.chat.completions.create(model="llama", messages=HELLO, stream=stream)
    assert caught.value.code == "context_length_exceeded"


async def test_a_full_queue_is_503_with_retry_after(start: Start) -> None:
    async def refuse(turn: Turn) -> None:
        turn.fail("overloaded", "the queue is full")

    cluster = await start(refuse)
    status, headers, body = await cluster.post({"model": "llama", "messages": HELLO})
    assert (status, body["error"]["code"]) == (503, "overloaded")
    assert int(headers["retry-after"]) >= 1
    assert headers["x-should-retry"] == "true"


async def test_errors_outside_the_endpoints_have_the_same_shape(start: Start) -> None:
    cluster = await start(story(1))
    for method, path, status in [
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/models", 405),
        ("POST", "/v1/chat/completions/", 404),
    ]:
        async with cluster.http.request(method, cluster.url(path)) as answer:
            assert answer.status == status
            assert set((await answer.json())["error"]) == {"message", "type", "param", "code"}
            assert answer.headers["x-request-id"]


async def test_a_defect_of_the_gateway_is_told_in_the_same_shape_and_goes_to_the_log(tmp_path: Path) -> None:
    def broken() -> int:
        raise ZeroDivisionError

    async def receive() -> Message:
        return {"type": "http.request", "body": orjson.dumps({"model": "llama", "messages": HELLO})}

    async def send(message: Message) -> None:
        sent.append(message)

    sent: list[Message] = []
    pool = Pool(RoutesFile(tmp_path / "routes.json"), Timing(), Reach(tmp_path / "key").connect)
    app = build_app(pool, replace(SOURCES, new_seed=broken))
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": []}
    with pytest.raises(ZeroDivisionError):
        await app(scope, receive, send)
    start, *parts = sent
    assert start["status"] == 500
    assert dict(start["headers"])[b"x-request-id"]
    error = orjson.loads(b"".join(part["body"] for part in parts))["error"]
    assert (error["code"], error["param"]) == ("internal_error", None)


async def test_a_body_that_is_no_json_is_400(start: Start) -> None:
    cluster = await start(story(1))
    assert (await cluster.post(b"{"))[0] == 400
    assert (await cluster.post(b"[]"))[0] == 400


async def test_a_body_too_large_is_413_before_its_end(start: Start) -> None:
    cluster = await start(story(1))
    host, _, port = cluster.listen.rpartition(":")
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    for said, sent in [(b"content-length: 12582913", b""), (b"transfer-encoding: chunked", chunk * 13)]:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n" + said + b"\r\n\r\n" + sent)
        async with asyncio.timeout(20):
            assert (await reader.readline()).startswith(b"HTTP/1.1 413")
            assert b'"request_too_large"' in await reader.readuntil(b"}}")
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_a_page_of_another_site_is_refused_and_one_of_this_machine_is_not(start: Start) -> None:
    cluster = await start(story(1), story(1))
    body = {"model": "llama", "messages": HELLO}
    for origin in ("https://evil.example", "http://127.0.0.1.evil.example:8400", "null", "http://["):
        status, _, refusal = await cluster.post(body, origin=origin)
        assert (status, refusal["error"]["code"]) == (403, "foreign_origin")
    for origin in ("http://localhost:3000", "http://127.0.0.1:8400", "http://[::1]:5173"):
        assert (await cluster.post(body, origin=origin))[0] == 200


async def test_the_clients_request_id_is_kept_where_it_is_sensible(start: Start) -> None:
    cluster = await start(story(1))
    body = {"model": "llama", "messages": HELLO}
    assert (await cluster.post(body, **{"x-request-id": "mine-1"}))[1]["x-request-id"] == "mine-1"
    assert (await cluster.post(body, **{"x-request-id": "a b"}))[1]["x-request-id"].startswith("req_")
    assert (await cluster.post(body))[1]["x-request-id"].startswith("req_")


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


async def test_a_prompt_of_many_megabytes_passes_and_one_that_outgrows_a_frame_is_413(start: Start) -> None:
    cluster = await start(story(1))
    long = [{"role": "user", "content": "a" * 8_000_000}]
    assert (await cluster.post({"model": "llama", "messages": long}))[0] == 200
    numbers: Any = {"type": "object", "default": [1e15] * 1_000_000}
    tools = [{"type": "function", "function": {"name": "f", "parameters": numbers}}]
    body = orjson.dumps({"model": "llama", "messages": HELLO, "tools": tools})
    status, _, reply = await cluster.post(body.replace(b"1000000000000000.0", b"1e15"))
    assert (status, reply["error"]["code"]) == (413, "request_too_large")


async def test_a_body_that_never_comes_is_408(start: Start) -> None:
    cluster = await start(story(1), timing=Timing(body=0.2, shutdown=0.5))
    host, _, port = cluster.listen.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
    assert (await reader.readline()).startswith(b"HTTP/1.1 408")
    writer.close()
    await writer.wait_closed()
