"""What a chat completion request may say, and what is wrong with one that is refused."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reconciler.gateway.dialects.openai.request import ChatRequest, parse_chat
from reconciler.gateway.errors import ApiError
from reconciler.wire.codec import decode, to_wire
from reconciler.wire.frames import Decoder, encode
from reconciler.wire.generation import RANK_RECEIVES, Generate, Replaced
from reconciler.wire.sampling import Bias, Ending
from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.rank_double import story

SEED = 42


def parsed(**fields: Any) -> ChatRequest:
    return parse_chat(orjson.dumps({"model": "llama", "messages": HELLO, **fields}), SEED)


def refused(**fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parsed(**fields)
    assert caught.value.status == 400
    assert caught.value.kind == "invalid_request_error"
    return caught.value


def test_a_bare_request_gets_openais_defaults() -> None:
    request = parsed()
    assert not request.stream
    assert request.choices[0].tokens_max is None
    assert request.choices[0].stop == ()
    sampling = request.choices[0].sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (1.0, 1.0, 0, 0.0)
    assert sampling.seed == SEED


def test_null_is_the_same_as_absent() -> None:
    optional = (
        "stream stream_options temperature top_p top_k min_p seed max_tokens max_completion_tokens stop n tools "
        "tool_choice response_format logprobs top_logprobs logit_bias frequency_penalty presence_penalty "
        "return_token_ids return_groups user metadata parallel_tool_calls functions function_call audio modalities "
        "reasoning_effort service_tier verbosity store repetition_penalty min_tokens ignore_eos stop_token_ids session_id"
    )
    assert parsed(**dict.fromkeys(optional.split())) == parsed()
    (plain,) = HELLO
    message = {**plain, **dict.fromkeys(["name", "tool_calls", "reasoning_content", "reasoning"])}
    assert parsed(messages=[message]) == parsed()
    bare = {"name": "f"}
    tools = [{"type": "function", "function": {**bare, "description": None, "parameters": None}}]
    assert parsed(tools=tools) == parsed(tools=[{"type": "function", "function": bare}])


def test_ints_are_floats_and_unknown_fields_are_ignored() -> None:
    sampling = (
        parsed(temperature=0, top_p=1, min_p=0, top_k=-1, store=False, whatever=[1]).choices[0].sampling
    )
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.0, 1.0, 0)


def test_whole_floats_are_ints_as_json_schema_has_it() -> None:
    assert parsed(max_tokens=16.0, n=2.0, seed=-3.0) == parsed(max_tokens=16, n=2, seed=-3)
    assert refused(max_tokens=16.5).param == "max_tokens"


def test_no_probability_mass_at_all_is_greedy() -> None:
    sampling = parsed(temperature=1, top_p=0).choices[0].sampling
    assert (sampling.temperature, sampling.top_p) == (0.0, 1.0)


def test_max_completion_tokens_wins() -> None:
    assert parsed(max_tokens=5).choices[0].tokens_max == 5
    assert parsed(max_tokens=5, max_completion_tokens=9).choices[0].tokens_max == 9


def test_stop_is_a_string_or_up_to_four() -> None:
    assert parsed(stop="a").choices[0].stop == ("a",)
    assert parsed(stop=["a", "b", "c", "d"]).choices[0].stop == ("a", "b", "c", "d")
    assert parsed(stop=[]).choices[0].stop == ()
    for wrong in ["", [""], ["a", 1], ["a"] * 5, 7, {}]:
        assert refused(stop=wrong).param == "stop"


def test_seeds_of_either_sign_stay_within_63_bits() -> None:
    assert parsed(seed=7).choices[0].sampling.seed == 7
    assert 0 <= parsed(seed=-1).choices[0].sampling.seed < 2**63
    assert refused(seed=2**63).param == "seed"
    assert refused(seed=1.5).param == "seed"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", ""),
        ("model", 3),
        ("messages", None),
        ("messages", []),
        ("messages", "hello"),
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("temperature", True),
        ("temperature", "1"),
        ("top_p", -0.1),
        ("top_p", 1.1),
        ("top_k", -2),
        ("top_k", 1.5),
        ("min_p", 2),
        ("max_tokens", 0),
        ("max_completion_tokens", -1),
        ("n", 9),
        ("n", 0),
        ("stream", "yes"),
        ("stream_options", True),
        ("tools", {}),
        ("tool_choice", "sometimes"),
        ("frequency_penalty", 3),
        ("presence_penalty", -2.5),
        ("repetition_penalty", -1),
        ("repetition_penalty", 0.001),
        ("repetition_penalty", 101),
        ("min_tokens", -1),
        ("min_tokens", 1.5),
        ("ignore_eos", "yes"),
        ("stop_token_ids", 5),
        ("stop_token_ids", ["5"]),
        ("stop_token_ids", [True]),
        ("stop_token_ids", [-1]),
        ("stop_token_ids", [2**31]),
        ("stop_token_ids", [5] * 1025),
        ("logprobs", 1),
        ("top_logprobs", 21),
        ("top_logprobs", -1),
        ("top_logprobs", 3),
        ("n", 2.5),
        ("n", True),
        ("logit_bias", []),
        ("logit_bias", {"a": 1}),
        ("logit_bias", {"-1": 1}),
        ("logit_bias", {"1.5": 1}),
        ("logit_bias", {"": 1}),
        ("logit_bias", {"9" * 40: 1}),
        ("logit_bias", dict.fromkeys(map(str, range(2000)), 1)),
        ("parallel_tool_calls", "no"),
        ("reasoning_effort", "extreme"),
        ("verbosity", 3),
        ("stop", [5]),
        ("return_token_ids", 1),
        ("return_groups", 1),
    ],
)
def test_a_wrong_value_is_refused_by_name(field: str, value: Any) -> None:
    assert refused(**{field: value}).param == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("functions", [{"name": "f"}]),
        ("function_call", {"name": "f"}),
        ("audio", {"voice": "alloy"}),
        ("modalities", ["text", "audio"]),
        ("response_format", {"type": "structural_tag"}),
        ("guided_grammar", "start: /a/"),
        ("verbosity", "low"),
    ],
)
def test_what_is_not_done_yet_is_refused_rather_than_ignored(field: str, value: Any) -> None:
    fault = refused(**{field: value})
    assert fault.param == field
    assert "not supported yet" in fault.text
    assert fault.code == "unsupported_parameter"


def test_harmless_values_of_the_same_fields_are_accepted() -> None:
    harmless = parsed(
        logprobs=False,
        top_logprobs=0,
        logit_bias={},
        response_format={"type": "text"},
        n=1,
        presence_penalty=0,
        min_tokens=0,
        ignore_eos=False,
        stop_token_ids=[],
    )
    assert harmless == parsed()


@pytest.mark.parametrize("name", ["repetition_penalty", "repeat_penalty"])
@pytest.mark.parametrize("off", [0, 1, 1.0])
def test_a_repetition_penalty_that_is_off_is_not_left_to_the_model(off: float, name: str) -> None:
    (choice,) = parsed(**{name: off}).choices
    assert choice.sampling == parsed().choices[0].sampling
    assert "repetition_penalty" not in choice.unset


def test_a_repetition_penalty_has_vllms_or_llama_cpps_name() -> None:
    assert parsed(repeat_penalty=1.3).choices[0].sampling.repetition_penalty == 1.3
    assert parsed(repeat_penalty=1.3, repeat_last_n=64).choices[0].sampling.repetition_penalty == 1.3
    assert parsed(repeat_penalty=1.3, repetition_penalty=2).choices[0].sampling.repetition_penalty == 2.0
    assert refused(repeat_penalty=1.3, repeat_last_n=8).param == "repeat_last_n"
    assert refused(repeat_penalty=-1).param == "repeat_penalty"


@pytest.mark.parametrize(
    ("name", "value", "bounds"),
    [
        ("seed", 2**63, f"from {-(2**63)} to {2**63 - 1}"),
        ("seed", 10**30, f"from {-(2**63)} to {2**63 - 1}"),
        ("seed", -(10**30), f"of at least {-(2**63)}"),
        ("max_tokens", 10**30, f"from 1 to {2**63 - 1}"),
        ("max_tokens", 0, "of at least 1"),
        ("n", 9, "from 1 to 8"),
    ],
)
def test_a_number_that_is_too_large_or_too_small_is_told_that_bound(
    name: str, value: int, bounds: str
) -> None:
    body = json.dumps({"model": "llama", "messages": HELLO, name: value}).encode()
    with pytest.raises(ApiError) as caught:
        parse_chat(body, 42)
    assert caught.value.text == f"{name} must be a whole number {bounds}"


def test_penalties_ends_and_logprobs_are_passed_on() -> None:
    request = parsed(
        repetition_penalty=1.1,
        frequency_penalty=-2,
        presence_penalty=0.5,
        min_tokens=3,
        max_tokens=3,
        ignore_eos=True,
        stop_token_ids=[7, 8],
        logprobs=True,
        top_logprobs=20,
    ).choices[0]
    sampling = request.sampling
    assert (sampling.repetition_penalty, sampling.frequency_penalty, sampling.presence_penalty) == (
        1.1,
        -2.0,
        0.5,
    )
    assert request.ending == Ending(tokens_min=3, ignore_end=True, stop_tokens=(7, 8))
    assert request.logprobs == 20
    assert parsed(logprobs=True).choices[0].logprobs == 0
    assert refused(min_tokens=4, max_tokens=3).param == "min_tokens"


def test_a_session_has_openais_or_vllms_name() -> None:
    assert parsed(prompt_cache_key="a", session_id="b").session == "a"
    assert parsed(session_id="b").session == "b"


def test_messages_take_the_shape_of_chat_templates() -> None:
    messages = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning": "hm",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
                {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "no JSON"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
        {"role": "user", "content": "", "name": "ann"},
    ]
    assert parsed(messages=messages).choices[0].messages == (
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "a\nb"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}},
                {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "no JSON"}},
            ],
        },
        {"role": "tool", "content": "3", "tool_call_id": "c1"},
        {"role": "user", "content": "", "name": "ann"},
    )


@pytest.mark.parametrize(
    ("fields", "rendered"),
    [
        ({"reasoning": "a"}, "a"),
        ({"reasoning_content": "b"}, "b"),
        ({"reasoning": "a", "reasoning_content": "b"}, "b"),
        ({"reasoning": "a", "reasoning_content": ""}, "a"),
        ({"reasoning": "", "reasoning_content": None}, None),
    ],
)
def test_reasoning_has_the_name_of_either_server(fields: dict[str, Any], rendered: str | None) -> None:
    messages = [{"role": "assistant", "content": "hm", **fields}, {"role": "user", "content": "a"}]
    first = parsed(messages=messages).choices[0].messages[0]
    assert first.get("reasoning_content") == rendered


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ('{"x": [1]}', {"x": [1]}),
        ("", {}),
        ("[1]", "[1]"),
        ("3", "3"),
        ("no JSON", "no JSON"),
        ('{"x":' * 200 + "1" + "}" * 200, '{"x":' * 200 + "1" + "}" * 200),
    ],
    ids=["an object", "nothing", "a list", "a number", "no JSON", "too deep"],
)
def test_arguments_of_a_call_are_an_object_or_the_text_that_the_model_wrote(text: str, rendered: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": text}}
    messages = [*HELLO, {"role": "assistant", "content": None, "tool_calls": [call]}]
    (made,) = parsed(messages=messages).choices[0].messages[1]["tool_calls"]
    assert made["function"]["arguments"] == rendered


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ("hello", "messages[0]"),
        ({"content": "a"}, "messages[0].role"),
        ({"role": "king", "content": "a"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": None}, "messages[0].content"),
        ({"role": "user", "content": 3}, "messages[0].content"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text"),
        ({"role": "assistant", "tool_calls": [{}]}, "messages[0].tool_calls[0].function"),
        ({"role": "assistant", "tool_calls": "x"}, "messages[0].tool_calls"),
    ],
)
def test_a_wrong_message_is_refused_with_its_place(message: Any, path: str) -> None:
    assert refused(messages=[message]).param == path


IMAGE = {"type": "image_url", "image_url": {"url": "data:"}}


def test_an_image_in_the_newest_message_is_refused_by_name() -> None:
    fault = refused(messages=[{"role": "user", "content": [{"type": "text", "text": "see"}, IMAGE]}])
    assert (fault.param, fault.code) == ("messages[0].content[1].type", "unsupported_content")


@pytest.mark.parametrize("strict", [False, True])
def test_tools_are_checked_and_rendered_unless_the_choice_is_none(strict: bool) -> None:
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}}
    tools = [{"type": "function", "function": {**function, "strict": strict}}]
    assert parsed(tools=tools).choices[0].tools == ({"type": "function", "function": function},)
    assert parsed(tools=tools, tool_choice="auto").choices[0].tools != ()
    assert parsed(tools=tools, tool_choice="none").choices[0].tools == ()
    assert refused(tools=[{"type": "web_search"}]).param == "tools[0].type"
    assert refused(tools=[{"type": "function"}]).param == "tools[0].function"
    assert refused(tools=[{"type": "function", "function": {}}]).param == "tools[0].function.name"


def test_a_schema_nested_without_end_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"a": deep}
    tools = [{"type": "function", "function": {"name": "f", "parameters": deep}}]
    assert refused(tools=tools).param == "tools[0].function.parameters"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
content = json_values | st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(["text", "image_url"])}, optional={"text": json_values}),
    max_size=2,
)
tool_calls = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.just("c"),
            "function": json_values
            | st.fixed_dictionaries({"name": st.just("f"), "arguments": json_values | st.just('{"a":1}')}),
        }
    ),
    max_size=2,
)
messages = json_values | st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "x"]),
            "content": content,
        },
        optional={
            "name": json_values,
            "tool_call_id": json_values,
            "tool_calls": json_values | tool_calls,
            "reasoning": json_values,
        },
    ),
    max_size=3,
)
bodies = st.fixed_dictionaries(
    {"model": st.just("llama") | json_values, "messages": st.just(HELLO) | messages},
    optional=dict.fromkeys(["temperature", "top_p", "top_k", "min_p", "seed", "max_tokens", "max_completion_tokens", "stop", "n", "tools", "tool_choice", "stream", "stream_options", "response_format", "logprobs", "top_logprobs", "logit_bias", "return_token_ids", "return_groups", "repetition_penalty", "min_tokens", "ignore_eos", "stop_token_ids"], json_values),
)  # fmt: skip


def outcome(body: Any) -> ChatRequest | ApiError:
    try:
        return parse_chat(orjson.dumps(body), SEED)
    except ApiError as fault:
        return fault


@given(bodies | json_values)
@settings(max_examples=150, deadline=None)
def test_any_json_is_either_refused_with_400_or_fits_the_wire(body: Any) -> None:
    request = outcome(body)
    if isinstance(request, ApiError):
        assert request.status == 400
        return
    (frame,) = Decoder().feed(encode(to_wire(request.choices[0])))
    sent = decode(frame, RANK_RECEIVES)
    assert isinstance(sent, Generate)
    assert sent == request.choices[0]


@given(st.binary(max_size=40))
@example(b'{"model":"llama","messages":[{"role":"user","content":"\\ud800"}')
@example(b'{"model":"\\ud800","temperature":NaN,"messages":' + b"[" * 900)
@example(b'{"model":"llama","messages":' + b"[" * 5000)
@example(b'{"temperature":NaN}')
@settings(max_examples=50, deadline=None)
def test_any_bytes_are_refused_with_400(body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        parse_chat(body, SEED)
    assert caught.value.status == 400


@pytest.fixture
async def cluster(start: Start) -> Cluster:
    return await start(story(1))


@given(bodies)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_body_is_the_gateways_own_failure(cluster: Cluster, body: Any) -> None:
    async with cluster.http.post(cluster.url("/v1/chat/completions"), data=orjson.dumps(body)) as answer:
        assert answer.status in (200, 400, 404)
        assert await answer.read()


def test_a_bias_outside_its_range_is_refused_by_the_token() -> None:
    for wrong in (101, -100.5, "1", True, [1]):
        assert refused(logit_bias={"7": wrong}).param == "logit_bias.7"


def test_biases_are_by_token() -> None:
    sampling = parsed(logit_bias={"5": 1, "1023": -100.0, "7": None}).choices[0].sampling
    assert sampling.biases == (Bias(5, 1.0), Bias(1023, -100.0), Bias(7, 0.0))


def test_each_of_several_answers_has_a_seed_of_its_own_and_the_first_one_the_clients() -> None:
    seeds = [choice.sampling.seed for choice in parsed(n=3, seed=2**63 - 1).choices]
    assert seeds == [2**63 - 1, 0, 1]
    assert parsed(seed=5).choices == parsed(seed=5, n=2).choices[:1]


def test_at_most_one_tool_call_is_asked_for_where_the_client_wants_no_parallel_ones() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert parsed(tools=tools, parallel_tool_calls=False).choices[0].tool_calls_max == 1
    assert parsed(tools=tools, parallel_tool_calls=True).choices[0].tool_calls_max is None
    assert parsed(tools=tools).choices[0].tool_calls_max is None


@pytest.mark.parametrize("content", [None, [], "", [{"type": "text", "text": ""}]])
def test_a_result_may_be_of_nothing_and_of_a_call_that_is_no_longer_there(content: Any) -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": content}
    assert parsed(messages=[*HELLO, result]).choices[0].messages[1] == {**result, "content": ""}


def test_an_image_is_a_placeholder_in_older_messages_and_in_what_a_tool_has_shown() -> None:
    shown = {"role": "user", "content": [IMAGE]}
    result = {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a"}, IMAGE]}
    said = {"role": "assistant", "content": "A cat."}
    for messages, place in (([shown, *HELLO], 0), ([shown, said], 0), ([result], 0), ([result, shown], 1)):
        (generate,) = parsed(messages=messages).choices
        assert generate.messages[place]["content"].endswith("[image omitted: this model reads text only]")
        assert {each.kind for each in generate.replaced} == {"images"}


@pytest.mark.parametrize(
    ("part", "text", "kind"),
    [
        ({"type": "file", "file": {"filename": "a b.pdf\n]"}}, "[document a b.pdf omitted: ", "documents"),
        ({"type": "input_audio", "input_audio": {"data": "x"}}, "[audio omitted: ", "audio"),
        ({"type": "hologram"}, "[hologram omitted: ", "other-parts"),
    ],
)
def test_each_part_that_is_no_text_has_a_placeholder_with_its_name(part: Any, text: str, kind: str) -> None:
    (generate,) = parsed(messages=[{"role": "user", "content": [part]}, *HELLO]).choices
    assert generate.messages[0]["content"] == text + "this model reads text only]"
    assert generate.replaced == (Replaced(kind, 1),)


def test_calls_of_the_older_way_and_of_custom_tools_are_calls() -> None:
    older = {"role": "assistant", "function_call": {"name": "f", "arguments": '{"a": 1}'}}
    result = {"role": "function", "name": "f", "content": "3"}
    custom = {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "text"}}
    messages = (
        parsed(messages=[*HELLO, older, result, {"role": "assistant", "tool_calls": [custom]}])
        .choices[0]
        .messages
    )
    (call,) = messages[1]["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": {"a": 1}}
    assert messages[2] == {"role": "tool", "content": "3", "name": "f", "tool_call_id": call["id"]}
    assert messages[3]["tool_calls"][0]["function"] == {"name": "patch", "arguments": {"input": "text"}}


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","messages":[{"role":"user","content":[{"type":%s}]}]}',
        b'{"model":"m","messages":[{"role":%s,"content":"a"}]}',
        b'{"model":"m","messages":[{"role":"user","content":%s}]}',
        b'{"model":%s,"messages":[{"role":"user","content":"a"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"a"}],"tool_choice":%s}',
        b'{"model":"m","messages":[{"role":"user","content":"a"}],"modalities":%s}',
        b'{"model":"m","messages":[{"role":"user","content":"a"}],"stop":%s}',
    ],
)
@pytest.mark.parametrize("depth", [70, 1000])
def test_a_value_nested_as_deep_as_json_goes_is_refused(body: bytes, depth: int) -> None:
    for nested in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
        with pytest.raises(ApiError) as caught:
            parse_chat(body % nested, SEED)
        assert caught.value.status == 400


@pytest.mark.parametrize(
    ("fields", "variables"),
    [
        ({}, {}),
        ({"reasoning_effort": "high"}, {"reasoning_effort": "high"}),
        ({"reasoning_effort": "none"}, {"enable_thinking": False, "thinking": False}),
        ({"thinking": False}, {"enable_thinking": False, "thinking": False}),
        ({"thinking": {"type": "enabled", "budget_tokens": 99}}, {"enable_thinking": True, "thinking": True}),
        ({"thinking": {"type": "disabled"}}, {"enable_thinking": False, "thinking": False}),
        ({"chat_template_kwargs": {"x": [1]}}, {"x": [1]}),
        (
            {"thinking": True, "chat_template_kwargs": {"enable_thinking": False}},
            {"enable_thinking": False, "thinking": True},
        ),
    ],
)
def test_what_a_template_needs_to_know_reaches_it(fields: dict[str, Any], variables: dict[str, Any]) -> None:
    assert parsed(**fields).choices[0].template == variables


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("chat_template_kwargs", 5),
        ("thinking", "yes"),
        ("thinking", {"type": "much"}),
        ("reasoning_effort", 1),
    ],
)
def test_what_is_no_switch_of_reasoning_is_refused(name: str, value: Any) -> None:
    assert str(refused(**{name: value}).param).startswith(name)
