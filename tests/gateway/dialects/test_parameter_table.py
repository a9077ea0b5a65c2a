"""What the table says of each parameter is what becomes of it, and what the documentation says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import mlx_lm.server
import orjson
import pytest
from anthropic.types.beta import message_create_params
from anthropic.types.message_create_params import MessageCreateParamsBase
from openai.types.chat import completion_create_params as chat_params
from openai.types.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from reconciler.gateway.dialects.anthropic.request import MessagesRequest, parse_request
from reconciler.gateway.dialects.openai.completions import CompletionRequest, parse_completion
from reconciler.gateway.dialects.openai.request import ChatRequest, parse_chat
from reconciler.gateway.dialects.parameter_table import (
    CHAT,
    INSIDE,
    MESSAGES,
    PATHS,
    RESPONSES,
    ROWS,
    TEXT,
    Row,
)
from reconciler.gateway.dialects.responses.request import ResponseRequest, parse_response
from reconciler.gateway.dialects.rows import rows_of
from reconciler.gateway.errors import ApiError
from tests.gateway.conftest import HELLO
from tests.gateway.dialects import pages

STRANGE: Any = [{"something": "else"}]
"""A value of no parameter's type, which hence is none of those without effect."""


def parsed(path: str, **fields: Any) -> ChatRequest | CompletionRequest | ResponseRequest | MessagesRequest:
    if path == CHAT:
        return parse_chat(orjson.dumps({"model": "llama", "messages": HELLO, **fields}), 42)
    if path == MESSAGES:
        return parse_request(
            orjson.dumps({"model": "llama", "messages": HELLO, "max_tokens": 9, **fields}), 42
        )
    if path == RESPONSES:
        return parse_response(orjson.dumps({"model": "llama", "input": "Once", **fields}), 42)
    return parse_completion(orjson.dumps({"model": "llama", "prompt": "Once", **fields}), 42)


def refusal(path: str, **fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parsed(path, **fields)
    return caught.value


def rows(works: bool, harmless: bool = False) -> Iterator[tuple[str, str, Row]]:
    """Path and name of each parameter that does or does not work there."""
    for row in ROWS:
        for path in sorted(row.on):
            if (path in row.works) == works and row.harmless == harmless:
                yield from ((path, name, row) for name in row.names)


def test_a_parameter_stands_in_one_row_of_a_path() -> None:
    found = [(path, name) for row in ROWS for path in row.on for name in row.names]
    assert len(found) == len(set(found))


@pytest.mark.parametrize("path", PATHS)
def test_what_does_nothing_is_refused_by_its_name_unless_its_value_asks_for_nothing(path: str) -> None:
    plain = parsed(path)
    refused = [(name, row) for where, name, row in rows(works=False) if where == path]
    assert len(refused) > 80
    for name, row in refused:
        error = refusal(path, **{name: STRANGE})
        assert (error.status, error.param, error.code) == (400, name, row.code), name
        assert f"{name} is not supported yet: " in error.text
        for idle in (None, *row.names[name]):
            assert parsed(path, **{name: idle}) == plain, name


@pytest.mark.parametrize("path", PATHS)
def test_what_works_is_looked_at(path: str) -> None:
    for where, name, _ in rows(works=True):
        if where == path:
            assert str(refusal(path, **{name: STRANGE}).param).startswith(name)


def test_what_changes_no_answer_may_have_any_value() -> None:
    for path, name, _ in rows(works=False, harmless=True):
        assert parsed(path, **{name: STRANGE}) == parsed(path)


@pytest.mark.parametrize("path", PATHS)
def test_only_what_nobody_knows_is_ignored(path: str) -> None:
    assert parsed(path, whatever=STRANGE, guided=1) == parsed(path)


def test_true_is_not_one_and_one_is_not_true() -> None:
    assert refusal(CHAT, length_penalty=True).param == "length_penalty"
    assert refusal(CHAT, use_beam_search=0).param == "use_beam_search"
    assert parsed(CHAT, length_penalty=1.0) == parsed(CHAT, length_penalty=1) == parsed(CHAT)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f", "defer_loading": True}}]}, "tools[0].function.defer_loading"),
        ({"tools": [{"type": "function", "defer_loading": True, "function": {"name": "f"}}]}, "tools[0].defer_loading"),
        ({"stream_options": {"continuous_usage_stats": True}}, "stream_options.continuous_usage_stats"),
    ],
)  # fmt: skip
def test_so_is_what_stands_within_others(fields: dict[str, Any], param: str) -> None:
    assert refusal(CHAT, **fields).param == param
    text = orjson.dumps(fields).replace(b"true", b"false")
    bare = orjson.dumps(fields).replace(b"true", b"null")
    assert parsed(CHAT, **orjson.loads(text)) == parsed(CHAT, **orjson.loads(bare))


