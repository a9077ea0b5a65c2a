"""Requests that end other servers: each is refused or answered, and two real ranks go on as they were."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
import pytest

from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.groups import TINY, Serving
from tests.gateway.rank_double import eventually
from tests.runner.ranks import running

CHAT, TEXT, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
CONTEXT = 256
VOCABULARY = 1024


@pytest.fixture(scope="module")
def group() -> Iterator[Serving]:
    with running(TINY, 2, context=CONTEXT, batch_max=2) as ranks:
        yield Serving(ranks.ready())


@pytest.fixture
async def cluster(start: Start, group: Serving) -> AsyncIterator[Cluster]:
    """A gateway before the two ranks; afterwards these are the same processes, idle, and answer."""
    pids = group.pids
    cluster = await start()
    cluster.route(group, model="tiny", context=CONTEXT)
    yield cluster
    status, body = await ask(cluster, TEXT, prompt="reconciler is", max_tokens=3)
    assert (status, body["usage"]["completion_tokens"]) == (200, 3)
    await eventually(lambda: group.demands() == [0, 0])
    assert group.pids == pids


async def send(cluster: Cluster, path: str, body: bytes, **headers: str) -> tuple[int, Any]:
    async with cluster.http.post(cluster.url(path), data=io.BytesIO(body), headers=headers) as answer:
        return answer.status, json.loads(await answer.read())


async def ask(cluster: Cluster, path: str, **fields: Any) -> tuple[int, Any]:
    longest = "max_output_tokens" if path == RESPONSES else "max_tokens"
    fields = {"model": "tiny", longest: 4, "temperature": 0, **fields}
    return await send(cluster, path, json.dumps(fields).encode())


def assert_refused(status: int, body: Any, param: str | None, code: str | None = None) -> None:
    assert set(body["error"]) == {"type", "message", "param", "code"}
    assert (status, body["error"]["type"]) == (400, "invalid_request_error"), body
    assert body["error"]["param"] == param
    if code is not None:
        assert body["error"]["code"] == code


Refused = tuple[dict[str, Any], str | None, str | None]
REFUSED_COMPLETIONS: list[Refused] = [
    ({"prompt": ""}, "prompt", None),
    ({"prompt": [""]}, "prompt", None),
    ({"prompt": []}, "prompt", None),
    ({"prompt": [[]]}, "prompt", None),
    ({"prompt": [VOCABULARY]}, "prompt", None),
    ({"prompt": [[5], [2**31 - 1]]}, "prompt", None),
    ({"prompt": [-1]}, "prompt", None),
    ({"prompt": "word " * 2000}, "prompt", "context_length_exceeded"),
    ({"prompt": "w" * 9_000_000}, "prompt", "context_length_exceeded"),
    ({"prompt": [5] * CONTEXT}, "prompt", "context_length_exceeded"),
    ({"prompt": [5] * 400_000}, "prompt", "context_length_exceeded"),
    ({"prompt": "a", "stop": [5]}, "stop", None),
    ({"prompt": "a", "stop": [""]}, "stop", None),
    ({"prompt": "a", "logit_bias": {"99999999": 5}}, "logit_bias", None),
    ({"prompt": "a", "logit_bias": {str(VOCABULARY): 5}}, "logit_bias", None),
    ({"prompt": "a", "logit_bias": {"5": 1e400}}, None, None),
    ({"prompt": "a", "stop_token_ids": [5, VOCABULARY]}, "stop_token_ids", None),
    ({"prompt": "a", "stop_token_ids": [2**31 - 1]}, "stop_token_ids", None),
    ({"prompt": "a", "repetition_penalty": 1e-300}, "repetition_penalty", None),
    ({"prompt": "a", "temperature": 10**400}, None, None),
    ({"prompt": "a", "max_tokens": 0}, "max_tokens", None),
    ({"prompt": "a", "max_tokens": 10**30}, "max_tokens", None),
]


REFUSED_CHATS: list[Refused] = [
    ({"messages": []}, "messages", None),
    ({"messages": [{"role": "user", "content": "word " * 2000}]}, "messages", "context_length_exceeded"),
    ({"messages": HELLO, "stop": [5]}, "stop", None),
    ({"messages": HELLO, "logit_bias": {"99999999": 5}}, "logit_bias", None),
    ({"messages": HELLO, "n": 100}, "n", None),
    ({"messages": HELLO, "response_format": {"type": "json_schema"}}, "response_format.json_schema", None),
    ({"messages": HELLO, "json_schema": {"not": {}}}, "json_schema.not", None),
    ({"messages": HELLO, "guided_regex": "("}, "guided_regex", None),
    ({"messages": HELLO, "guided_choice": ["a"], "stop": "a"}, "stop", None),
    ({"messages": HELLO, "tool_choice": "required"}, "tool_choice", None),
    ({"messages": HELLO, "tools": [{"type": "function", "function": {"name": "f", "parameters": 5}}]},
     "tools[0].function.parameters", None),
    ({"messages": [{"role": "tool", "tool_call_id": [], "content": "y"}]}, "messages[0].tool_call_id", None),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
     "messages[0].content[0].type", "unsupported_content"),
]  # fmt: skip


REFUSED_RESPONSES: list[Refused] = [
    ({"input": []}, "input", None),
    ({"input": "word " * 2000}, "input", "context_length_exceeded"),
    ({"input": "a", "stop": [5]}, "stop", None),
    ({"input": "a", "logit_bias": {"99999999": 5}}, "logit_bias", None),
    ({"input": "a", "n": 2}, "n", "unsupported_parameter"),
    ({"input": "a", "background": True}, "background", "unsupported_parameter"),
    ({"input": [{"type": "function_call_output", "call_id": {}, "output": "y"}]}, "input[0].call_id", None),
    ({"input": [{"type": "x" * 100_000}]}, "input[0].type", "unsupported_item"),
    ({"input": "a", "tools": [{"type": "function", "name": "f", "parameters": 5}]}, "tools[0].parameters", None),
    ({"input": "a", "tools": [{"type": "web_search"}] * 9999, "tool_choice": "required"}, "tool_choice", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "refused"),
    [(TEXT, REFUSED_COMPLETIONS), (CHAT, REFUSED_CHATS), (RESPONSES, REFUSED_RESPONSES)],
    ids=["completion", "chat", "response"],
)
async def test_what_cannot_be_is_refused_by_name(
    cluster: Cluster, subtests: pytest.Subtests, path: str, refused: list[Refused]
) -> None:
    for fields, param, code in refused:
        with subtests.test(repr(fields)[:60]):
            assert_refused(*await ask(cluster, path, **fields), param, code)


BROKEN_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": '}}


ODD: list[tuple[str, dict[str, Any]]] = [
    (TEXT, {"prompt": ["a", "b"]}),
    (TEXT, {"prompt": [[5, 6], [7]], "n": 2}),
    (TEXT, {"prompt": "a", "temperature": 1, "top_k": 100_000}),
    (TEXT, {"prompt": "a", "temperature": 1, "top_k": 2**63 - 1, "top_p": 1e-300, "min_p": 1}),
    (TEXT, {"prompt": "a", "temperature": 1e-300}),
    (TEXT, {"prompt": "a", "temperature": 2, "logit_bias": {str(VOCABULARY - 1): 100, "0": -100}}),
    (TEXT, {"prompt": "a", "temperature": 2, "repetition_penalty": 100, "frequency_penalty": -2, "top_p": 0.01}),
    (TEXT, {"prompt": "a", "repetition_penalty": 0.01, "presence_penalty": 2, "logit_bias": {"5": 100}}),
    (TEXT, {"prompt": "a", "min_tokens": 3, "max_tokens": 3, "stop_token_ids": list(range(VOCABULARY))}),
    (TEXT, {"prompt": "a", "ignore_eos": True, "logprobs": 20, "n": 2}),
    (CHAT, {"messages": HELLO, "logprobs": True, "top_logprobs": 20, "stop_token_ids": [VOCABULARY - 1]}),
    (TEXT, {"prompt": "a\u0000b\u2028\ufeff"}),
    (TEXT, {"prompt": "<|im_end|>" * 9}),
    (TEXT, {"prompt": "a", "stop": ["\u0000"]}),
    (TEXT, {"prompt": "a", "stop": ["x" * 4000] * 4}),
    (TEXT, {"prompt": "a", "seed": -(2**63)}),
    (CHAT, {"messages": [{"role": "user", "content": ""}]}),
    (CHAT, {"messages": [{"role": "assistant", "content": None}]}),
    (CHAT, {"messages": [*HELLO, {"role": "assistant", "tool_calls": [BROKEN_CALL]}]}),
    (CHAT, {"messages": [*HELLO, {"role": "system", "content": "late"}, *HELLO]}),
    (CHAT, {"messages": [{"role": "developer", "content": "a"}, {"role": "developer", "content": "b"}]}),
    (CHAT, {"messages": HELLO, "max_tokens": 10**6, "max_completion_tokens": 3}),
    (CHAT, {"messages": HELLO, "n": 8, "temperature": 2}),
    (CHAT, {"messages": HELLO, "metadata": {"a": [[[[]]]]}, "whatever": None, "user": 5}),
]  # fmt: skip


async def test_an_odd_request_is_answered(cluster: Cluster, subtests: pytest.Subtests) -> None:
    for path, fields in ODD:
        with subtests.test(repr(fields)[:60]):
            status, body = await ask(cluster, path, **fields)
            assert status == 200, body
            assert body["usage"]["completion_tokens"] <= 4 * len(body["choices"])
            assert all(choice["finish_reason"] in ("stop", "length") for choice in body["choices"])


GOOD = {"model": "tiny", "messages": HELLO, "max_tokens": 2}


def _with(raw: bytes) -> bytes:
    """A good body with one more field in it."""
    return orjson.dumps(GOOD)[:-1] + b"," + raw + b"}"


NO_REQUESTS: list[bytes] = [
    b"",
    b"{",
    b"null",
    b'"text"',
    _with(b'"temperature":NaN'),
    _with(b'"temperature":Infinity'),
    _with(b'"temperature":-Infinity'),
    _with(b'"x":' + b"[" * 10_000 + b"]" * 10_000),
    _with(b'"x":"\xff\xfe"'),
    _with(b'"x":"\\ud800",'),
    "{}".encode("utf-16"),
    b"[" * 5_000_000,
    b"0" * 11_000_000,
]


async def test_bytes_that_are_no_request_are_refused(cluster: Cluster, subtests: pytest.Subtests) -> None:
    for body in NO_REQUESTS:
        with subtests.test(repr(body[-40:])[:60]):
            assert_refused(*await send(cluster, CHAT, body), None)


HALF = rb"\ud83d"
ODD_BYTES = [
    b"\xef\xbb\xbf" + orjson.dumps(GOOD),
    _with(b'"x":"\\udc00"'),
    orjson.dumps(GOOD).replace(b"hello", HALF),
    orjson.dumps(GOOD).replace(b"hello", rb"\\ \ude00" + HALF),
    _with(b'"tools":[{"type":"function","function":{"name":"f","description":"' + HALF + b'"}}]'),
    _with(b'"prompt_cache_key":"' + HALF + b'"'),
]


async def test_halves_of_surrogate_pairs_and_a_mark_of_byte_order_are_read(
    cluster: Cluster, subtests: pytest.Subtests
) -> None:
    for body in ODD_BYTES:
        with subtests.test(repr(body[-40:])):
            status, answer = await send(cluster, CHAT, body)
            assert status == 200, answer


async def test_who_writes_another_encoding_is_told_so(cluster: Cluster) -> None:
    for body in (json.dumps(GOOD).encode("utf-16"), _with('"x":"é"'.encode("latin-1"))):
        status, answer = await send(cluster, CHAT, body)
        assert_refused(status, answer, None)
        assert "it is not UTF-8 at byte" in answer["error"]["message"]


async def test_of_a_key_given_twice_the_last_counts(cluster: Cluster) -> None:
    assert (await send(cluster, CHAT, _with(b'"max_tokens":1')))[1]["usage"]["completion_tokens"] == 1
    status, body = await send(cluster, CHAT, _with(b'"max_tokens":0'))
    assert_refused(status, body, "max_tokens")


async def test_a_body_counts_not_what_its_header_says_of_it(cluster: Cluster) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "a/b; c=d", "?"):
        assert (await send(cluster, CHAT, orjson.dumps(GOOD), **{"content-type": kind}))[0] == 200


async def test_an_unknown_model_leaves_the_known_one_alone(cluster: Cluster) -> None:
    for name in ("nope", "../../etc/passwd", "mlx-community/x", "tiny\u0000", "x" * 100_000, "\U0001f999"):
        status, body = await ask(cluster, CHAT, model=name, messages=HELLO)
        assert (status, body["error"]["code"], body["error"]["param"]) == (404, "model_not_found", "model")


async def test_what_is_over_the_context_is_refused_with_the_numbers(cluster: Cluster) -> None:
    _, body = await ask(cluster, TEXT, prompt=[5] * 300)
    assert "300" in body["error"]["message"]
    assert str(CONTEXT) in body["error"]["message"]


async def test_an_echoed_prompt_comes_before_its_completion(cluster: Cluster) -> None:
    _, plain = await ask(cluster, TEXT, prompt="reconciler is")
    _, echoed = await ask(cluster, TEXT, prompt="reconciler is", echo=True)
    assert echoed["choices"][0]["text"] == "reconciler is" + plain["choices"][0]["text"]
    _, asked = await ask(cluster, TEXT, prompt=[40, 41, 42], echo=True, n=2)
    assert len({choice["text"] for choice in asked["choices"]}) == 1


async def test_a_bias_decides_the_answer(cluster: Cluster) -> None:
    _, plain = await ask(cluster, TEXT, prompt="reconciler is", max_tokens=5)
    for temperature in (0, 1):
        _, body = await ask(
            cluster, TEXT, prompt="reconciler is", logit_bias={"40": 100}, temperature=temperature
        )
        (_, repeated) = await ask(cluster, TEXT, prompt=[40] * 4, echo=True, max_tokens=1)
        assert repeated["choices"][0]["text"].startswith(body["choices"][0]["text"])
    assert plain["choices"][0]["text"] != body["choices"][0]["text"]


@pytest.mark.parametrize(
    "fields", [{"ignore_eos": True}, {"min_tokens": 60}], ids=lambda fields: next(iter(fields))
)
async def test_an_answer_goes_on_where_the_model_would_end_it(
    cluster: Cluster, fields: dict[str, Any]
) -> None:
    _, plain = await ask(cluster, CHAT, messages=HELLO, max_tokens=60)
    assert plain["choices"][0]["finish_reason"] == "stop"
    _, longer = await ask(cluster, CHAT, messages=HELLO, max_tokens=60, **fields)
    assert longer["choices"][0]["finish_reason"] == "length"
    assert longer["usage"]["completion_tokens"] == 60


@pytest.mark.parametrize("penalty", ["repetition_penalty", "frequency_penalty", "presence_penalty"])
async def test_a_penalty_decides_the_answer(cluster: Cluster, penalty: str) -> None:
    asked = {"messages": HELLO, "max_tokens": 60, "ignore_eos": True}
    _, plain = await ask(cluster, CHAT, **asked)
    _, changed = await ask(cluster, CHAT, **asked, **{penalty: 2})
    assert changed["choices"][0]["message"] != plain["choices"][0]["message"]


async def test_a_stop_token_ends_the_answer(cluster: Cluster) -> None:
    _, plain = await ask(cluster, CHAT, messages=HELLO, return_token_ids=True)
    third = plain["choices"][0]["token_ids"][2]
    _, stopped = await ask(cluster, CHAT, messages=HELLO, stop_token_ids=[third])
    assert stopped["choices"][0]["finish_reason"] == "stop"
    assert stopped["usage"]["completion_tokens"] == plain["choices"][0]["token_ids"].index(third)


async def test_logprobs_of_a_chat_are_those_of_its_tokens(cluster: Cluster) -> None:
    _, body = await ask(cluster, CHAT, messages=HELLO, logprobs=True, top_logprobs=4, max_tokens=20)
    (choice,) = body["choices"]
    content = choice["logprobs"]["content"]
    assert len(content) == body["usage"]["completion_tokens"]
    assert b"".join(bytes(one["bytes"] or ()) for one in content).decode() == choice["message"]["content"]
    for one in content:
        likeliest = [likely["logprob"] for likely in one["top_logprobs"]]
        assert len(likeliest) == 4
        assert likeliest == sorted(likeliest, reverse=True)
        assert likeliest[0] == one["logprob"] <= 0, "greedy"


async def test_no_token_given_is_out_of_context_and_the_default_is_the_rest_of_it(cluster: Cluster) -> None:
    ends = {"1": -100, "2": -100, "3": -100, "0": -100}
    _, body = await ask(cluster, CHAT, messages=HELLO, max_tokens=None, logit_bias=ends)
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["total_tokens"] == CONTEXT


# --- HTTP itself -----------------------------------------------------------------------------------


async def raw(cluster: Cluster, request: bytes) -> bytes:
    """What the gateway answers to bytes, until it closes the connection."""
    reader, writer = await asyncio.open_connection(*cluster.address)
    writer.write(request)
    async with asyncio.timeout(30):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def _post(body: bytes, *headers: str, path: str = CHAT) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: localhost", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def test_bodies_come_in_chunks_of_any_size(cluster: Cluster) -> None:
    body = orjson.dumps(GOOD)
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    answer = await raw(cluster, _post(chunks, "transfer-encoding: chunked", "connection: close"))
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"chat.completion"' in answer


async def test_requests_sent_one_after_the_other_are_answered_in_their_order(cluster: Cluster) -> None:
    good, bad = orjson.dumps(GOOD), b"{"
    length = f"content-length: {len(good)}"
    answer = await raw(
        cluster,
        _post(good, length)
        + _post(bad, "content-length: 1")
        + _post(good, length, path="/v1/none")
        + _post(good, length, "connection: close"),
    )
    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"400", b"404", b"200"]


NO_HTTP: list[bytes] = [
    b"GARBAGE\r\n\r\n",
    b"BREW / HTTP/1.1\r\n\r\n",
    b"POST / HTTP/9\r\n\r\n",
    _post(b"zz\r\n", "transfer-encoding: chunked"),
    _post(b"", "content-length: -1"),
    _post(b"", "content-length: 1", "content-length: 2"),
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
]


async def test_what_is_not_even_http_is_refused_in_the_same_shape(
    cluster: Cluster, subtests: pytest.Subtests
) -> None:
    for request_bytes in NO_HTTP:
        with subtests.test(repr(request_bytes[:30])[:60]):
            head, _, body = (await raw(cluster, request_bytes)).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 400")
            assert b"content-type: application/json" in head
            assert_refused(400, orjson.loads(body), None)


async def test_a_wrong_path_or_method_is_answered_with_what_there_is(cluster: Cluster) -> None:
    _, body = await send(cluster, "/v1/chat/completion", orjson.dumps(GOOD))
    assert body["error"]["message"].startswith(
        "no such endpoint: /v1/chat/completion; there are GET /v1/models, POST /v1/chat/completions, "
        "POST /v1/completions, "
    )
    async with cluster.http.get(cluster.url(CHAT)) as answer:
        body = await answer.json()
    assert body["error"]["message"] == f"{CHAT} does not take GET; it takes POST"
    _, body = await ask(cluster, CHAT, model="tiny", messages=HELLO, max_tokens=0)
    assert body["error"]["message"] == "max_tokens must be a whole number of at least 1"


PATHS: list[tuple[str, str, int]] = [
    ("HEAD", "/", 200),
    ("GET", "/", 200),
    ("HEAD", "/health", 200),
    ("HEAD", "/ping", 200),
    ("POST", "/ping", 200),
    ("HEAD", "/version", 200),
    ("GET", "/tokenize", 405),
    ("GET", "/api/tags", 404),
    ("POST", "/chat/completions", 404),
    ("POST", "/v1/v1/chat/completions", 404),
    ("HEAD", CHAT, 405),
    ("HEAD", "/v1/models", 200),
    ("GET", CHAT, 405),
    ("PUT", CHAT, 405),
    ("OPTIONS", CHAT, 405),
    ("TRACE", CHAT, 405),
    ("POST", CHAT + "/", 404),
    ("POST", TEXT + "/", 404),
    ("GET", RESPONSES, 405),
    ("GET", RESPONSES + "/resp_1", 404),
    ("GET", RESPONSES + "/resp_1/input_items", 404),
    ("DELETE", RESPONSES + "/%ff%00", 404),
    ("POST", RESPONSES + "/resp_1", 405),
    ("GET", "/v1/models/", 200),
    ("GET", "/v1/%ff%fe", 404),
    ("GET", "/v1/models/%ff%00", 404),
    ("GET", "//v1/models", 404),
    ("GET", "/v1/../v1/nothing", 404),
]


async def test_paths_and_methods_that_are_none_are_refused_in_the_same_shape(
    cluster: Cluster, subtests: pytest.Subtests
) -> None:
    for method, path, status in PATHS:
        with subtests.test(repr((method, path))[:60]):
            answer = await raw(
                cluster, f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
            )
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(f"HTTP/1.1 {status}".encode())
            assert b"content-type: application/json" in head
            if method == "HEAD":
                assert body == b""
            elif status != 200:
                assert set(orjson.loads(body)["error"]) == {"type", "message", "param", "code"}


async def test_a_query_on_the_path_changes_nothing(cluster: Cluster) -> None:
    for path in (CHAT + "?beta=true", CHAT + "?", CHAT + "?a=%ff&&=" + "x" * 10_000):
        assert (await send(cluster, path, orjson.dumps(GOOD)))[0] == 200
