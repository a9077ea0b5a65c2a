"""What a request for a response may say, and what is wrong with one that is refused."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.gateway.dialects.responses.items import seal
from reconciler.gateway.dialects.responses.request import ResponseRequest, parse_response
from reconciler.gateway.errors import ApiError
from reconciler.wire.form import FREE, Form
from reconciler.wire.generation import Generate

SEED = 42


def parsed(**fields: Any) -> ResponseRequest:
    return parse_response(orjson.dumps({"model": "llama", "input": "hello", **fields}), SEED)


def asked(**fields: Any) -> Generate:
    return parsed(**fields).generate


def refused(**fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parsed(**fields)
    assert caught.value.status == 400
    assert caught.value.kind == "invalid_request_error"
    return caught.value


def function(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, **more}


def call(call_id: str, name: str = "f", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": '{"a": 1}', **more}


def output(id: str, text: Any = "done") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id, "output": text}


def rendered(id: str, name: str = "f") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": {"a": 1}}}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "output_text", "text": text}]}


# --- parameters ---


def test_a_string_is_a_message_of_the_user_and_instructions_are_the_system_s() -> None:
    assert asked().messages == ({"role": "user", "content": "hello"},)
    assert asked(instructions="be brief").messages[0] == {"role": "system", "content": "be brief"}
    assert parsed().repeated["instructions"] is None


def test_null_is_the_same_as_absent() -> None:
    optional = (
        "instructions max_output_tokens max_tool_calls metadata parallel_tool_calls previous_response_id conversation prompt "
        "background include reasoning text tool_choice tools temperature top_p top_logprobs truncation user service_tier "
        "store stream stream_options safety_identifier prompt_cache_key prompt_cache_retention context_management"
    )
    assert parsed(**dict.fromkeys(optional.split())) == parsed()
    assert parsed(reasoning={"effort": None, "summary": None}, text={"format": None}) == parsed()
    bare = [function("f")]
    assert parsed(tools=[function("f", description=None, parameters=None, strict=None)]) == parsed(tools=bare)


def test_the_length_is_bound_for_text_and_reasoning_together() -> None:
    assert asked().tokens_max is None
    assert asked(max_output_tokens=9).tokens_max == 9
    assert refused(max_output_tokens=0).param == "max_output_tokens"
    assert refused(max_tokens=9).param == "max_tokens"


def test_effort_reaches_the_template_and_none_switches_reasoning_off() -> None:
    assert asked(reasoning={"effort": "high"}).template == {"reasoning_effort": "high"}
    assert asked(reasoning={"effort": "none"}).template == {"enable_thinking": False, "thinking": False}
    assert refused(reasoning={"effort": "much"}).param == "reasoning.effort"
    given = asked(reasoning={"effort": "low"}, chat_template_kwargs={"reasoning_effort": "mine"})
    assert given.template == {"reasoning_effort": "mine"}


def test_reasoning_is_told_as_a_summary_where_the_client_asks_for_one() -> None:
    assert not parsed().summarized
    assert not parsed(reasoning={"effort": "low"}).summarized
    assert parsed(reasoning={"summary": "auto"}).summarized
    assert parsed(reasoning={"generate_summary": "concise"}).summarized
    assert refused(reasoning={"summary": "long"}).param == "reasoning.summary"


def test_log_probabilities_come_where_either_field_asks_for_them() -> None:
    assert asked().logprobs is None
    assert asked(include=["message.output_text.logprobs"]).logprobs == 0
    assert asked(top_logprobs=3).logprobs == 3
    assert asked(top_logprobs=0).logprobs is None
    assert refused(top_logprobs=21).param == "top_logprobs"


def test_only_what_there_is_can_be_included() -> None:
    assert parsed(include=["reasoning.encrypted_content"]).sealed
    assert not parsed(include=["web_search_call.action.sources"]).sealed
    assert refused(include=["reasoning.encrypted_content", "everything"]).param == "include[1]"
    assert refused(include=[{}]).param == "include[0]"
    assert refused(include="all").param == "include"


def test_what_would_need_a_store_is_refused_with_the_reason() -> None:
    for fields in ({"previous_response_id": "resp_1"}, {"conversation": {"id": "c"}}, {"background": True}):
        error = refused(**fields)
        assert error.param in fields
        assert "nothing is stored" in error.text
    assert parsed(store=True, background=False) == parsed()


def test_metadata_is_text_by_name() -> None:
    assert parsed(metadata={"a": "b", "c": None}).repeated["metadata"] == {"a": "b"}
    assert refused(metadata={"a": 1}).param == "metadata.a"
    assert refused(metadata={str(n): "" for n in range(17)}).param == "metadata"


def test_a_prompt_that_is_too_long_is_never_cut() -> None:
    assert parsed(truncation="auto").repeated["truncation"] == "disabled"
    assert refused(truncation="middle").param == "truncation"


# --- the form of the answer ---


def test_an_answer_may_have_any_form_by_default() -> None:
    assert asked().form == asked(text={"format": {"type": "text"}}, tool_choice="auto").form == FREE


def test_text_can_be_held_to_a_schema() -> None:
    schema = {"type": "object", "properties": {"b": {"type": "string"}, "a": {}}}
    named = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
    form = asked(text={"format": named}).form
    assert form.schema == '{"type":"object","properties":{"b":{"type":"string"},"a":{}}}'
    assert form.schema_path == "text.format.schema"
    assert asked(text={"format": {"type": "json_object"}}).form.schema == '{"type":"object"}'
    assert parsed(text={"format": named}).repeated["text"]["format"]["schema"] == schema
    assert refused(text={"format": {"type": "json_schema", "name": "n"}}).param == "text.format.schema"
    assert refused(text={"format": {"type": "json_schema", "schema": {}}}).param == "text.format.name"
    assert refused(text={"format": {"type": "yaml"}}).param == "text.format.type"


def test_a_call_can_be_required_of_any_tool_of_some_or_of_one() -> None:
    tools = [function("f"), function("g", strict=True), function("h")]
    paths = ("tools[0].parameters", "tools[1].parameters", "tools[2].parameters")
    bare = Form(strict=("g",), tool_paths=paths)
    assert asked(tools=tools).form == bare
    assert asked(tools=tools, tool_choice="required").form == dataclasses.replace(bare, calls_required=True)
    one = asked(tools=tools, tool_choice=function("f"))
    assert one.form == dataclasses.replace(bare, calls_required=True, callable=("f",))
    assert len(one.tools) == 3
    some = {"type": "allowed_tools", "mode": "auto", "tools": [function("f"), function("h")]}
    assert asked(tools=tools, tool_choice=some).form == dataclasses.replace(bare, callable=("f", "h"))
    some["mode"] = "required"
    assert asked(tools=tools, tool_choice=some).form.calls_required


def test_no_call_is_possible_where_there_is_to_be_none() -> None:
    tools = [function("f", strict=True)]
    nothing = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}
    for choice in ("none", nothing):
        generate = asked(tools=tools, tool_choice=choice)
        assert (generate.tools, generate.form) == ((), FREE)


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("sometimes", "tool_choice"),
        (5, "tool_choice"),
        ({}, "tool_choice.type"),
        (function("g"), "tool_choice.name"),
        ({"type": "function"}, "tool_choice.name"),
        ({"type": "web_search"}, "tool_choice.type"),
        ({"type": "allowed_tools", "tools": [function("f")]}, "tool_choice.mode"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [function("g")]}, "tool_choice.tools[0].name"),
        ({"type": "allowed_tools", "mode": "required", "tools": []}, "tool_choice.tools"),
    ],
)
def test_a_choice_that_cannot_be_met_is_refused(choice: Any, param: str) -> None:
    assert refused(tools=[function("f")], tool_choice=choice).param == param


def test_a_call_cannot_be_required_where_all_tools_were_dropped() -> None:
    assert refused(tools=[{"type": "web_search"}], tool_choice="required").param == "tool_choice"


# --- tools ---


def test_a_function_is_rendered_as_chat_templates_take_it() -> None:
    parameters = {"type": "object", "properties": {}}
    tool = function("f", description="d", parameters=parameters, strict=False)
    wanted = {"name": "f", "description": "d", "parameters": parameters}
    assert asked(tools=[tool]).tools == ({"type": "function", "function": wanted},)
    assert asked(tools=[tool], parallel_tool_calls=False).tool_calls_max == 1
    assert refused(tools=[function("f", parameters=5)]).param == "tools[0].parameters"
    assert refused(tools=[{"type": "function"}]).param == "tools[0].name"
    assert refused(tools=[{"name": "f"}]).param == "tools[0].type"


def test_what_is_no_function_is_dropped_by_type_and_name() -> None:
    tools = parsed(
        tools=[
            {"type": "web_search", "external_web_access": True},
            {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}},
            {"type": "mcp", "server_label": "deep wiki\r\n\u00e9"},
            function("f"),
            {"type": "local_shell"},
        ]
    ).tools
    assert tools.dropped == ("web_search", "custom:apply_patch", "mcp:deep_wiki_", "local_shell")
    assert [tool.called for tool in tools.known] == ["f"]


def test_only_some_of_very_many_are_named() -> None:
    dropped = parsed(tools=[{"type": "x" * 500}] * 100).tools.dropped
    assert len(dropped) == 33
    assert dropped[-1] == "and-68-more"
    assert max(map(len, dropped)) == 64


def test_functions_of_a_namespace_have_its_name_before_theirs() -> None:
    space = {
        "type": "namespace",
        "name": "crm",
        "description": "d",
        "tools": [function("find", strict=True), {"type": "custom", "name": "write"}],
    }
    request = parsed(tools=[function("find"), space])
    assert [tool["function"]["name"] for tool in request.generate.tools] == ["find", "crm__find"]
    assert request.generate.form.strict == ("crm__find",)
    assert request.generate.form.tool_paths == ("tools[0].parameters", "tools[1].tools[0].parameters")
    assert request.tools.named("crm__find") == ("find", "crm")
    assert request.tools.named("find") == ("find", None)
    assert request.tools.named("never_offered") == ("never_offered", None)
    assert request.tools.dropped == ("namespace:crm:custom:write",)
    chosen = asked(tools=[space], tool_choice=function("find", namespace="crm")).form
    assert chosen.callable == ("crm__find",)


def test_a_namespace_that_ends_like_one_gets_no_second_separator() -> None:
    space = {"type": "namespace", "name": "mcp__files__", "tools": [function("read")]}
    assert asked(tools=[space]).tools[0]["function"]["name"] == "mcp__files__read"


def test_tools_that_a_model_could_not_tell_apart_are_refused() -> None:
    space = {"type": "namespace", "name": "a", "tools": [function("b")]}
    assert refused(tools=[space, function("a__b")]).param == "tools"
    assert refused(tools=[function("f"), function("f")]).param == "tools"


# --- items ---


def test_messages_have_text_in_parts_or_as_a_string() -> None:
    items = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "one"}]},
        {"role": "developer", "content": "two"},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
        },
        {**said("c"), "type": "message", "id": "msg_1", "status": "completed", "phase": "final_answer"},
        {"role": "user", "content": "d"},
    ]
    assert asked(input=items).messages == (
        {"role": "system", "content": "one"},
        {"role": "system", "content": "two"},
        {"role": "user", "content": "a\nb"},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    )


def test_what_the_model_wrote_in_one_turn_is_one_message() -> None:
    items = [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "hm"}],
        },
        said("I look."),
        call("c1"),
        call("c2", "g"),
        output("c2", [{"type": "input_text", "text": "two"}]),
        output("c1", ""),
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "aha"}]},
        said("Done."),
    ]
    assert asked(input=items).messages == (
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "hm",
            "tool_calls": [rendered("c1"), rendered("c2", "g")],
        },
        {"role": "tool", "content": "two", "tool_call_id": "c2"},
        {"role": "tool", "content": "", "tool_call_id": "c1"},
        {"role": "assistant", "content": "Done.", "reasoning_content": "aha"},
    )


def test_two_texts_of_the_model_in_a_row_are_two_turns_but_not_around_a_call() -> None:
    assert [m["content"] for m in asked(input=[said("a"), said("b")]).messages] == ["a", "b"]
    (message,) = asked(input=[said("a"), call("c"), said("\nb")]).messages
    assert message["content"] == "a\nb"


def test_reasoning_comes_back_from_wherever_the_client_kept_it() -> None:
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": seal("hm 🦙")}
    foreign = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "s"}],
        "encrypted_content": "gAAA",
    }
    empty = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    told = [
        asked(input=[item, said("x")]).messages[0].get("reasoning_content")
        for item in (sealed, foreign, empty)
    ]
    assert told == ["hm 🦙", "s", None]
    broken = {**sealed, "encrypted_content": seal("hm")[:-1] + "?"}
    assert refused(input=[broken]).param == "input[0].encrypted_content"


@given(text=st.text(min_size=1))
def test_any_reasoning_survives_the_way_to_a_client_and_back(text: str) -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": seal(text)}
    (message,) = asked(input=[item]).messages
    assert message["reasoning_content"] == text


def test_a_call_in_a_namespace_has_the_name_that_the_model_knows() -> None:
    items = [call("c", "read", namespace="mcp__files__", id="fc_1", status="completed"), output("c")]
    (turn, _) = asked(input=items).messages
    assert turn["tool_calls"] == [rendered("c", "mcp__files__read")]


@pytest.mark.parametrize(
    ("item", "content"),
    [
        ({"output": None}, ""),
        ({"output": []}, ""),
        ({}, ""),
        (
            {"output": [{"type": "input_image", "image_url": "x"}]},
            "[image omitted: this model reads text only]",
        ),
        ({"output": {"type": "computer_screenshot"}}, "[image omitted: this model reads text only]"),
        ({"output": [{"stdout": "a"}]}, '[{"stdout":"a"}]'),
    ],
)
@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output", "computer_call_output"])
def test_a_result_is_text_whatever_it_was(item: Any, content: str, kind: str) -> None:
    (_, result) = asked(input=[call("c"), {"type": kind, "call_id": "c", **item}]).messages
    assert result == {"role": "tool", "tool_call_id": "c", "content": content}


def test_items_of_the_providers_own_tools_are_placeholders_and_those_of_the_client_are_calls() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    shell = {"type": "local_shell_call", "id": "ls_1", "call_id": "c", "action": {"command": ["ls"]}}
    patch = {"type": "custom_tool_call", "call_id": "d", "name": "apply_patch", "input": "***"}
    (turn,) = asked(input=[search, shell, patch]).messages
    assert turn["content"] == "[web_search_call omitted: this model reads text only]"
    assert [made["function"] for made in turn["tool_calls"]] == [
        {"name": "local_shell", "arguments": {"action": {"command": ["ls"]}}},
        {"name": "apply_patch", "arguments": {"input": "***"}},
    ]


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize(
    ("kind", "known"),
    [("mcp_list_tools", True), ("compaction", True), ("of_tomorrow_call", True), ("of_tomorrow", False)],
)
def test_an_item_of_an_unknown_type_is_refused_unless_it_was_answered_already(
    kind: str, known: bool, answered: bool
) -> None:
    """Nobody can change an item any more that a conversation has behind it."""
    item, hello = {"type": kind}, {"role": "user", "content": "hello"}
    items = [item, hello] if answered else [hello, item]
    if not known and not answered:
        error = refused(input=items)
        assert (error.param, error.code) == ("input[1].type", "unsupported_item")
        assert error.text == "items of type 'of_tomorrow' are not known"
    else:
        (told,) = [each for each in asked(input=items).messages if each["role"] == "assistant"]
        assert told["content"] == f"[{kind} omitted: this model reads text only]"


@pytest.mark.parametrize(
    ("items", "param"),
    [
        ("", "input"),
        ([], "input"),
        (5, "input"),
        (None, "input"),
        (["hello"], "input[0]"),
        ([{"role": "king", "content": "x"}], "input[0].role"),
        ([{"type": "message", "content": "x"}], "input[0].role"),
        ([{"role": "user"}], "input[0].content"),
        (
            [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}],
            "input[0].content[0].type",
        ),
        ([{"id": "msg_1"}], "input[0].id"),
        ([{"type": "item_reference", "id": "msg_1"}], "input[0].id"),
        ([{"type": "hologram"}], "input[0].type"),
        ([{"type": "function_call", "call_id": {}, "name": "f"}], "input[0].call_id"),
        ([{"type": 5}], "input[0].type"),
    ],
)
def test_an_item_that_cannot_be_read_is_refused_with_its_place(items: Any, param: str) -> None:
    assert refused(input=items).param == param


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = (
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "text",
    "reasoning",
    "include",
    "metadata",
    "temperature",
)
INNER = ("type", "role", "content", "call_id", "name", "output", "arguments", "summary", "id", "namespace")
ITEMS = st.lists(
    st.dictionaries(st.sampled_from(INNER), JSON).map(
        lambda item: {"type": "function_call", **item} if len(item) % 2 else item
    ),
    max_size=3,
)


@given(fields=st.dictionaries(st.sampled_from(NAMES), JSON | ITEMS, max_size=4))
def test_whatever_a_body_says_it_is_read_or_refused(fields: dict[str, Any]) -> None:
    with contextlib.suppress(ApiError):
        assert parsed(**fields).generate.messages
