"""From a body as Anthropic documents it to the internal request."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest

from reconciler.gateway.dialects.anthropic.request import MessagesRequest, parse_request
from reconciler.gateway.errors import ApiError
from reconciler.wire.form import Form
from reconciler.wire.generation import Generate
from tests.gateway.conftest import HELLO

TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}
SHOWN = {
    "type": "function",
    "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}},
}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "Zoë"}}
CALLED = {
    "id": "toolu_1",
    "type": "function",
    "function": {"name": "look", "arguments": {"at": "Zoë"}},
}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}


def parsed(**fields: Any) -> MessagesRequest:
    body = {"model": "llama", "max_tokens": 9, "messages": HELLO, **fields}
    return parse_request(orjson.dumps(body), 42)


def generate(**fields: Any) -> Generate:
    return parsed(**fields).generate


def conversation(*messages: Any, **fields: Any) -> list[Any]:
    return list(generate(messages=messages, **fields).messages)


def refusal(**fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parsed(**fields)
    assert caught.value.status == 400
    return caught.value


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words, "cache_control": {"type": "ephemeral"}}


def result(**fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "toolu_1", **fields}


def test_max_tokens_is_required() -> None:
    assert generate(max_tokens=32000).tokens_max == 32000
    for wrong in (None, 0, "9", True):
        assert refusal(max_tokens=wrong).param == "max_tokens"


@pytest.mark.parametrize("system", ["Be brief.", [text("Be brief.")], [text("Be"), text("brief.")]])
def test_the_system_prompt_is_the_first_message(system: Any) -> None:
    first, *rest = conversation(*HELLO, system=system)
    assert (first["role"], first["content"].split()) == ("system", ["Be", "brief."])
    assert rest == HELLO


def test_no_system_prompt_is_no_message() -> None:
    nothing: tuple[dict[str, Any], ...] = ({"system": None}, {"system": ""}, {"system": []})
    for system in nothing:
        assert conversation(*HELLO, **system) == HELLO


def test_what_claude_code_tells_the_bills_of_is_no_part_of_the_prompt() -> None:
    line = "x-anthropic-billing-header: cc_version=2.1.197.0; cch=a1b2c;"
    assert conversation(*HELLO, system=[text(line), text("Be brief.")])[0]["content"] == "Be brief."


def test_a_system_message_in_the_middle_stays_there() -> None:
    later = {"role": "system", "content": [text("Now be long.")]}
    assert conversation(*HELLO, assistant(text("hi")), *HELLO, later)[3] == {
        "role": "system",
        "content": "Now be long.",
    }


def test_a_system_message_for_one_turn_is_gone_with_the_next() -> None:
    later = {"role": "system", "content": "Hush.", "clear_at": "next_user_message"}
    assert [message["role"] for message in conversation(*HELLO, later)] == ["user", "system"]
    assert [message["role"] for message in conversation(*HELLO, later, *HELLO)] == ["user"]


def test_what_one_side_says_in_a_row_is_one_message() -> None:
    said = conversation(
        user(text("a"), text("b")), *HELLO, assistant(text("c"), text("d")), assistant(CALL), user(result())
    )
    assert said[:2] == [
        {"role": "user", "content": "a\nb\nhello"},
        {"role": "assistant", "content": "cd", "tool_calls": [CALLED]},
    ]


def test_thinking_is_sent_back_whatever_its_signature_and_what_nobody_can_read_is_left_out() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "anything"}
    redacted = {"type": "redacted_thinking", "data": "AAAA"}
    assert conversation(*HELLO, assistant(thinking, redacted, text("hi")), *HELLO)[1] == {
        "role": "assistant",
        "content": "hi",
        "reasoning_content": "hm",
    }


@pytest.mark.parametrize(
    ("fields", "content"),
    [
        ({"content": "sunny"}, "sunny"),
        ({"content": [text("sunny"), text("warm")]}, "sunny\nwarm"),
        ({}, ""),
        ({"content": "no such place", "is_error": True}, "Error: no such place"),
    ],
)
def test_the_result_of_a_call_is_a_message_of_the_tool(fields: Any, content: str) -> None:
    said = conversation(*HELLO, assistant(CALL), user(result(**fields), text("and now?")))
    assert said[1:] == [
        {"role": "assistant", "content": "", "tool_calls": [CALLED]},
        {"role": "tool", "tool_call_id": "toolu_1", "content": content},
        {"role": "user", "content": "and now?"},
    ]


PLACEHOLDER = "[image omitted: this model reads text only]"
PDF = {"type": "document", "title": "a.pdf", "source": {"type": "base64", "data": "x"}}


def test_what_is_no_text_is_a_placeholder_in_results_beside_them_and_in_older_messages() -> None:
    said = conversation(*HELLO, assistant(CALL), user(result(content=[text("a"), IMAGE]), PDF))
    assert [message["content"] for message in said[2:]] == [
        f"a\n{PLACEHOLDER}",
        "[document a.pdf omitted: this model reads text only]",
    ]
    assert conversation(user(IMAGE), assistant(text("A cat.")), *HELLO)[0]["content"] == PLACEHOLDER
    assert conversation(user(IMAGE), *HELLO)[0]["content"] == f"{PLACEHOLDER}\n{HELLO[0]['content']}"


def test_documents_and_search_results_that_are_text_are_kept_also_in_the_newest_message() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "All of it."}
    found = {"type": "search_result", "title": "T", "source": "https://a", "content": [text("Found.")]}
    (said,) = conversation(user({"type": "document", "title": "D", "source": source}, found))
    assert said["content"] == "D\nAll of it.\nT\nhttps://a\nFound."


@pytest.mark.parametrize("given", ["x", [1], 5, '{"cut'])
def test_a_call_whose_input_is_no_object_is_what_the_model_wrote(given: Any) -> None:
    (_, turn, _) = conversation(*HELLO, assistant({**CALL, "input": given}), user(result()))
    written = given if isinstance(given, str) else orjson.dumps(given).decode()
    assert turn["tool_calls"][0]["function"]["arguments"] == written


def test_a_result_whose_call_is_no_longer_there_is_kept() -> None:
    assert conversation(user(result()))[0]["role"] == "tool"


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        ([{"role": "tool", "content": "x"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([user(text("a"), IMAGE)], "messages[0].content[1].type"),
        ([user({"type": "document", "source": {}})], "messages[0].content[0].type"),
        ([user({"type": "text"})], "messages[0].content[0].text"),
        ([*HELLO, assistant({**CALL, "id": []}), user(result())], "messages[1].content[0].id"),
        ([*HELLO, assistant(text("The answer is"))], "messages[1].role"),
    ],
)
def test_what_is_wrong_in_a_conversation_is_told_by_its_path(messages: Any, param: str) -> None:
    assert refusal(messages=messages).param == param


def test_tools_are_shown_with_and_without_a_type() -> None:
    for kind in ({}, {"type": None}, {"type": "custom"}):
        assert generate(tools=[{**TOOL, **kind, "cache_control": {"type": "ephemeral"}}]).tools == (SHOWN,)


def test_tools_that_only_anthropic_has_are_left_out_and_named() -> None:
    theirs = [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "x\r\nset-cookie: a=b"},
    ]
    request = parsed(tools=[*theirs, TOOL])
    assert request.generate.tools == (SHOWN,)
    assert request.dropped == ("web_search_20250305", "bash_20250124", "unnamed")


@pytest.mark.parametrize(
    ("choice", "form", "calls_max"),
    [
        (None, Form(strict=("strict",)), None),
        ({"type": "auto"}, Form(strict=("strict",)), None),
        ({"type": "auto", "disable_parallel_tool_use": True}, Form(strict=("strict",)), 1),
        ({"type": "any"}, Form(calls_required=True, strict=("strict",)), None),
        (
            {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
            Form(calls_required=True, callable=("look",), strict=("strict",)),
            1,
        ),
    ],
)
def test_which_tools_may_and_must_be_called_is_the_form_of_the_answer(
    choice: Any, form: Form, calls_max: int | None
) -> None:
    tools = [{"type": "bash_20250124"}, TOOL, {**TOOL, "name": "strict", "strict": True}]
    asked = generate(tools=tools, tool_choice=choice)
    paths = ("tools[1].input_schema", "tools[2].input_schema")
    assert (asked.form, asked.tool_calls_max) == (dataclasses.replace(form, tool_paths=paths), calls_max)


def test_a_model_that_must_not_call_sees_no_tools() -> None:
    request = parsed(tools=[TOOL, {"type": "bash_20250124"}], tool_choice={"type": "none"})
    assert request.generate.tools == ()
    assert request.generate.form.free
    assert request.dropped == ("bash_20250124",)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"name": "look"}]}, "tools[0].input_schema"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tools": [TOOL, TOOL]}, "tools"),
        ({"tools": [TOOL], "tool_choice": "auto"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "required"}}, "tool_choice.type"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "see"}}, "tool_choice"),
        ({"tools": [{"type": "bash_20250124"}], "tool_choice": {"type": "any"}}, "tool_choice"),
    ],
)
def test_what_is_wrong_with_tools_is_told_by_its_path(fields: Any, param: str) -> None:
    assert refusal(**fields).param == param


@pytest.mark.parametrize(
    ("thinking", "thinks"),
    [
        ({"type": "enabled", "budget_tokens": 1024}, True),
        ({"type": "adaptive", "display": "summarized"}, True),
        ({"type": "disabled"}, False),
        (True, True),
        (False, False),
    ],
)
def test_thinking_switches_the_reasoning_of_the_template(thinking: Any, thinks: bool) -> None:
    assert generate(thinking=thinking).template == {"enable_thinking": thinks, "thinking": thinks}
    assert generate().template == {}


def test_effort_is_a_variable_of_the_template() -> None:
    assert generate(output_config={"effort": "max"}).template == {"reasoning_effort": "max"}
    assert generate(chat_template_kwargs={"a": 1}).template == {"a": 1}


@pytest.mark.parametrize("name", ["output_config", "output_format"])
def test_a_schema_is_the_form_of_the_answer(name: str) -> None:
    form = {"type": "json_schema", "schema": {"type": "object"}}
    asked = generate(**{name: {"format": form} if name == "output_config" else form})
    path = "output_config.format.schema" if name == "output_config" else "output_format.schema"
    assert asked.form == Form(schema='{"type":"object"}', schema_path=path)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "sometimes"}}, "thinking.type"),
        ({"thinking": "no"}, "thinking"),
        ({"thinking": {"type": "adaptive", "display": "loud"}}, "thinking.display"),
        ({"output_config": {"effort": "some"}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "regex"}}}, "output_config.format.type"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
        ({"stop_sequences": "a"}, "stop_sequences"),
        ({"stop_sequences": [""]}, "stop_sequences"),
        ({"stop_sequences": ["a"] * 65}, "stop_sequences"),
        ({"metadata": {"user_id": 5}}, "metadata.user_id"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
        ({"container": "c"}, "container"),
        ({"max_completion_tokens": 5}, "max_completion_tokens"),
    ],
)
def test_what_is_wrong_is_told_by_its_path(fields: Any, param: str) -> None:
    assert refusal(**fields).param == param


def test_what_is_chosen_how_is_as_for_chat_completions() -> None:
    asked = generate(temperature=0.5, top_p=0.9, top_k=5, stop_sequences=["a", "b"])
    assert (asked.sampling.temperature, asked.sampling.top_p, asked.sampling.top_k) == (0.5, 0.9, 5)
    assert asked.stop == ("a", "b")
    assert "temperature" not in asked.unset
    assert "min_p" in asked.unset


def test_a_session_is_the_user_of_the_metadata() -> None:
    assert parsed(metadata={"user_id": "user_1_session_2"}).session == "user_1_session_2"
    assert parsed(service_tier="auto").session == ""


@pytest.mark.parametrize(
    ("block", "text"),
    [("text", "text"), (5, "5"), (None, ""), ([], "[]"), ({}, "{}"), ({"type": None}, '{"type":null}')],
)
@pytest.mark.parametrize(("role", "between"), [("user", "\n"), ("assistant", "")])
def test_a_block_that_is_none_is_shown_as_it_is(role: str, between: str, block: Any, text: str) -> None:
    first, *_ = conversation({"role": role, "content": [{"type": "text", "text": "a"}, block]}, *HELLO)
    assert first["content"].startswith(f"a{between}{text}" if text else "a")