@pytest.mark.parametrize(
    ("fields", "param", "idle"),
    [
        ({"reasoning": {"context": "all_turns"}}, "reasoning.context", {"reasoning": {"context": "auto"}}),
        ({"reasoning": {"mode": "pro"}}, "reasoning.mode", {"reasoning": {"mode": "standard"}}),
        ({"stream_options": {"continuous_usage_stats": True}}, "stream_options.continuous_usage_stats", {}),
        ({"tools": [{"type": "function", "name": "f", "defer_loading": True}]}, "tools[0].defer_loading",
         {"tools": [{"type": "function", "name": "f"}]}),
        ({"text": {"format": 5, "verbosity": "low"}}, "text.format", {"text": {"verbosity": "low"}}),
    ],
)  # fmt: skip
def test_so_is_what_stands_within_those_of_responses(
    fields: dict[str, Any], param: str, idle: dict[str, Any]
) -> None:
    assert refusal(RESPONSES, **fields).param == param
    assert parsed(RESPONSES, **idle)


def names(path: str) -> Set[str]:
    return {name for row in ROWS if path in row.on for name in row.names}


def test_every_parameter_of_openais_sdk_is_in_it() -> None:
    assert set(chat_params.CompletionCreateParamsBase.__annotations__) <= names(CHAT)
    assert set(CompletionCreateParamsBase.__annotations__) <= names(TEXT)
    assert set(ResponseCreateParamsBase.__annotations__) <= names(RESPONSES)


def test_every_parameter_of_anthropics_sdk_is_in_it() -> None:
    headers = {"betas", "workspace_id"}
    beta = set(message_create_params.MessageCreateParamsBase.__annotations__) - headers
    assert set(MessageCreateParamsBase.__annotations__) - headers <= beta
    assert beta <= names(MESSAGES)


def test_every_parameter_of_mlx_lms_server_is_in_it() -> None:
    source = Path(str(mlx_lm.server.__file__)).read_text()
    found = set(re.findall(r'body(?:\.get\(|\[)\s*"(\w+)"', source))
    assert len(found) > 25
    assert found <= names(CHAT) & names(TEXT)


