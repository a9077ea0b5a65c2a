"""Random requests as OpenAI's and Anthropic's published types allow them, whatever a model or an agent has done in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anthropic.types import MessageParam
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam
from openai.types.responses import FunctionToolParam, ResponseInputItemParam
from pydantic import TypeAdapter

JSON = Mapping[str, Any]

ARGUMENTS: Sequence[JSON] = (
    {},
    {"path": "a.txt"},
    {"text": "\U0001f999 a \U0001f999"},
    {"path": 'q"uo\\te\n{', "n": [1, 2.5, None, True], "deep": {"a": {"b": [{}]}}, "": "é"},
)
NO_OBJECTS = ("", " ", "[1,2]", "null", "5", '"text"', "text", "{not json}", "}")
PIXEL = "iVBORw0KGgo="
NAMES = ("read_file", "Bash", "mcp__server__look-up", "get_weather")

names = st.sampled_from(NAMES)
texts = st.one_of(
    st.sampled_from(["", " ", "hi", "<think>a</think>", "{{ x }}", "<tool_call>", "</tool_response>\n"]),
    st.text(max_size=12),
    st.sampled_from(["cut \ud83d", "\udd99"]),
)


@st.composite
def arguments(draw: st.DrawFn) -> str:
    """The arguments of a call: an object, one that was cut off anywhere, or anything else."""
    whole = json.dumps(draw(st.sampled_from(ARGUMENTS)), ensure_ascii=draw(st.booleans()))
    return draw(
        st.one_of(
            st.just(whole),
            st.integers(0, len(whole)).map(lambda end: whole[:end]),
            st.sampled_from(NO_OBJECTS),
        )
    )


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> Any:
    """A JSON Schema, as tools have them."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.booleans())
    kinds: list[str] = [
        "string",
        "integer",
        "number",
        "boolean",
        "null",
        *(["object", "array"] if depth else []),
    ]
    kind = draw(
        st.one_of(st.sampled_from(kinds), st.lists(st.sampled_from(kinds[:5]), min_size=1, max_size=3))
    )
    schema: dict[str, Any] = {"type": kind} if draw(st.integers(0, 7)) else {}
    if draw(st.booleans()):
        schema["description"] = draw(texts)
    if draw(st.integers(0, 5)) == 0:
        schema["enum"] = draw(st.lists(st.sampled_from(["a", 1, None, True, 2.5]), min_size=1, unique=True))
    if draw(st.integers(0, 5)) == 0:
        schema["default"] = draw(st.sampled_from([None, 1, "a", [], {}]))
    if depth and draw(st.integers(0, 5)) == 0:
        way = draw(st.sampled_from(["anyOf", "oneOf", "allOf"]))
        schema[way] = draw(st.lists(schemas(depth - 1), min_size=1, max_size=2))
    if depth and kind == "object":
        schema |= draw(objects(depth - 1))
    if depth and kind == "array" and draw(st.booleans()):
        schema["items"] = draw(schemas(depth - 1))
    return schema


