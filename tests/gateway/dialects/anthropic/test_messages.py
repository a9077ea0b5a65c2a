"""The messages endpoint, asked by Anthropic's own SDK."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import orjson
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import DirectCaller, TextBlock, ThinkingBlock, ToolUseBlock

from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire.generation import CallPart, Finished
from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.dialects.conftest import FULL, TOO_LONG
from tests.gateway.rank_double import CACHED, PROMPT, Turn, silent, story, told

ASKED: Any = {"model": "llama", "max_tokens": 100, "messages": HELLO}
TOOLS: Any = [{"name": "weather", "input_schema": {"type": "object"}}]


@pytest.fixture
async def sdks() -> AsyncIterator[list[AsyncAnthropic]]:
    made: list[AsyncAnthropic] = []
    yield made
    for sdk in made:
        await sdk.close()


@pytest.fixture
def sdk(sdks: list[AsyncAnthropic]) -> Any:
    """Call with a cluster."""

    def of(cluster: Cluster) -> AsyncAnthropic:
        sdks.append(AsyncAnthropic(base_url=cluster.url(""), api_key="unused", max_retries=0, timeout=60))
        return sdks[-1]

    return of


async def events(cluster: Cluster, **fields: Any) -> list[tuple[str, Any]]:
    """The name and data of each event of a stream."""
    body = orjson.dumps({**ASKED, "stream": True, **fields})
    async with cluster.http.post(cluster.url("/v1/messages"), data=body) as answer:
        assert answer.content_type == "text/event-stream"
        parts = (await answer.read()).decode().split("\n\n")[:-1]
    lines = [part.split("\n") for part in parts]
    return [(name.removeprefix("event: "), orjson.loads(data.removeprefix("data: "))) for name, data in lines]


async def post(cluster: Cluster, path: str = "/v1/messages", **fields: Any) -> tuple[int, Any, Any]:
    async with cluster.http.post(cluster.url(path), data=orjson.dumps({**ASKED, **fields})) as answer:
        return answer.status, answer.headers, orjson.loads(await answer.read())


async def test_a_whole_answer_has_text_stop_reason_and_usage(start: Start, sdk: Any) -> None:
    cluster = await start(story(5))
    message = await sdk(cluster).messages.create(**ASKED)
    assert message.id.startswith("msg_")
    assert (message.type, message.role, message.model) == ("message", "assistant", "llama")
    assert message.content == [TextBlock(type="text", text=told(5), citations=[])]
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    assert message.usage.input_tokens == len(PROMPT) - CACHED
    assert message.usage.cache_read_input_tokens == CACHED
    assert message.usage.output_tokens == 5
    assert message._request_id.startswith("req_")


NO_ENDING = dict.fromkeys(("stop_reason", "stop_sequence", "stop_details", "container"))
"""What the published schema requires of an ending."""


async def test_the_events_of_a_stream_are_those_of_the_documentation(start: Start) -> None:
    cluster = await start(story(2))
    found = await events(cluster)
    assert [name for name, _ in found] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert all(data["type"] == name for name, data in found)
    message = found[0][1]["message"]
    assert (message["content"], message["stop_reason"]) == ([], None)
    assert message["usage"]["input_tokens"] == len(PROMPT)
    assert found[1][1] == {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": "", "citations": []},
    }
    assert found[2][1]["delta"] == {"type": "text_delta", "text": "w0 "}
    assert found[5][1]["delta"] == {**NO_ENDING, "stop_reason": "end_turn"}
    assert found[5][1]["usage"] == {
        "input_tokens": len(PROMPT) - CACHED,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": CACHED,
        "output_tokens": 2,
        "output_tokens_details": None,
        "server_tool_use": None,
    }


async def test_the_sdk_streams_the_same_text(start: Start, sdk: Any) -> None:
    cluster = await start(story(30))
    async with sdk(cluster).messages.stream(**ASKED) as stream:
        text = "".join([part async for part in stream.text_stream])
    assert text == told(30)


async def _think_and_call(turn: Turn) -> None:
    turn.accept()
    turn.say("", 1, reasoning="hm ")
    turn.say("", 2, reasoning="so")
    turn.say("\n\n", 3)
    turn.say("Let me see.", 4)
    turn.call_part(CallPart(0, "weather", "call_0", '{"ci'), 5)
    turn.call_part(CallPart(0, arguments='ty": "Rome"}'), 6)
    turn.call_part(CallPart(1, "weather", "call_1"), 7)
    turn.call_part(CallPart(1, arguments="{}"), 8)
    turn.finish("tool_calls")


DIRECT = DirectCaller(type="direct")
SIGNATURE = "bm90IHNpZ25lZA=="
CONTENT = [
    ThinkingBlock(type="thinking", thinking="hm so", signature=SIGNATURE),
    TextBlock(type="text", text="\n\nLet me see.", citations=[]),
    ToolUseBlock(type="tool_use", id="call_0", name="weather", input={"city": "Rome"}, caller=DIRECT),
    ToolUseBlock(type="tool_use", id="call_1", name="weather", input={}, caller=DIRECT),
]


async def test_thinking_text_and_calls_are_blocks_in_the_order_in_which_they_come(
    start: Start, sdk: Any
) -> None:
    cluster = await start(_think_and_call)
    message = await sdk(cluster).messages.create(**ASKED, tools=TOOLS)
    assert message.content == CONTENT
    assert message.stop_reason == "tool_use"
    async with sdk(cluster).messages.stream(**ASKED, tools=TOOLS) as stream:
        streamed = await stream.get_final_message()
    assert [block.to_dict() for block in streamed.content] == [block.to_dict() for block in message.content]
    assert (streamed.stop_reason, streamed.usage) == ("tool_use", message.usage)


async def test_white_space_alone_is_no_block(start: Start) -> None:
    async def call(turn: Turn) -> None:
        turn.accept()
        turn.say("\n\n", 1)
        turn.call_part(CallPart(0, "weather", "call_0", "{}"), 2)
        turn.say("\n", 3)
        turn.finish("tool_calls")

    cluster = await start(call)
    _, _, message = await post(cluster)
    assert [block["type"] for block in message["content"]] == ["tool_use"]
    begun = [
        data["content_block"]["type"] for name, data in await events(cluster) if name == "content_block_start"
    ]
    assert begun == ["tool_use"]


async def test_an_answer_can_be_sent_back_with_the_result_of_its_call(start: Start, sdk: Any) -> None:
    cluster = await start(_think_and_call)
    message = await sdk(cluster).messages.create(**ASKED, tools=TOOLS)
    results: Any = [
        {"type": "tool_result", "tool_use_id": block.id, "content": "sunny"}
        for block in message.content
        if block.type == "tool_use"
    ]
    back = [*HELLO, message.to_param(), {"role": "user", "content": results}]
    await sdk(cluster).messages.create(**{**ASKED, "messages": back}, tools=TOOLS)
    _, answer, *rest = cluster.ranks[0].asked[1].messages
    assert (answer["reasoning_content"], answer["content"]) == ("hm so", "\n\nLet me see.")
    assert [call["id"] for call in answer["tool_calls"]] == ["call_0", "call_1"]
    assert [(result["role"], result["tool_call_id"]) for result in rest] == [
        ("tool", "call_0"),
        ("tool", "call_1"),
    ]


async def test_thinking_that_is_not_to_be_shown_is_an_empty_block(start: Start) -> None:
    cluster = await start(_think_and_call)
    thinking = {"type": "adaptive", "display": "omitted"}
    _, _, message = await post(cluster, thinking=thinking)
    assert message["content"][0] == {"type": "thinking", "thinking": "", "signature": SIGNATURE}
    kinds = [
        data["delta"]["type"]
        for name, data in await events(cluster, thinking=thinking)
        if name == "content_block_delta"
    ]
    assert kinds[:2] == ["signature_delta", "text_delta"]


async def _withdraw(turn: Turn) -> None:
    turn.accept()
    turn.call_part(CallPart(0, "weather", "call_0", '{"city": "Ro'), 1)
    turn.call_part(CallPart(0, withdrawn=True), 2, text="<tool_call>broken")
    turn.call_part(CallPart(1, "weather", "call_1"), 3)
    turn.call_part(CallPart(1, withdrawn=True), 4, text="<tool_call>")
    turn.finish()


async def test_a_call_that_turns_out_to_be_none_is_text(start: Start) -> None:
    cluster = await start(_withdraw)
    _, _, message = await post(cluster)
    (block,) = message["content"]
    assert (block["type"], block["text"]) == ("text", "<tool_call>broken<tool_call>")
    assert message["stop_reason"] == "end_turn"


async def test_a_stream_that_has_begun_such_a_call_leaves_it_incomplete(start: Start, sdk: Any) -> None:
    cluster = await start(_withdraw)
    found = await events(cluster)
    begun = [data["content_block"]["type"] for name, data in found if name == "content_block_start"]
    assert begun == ["tool_use", "text"]
    fragments = [data["delta"].get("partial_json") for name, data in found if name == "content_block_delta"]
    assert fragments[0] == '{"city": "Ro'
    async with sdk(cluster).messages.stream(**ASKED) as stream:
        assert (await stream.get_final_message()).stop_reason == "end_turn"


async def test_a_call_of_a_rank_of_an_earlier_version_is_a_block(start: Start, sdk: Any) -> None:
    async def call(turn: Turn) -> None:
        turn.accept()
        turn.call(0, "weather", '{"city":"Rome"}')
        turn.finish("tool_calls")

    cluster = await start(call)
    async with sdk(cluster).messages.stream(**ASKED) as stream:
        (block,) = (await stream.get_final_message()).content
    assert (block.name, block.input) == ("weather", {"city": "Rome"})
    assert block.id.startswith("toolu_")


@pytest.mark.parametrize(
    ("finished", "reason", "sequence"),
    [
        (Finished("", "stop", 3, 4), "end_turn", None),
        (Finished("", "stop", 3, 4, stop="END"), "stop_sequence", "END"),
        (Finished("", "tool_calls", 3, 4, stop="END"), "tool_use", None),
        (Finished("", "length", 3, 100), "max_tokens", None),
        (Finished("", "length", 3, 4), "model_context_window_exceeded", None),
    ],
)
async def test_the_end_of_an_answer_has_its_reason(
    start: Start, finished: Finished, reason: str, sequence: str | None
) -> None:
    async def end(turn: Turn) -> None:
        turn.accept()
        turn.finish_as(finished)

    cluster = await start(end)
    _, _, message = await post(cluster, stop_sequences=["END"])
    assert (message["stop_reason"], message["stop_sequence"]) == (reason, sequence)
    assert cluster.ranks[0].asked[0].stop == ("END",)
    (delta,) = [data["delta"] for name, data in await events(cluster) if name == "message_delta"]
    assert delta == {**NO_ENDING, "stop_reason": reason, "stop_sequence": sequence}


async def test_the_query_and_the_headers_of_its_clients_change_nothing(start: Start, sdk: Any) -> None:
    cluster = await start(story(1))
    message = await sdk(cluster).beta.messages.create(
        **ASKED,
        betas=["context-management-2025-06-27", "whatever-2026-01-01"],
        context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
        metadata={"user_id": "u"},
        service_tier="auto",
    )
    assert message.content[0].text == told(1)
    assert message.context_management.applied_edits == []
    (delta,) = [
        data for name, data in await events(cluster, context_management={}) if name == "message_delta"
    ]
    assert delta["context_management"] == {"applied_edits": []}


async def test_tools_that_only_anthropic_has_are_named_in_a_header(start: Start) -> None:
    cluster = await start(story(1))
    theirs = [
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "bash_20250124", "name": "bash"},
    ]
    for stream in (False, True):
        body = orjson.dumps({**ASKED, "tools": [*theirs, *TOOLS], "stream": stream})
        async with cluster.http.post(cluster.url("/v1/messages"), data=body) as answer:
            assert answer.headers["x-dropped-tools"] == "web_search_20250305, bash_20250124"
            await answer.read()


async def test_a_pause_is_filled_with_pings(start: Start) -> None:
    async def pause(turn: Turn) -> None:
        turn.accept()
        await turn.hang()

    cluster = await start(pause, timing=Timing(shutdown=0.5, hello=60.0, keep_alive=0.05))
    body = orjson.dumps({**ASKED, "stream": True})
    async with cluster.http.post(cluster.url("/v1/messages"), data=body) as answer:
        names = []
        async for line in answer.content:
            if line.startswith(b"event: "):
                names.append(line.strip())
            if len(names) == 3:
                break
    assert names == [b"event: message_start", b"event: ping", b"event: ping"]


# --- errors --------------------------------------------------------------------------------------------


async def test_errors_are_the_sdks_own(start: Start, sdk: Any) -> None:
    cluster = await start(story(1))
    with pytest.raises(anthropic.NotFoundError) as missing:
        await sdk(cluster).messages.create(**{**ASKED, "model": "nope"})
    assert (missing.value.type, missing.value.error_code) == ("not_found_error", "model_not_found")
    with pytest.raises(anthropic.BadRequestError) as wrong:
        await sdk(cluster).messages.create(**ASKED, extra_body={"temperature": 9})
    assert wrong.value.type == "invalid_request_error"
    assert wrong.value.api_message == "temperature: temperature must be a number from 0 to 2"
    assert str(wrong.value.request_id).startswith("req_")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_beyond_the_context_is_too_long_in_the_words_that_agents_look_for(
    start: Start, stream: bool
) -> None:
    cluster = await start(TOO_LONG)
    status, _, body = await post(cluster, stream=stream)
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")
    assert body["error"]["message"] == "prompt is too long: 5000 tokens, the context has 4096"


async def test_a_full_queue_is_529_with_retry_after(start: Start) -> None:
    cluster = await start(FULL)
    status, headers, body = await post(cluster)
    assert (status, body["type"], body["error"]["type"]) == (529, "error", "overloaded_error")
    assert body["request_id"] == headers["request-id"] == headers["x-request-id"]
    assert int(headers["retry-after"]) >= 1
    assert headers["x-should-retry"] == "true"


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status", "kind"),
    [
        ("GET", "/v1/messages", {}, b"", 405, "invalid_request_error"),
        ("POST", "/v1/messages/batches", {}, b"{}", 404, "not_found_error"),
        ("POST", "/v1/messages", {"host": "evil.example"}, b"{}", 403, "permission_error"),
        ("POST", "/v1/messages", {"origin": "https://evil.example"}, b"{}", 403, "permission_error"),
        ("POST", "/v1/messages", {}, b"{", 400, "invalid_request_error"),
        ("POST", "/v1/messages", {}, b" " * (12 * 1024 * 1024 + 1), 413, "request_too_large"),
    ],
)
async def test_errors_of_all_that_stands_before_it_have_the_same_shape(
    start: Start, method: str, path: str, headers: dict[str, str], body: bytes, status: int, kind: str
) -> None:
    cluster = await start(story(1))
    async with cluster.http.request(
        method, cluster.url(path), data=io.BytesIO(body), headers=headers
    ) as answer:
        found = orjson.loads(await answer.read())
        assert (answer.status, found["type"], found["error"]["type"]) == (status, "error", kind)
        assert found["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]


async def test_a_stream_that_breaks_ends_with_an_error_that_the_sdk_raises(start: Start, sdk: Any) -> None:
    async def break_off(turn: Turn) -> None:
        turn.accept()
        turn.say("a", 1)
        turn.fail("invalid_request", "it cannot go on")

    cluster = await start(break_off)
    *_, (name, data) = await events(cluster)
    assert (name, data["error"]["message"]) == ("error", "it cannot go on")
    with pytest.raises(anthropic.APIStatusError, match="it cannot go on"):
        async with sdk(cluster).messages.stream(**ASKED) as stream:
            await stream.get_final_message()


async def test_an_answer_goes_on_with_another_group_when_its_own_is_lost(start: Start, sdk: Any) -> None:
    cluster = await start(story(6, die_after=3), story(6))
    async with sdk(cluster).messages.stream(**ASKED) as stream:
        text = "".join([part async for part in stream.text_stream])
    assert text == told(6)


async def test_a_client_that_goes_away_ends_its_request(start: Start) -> None:
    cluster = await start(silent)
    body = orjson.dumps({**ASKED, "stream": True})
    async with cluster.http.post(cluster.url("/v1/messages"), data=body) as answer:
        await answer.content.readline()
    await cluster.until(lambda: len(cluster.ranks[0].cancelled) == 1)


async def test_a_thread_is_refused_with_the_code_by_which_the_sdk_goes_on_without(start: Start) -> None:
    status, _, body = await post(await start(story(5)), thread={"type": "create"})
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")
    assert body["error"]["details"] == {"error_code": "thread_unsupported_request"}
