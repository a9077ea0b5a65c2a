"""Responses through a real gateway, as clients see them."""

from __future__ import annotations

import io
from typing import Any

import openai
import orjson
import pytest
from pydantic import BaseModel

from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire.form import Form
from reconciler.wire.generation import CallPart, Likely, TokenLogprobs
from tests.gateway.conftest import Cluster, Start
from tests.gateway.dialects.conftest import TOO_LONG
from tests.gateway.rank_double import CACHED, PROMPT, Turn, story, told

from .events import calls_of, check, deltas_of, events_of, reasoning_of, text_of

WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": True,
}


async def ask(cluster: Cluster, **fields: Any) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (lower case) and body of a response asked for without any SDK."""
    body = io.BytesIO(orjson.dumps({"model": "llama", "input": "hello", **fields}))
    async with cluster.http.post(cluster.url("/v1/responses"), data=body) as answer:
        names = {name.lower(): value for name, value in answer.headers.items()}
        return answer.status, names, await answer.read()


async def whole(cluster: Cluster, **fields: Any) -> dict[str, Any]:
    status, _, body = await ask(cluster, **fields)
    assert status == 200, body
    response = orjson.loads(body)
    check(response)
    assert isinstance(response, dict)
    return response


async def streamed(cluster: Cluster, **fields: Any) -> list[dict[str, Any]]:
    status, headers, body = await ask(cluster, stream=True, **fields)
    assert status == 200, body
    assert headers["content-type"].startswith("text/event-stream")
    return events_of(body)


async def think_and_call(turn: Turn) -> None:
    turn.accept()
    turn.say("", 1, reasoning="hm ")
    turn.say("", 2, 3, reasoning="so")
    turn.say("\n", 4)
    turn.say("I look.", 5)
    turn.call_part(CallPart(0, "weather", "call_a", '{"ci'), 6)
    turn.call_part(CallPart(0, arguments='ty": "Rome"}'), 7)
    turn.say("\n", 8)
    turn.call_part(CallPart(1, "time", "call_b", "{}"), 9)
    turn.finish("tool_calls")


# --- whole ---


async def test_a_response_is_complete(start: Start) -> None:
    cluster = await start(story(5))
    response = await cluster.client.responses.create(model="llama", input="hello")
    assert response.id.startswith("resp_")
    assert (response.object, response.model, response.status) == ("response", "llama", "completed")
    assert response.output_text == told(5)
    (item,) = response.output
    assert item.type == "message"
    assert item.status == "completed"
    assert response.usage is not None
    assert response.usage.input_tokens == len(PROMPT)
    assert response.usage.input_tokens_details.cached_tokens == CACHED
    assert (response.usage.output_tokens, response.usage.total_tokens) == (5, len(PROMPT) + 5)
    assert response.completed_at is not None


async def test_nothing_is_stored_and_the_answer_says_so(start: Start) -> None:
    cluster = await start(story(1))
    response = await whole(cluster, store=True)
    assert response["store"] is False
    with pytest.raises(openai.NotFoundError) as caught:
        await cluster.client.responses.retrieve(response["id"])
    assert caught.value.code == "response_not_found"
    assert "no response is stored" in str(caught.value)
    with pytest.raises(openai.NotFoundError):
        await cluster.client.responses.delete(response["id"])
    with pytest.raises(openai.NotFoundError):
        await cluster.client.responses.cancel(response["id"])
    with pytest.raises(openai.NotFoundError):
        await cluster.client.responses.input_items.list(response["id"])


async def test_an_answer_repeats_what_was_asked_for(start: Start) -> None:
    cluster = await start(story(1))
    asked = {
        "instructions": "be brief",
        "temperature": 0,
        "max_output_tokens": 50,
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low"},
        "prompt_cache_key": "k",
        "tools": [WEATHER],
        "user": "u",
    }
    response = await whole(cluster, **asked)
    shown = {name: response[name] for name in asked}
    reasoning, tools = {"effort": "low", "summary": None}, [{**WEATHER, "description": None}]
    assert shown == {**asked, "reasoning": reasoning, "tools": tools}
    generate = cluster.ranks[0].asked[0]
    assert generate.messages[0] == {"role": "system", "content": "be brief"}
    assert (generate.tokens_max, generate.sampling.temperature) == (50, 0.0)


async def test_reasoning_text_and_calls_are_items_in_the_order_of_the_model(start: Start) -> None:
    cluster = await start(think_and_call)
    response = await whole(cluster, tools=[WEATHER])
    assert [item["type"] for item in response["output"]] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert reasoning_of(response) == "hm so"
    assert text_of(response) == "\nI look."
    assert calls_of(response) == [("call_a", "weather", '{"city": "Rome"}'), ("call_b", "time", "{}")]
    assert response["usage"]["output_tokens_details"] == {"reasoning_tokens": 3}
    assert len({item["id"] for item in response["output"]}) == 4


async def test_an_answer_at_its_limit_is_incomplete(start: Start) -> None:
    async def cut(turn: Turn) -> None:
        turn.accept()
        turn.say("half a", 1)
        turn.finish("length")

    cluster = await start(cut)
    response = await whole(cluster)
    assert (response["status"], response["output"][0]["status"]) == ("incomplete", "incomplete")
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert (await streamed(cluster))[-1]["type"] == "response.incomplete"


async def test_an_answer_without_anything_is_an_empty_message(start: Start) -> None:
    async def nothing(turn: Turn) -> None:
        turn.accept()
        turn.finish()

    cluster = await start(nothing)
    response = await whole(cluster)
    assert [item["type"] for item in response["output"]] == ["message"]
    assert text_of(response) == ""


# --- streamed ---


async def test_a_stream_has_the_events_of_each_item_in_order(start: Start) -> None:
    cluster = await start(think_and_call)
    events = await streamed(cluster, tools=[WEATHER])
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created", "in_progress",
        "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.delta",
        "reasoning_text.done", "content_part.done", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.delta",
        "function_call_arguments.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
        "completed",
    ]  # fmt: skip
    assert events[0]["response"]["status"] == "in_progress"
    assert events[0]["response"]["id"] == events[-1]["response"]["id"]


async def test_the_sdk_assembles_the_same_from_a_stream(start: Start) -> None:
    cluster = await start(think_and_call)
    async with cluster.client.responses.stream(model="llama", input="hello", tools=[WEATHER]) as stream:
        text = "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])
        response = await stream.get_final_response()
    assert text == response.output_text == "\nI look."
    parsed: Any = [item.parsed_arguments for item in response.output if item.type == "function_call"]
    assert parsed == [{"city": "Rome"}, None]


async def test_reasoning_is_told_as_its_summary_where_a_client_asks_for_one(start: Start) -> None:
    cluster = await start(think_and_call)
    asked: Any = {"reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"]}
    events = await streamed(cluster, **asked)
    assert [event["type"].removeprefix("response.") for event in events[2:9]] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ]
    item = events[8]["item"]
    assert item["summary"] == [{"type": "summary_text", "text": "hm so"}]
    assert "content" not in item
    await whole(cluster, input=[{"role": "user", "content": "x"}, {**item, "summary": []}])
    assert cluster.ranks[0].asked[-1].messages[1] == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "hm so",
    }


async def test_a_call_that_turned_out_to_be_none_is_text_and_its_item_incomplete(start: Start) -> None:
    async def break_off(turn: Turn) -> None:
        turn.accept()
        turn.call_part(CallPart(0, "weather", "call_1", "{"), 1)
        turn.call_part(CallPart(0, withdrawn=True), 2, text="<tool_call>broken")
        turn.finish()

    cluster = await start(break_off)
    response = await whole(cluster)
    assert ([item["type"] for item in response["output"]], text_of(response)) == (
        ["message"],
        "<tool_call>broken",
    )
    events = await streamed(cluster)
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [(item["type"], item["status"]) for item in done] == [
        ("function_call", "incomplete"),
        ("message", "completed"),
    ]
    async with cluster.client.responses.stream(model="llama", input="hello") as stream:
        assert (await stream.get_final_response()).output_text == "<tool_call>broken"


async def test_a_loss_in_the_middle_of_an_answer_goes_unnoticed(start: Start) -> None:
    cluster = await start(story(9, die_after=4), story(9))
    events = await streamed(cluster)
    assert deltas_of(events, "output_text") == told(9)
    assert events[-1]["type"] == "response.completed"


async def test_a_stream_that_breaks_ends_as_failed(start: Start) -> None:
    async def fail(turn: Turn) -> None:
        turn.accept()
        turn.say("so far", 1)
        await turn.cancelled.wait() if turn.generate.resume else turn.fail("invalid_request", "it broke")

    cluster = await start(fail)
    events = await streamed(cluster)
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["message"] == "it broke"
    assert text_of(events[-1]["response"]) == "so far"


async def test_who_waits_long_is_told_that_there_is_an_answer(start: Start) -> None:
    async def slow(turn: Turn) -> None:
        turn.accept()
        turn.prefill(1, 2)
        await turn.cancelled.wait()

    timing = Timing(shutdown=0.5, hello=60.0, headers_after=0.01, keep_alive=0.01)
    cluster = await start(slow, timing=timing)
    body = io.BytesIO(orjson.dumps({"model": "llama", "input": "hello", "stream": True}))
    async with cluster.http.post(cluster.url("/v1/responses"), data=body) as answer:
        text = b""
        while text.count(b"event: response.in_progress") < 3:
            text += await answer.content.readany()
    assert text.count(b"event: response.created") == 1
    assert text.startswith(b"event: ")


# --- requests ---


async def test_dropped_tools_are_named_in_a_header(start: Start) -> None:
    cluster = await start(story(1))
    tools = [{"type": "web_search"}, WEATHER, {"type": "custom", "name": "apply_patch"}]
    _, headers, _ = await ask(cluster, tools=tools)
    assert headers["x-dropped-tools"] == "web_search, custom:apply_patch"
    assert "x-dropped-tools" not in (await ask(cluster, tools=[WEATHER]))[1]


async def test_a_tool_of_a_namespace_is_called_by_the_name_that_its_client_knows(start: Start) -> None:
    async def read(turn: Turn) -> None:
        turn.accept()
        turn.call_part(CallPart(0, "mcp__files__read", "call_1", "{}"), 1)
        turn.finish("tool_calls")

    cluster = await start(read)
    space = {
        "type": "namespace",
        "name": "mcp__files__",
        "description": "",
        "tools": [WEATHER | {"name": "read"}],
    }
    (item,) = (await whole(cluster, tools=[space]))["output"]
    assert (item["namespace"], item["name"]) == ("mcp__files__", "read")
    events = await streamed(cluster, tools=[space])
    assert [event["item"]["namespace"] for event in events if "item" in event] == ["mcp__files__"] * 2


async def test_a_typed_answer_is_asked_for_by_its_schema_and_parsed(start: Start) -> None:
    class City(BaseModel):
        name: str

    async def city(turn: Turn) -> None:
        turn.accept()
        turn.say('{"name": "Rome"}', 1)
        turn.finish()

    cluster = await start(city)
    response = await cluster.client.responses.parse(model="llama", input="hello", text_format=City)
    assert response.output_parsed == City(name="Rome")
    schema = cluster.ranks[0].asked[0].form.schema
    assert schema is not None
    assert orjson.loads(schema)["required"] == ["name"]


async def test_a_required_call_reaches_the_rank(start: Start) -> None:
    cluster = await start(story(1))
    await whole(cluster, tools=[WEATHER], tool_choice={"type": "function", "name": "weather"})
    assert cluster.ranks[0].asked[0].form == Form(
        calls_required=True,
        callable=("weather",),
        strict=("weather",),
        tool_paths=("tools[0].parameters",),
    )


async def test_log_probabilities_are_those_of_the_text(start: Start) -> None:
    def likely(text: str) -> TokenLogprobs:
        one = Likely(1, text, -0.5, tuple(text.encode()))
        return TokenLogprobs(one, (one, Likely(2, "?", -1.5)))

    async def speak(turn: Turn) -> None:
        turn.accept()
        turn.say("", 1, reasoning="hm", logprobs=[likely("hm")])
        turn.say("", 2, logprobs=[likely("b")])
        turn.say("bc", 3, logprobs=[likely("c")])
        turn.finish()

    cluster = await start(speak)
    fields: Any = {"top_logprobs": 2, "include": ["message.output_text.logprobs"]}
    (_, item) = (await whole(cluster, **fields))["output"]
    (part,) = item["content"]
    assert [one["token"] for one in part["logprobs"]] == ["b", "c"]
    assert part["logprobs"][1] == {
        "token": "c",
        "logprob": -0.5,
        "bytes": [99],
        "top_logprobs": [
            {"token": "c", "logprob": -0.5, "bytes": [99]},
            {"token": "?", "logprob": -1.5, "bytes": []},
        ],
    }
    events = await streamed(cluster, **fields)
    (delta,) = [event for event in events if event["type"] == "response.output_text.delta"]
    assert [one["token"] for one in delta["logprobs"]] == ["b", "c"]


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_refused_before_the_answer_is_a_status(start: Start, stream: bool) -> None:
    cluster = await start(TOO_LONG)
    with pytest.raises(openai.BadRequestError) as caught:
        await cluster.client.responses.create(model="llama", input="hello", stream=stream)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError):
        await cluster.client.responses.create(model="nope", input="hello", stream=stream)
    with pytest.raises(openai.BadRequestError) as wrong:
        await cluster.client.responses.create(
            model="llama", input="hello", stream=stream, previous_response_id="r"
        )
    assert wrong.value.param == "previous_response_id"