OF_SGLANG = (
    "model messages prompt best_of echo frequency_penalty logit_bias logprobs top_logprobs max_tokens "
    "max_completion_tokens n presence_penalty seed stop stream stream_options suffix temperature top_p user tools "
    "tool_choice parallel_tool_calls response_format return_hidden_states return_routed_experts "
    "routed_experts_start_len return_cached_tokens_details return_prompt_token_ids return_token_ids return_meta_info "
    "reasoning_effort task top_k min_p min_tokens json_schema regex ebnf repetition_penalty stop_token_ids stop_regex "
    "no_stop_trim ignore_eos continue_final_message skip_special_tokens lora_path session_id session_params "
    "separate_reasoning stream_reasoning chat_template_kwargs max_dynamic_patch min_dynamic_patch use_audio_in_video "
    "images_config custom_logit_processor custom_params custom_labels input_ids rid extra_key cache_salt "
    "ngram_corpus_id priority bootstrap_host bootstrap_port bootstrap_room routed_dp_rank disagg_prefill_dp_rank "
    "data_parallel_rank reasoning"
)
"""Of ``ChatCompletionRequest`` and ``CompletionRequest`` in ``srt/entrypoints/openai/protocol.py`` of SGLang, 004c82e."""
OF_DASHSCOPE = (
    "model messages stream stream_options modalities audio temperature top_p top_k presence_penalty response_format "
    "max_tokens max_completion_tokens n seed stop tools tool_choice parallel_tool_calls enable_thinking thinking_budget "
    "preserve_thinking enable_code_interpreter enable_search search_options logprobs top_logprobs repetition_penalty "
    "vl_high_resolution_images translation_options asr_options incremental_output result_format"
)
OF_OLLAMA = "model messages prompt think tools format options stream keep_alive raw system suffix"
"""Of ``/api/chat`` and ``/api/generate``: what its users write where OpenAI's are asked for."""
OF_LM_STUDIO = "model messages ttl draft_model context_length repeat_penalty top_k integrations"


@pytest.mark.parametrize("known", [OF_SGLANG, OF_DASHSCOPE, OF_OLLAMA, OF_LM_STUDIO])
def test_every_parameter_of_other_servers_is_in_it(known: str) -> None:
    assert set(known.split()) - names(CHAT) - names(TEXT) == set()


@pytest.mark.parametrize(
    ("fields", "template"),
    [
        ({"enable_thinking": False}, {"enable_thinking": False, "thinking": False}),
        ({"think": True}, {"enable_thinking": True, "thinking": True}),
        ({"think": "high"}, {"reasoning_effort": "high"}),
        ({"think": "none"}, {"enable_thinking": False, "thinking": False}),
        ({"think": "high", "reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        ({"think": True, "enable_thinking": False}, {"enable_thinking": False, "thinking": False}),
        ({"enable_thinking": True, "thinking": False}, {"enable_thinking": False, "thinking": False}),
        ({"enable_thinking": None}, {}),
    ],
)
def test_reasoning_is_asked_for_by_the_name_that_each_server_has_for_it(
    fields: dict[str, Any], template: dict[str, Any]
) -> None:
    found = parsed(CHAT, **fields)
    assert isinstance(found, ChatRequest)
    assert found.choices[0].template == template


@pytest.mark.parametrize("wrong", [{"enable_thinking": "yes"}, {"think": 1}, {"think": "loud"}])
def test_a_wish_to_reason_that_is_neither_is_refused_by_its_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    assert (refusal(CHAT, **wrong).status, refusal(CHAT, **wrong).param) == (400, name)


def rendered() -> str:
    """The table as the page has it."""
    lines = [
        f"| parameter (values that are accepted) | known to | {' | '.join(PATHS)} | |",
        "|---|---" + "|---" * len(PATHS) + "|---|",
    ]
    for row in ROWS:
        treatments = [_treatment(row, path) for path in PATHS]
        cells = [_listed(row), ", ".join(row.known_to), *treatments, row.note]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _listed(row: Row) -> str:
    return ", ".join(
        f"`{name}`" + (f" ({', '.join(map(json.dumps, idle))})" if idle and not row.harmless else "")
        for name, idle in row.names.items()
    )


def _treatment(row: Row, path: str) -> str:
    if path not in row.on:
        return ""
    return "works" if path in row.works else "accepted" if row.harmless else "400"


def test_the_documentation_has_the_table() -> None:
    pages.check("every parameter", rendered())


def test_every_name_and_value_of_the_file_is_read() -> None:
    listed = [cell for _, cell, *_ in rows_of("parameters_within.txt")]
    assert [_listed(row) for inside in INSIDE.values() for row in inside] == listed


def test_what_stands_within_others_is_said_where_they_are() -> None:
    notes = {name: row.note for row in ROWS for name in row.names}
    for where, inside in INSIDE.items():
        for name in (name for row in inside for name in row.names):
            assert f"`{name}`" in notes[where.split("[")[0]]
