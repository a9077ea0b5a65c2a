"""Parameters of requests with usual values, values at their bounds and beyond, and wrong ones; and parameters together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .conversations import deep

Fields = Mapping[str, Any]
Values = Mapping[str, Sequence[Any]]

GENERIC: tuple[Any, ...] = (None, True, False, 0, 1, -1, "", "auto", "none", [], {}, {"a": 1})
ODD: tuple[Any, ...] = (None, "1", True, [], {})
FLAG: tuple[Any, ...] = (None, True, False, 1, "true")
HUGE = 2**63
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
HELLO = {"role": "user", "content": "hello"}


def named(*names: str, **more: Any) -> list[Any]:
    """Tools of chat completions."""
    return [{"type": "function", "function": {"name": name, **more}} for name in names]


def flat_tools(*names: str, **more: Any) -> list[Any]:
    """Tools of responses."""
    return [{"type": "function", "name": name, **more} for name in names]


def own_tools(*names: str, **more: Any) -> list[Any]:
    """Tools of Anthropic."""
    return [{"name": name, "input_schema": {"type": "object"}, **more} for name in names]


def space(name: Any, *tools: Any, **more: Any) -> dict[str, Any]:
    return {"type": "namespace", "name": name, "tools": list(tools), **more}


COMMON: Values = {
    "model": (..., None, "", "n", "other", 5),
    "temperature": (0, 0.5, 1, 2, 2.01, -0.01, *ODD),
    "top_p": (0, 0.5, 1, 1.01, -0.01, *ODD),
    "top_k": (-2, -1, 0, 1, 40, 1.0, 1.5, HUGE, *ODD),
    "min_p": (0, 0.05, 1, 1.01, -0.01, *ODD),
    "seed": (0, 1, 7.0, 7.5, -1, -(2**63), 2**63 - 1, HUGE, *ODD),
    "repetition_penalty": (0, 0.01, 0.005, 1, 1.5, 100, 100.5, -1, *ODD),
    "repeat_penalty": (0, 0.01, 1.2, 101, *ODD),
    "frequency_penalty": (-2, 2, 0, 0.5, 2.01, -2.01, *ODD),
    "presence_penalty": (-2, 2, 0, 0.5, 2.01, -2.01, *ODD),
    "min_tokens": (0, 1, 5, 10, 11, 16, 17, -1, 1.5, HUGE, *ODD),
    "ignore_eos": FLAG,
    "stop_token_ids": ([0], [1, 2], [2**31 - 1], [2**31], [-1], [1, -1], [True], [1.0], *ODD),
    "repetition_detection": (
        {"max_pattern_size": 0}, {"max_pattern_size": 4, "min_count": 2}, {"max_pattern_size": 4, "min_count": 1},
        {"max_pattern_size": 4, "min_pattern_size": 4, "min_count": 1000}, {"max_pattern_size": 4},
        {"max_pattern_size": 4, "min_pattern_size": 5, "min_count": 3}, {"max_pattern_size": 4096, "min_count": 1001},
        {"max_pattern_size": 4096, "min_pattern_size": 2, "min_count": 3}, {"max_pattern_size": 4097},
        {"min_count": 1}, {"max_pattern_size": -1}, {"max_pattern_size": 1, "min_pattern_size": -1}, {"min_count": -1}, *ODD,
    ),
    "logit_bias": (
        {"5": 1}, {"5": -100, "0": 100}, {"5": 100.5}, {"5": -100.5}, {"x": 1}, {"5": "1"}, {"": 1}, {"-1": 1}, {"5": None},
        {"999999999": 1}, {"1234567890": 1}, {"²": 1}, {"٣": 1}, *ODD,
    ),
    "stream": FLAG,
    "unknown_to_all": (1,),
    "store": (True, "x"),
}  # fmt: skip
FEWER: Values = {name: values[::2] for name, values in COMMON.items()}
_OF_OPENAI: Values = {
    "stop": ("x", "", ["x"], ["a", "b", "c", "d"], ["a", "b", "c", "d", "e"], [""], ["a", ""], [5], 5, *ODD),
    "stream_options": (
        {}, {"include_usage": True}, {"include_usage": False}, {"include_usage": 1}, {"include_obfuscation": True},
        {"continuous_usage_stats": True}, {"continuous_usage_stats": False}, {"continuous_usage_stats": 0}, *ODD,
    ),
    "prompt_cache_key": ("k", "", 5),
    "session_id": ("s", "", 5),
}  # fmt: skip
OF_OPENAI: Values = {name: values[::3] for name, values in {**COMMON, **_OF_OPENAI}.items()}
FORMS: Values = {
    "response_format": (
        {"type": "text"}, {"type": "json_object"}, {"type": "json_object", "schema": SCHEMA}, {"type": "json_object", "schema": 5},
        {"type": "json_schema"}, {"type": "json_schema", "json_schema": {}}, {"type": "json_schema", "json_schema": 5},
        {"type": "json_schema", "json_schema": {"schema": SCHEMA, "name": "s", "strict": True}},
        {"type": "json_schema", "json_schema": {"schema": True}}, {"type": "json_schema", "json_schema": {"schema": "{}"}},
        {"type": "json_schema", "json_schema": {"schema": "{"}}, {"type": "json_schema", "json_schema": {"schema": [1]}},
        {"type": "structural_tag"}, {"type": "grammar"}, {}, *ODD,
    ),
    "structured_outputs": (
        {}, {"json": SCHEMA}, {"json": "{}"}, {"regex": "a+"}, {"regex": ""}, {"regex": 5}, {"choice": ["a.b", "c"]}, {"choice": []},
        {"choice": ["a", ""]}, {"choice": ["a", 5]}, {"choice": "a"}, {"json_object": True}, {"json_object": False}, {"json_object": 5},
        {"grammar": "x"}, {"structural_tag": {}}, {"whitespace_pattern": "x"}, {"disable_additional_properties": True},
        {"disable_additional_properties": False}, {"disable_fallback": True}, {"json": SCHEMA, "regex": "a"},
        {"json": SCHEMA, "grammar": None}, *ODD,
    ),
    "guided_json": (SCHEMA, "{}", "x", 5, [1], True, None),
    "guided_regex": ("a+", "", 5, None),
    "guided_choice": (["a", "b"], [], ["a", ""], "a", None),
    "json_schema": (SCHEMA, "{}", 5, False, None),
}  # fmt: skip
CHAT_TOOLS: Values = {
    "tools": (
        [], named("f"), named("f", "g"), named("f", "f"), named("f", description="d", parameters=SCHEMA, strict=True),
        named("f", strict=False), named("f", strict=None), named("f", strict=5), named("f", description=5), named("f", parameters=5),
        named("f", parameters={"a": deep(61)}), named("f", parameters={"a": deep(62)}), named("f", parameters={"a": deep(63)}),
        named("f", defer_loading=True), named("f", defer_loading=False), named(""), named("f", parameters={}, description=""),
        [{"type": "function", "function": {}}], [{"type": "function"}], [{"type": "custom", "function": {"name": "f"}}],
        [{"function": {"name": "f"}}], [*named("f"), {"type": "function", "defer_loading": True, "function": {"name": "g"}}],
        [*named("f"), *named("g", strict=True)], [*named("f"), 5], *ODD,
    ),
    "tool_choice": (
        "auto", "none", "required", "f", {"type": "function", "function": {"name": "f"}}, {}, {"type": "allowed_tools"}, *ODD,
    ),
    "parallel_tool_calls": FLAG,
}  # fmt: skip
REASONING: Values = {
    "reasoning_effort": ("none", "minimal", "low", "medium", "high", "xhigh", "max", "most", *ODD),
    "thinking": (
        True, False, None, 5, "high", {"type": "enabled"}, {"type": "disabled"}, {"type": "adaptive"}, {"type": "auto"},
        {"type": "x"}, {}, [],
    ),
    "enable_thinking": FLAG,
    "think": (*FLAG, "high", "none", "most", ""),
    "chat_template_kwargs": ({}, {"a": 1}, {"enable_thinking": True, "b": None}, {"a": deep(62)}, {"a": deep(63)}, *ODD),
}  # fmt: skip

CHAT: Values = {
    **COMMON,
    **_OF_OPENAI,
    **FORMS,
    **CHAT_TOOLS,
    **REASONING,
    "messages": (None, [], "x", {}, [5]),
    "max_tokens": (0, 1, 5, 5.0, 5.5, -1, HUGE, *ODD),
    "max_completion_tokens": (0, 1, 5, *ODD),
    "n": (0, 1, 2, 8, 9, 2.0, *ODD),
    "logprobs": (*FLAG, 0),
    "top_logprobs": (0, 1, 20, 21, -1, *ODD),
    "return_token_ids": FLAG,
    "return_groups": FLAG,
}
TEXT: Values = {
    **OF_OPENAI,
    **{name: values[1::4] for name, values in FORMS.items()},
    "prompt": (
        None, ..., "", "x", [], ["a"], ["a", "b"], ["a", ""], ["a", 5], [1, 2], [1, "a"], [1, 2.0], [1, True], [-1], [2**31 - 1], [2**31],
        [1, 2**31], [[1, 2], [3]], [[1], []], [[1], "a"], ["a", [1]], [[1], [True]], [[1], [2, -1]], [True], [None], {}, 5,
    ),
    "max_tokens": (0, 1, 5, 16.0, 5.5, -1, HUGE, *ODD),
    "n": (0, 1, 2, 8, 9, *ODD),
    "best_of": (0, 1, 2, 20, 21, *ODD),
    "logprobs": (False, True, 0, 1, 20, 21, -1, None, "1"),
    "echo": FLAG,
}  # fmt: skip
RESPONSES: Values = {
    **OF_OPENAI,
    "input": (None, ..., "", "x", [], {}, 5, [5], [HELLO]),
    "instructions": ("be", "", None, 5),
    "max_output_tokens": (0, 1, 5, 5.5, HUGE, *ODD),
    "max_tool_calls": (0, 1, *ODD),
    "top_logprobs": (0, 1, 20, 21, -1, *ODD),
    "include": (
        [], ["message.output_text.logprobs"], ["reasoning.encrypted_content"], ["web_search_call.results"], ["x"],
        ["web_search_call.results", "x"], ["message.output_text.logprobs", "reasoning.encrypted_content"], [5], "x", {}, None,
    ),
    "reasoning": (
        {}, {"effort": "none"}, {"effort": "low"}, {"effort": "max"}, {"effort": "most"}, {"effort": None}, {"summary": "auto"},
        {"summary": "concise"}, {"summary": "x"}, {"generate_summary": "detailed"}, {"generate_summary": "x", "summary": "auto"},
        {"generate_summary": "detailed", "summary": "concise"}, {"context": "auto"}, {"context": "all"}, {"mode": "standard"},
        {"mode": "pro"}, {"x": 1}, *ODD,
    ),
    "text": (
        {}, {"format": None}, {"format": {"type": "text"}}, {"format": {"type": "json_object"}}, {"format": {"type": "x"}},
        {"format": {"type": "json_schema", "name": "s", "schema": SCHEMA}}, {"format": {"type": "json_schema", "schema": SCHEMA}},
        {"format": {"type": "json_schema", "name": "s", "schema": SCHEMA, "description": "d", "strict": True}},
        {"format": {"type": "json_schema", "name": "s", "description": 5, "schema": {}}},
        {"format": {"type": "json_schema", "name": "s", "schema": None}}, {"format": {"type": "json_schema", "name": "s", "schema": True}},
        {"format": {"type": "json_schema", "name": "s", "schema": {"a": deep(62)}}},
        {"format": {"type": "json_schema", "name": "s", "schema": {"a": deep(63)}}},
        {"format": 5}, {"verbosity": "low"}, {"x": 1}, *ODD,
    ),
    "metadata": ({}, {"a": "b"}, {"a": None, "b": "c"}, {"a": 5}, *ODD),
    "truncation": ("auto", "disabled", "x", *ODD),
    "parallel_tool_calls": FLAG,
    "chat_template_kwargs": ({"a": 1}, {"a": deep(63)}, {"reasoning_effort": "x"}, 5),
    "safety_identifier": ("u", "", 5),
    "user": ("u", 5),
    "tools": (
        [], flat_tools("f"), flat_tools("f", "g"), flat_tools("f", "f"), flat_tools("f", description="d", parameters=SCHEMA, strict=True),
        flat_tools("f", strict=5), flat_tools("f", description=5), flat_tools("f", parameters=5), flat_tools("f", parameters={"a": deep(63)}),
        flat_tools("f", defer_loading=True), flat_tools(""), flat_tools("f", parameters={}, description="", strict=False),
        [{"name": "f"}], [{"type": "web_search"}], [{"type": "mcp", "server_label": "l" * 70, "name": "ü b"}], [{"type": ""}],
        [space("n", *flat_tools("f", "g"))], [space("n__", *flat_tools("f"), description="d")], [space("n", {"type": "x", "name": "y"})],
        [space("", *flat_tools("f"))], [space(5)], [space("n", 5)], [*flat_tools("f"), space("n", *flat_tools("f")), {"type": "z"}],
        [space("n", *flat_tools("f")), space("m", *flat_tools("f"), *flat_tools("h", strict=True)), *flat_tools("k")],
        [*flat_tools("n__f"), space("n", *flat_tools("f"))], [space("n", *flat_tools("f"), description="")], [5], *ODD,
    ),
    "tool_choice": (
        "auto", "none", "required", "f", {}, {"type": "x"}, {"type": "function"}, {"type": "function", "name": "f"},
        {"type": "allowed_tools", "mode": "auto", "tools": []}, {"type": "allowed_tools", "mode": "required", "tools": []},
        {"type": "allowed_tools"}, *ODD,
    ),
}  # fmt: skip
MESSAGES: Values = {
    **FEWER,
    "max_tokens": (..., 0, 1, 5, 5.0, 5.5, -1, HUGE, *ODD),
    "messages": (None, [], "x", {}, [5]),
    "system": (
        "be", "", [], [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], ["a", None], [{"type": "image"}], [{"x": 1}],
        [{"type": "text", "text": "x-anthropic-billing-header: 1"}, {"type": "text", "text": "b"}], "x-anthropic-billing-header:",
        5, {}, None,
    ),
    "stop_sequences": (["x"], [], ["a", ""], ["a", 5], "x", ["y" * 4096], ["y" * 4097], ["a", "y" * 4097], {}, None),
    "thinking": (
        {"type": "enabled", "budget_tokens": 1}, {"type": "enabled", "budget_tokens": 0}, {"type": "enabled"}, {"type": "disabled"},
        {"type": "adaptive"}, {"type": "between_tools"}, {"type": "auto"}, {"type": "adaptive", "display": "omitted"},
        {"type": "adaptive", "display": "summarized"}, {"type": "adaptive", "display": "x"}, {"type": "disabled", "budget_tokens": "x"},
        True, False, None, 5, "x", {},
    ),
    "output_config": (
        {}, {"effort": "low"}, {"effort": "max"}, {"effort": "none"}, {"effort": None}, {"format": {"type": "json_schema", "schema": SCHEMA}},
        {"format": {"type": "x"}}, {"format": {"type": "json_schema"}}, {"format": 5}, {"format": {"type": "json_schema", "schema": True}},
        {"task_budget": 5}, *ODD,
    ),
    "output_format": ({"type": "json_schema", "schema": SCHEMA}, {"type": "json_schema", "schema": 5}, {"type": "text"}, {}, *ODD),
    "metadata": ({}, {"user_id": "u"}, {"user_id": None}, {"user_id": 5}, *ODD),
    "context_management": ({}, {"edits": []}, None, 5, []),
    "chat_template_kwargs": ({"a": 1}, {"enable_thinking": 5}, {"a": deep(63)}, 5),
    "tools": (
        [], own_tools("f"), own_tools("f", "g"), own_tools("f", "f"), own_tools("f", type="custom"), own_tools("f", description="d"),
        own_tools("f", description=5), own_tools("f", strict=True), own_tools("f", strict=5), own_tools(""), [{"name": "f"}],
        [{"name": "f", "input_schema": 5}], [{"name": "f", "input_schema": {"a": deep(63)}}], [{"type": "bash_20250124", "name": "bash"}],
        [*own_tools("f"), {"type": "web_search"}, {"type": "web_search"}, {"type": "ü"}, {"type": ""}, *own_tools("g", strict=True)],
        [{"type": 5}], [{"type": "a" * 64}, {"type": "b" * 65}], [5], *ODD,
    ),
    "tool_choice": (
        {"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "f"}, {"type": "tool"}, {"type": "none"}, {"type": "x"}, {},
        {"type": "auto", "disable_parallel_tool_use": True}, {"type": "auto", "disable_parallel_tool_use": 5}, "auto", 5, None,
    ),
}  # fmt: skip
EMBEDDINGS: Values = {
    "model": (..., None, "", "n", 5),
    "input": (
        None, ..., "", "x", [], ["a"], ["a", "b"], ["a", ""], ["a", 5], [""], [1, 2], [1, "a"], [1, True], [-1], [0], [2**31 - 1], [2**31],
        [[1, 2], [3]], [[1], []], [[1], "a"], ["a", [1]], [[]], [[1], [2, -1]], [[True]], [None], {}, 5,
    ),
    "encoding_format": ("float", "base64", "x", *ODD),
    "dimensions": (0, 1, 5.0, 5.5, 1 << 20, (1 << 20) + 1, -1, *ODD),
    "messages": (None, True, [], "text", "x"),
    "truncate_prompt_tokens": (None, 5, True, 0),
    "add_special_tokens": (True, False, None),
    "modality": ("text", "image", None),
    "user": ("u",),
}  # fmt: skip
TOKENIZE: Values = {
    "model": (..., None, "", "n", 5),
    "prompt": (None, ..., "", "x", 5, ["a"]),
    "content": ("x", None),
    "messages": (None, [], [HELLO], 5),
    "return_token_strs": FLAG,
    "add_special_tokens": FLAG,
    "add_generation_prompt": FLAG,
    "continue_final_message": FLAG,
    "chat_template": ("x", "", None),
    "mm_processor_kwargs": ({"a": 1}, {}),
    "media_io_kwargs": ({"a": 1}, {}),
}
DETOKENIZE: Values = {
    "model": (..., None, "n", 5),
    "tokens": (None, ..., [], [0], [2**31 - 1], [2**31], [-1], [1, -1], [True], [1.0], "x", {}, 5),
}

BY_PATH: Mapping[str, Values] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": TEXT,
    "/v1/embeddings": EMBEDDINGS,
    "/v1/responses": RESPONSES,
    "/v1/responses/input_tokens": {
        name: RESPONSES[name] for name in ("model", "input", "instructions", "stream")
    },
    "/v1/messages": MESSAGES,
    "/v1/messages/count_tokens": {
        name: MESSAGES[name] for name in ("model", "tool_choice", "thinking", "max_tokens", "stop_sequences")
    },
    "/tokenize": TOKENIZE,
    "/detokenize": DETOKENIZE,
}

F = {"type": "function", "function": {"name": "f"}}
TEXT_FORM = {"format": {"type": "json_schema", "name": "s", "schema": SCHEMA}}


def allowed(mode: Any, *names: str) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def among(mode: Any, *tools: Any) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": list(tools)}


def chosen(name: Any, **more: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, **more}


_BIASES = {str(token): 1 for token in range(1025)}
OF_ALL: Mapping[str, Fields] = {
    "1024 biases": {"logit_bias": dict(list(_BIASES.items())[:1024])},
    "1025 biases": {"logit_bias": _BIASES},
    "1024 stop tokens": {"stop_token_ids": [5] * 1024},
    "1025 stop tokens": {"stop_token_ids": [5] * 1025},
    "top_p 0, temperature 0.5": {"top_p": 0, "temperature": 0.5},
    "both penalties": {"repetition_penalty": 1.5, "repeat_penalty": 1.2},
    "both penalties, the first one off": {"repetition_penalty": 0, "repeat_penalty": 1.2},
    "all defaults": {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1},
    "min_tokens and ignore_eos": {"min_tokens": 3, "ignore_eos": True, "stop_token_ids": [1]},
}
OF_FORMS: Mapping[str, Fields] = {
    "two forms": {"guided_json": SCHEMA, "guided_regex": "a"},
    "a format and a choice": {"response_format": {"type": "json_object"}, "guided_choice": ["a"]},
    "a text format and a regex": {"response_format": {"type": "text"}, "guided_regex": "a"},
    "three forms": {"guided_json": SCHEMA, "json_schema": SCHEMA, "structured_outputs": {"regex": "a"}},
    "1024 choices": {"guided_choice": ["a"] * 1024},
    "1025 choices": {"guided_choice": ["a"] * 1025},
    "a regex of 16384": {"guided_regex": "a" * 16384},
    "a regex of 16385": {"guided_regex": "a" * 16385},
    "a schema of 262144 bytes": {"guided_json": {"a": "b" * (262144 - 8)}},
    "a schema of 262145 bytes": {"guided_json": {"a": "b" * (262145 - 8)}},
    "a schema of 63 levels": {"json_schema": {"a": deep(62)}},
    "a schema of 64 levels": {"json_schema": {"a": deep(63)}},
}
TOGETHER: Mapping[str, Mapping[str, Fields]] = {
    "/v1/chat/completions": {
        **OF_ALL,
        **OF_FORMS,
        "both maxima": {"max_tokens": 5, "max_completion_tokens": 7},
        "min_tokens 7 of 7": {"min_tokens": 7, "max_completion_tokens": 7},
        "min_tokens 8 of 7": {"min_tokens": 8, "max_completion_tokens": 7},
        "logprobs": {"logprobs": True, "top_logprobs": 3},
        "no logprobs": {"logprobs": False, "top_logprobs": 3},
        "no logprobs, none": {"logprobs": False, "top_logprobs": 0},
        "logprobs in a stream": {"logprobs": True, "stream": True},
        "two answers": {"n": 2, "seed": 2**63 - 1},
        "two answers in a stream": {"n": 2, "stream": True, "stream_options": {"include_usage": True}},
        "eight answers": {"n": 8, "seed": -1},
        "usage": {"stream": True, "stream_options": {"include_usage": True}},
        "token ids": {"return_token_ids": True, "logprobs": True},
        "token ids in a stream": {"return_token_ids": True, "stream": True},
        "tool f": {"tools": named("f"), "tool_choice": F},
        "tool g": {"tools": named("f"), "tool_choice": {"type": "function", "function": {"name": "g"}}},
        "tool nameless": {"tools": named("f"), "tool_choice": {"type": "function", "function": {}}},
        "tool without function": {"tools": named("f"), "tool_choice": {"type": "function"}},
        "tools required": {"tools": named("f", "g"), "tool_choice": "required"},
        "tools not offered": {"tools": named("f", strict=True), "tool_choice": "none"},
        "tools offered": {"tools": named("f", strict=True), "tool_choice": "auto"},
        "strict second": {"tools": [*named("f"), *named("g", strict=True)], "tool_choice": "required"},
        "one call": {"tools": named("f"), "parallel_tool_calls": False},
        "one call not offered": {"tools": named("f"), "parallel_tool_calls": False, "tool_choice": "none"},
        "many calls": {"tools": named("f"), "parallel_tool_calls": True},
        "allowed auto": {"tools": named("f", "g"), "tool_choice": allowed("auto", "g")},
        "allowed required": {"tools": named("f", "g"), "tool_choice": allowed("required", "g", "f")},
        "allowed none": {"tools": named("f"), "tool_choice": allowed("auto")},
        "allowed another": {"tools": named("f"), "tool_choice": allowed("auto", "f", "z")},
        "allowed odd": {"tools": named("f"), "tool_choice": allowed("x", "f")},
        "allowed without tools": {"tool_choice": allowed("auto", "f")},
        "a tool and a form": {"tools": named("f", strict=True), "guided_regex": "a", "tool_choice": "required"},
        "a form and tools": {"tools": named("f"), "guided_regex": "a"},
        "thinking and effort": {"thinking": True, "reasoning_effort": "none"},
        "effort none, think high": {"reasoning_effort": "none", "think": "high"},
        "think high": {"think": "high", "enable_thinking": False},
        "think true": {"think": True, "enable_thinking": False},
        "thinking first": {"thinking": False, "enable_thinking": True, "think": True},
        "enable first": {"enable_thinking": True, "think": "none"},
        "effort and thinking": {"reasoning_effort": "low", "thinking": {"type": "disabled"}},
        "template wins": {"thinking": True, "reasoning_effort": "low", "chat_template_kwargs": {"thinking": 1}},
        "both sessions": {"prompt_cache_key": "k", "session_id": "s"},
        "empty first session": {"prompt_cache_key": "", "session_id": "s"},
        "groups in a stream": {"return_groups": True, "stream": True},
    },
    "/v1/completions": {
        **OF_ALL,
        **OF_FORMS,
        "two answers": {"n": 2},
        "two answers of two": {"n": 2, "best_of": 2},
        "two answers of three": {"n": 2, "best_of": 3},
        "two answers to two": {"n": 2, "prompt": ["a", "b"], "seed": 5},
        "two answers to two in a stream": {"n": 2, "prompt": ["a", "b"], "stream": True, "stream_options": {"include_usage": True}},
        "two prompts": {"prompt": ["a", [1]], "stream": True},
        "64 prompts": {"prompt": ["a"] * 64},
        "65 prompts": {"prompt": ["a"] * 65},
        "too many tokens": {"prompt": [1] * ((1 << 20) + 1)},
        "scored": {"echo": True, "logprobs": 2, "max_tokens": 0},
        "scored, some tokens": {"echo": True, "logprobs": 0, "max_tokens": 5},
        "echo, no tokens": {"echo": True, "max_tokens": 0},
        "echo false, no tokens": {"echo": False, "logprobs": 1, "max_tokens": 0},
        "echo in a stream": {"echo": True, "stream": True},
        "logprobs in a stream": {"logprobs": 2, "stream": True},
        "logprobs of echo in a stream": {"logprobs": 2, "stream": True, "echo": True},
        "logprobs false of echo in a stream": {"logprobs": False, "stream": True, "echo": True},
        "usage": {"stream": True, "stream_options": {"include_usage": True}},
        "min_tokens 16 of 16": {"min_tokens": 16},
        "min_tokens 5 of 4": {"min_tokens": 5, "max_tokens": 4},
        "both sessions": {"prompt_cache_key": "k", "session_id": "s"},
    },
    "/v1/responses": {
        **OF_ALL,
        "16 of metadata": {"metadata": {str(at): "x" for at in range(16)}},
        "17 of metadata": {"metadata": {str(at): "x" for at in range(17)}},
        "32 dropped": {"tools": [{"type": f"t{at}"} for at in range(32)]},
        "33 dropped": {"tools": [{"type": f"t{at}"} for at in range(33)]},
        "40 dropped": {"tools": [{"type": f"t{at}"} for at in range(40)]},
        "tool f": {"tools": flat_tools("f"), "tool_choice": chosen("f")},
        "tool z": {"tools": flat_tools("f"), "tool_choice": chosen("z")},
        "tool required": {"tools": flat_tools("f"), "tool_choice": "required"},
        "tool none": {"tools": flat_tools("f", strict=True), "tool_choice": "none"},
        "tool strict": {"tools": flat_tools("f", strict=True)},
        "tool in a space": {"tools": [space("n", *flat_tools("f"))], "tool_choice": chosen("f")},
        "tool in its space": {"tools": [space("n", *flat_tools("f"))], "tool_choice": chosen("f", namespace="n")},
        "tool in another space": {"tools": [space("n", *flat_tools("f"))], "tool_choice": chosen("f", namespace="m")},
        "tool twice": {"tools": [*flat_tools("f"), space("n", *flat_tools("f"))], "tool_choice": chosen("f")},
        "tool twice, spaced": {"tools": [*flat_tools("f"), space("n", *flat_tools("f"))], "tool_choice": chosen("f", namespace="n")},
        "allowed": {"tools": flat_tools("f", "g"), "tool_choice": among("required", chosen("g"), {"type": "x"})},
        "allowed auto": {"tools": flat_tools("f", "g"), "tool_choice": among("auto", chosen("g"))},
        "allowed none": {"tools": flat_tools("f", strict=True), "tool_choice": among("auto", {"type": "x"})},
        "allowed none required": {"tools": flat_tools("f"), "tool_choice": among("required", {"type": "x"})},
        "allowed z": {"tools": flat_tools("f"), "tool_choice": among("auto", chosen("f"), chosen("z"))},
        "a format and tools": {"tools": flat_tools("f", strict=True), "text": TEXT_FORM},
        "one call": {"tools": flat_tools("f"), "parallel_tool_calls": False},
        "one call not offered": {"tools": flat_tools("f"), "parallel_tool_calls": False, "tool_choice": "none"},
        "only dropped, one call": {"tools": [{"type": "x"}], "parallel_tool_calls": False},
        "summary in a stream": {"reasoning": {"summary": "auto"}, "stream": True},
        "sealed": {"include": ["reasoning.encrypted_content"], "stream": True},
        "logprobs": {"include": ["message.output_text.logprobs"], "top_logprobs": 2, "stream": True},
        "all repeated": {"user": "u", "prompt_cache_key": "k", "safety_identifier": "s", "metadata": {"a": "b"}, "truncation": "auto"},
        "effort none and kwargs": {"reasoning": {"effort": "none"}, "chat_template_kwargs": {"thinking": 5, "x": 1}},
        "min_tokens 5 of 4": {"min_tokens": 5, "max_output_tokens": 4},
        "instructions and input": {"instructions": "be", "input": [HELLO]},
    },
    "/v1/messages": {
        **OF_ALL,
        "64 stops": {"stop_sequences": ["x"] * 64},
        "65 stops": {"stop_sequences": ["x"] * 65},
        "33 dropped": {"tools": [{"type": f"t{at}"} for at in range(33)]},
        "tool f": {"tools": own_tools("f", "g"), "tool_choice": {"type": "tool", "name": "f"}},
        "tool z": {"tools": own_tools("f"), "tool_choice": {"type": "tool", "name": "z"}},
        "any tool": {"tools": own_tools("f", "g"), "tool_choice": {"type": "any"}},
        "one tool": {"tools": own_tools("f"), "tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
        "that tool once": {"tools": own_tools("f"), "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True}},
        "one tool at most": {"tools": own_tools("f"), "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        "no tool": {"tools": own_tools("f", strict=True), "tool_choice": {"type": "none", "disable_parallel_tool_use": True}},
        "strict second": {"tools": [*own_tools("f"), *own_tools("g", strict=True)]},
        "a form and tools": {"tools": own_tools("f"), "output_format": {"type": "json_schema", "schema": SCHEMA}},
        "both forms": {"output_config": {"format": {"type": "json_schema", "schema": {}}}, "output_format": {"type": "json_schema", "schema": SCHEMA}},
        "effort and older form": {"output_config": {"effort": "low"}, "output_format": {"type": "json_schema", "schema": SCHEMA}},
        "template wins": {"thinking": {"type": "disabled"}, "chat_template_kwargs": {"thinking": 5}},
        "a stream without thinking": {"stream": True, "thinking": {"type": "adaptive", "display": "omitted"}},
        "edits in a stream": {"stream": True, "context_management": {}},
        "min_tokens 10 of 10": {"min_tokens": 10},
        "system and messages": {"system": "be", "messages": [{"role": "system", "content": "x"}, HELLO]},
        "stops in a stream": {"stream": True, "stop_sequences": ["so"]},
    },
    "/v1/messages/count_tokens": {
        "refused": {"priority": 5},
        "33 dropped": {"tools": [{"type": f"t{at}"} for at in range(33)]},
        "no tool": {"tools": own_tools("f"), "tool_choice": {"type": "none"}},
        "template": {"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}},
    },
    "/v1/embeddings": {
        "2048 texts": {"input": ["a"] * 2048},
        "2049 texts": {"input": ["a"] * 2049},
        "tokens in base64": {"input": [[1], [2]], "encoding_format": "base64", "dimensions": 2},
    },
    "/tokenize": {
        "both": {"prompt": "x", "messages": [HELLO]},
        "messages": {"prompt": None, "messages": [HELLO], "add_special_tokens": True, "add_generation_prompt": False},
        "messages without special tokens": {"prompt": None, "messages": [HELLO], "add_special_tokens": False},
        "messages continued": {"prompt": None, "messages": [HELLO], "continue_final_message": True},
        "messages shown": {"prompt": None, "messages": [HELLO], "return_token_strs": True},
        "messages with tools": {"prompt": None, "messages": [HELLO], "tools": named("f"), "tool_choice": "auto"},
        "messages without tools": {"prompt": None, "messages": [HELLO], "tools": named("f"), "tool_choice": "none"},
        "messages with thinking": {"prompt": None, "messages": [HELLO], "enable_thinking": False},
        "messages with an older image": {"prompt": None, "messages": [{"role": "user", "content": [{"type": "image"}]}, {"role": "assistant", "content": "x"}]},
        "content": {"prompt": None, "content": "x"},
        "neither": {"prompt": None},
    },
}  # fmt: skip