@st.composite
def objects(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    """The schema of an object."""
    if draw(st.integers(0, 5)) == 0:
        return draw(
            st.sampled_from([{}, {"type": "object"}, {"type": "object", "additionalProperties": False}])
        )
    keys = st.sampled_from(["path", "type", "items", "properties", "a b", "é"])
    made: dict[str, Any] = {
        "type": "object",
        "properties": draw(st.dictionaries(keys, schemas(depth), max_size=3)),
    }
    if draw(st.booleans()):
        every: list[str] = list(made["properties"])
        made["required"] = every if draw(st.booleans()) else []
    if draw(st.booleans()):
        made["additionalProperties"] = draw(st.one_of(st.booleans(), schemas(0)))
    return made


@st.composite
def functions(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Functions with different names, some without description or parameters."""
    found = []
    for name in draw(st.lists(names, max_size=3, unique=True)):
        function: dict[str, Any] = {"name": name}
        if draw(st.booleans()):
            function["description"] = draw(texts)
        if draw(st.integers(0, 4)):
            function["parameters"] = draw(objects(2))
        found.append(function)
    return found


def _pick(draw: st.DrawFn, ids: list[str]) -> str:
    """The id of an earlier call, or of none."""
    made: int = draw(st.integers(0, 7))
    if ids and made:
        return ids.pop(draw(st.integers(0, len(ids) - 1)))
    return draw(st.sampled_from(["call_unknown", "toolu_01A", "x"]))


def _id(draw: st.DrawFn, ids: list[str]) -> str:
    """The id of a new call; seldom that of an earlier one."""
    form = draw(
        st.sampled_from(
            ["call_{:024d}", "toolu_{:04d}", "functions.Bash:{}", "{:09d}", "chatcmpl-tool-{}", ""]
        )
    )
    ids.append(form.format(len(ids)) if draw(st.integers(0, 19)) else "call_same")
    return ids[-1]


# --- chat completions -----------------------------------------------------------------------------------


def _chat_part(draw: st.DrawFn) -> dict[str, Any]:
    return draw(
        st.one_of(
            texts.map(lambda text: {"type": "text", "text": text}),
            st.just({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}),
            st.just({"type": "input_audio", "input_audio": {"data": PIXEL, "format": "wav"}}),
            st.just({"type": "file", "file": {"filename": "a.pdf", "file_data": PIXEL}}),
        )
    )


def _chat_texts(draw: st.DrawFn) -> Any:
    parts = st.lists(texts.map(lambda text: {"type": "text", "text": text}), max_size=2)
    return draw(st.one_of(texts, parts))


def _chat_assistant(draw: st.DrawFn, ids: list[str]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant"}
    content = draw(st.sampled_from(["text", "null", "absent", "refusal"]))
    if content == "text":
        message["content"] = _chat_texts(draw)
    elif content != "absent":
        message["content"] = None if content == "null" else [{"type": "refusal", "refusal": "No."}]
    if draw(st.integers(0, 3)) == 0:
        message["reasoning_content"] = draw(texts)
    calls: list[Any] = []
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.integers(0, 9)) == 0:
            custom = {"name": draw(names), "input": draw(texts)}
            calls.append({"id": _id(draw, ids), "type": "custom", "custom": custom})
        else:
            function = {"name": draw(names), "arguments": draw(arguments())}
            calls.append({"id": _id(draw, ids), "type": "function", "function": function})
    if calls:
        message["tool_calls"] = calls
    elif draw(st.integers(0, 9)) == 0:
        message["function_call"] = {"name": draw(names), "arguments": draw(arguments())}
    return message


def _chat_message(draw: st.DrawFn, ids: list[str]) -> dict[str, Any]:
    match draw(
        st.sampled_from(
            ["user", "user", "assistant", "assistant", "tool", "tool", "system", "developer", "function"]
        )
    ):
        case "user":
            parts = draw(st.integers(0, 2)) == 0
            content = [_chat_part(draw) for _ in range(draw(st.integers(0, 3)))] if parts else draw(texts)
            return {"role": "user", "content": content, **draw(st.sampled_from([{}, {"name": "ann"}]))}
        case "assistant":
            return _chat_assistant(draw, ids)
        case "tool":
            return {"role": "tool", "tool_call_id": _pick(draw, ids), "content": _chat_texts(draw)}
        case "function":
            return {"role": "function", "name": draw(names), "content": draw(st.one_of(texts, st.none()))}
        case role:
            return {"role": role, "content": _chat_texts(draw)}


@st.composite
def chats(draw: st.DrawFn) -> dict[str, Any]:
    """The body of a chat completion."""
    ids: list[str] = []
    messages = [_chat_message(draw, ids) for _ in range(draw(st.integers(1, 30)))]
    body: dict[str, Any] = {"messages": messages}
    tools = [{"type": "function", "function": function} for function in draw(functions())]
    return {**body, "tools": tools} if tools else body


# --- responses ------------------------------------------------------------------------------------------


def _input_part(draw: st.DrawFn) -> dict[str, Any]:
    return draw(
        st.one_of(
            texts.map(lambda text: {"type": "input_text", "text": text}),
            st.just({"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PIXEL}"}),
            st.just({"type": "input_file", "filename": "a.pdf", "file_data": PIXEL}),
        )
    )


OTHER_ITEMS: Sequence[JSON] = (
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    },
    {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["x"]},
    {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PIXEL},
    {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "status": "completed",
        "code": "1",
        "container_id": "c",
        "outputs": [],
    },
    {
        "type": "local_shell_call",
        "id": "ls_1",
        "call_id": "call_shell",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    },
    {"type": "local_shell_call_output", "id": "call_shell", "output": "a.txt"},
    {"type": "shell_call", "call_id": "call_sh", "action": {"commands": ["ls"]}},
    {
        "type": "shell_call_output",
        "call_id": "call_sh",
        "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    {
        "type": "apply_patch_call",
        "call_id": "call_p",
        "status": "completed",
        "operation": {"type": "delete_file", "path": "a"},
    },
    {"type": "apply_patch_call_output", "call_id": "call_p", "status": "completed"},
    {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "call_c",
        "status": "completed",
        "pending_safety_checks": [],
        "action": {"type": "screenshot"},
    },
    {
        "type": "computer_call_output",
        "call_id": "call_c",
        "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,x"},
    },
    {"type": "mcp_call", "id": "mcp_1", "name": "look", "arguments": "{}", "server_label": "s"},
    {"type": "mcp_list_tools", "id": "mcp_2", "server_label": "s", "tools": []},
    {"type": "mcp_approval_request", "id": "mcp_3", "name": "look", "arguments": "{}", "server_label": "s"},
    {"type": "mcp_approval_response", "approval_request_id": "mcp_3", "approve": True},
    {"type": "compaction", "encrypted_content": "gAAAA"},
)
"""Items of tools that only the provider has, or that a client runs in a way of its own."""


def _item(draw: st.DrawFn, ids: list[str]) -> dict[str, Any]:
    match draw(
        st.sampled_from(
            ["message", "said", "reasoning", "call", "call", "output", "output", "custom", "other"]
        )
    ):
        case "message":
            role = draw(st.sampled_from(["user", "user", "system", "developer"]))
            parts = [_input_part(draw) for _ in range(draw(st.integers(0, 2)))]
            content = draw(st.one_of(texts, st.just(parts)))
            return {"type": "message", "role": role, "content": content}
        case "said":
            content = [{"type": "output_text", "text": draw(texts), "annotations": []}]
            return {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        case "reasoning":
            summary = [{"type": "summary_text", "text": draw(texts)}]
            return {"type": "reasoning", "id": "rs_1", "summary": draw(st.sampled_from([[], summary]))}
        case "call":
            called = {"call_id": _id(draw, ids), "name": draw(names), "arguments": draw(arguments())}
            return {"type": "function_call", **called}
        case "custom":
            called = {"call_id": _id(draw, ids), "name": draw(names), "input": draw(texts)}
            return {"type": "custom_tool_call", **called}
        case "output":
            parts = [_input_part(draw) for _ in range(draw(st.integers(0, 2)))]
            kind = draw(st.sampled_from(["function_call_output", "custom_tool_call_output"]))
            return {
                "type": kind,
                "call_id": _pick(draw, ids),
                "output": draw(st.one_of(texts, st.just(parts))),
            }
        case _:
            return dict(draw(st.sampled_from(OTHER_ITEMS)))


@st.composite
def responses(draw: st.DrawFn) -> dict[str, Any]:
    """The body of a response."""
    ids: list[str] = []
    body: dict[str, Any] = {"input": [_item(draw, ids) for _ in range(draw(st.integers(1, 30)))]}
    if draw(st.booleans()):
        body["instructions"] = draw(texts)
    body["tools"] = [
        {"type": "function", "strict": False, "parameters": None, **f} for f in draw(functions())
    ]
    return body


# --- messages -------------------------------------------------------------------------------------------


_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
_PDF = {"type": "base64", "media_type": "application/pdf", "data": PIXEL}
OTHER_BLOCKS: Sequence[JSON] = (
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    {
        "type": "code_execution_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": {"type": "code_execution_tool_result_error", "error_code": "unavailable"},
    },
    {"type": "container_upload", "file_id": "file_1"},
    {"type": "redacted_thinking", "data": "x"},
)
"""Blocks of tools that run at Anthropic."""


def _block(draw: st.DrawFn) -> dict[str, Any]:
    return draw(
        st.one_of(
            texts.map(lambda text: {"type": "text", "text": text}),
            st.just(_IMAGE),
            st.just({"type": "document", "title": "a.pdf", "source": _PDF}),
            texts.map(
                lambda text: {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": text},
                }
            ),
            texts.map(
                lambda text: {
                    "type": "search_result",
                    "source": "s",
                    "title": "t",
                    "content": [{"type": "text", "text": text}],
                }
            ),
        )
    )


def _result(draw: st.DrawFn, ids: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": _pick(draw, ids)}
    content = draw(st.sampled_from(["absent", "text", "blocks"]))
    if content != "absent":
        blocks = [_block(draw) for _ in range(draw(st.integers(0, 2)))]
        result["content"] = blocks if content == "blocks" else draw(texts)
    return {**result, "is_error": draw(st.booleans())}


def _turn(draw: st.DrawFn, ids: list[str]) -> dict[str, Any]:
    if draw(st.booleans()):
        blocks = [
            _result(draw, ids) if draw(st.booleans()) else _block(draw)
            for _ in range(draw(st.integers(0, 4)))
        ]
        return {"role": "user", "content": draw(st.one_of(texts, st.just(blocks)))}
    said: list[Any] = []
    for kind in draw(st.lists(st.sampled_from(["text", "thinking", "call", "call", "other"]), max_size=5)):
        if kind == "text":
            said.append({"type": "text", "text": draw(texts)})
        elif kind == "thinking":
            said.append({"type": "thinking", "thinking": draw(texts), "signature": "x"})
        elif kind == "call":
            given = draw(st.sampled_from(ARGUMENTS))
            said.append({"type": "tool_use", "id": _id(draw, ids), "name": draw(names), "input": given})
        else:
            said.append(dict(draw(st.sampled_from(OTHER_BLOCKS))))
    return {"role": "assistant", "content": draw(st.one_of(texts, st.just(said)))}


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """The body of a message. Its last message is the user's: no answer continues one of the model here."""
    ids: list[str] = []
    turns = [_turn(draw, ids) for _ in range(draw(st.integers(0, 29)))]
    body: dict[str, Any] = {"max_tokens": 9, "messages": [*turns, {"role": "user", "content": draw(texts)}]}
    if draw(st.booleans()):
        body["system"] = draw(st.one_of(texts, texts.map(lambda text: [{"type": "text", "text": text}])))
    body["tools"] = [
        {
            "input_schema": {"type": "object"},
            **{_ANTHROPIC.get(key, key): value for key, value in each.items()},
        }
        for each in draw(functions())
    ]
    return body


_ANTHROPIC = {"parameters": "input_schema"}

# --- as other servers take them ---------------------------------------------------------------------------

_IDS = ("id", "call_id", "tool_call_id", "tool_use_id")
ANY: Sequence[Any] = (
    None,
    "",
    "a",
    0,
    7,
    True,
    2.5,
    [],
    {},
    [None],
    ["a", {"b": [1]}],
    {"a": {"b": None}},
    [[]],
    [{}],
)


@st.composite
def loosened(draw: st.DrawFn, drawn: tuple[str, JSON]) -> tuple[str, JSON]:
    """A body with what clients send that have talked to servers which read more than is published."""
    dialect, body = drawn
    key = "input" if dialect == "responses" else "messages"
    return dialect, {**body, key: [_loose(draw, each) for each in body[key]]}


def _loose(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, list):
        return [_loose(draw, each) for each in value]
    if not isinstance(value, dict):
        return value
    if "text" in value and value.get("type") in ("text", "input_text", "output_text") and draw(st.booleans()):
        return draw(st.sampled_from([value["text"], {"text": value["text"]}]))
    loose = {name: _loose(draw, each) for name, each in value.items()}
    result = value.get("role") == "tool" or str(value.get("type")).endswith(
        ("function_call_output", "tool_result")
    )
    for name in loose:
        if name in _IDS and draw(st.booleans()):
            loose[name] = draw(st.sampled_from(["", None, 0, 7]))
        elif name in ("arguments", "input") or (result and name in ("content", "output")):
            loose[name] = draw(st.sampled_from([value[name], *ANY]))
    return loose


# --- as published ---------------------------------------------------------------------------------------

PUBLISHED: Mapping[str, Sequence[tuple[str, TypeAdapter[Any]]]] = {
    "chat": (
        ("messages", TypeAdapter(list[ChatCompletionMessageParam])),
        ("tools", TypeAdapter(list[ChatCompletionFunctionToolParam])),
    ),
    "responses": (
        ("input", TypeAdapter(list[ResponseInputItemParam])),
        ("tools", TypeAdapter(list[FunctionToolParam])),
    ),
    "messages": (("messages", TypeAdapter(list[MessageParam])),),
}


def check(dialect: str, body: JSON) -> None:
    """Raise ``ValidationError`` where the published types do not allow a body. They know of no halves of surrogate pairs."""
    body = json.loads(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
    for name, type in PUBLISHED[dialect]:
        _exhaust(type.validate_python(body.get(name, [])))


def _exhaust(value: Any) -> None:
    """Validate what pydantic leaves for later."""
    if isinstance(value, Mapping):
        value = value.values()
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        for each in value:
            _exhaust(each)
