"""Valid requests with something broken in them, sent to a real gateway before a real rank.

``RECONCILER_FUZZ_EXAMPLES`` says how many of them.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import io
import json
import operator
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.dialects.responses.events import check, events_of
from tests.gateway.groups import TINY, Serving
from tests.gateway.rank_double import eventually
from tests.runner.ranks import running

pytestmark = pytest.mark.processes

EXAMPLES = int(os.environ.get("RECONCILER_FUZZ_EXAMPLES", "300"))
TOGETHER = 10
"""Requests at a time: they meet in the batch, and waiting for one of them costs the others nothing."""
CHAT, TEXT, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
MESSAGES = "/v1/messages"
CONTEXT = 128
"""So short that an answer takes no time, whatever was asked for."""

FUNCTION = {
    "name": "reboot_node",
    "description": "Reboot a node",
    "parameters": {"type": "object", "properties": {"node": {"type": "string"}}, "required": ["node"]},
}
CALL = {"id": "c1", "type": "function", "function": {"name": "reboot_node", "arguments": '{"node": "a"}'}}
SHARED: dict[str, Any] = {
    "model": "tiny",
    "max_tokens": 3,
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 20,
    "min_p": 0.01,
    "seed": 5,
    "stop": ["a", "zebra"],
    "n": 1,
    "logit_bias": {"5": 1, "1000": -3.5},
    "frequency_penalty": 0.5,
    "presence_penalty": -1,
    "repetition_penalty": 1.2,
    "min_tokens": 2,
    "ignore_eos": True,
    "stop_token_ids": [7, 1000],
    "stream": False,
    "stream_options": {"include_usage": True},
    "user": "u",
}
BODIES: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {**SHARED, "messages": HELLO, "logprobs": True, "top_logprobs": 3}),
    (CHAT, {**SHARED, "messages": HELLO, "stream": True}),
    (
        CHAT,
        {
            "model": "tiny",
            "max_completion_tokens": 3,
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "developer", "content": [{"type": "text", "text": "be kind"}]},
                {"role": "user", "content": [{"type": "input_text", "text": "reboot a"}], "name": "ann"},
                {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "hm"},
                {"role": "tool", "tool_call_id": "c1", "content": "done"},
                {"role": "user", "content": "and b"},
            ],
            "tools": [{"type": "function", "function": FUNCTION}],
            "tool_choice": "auto",
            "parallel_tool_calls": False,
            "response_format": {"type": "text"},
            "logprobs": False,
            "metadata": {"a": "b"},
            "reasoning_effort": "low",
            "return_token_ids": True,
            "return_groups": True,
        },
    ),
    (TEXT, {**SHARED, "prompt": "reconciler is", "echo": True}),
    (TEXT, {**SHARED, "prompt": ["a", "b"], "stream": True, "best_of": 1, "suffix": None, "logprobs": 2}),
    (TEXT, {**SHARED, "prompt": [[5, 6], [7]], "logprobs": None}),
    (TEXT, {"model": "tiny", "prompt": [5, 6, 7]}),
    (
        MESSAGES,
        {
            "model": "tiny",
            "max_tokens": 3,
            "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "reboot a"}]},
                {"role": "system", "content": "be kind"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "x"},
                        {"type": "redacted_thinking", "data": "x"},
                        {"type": "text", "text": "so"},
                        {"type": "tool_use", "id": "c1", "name": "reboot_node", "input": {"node": "a"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": True},
                        {"type": "text", "text": "and b"},
                    ],
                },
            ],
            "tools": [
                {
                    "name": "reboot_node",
                    "input_schema": FUNCTION["parameters"],
                    "type": "custom",
                    "strict": False,
                },
                {"type": "bash_20250124", "name": "bash"},
            ],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
            "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "omitted"},
            "output_config": {"effort": "low"},
            "metadata": {"user_id": "u"},
            "stop_sequences": ["zebra"],
            "top_k": 20,
        },
    ),
    (
        MESSAGES,
        {"model": "tiny", "max_tokens": 3, "messages": HELLO, "stream": True, "context_management": {}},
    ),
    (RESPONSES, {"model": "tiny", "input": "reboot a", "max_output_tokens": 3, "top_logprobs": 2}),
    (
        RESPONSES,
        {
            "model": "tiny",
            "max_output_tokens": 3,
            "instructions": "be brief",
            "input": [
                {"role": "developer", "content": "be kind"},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "reboot a"}]},
                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
                {"role": "assistant", "content": [{"type": "output_text", "text": "yes", "annotations": []}]},
                {
                    "type": "function_call",
                    "call_id": "c1",
                    "name": "reboot_node",
                    "arguments": '{"node": "a"}',
                },
                {"type": "function_call_output", "call_id": "c1", "output": "done"},
            ],
            "tools": [
                {"type": "function", **FUNCTION, "strict": False},
                {"type": "namespace", "name": "more", "tools": [{"type": "function", "name": "look"}]},
                {"type": "web_search"},
            ],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "text": {"format": {"type": "text"}, "verbosity": "low"},
            "reasoning": {"effort": "low", "summary": "auto"},
            "include": ["reasoning.encrypted_content"],
            "metadata": {"a": "b"},
            "prompt_cache_key": "k",
            "store": False,
            "stream": True,
        },
    ),
]


def _nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


ODD_TEXT = st.sampled_from(
    ["", " ", "\x00", "\ud800", "\udfff\ud800", "\ufeff", "\u2028", "\u202e", "é", "🦙", "a" * 3000, "\r\n",
     "data: [DONE]\n\n", "<|im_end|>", "<|im_start|>system\n", "<tool_call>", "</tool_call>{", "<think>",
     "{{ messages }}", "{% raw %}", "null", "NaN", "true", "0", "-1", "1e999", "null\x00", "../..", "\\u0000",
     "auto", "required", "none", "json_object", "json_schema", "image_url", "function", "\x1b[2J", "𝒳" * 50]
)  # fmt: skip
ODD_NUMBER = st.sampled_from(
    [0, -0.0, -1, 1, 2, 0.5, 1e-320, 1e308, -1e308, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64,
     10**30, 10**400, 1023, 1024, 1025, 128, 10**9, float("nan"), float("inf"), float("-inf"), True, False]
)  # fmt: skip
ODD = st.one_of(
    ODD_TEXT,
    ODD_NUMBER,
    st.text(max_size=20),
    st.integers(),
    st.floats(),
    st.sampled_from([None, [], {}, [[]], [None], {"": None}, [{}], [[[[]]]], {"a": {"b": [1]}}]),
    st.builds(_nested, st.sampled_from([3, 60, 70, 200])),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value, its root aside."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in entries:
        yield (*path, key)
        yield from _places(inner, (*path, key))


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, bytes]:
    """A path and the bytes of a body: a valid one with up to four things changed, most often one."""
    path, body = draw(st.sampled_from(BODIES))
    body = copy.deepcopy(body)
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 4]))):
        _change(draw, body)
    text = json.dumps(body, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    damage = draw(st.sampled_from(["", "", "", "", "", "", "cut", "insert", "replace", "elsewhere"]))
    at = draw(st.integers(0, len(text)))
    if damage == "cut":
        text = text[:at]
    elif damage in ("insert", "replace"):
        text = text[:at] + draw(st.binary(min_size=1, max_size=5)) + text[at + (damage == "replace") :]
    elif damage == "elsewhere":
        path = draw(st.sampled_from([CHAT, TEXT, RESPONSES]))
    return path, text


def _change(draw: st.DrawFn, body: Any) -> None:
    places = list(_places(body))
    if not places:
        return
    *way, last = draw(st.sampled_from(places))
    at = functools.reduce(operator.getitem, way, body)
    change = draw(
        st.sampled_from(["odd", "odd", "odd", "drop", "null", "list", "text", "repeat", "swap", "more"])
    )
    if change == "drop":
        del at[last]
    elif change == "more" and isinstance(at, dict):
        at[draw(ODD_TEXT)] = copy.deepcopy(draw(ODD))
    elif change == "repeat":
        at[last] = [copy.deepcopy(at[last]) for _ in range(draw(st.sampled_from([2, 5, 70])))]
    elif change == "swap":
        at[last] = copy.deepcopy(functools.reduce(operator.getitem, draw(st.sampled_from(places)), body))
    elif change == "odd":
        at[last] = copy.deepcopy(draw(ODD))
    else:
        at[last] = {"list": [at[last]], "text": str(at[last])}.get(change)


@pytest.fixture(scope="module")
def group() -> Iterator[Serving]:
    with running(TINY, 1, context=CONTEXT, batch_max=8) as ranks:
        yield Serving(ranks.ready())


@pytest.fixture
async def cluster(start: Start, group: Serving) -> AsyncIterator[Cluster]:
    """A gateway before the rank, which afterwards is the same process, idle, and answers every valid body."""
    pids = group.pids
    cluster = await start()
    cluster.route(group, model="tiny", context=CONTEXT)
    yield cluster
    for path, body in BODIES:
        assert (await send(cluster, path, json.dumps(body).encode()))[0] == 200
    await eventually(lambda: group.demands() == [0])
    assert group.pids == pids


async def send(cluster: Cluster, path: str, body: bytes) -> tuple[int, str, bytes]:
    async with cluster.http.post(cluster.url(path), data=io.BytesIO(body)) as answer:
        return answer.status, answer.headers["content-type"], await answer.read()


def assert_in_shape(status: int, kind: str, body: bytes) -> None:
    """One answer as OpenAI's clients take it: an object, a stream of them, or an error of all four fields."""
    if kind.startswith("text/event-stream"):
        assert status == 200
        if body.startswith(b"event: response.created"):
            assert events_of(body)[-1]["response"]["status"] in ("completed", "incomplete")
            return
        if body.startswith(b"event: message_start"):
            assert body.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
            return
        *events, end, rest = body.decode().split("\n\n")
        assert (end, rest) == ("data: [DONE]", "")
        objects = [json.loads(event.removeprefix("data: ")) for event in events]
        assert objects
        assert all("choices" in each for each in objects)
        return
    assert kind == "application/json"
    answer = json.loads(body)
    if answer.get("type") in ("message", "error"):
        assert_in_shape_of_messages(status, answer)
        return
    if status == 200 and answer["object"] == "response":
        check(answer)
        return
    if status == 200:
        assert all(
            choice["finish_reason"] in ("stop", "length", "tool_calls") for choice in answer["choices"]
        )
        return
    assert status in (400, 404, 413, 503), answer
    error = answer["error"]
    assert set(error) == {"type", "message", "param", "code"}
    assert isinstance(error["type"], str)
    assert isinstance(error["message"], str)
    assert isinstance(error["param"], (str, type(None)))
    assert isinstance(error["code"], (str, type(None)))


def assert_in_shape_of_messages(status: int, answer: Any) -> None:
    """One answer as Anthropic's clients take it."""
    if status == 200:
        assert answer["stop_reason"] in (
            "end_turn",
            "max_tokens",
            "tool_use",
            "stop_sequence",
            "model_context_window_exceeded",
        )
        assert isinstance(answer["content"], list)
        return
    assert status in (400, 404, 413, 529), answer
    assert answer["request_id"].startswith("req_")
    assert set(answer["error"]) <= {"type", "message", "details"}
    assert isinstance(answer["error"]["message"], str)


@pytest.mark.timeout(120 + EXAMPLES)
@given(requests=st.lists(mutated(), min_size=TOGETHER, max_size=TOGETHER))
@settings(max_examples=max(1, EXAMPLES // TOGETHER), suppress_health_check=list(HealthCheck))
async def test_any_requests_are_refused_or_answered(
    cluster: Cluster, group: Serving, requests: list[tuple[str, bytes]]
) -> None:
    for answer in await asyncio.gather(*[send(cluster, *request) for request in requests]):
        assert_in_shape(*answer)
    assert group.pids
