"""Messages of all kinds as clients send them, by short names; the first eight of each are the usual ones."""

from __future__ import annotations

import base64
from typing import Any


def deep(levels: int) -> Any:
    """A value that is nested so deep."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def model(content: Any = ..., **more: Any) -> dict[str, Any]:
    return {"role": "assistant", **({} if content is ... else {"content": content}), **more}


def call(arguments: Any = ..., **more: Any) -> dict[str, Any]:
    function = {"name": "f", **({} if arguments is ... else {"arguments": arguments})}
    return {"id": "c1", "type": "function", "function": function, **more}


TEXT = {"type": "text", "text": "word"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:"}}
FILE = {"type": "file", "file": {"filename": "a<b>.pdf", "file_data": "x"}}

CHAT: dict[str, Any] = {
    "user": user("hi"),
    "system": {"role": "system", "content": "be"},
    "model": model("well"),
    "calls": model(None, tool_calls=[call('{"a":1}')]),
    "result": {"role": "tool", "tool_call_id": "c1", "content": "out"},
    "parts": user([TEXT, {"type": "text", "text": "more"}]),
    "older-call": model("", function_call={"name": "g", "arguments": "{}"}),
    "older-result": {"role": "function", "name": "g", "content": "out"},
    "developer": {"role": "developer", "content": [TEXT]},
    "empty": user(""),
    "no-content": {"role": "user"},
    "null": user(None),
    "number": user(5),
    "no-parts": user([]),
    "strings": user(["a", None, "b", 5, [1]]),
    "image": user([TEXT, IMAGE]),
    "file": user([FILE]),
    "audio": user([{"type": "input_audio", "input_audio": {}}]),
    "strange-part": user([{"type": "hologram", "x": 1}]),
    "untyped-part": user([{"x": 1}]),
    "textless-part": user([{"type": "text"}]),
    "odd-text": user([{"type": "text", "text": 5}]),
    "refusal-part": model([{"type": "refusal", "refusal": "no"}]),
    "thinking-part": model([{"type": "thinking", "thinking": "hm"}, TEXT]),
    "search-part": user([{"type": "search_result", "source": "s", "title": "t", "content": [TEXT]}]),
    "named": user("hi", name="ann"),
    "odd-name": user("hi", name=5),
    "no-role": {"content": "x"},
    "strange-role": {"role": "robot", "content": "x"},
    "reasoned": model("well", reasoning_content="hm", reasoning="other"),
    "reasoning": model("well", reasoning="other"),
    "odd-reasoning": model("well", reasoning=5),
    "refused": model("", refusal="no"),
    "refused-text": model("yes", refusal="no"),
    "silent": model(),
    "odd-model": model({"a": 1}),
    "result-null": {"role": "tool", "tool_call_id": 7, "content": None},
    "result-object": {"role": "tool", "content": {"a": 1}},
    "result-image": {"role": "tool", "tool_call_id": "c1", "content": [TEXT, IMAGE]},
    "result-odd-id": {"role": "tool", "tool_call_id": {}, "content": ""},
    "two-calls": model("x", tool_calls=[call(), call("", id=None)]),
    "parsed-call": model("", tool_calls=[call({"a": [1]})]),
    "broken-call": model("", tool_calls=[call('{"a":')]),
    "list-call": model("", tool_calls=[call("[1]"), call([1]), call("5"), call(5)]),
    "deep-call": model("", tool_calls=[call(deep(70)), call({"a": deep(62)}), call({"a": deep(63)}), call({"a": deep(64)})]),
    "untyped-call": model("", tool_calls=[call("{}", type=None), call("{}", type="")]),
    "strange-call": model("", tool_calls=[call("{}", type="thing")]),
    "no-function": model("", tool_calls=[{"id": "c1"}]),
    "custom-call": model("", tool_calls=[{"id": "c2", "type": "custom", "custom": {"name": "h", "input": "in"}}]),
    "custom-empty": model("", tool_calls=[{"id": "c2", "type": "custom", "custom": {"name": "h"}}]),
    "custom-none": model("", tool_calls=[{"id": "c2", "type": "custom"}]),
    "older-result-unknown": {"role": "function", "name": "zz", "content": "out"},
    "older-calls-both": model("", tool_calls=[call("{}")], function_call={"name": "g"}),
    "odd-calls": model("", tool_calls={"a": 1}),
    "odd-call": model("", tool_calls=[5]),
    "no-message": 5,
}  # fmt: skip


def block(**fields: Any) -> dict[str, Any]:
    return user([fields])


ANTHROPIC: dict[str, Any] = {
    "user": user("hi"),
    "model": model("well"),
    "system": {"role": "system", "content": "be"},
    "uses": model([TEXT, {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]),
    "result": block(type="tool_result", tool_use_id="t1", content="out"),
    "blocks": user([TEXT, {"type": "text", "text": "more"}]),
    "thinks": model([{"type": "thinking", "thinking": "hm", "signature": "s"}, TEXT]),
    "result-text": user([{"type": "text", "text": "a"}, {"type": "tool_result", "tool_use_id": "t1", "content": [TEXT]}, TEXT]),
    "empty": user(""),
    "no-blocks": user([]),
    "null": user(None),
    "number": user(5),
    "strings": user(["a", None, 5]),
    "image": user([TEXT, {"type": "image", "source": {"type": "base64"}}]),
    "document": block(type="document", title="T", context="C", source={"type": "text", "data": "D"}),
    "document-content": block(type="document", source={"type": "content", "content": [TEXT]}),
    "document-pdf": block(type="document", title="a.pdf", source={"type": "base64"}),
    "document-no-source": block(type="document"),
    "document-no-data": block(type="document", source={"type": "text"}),
    "document-odd": block(type="document", title=5, source={"type": "text", "data": "D"}),
    "search": block(type="search_result", source="s", title="t", content=[TEXT]),
    "strange": block(type="hologram"),
    "untyped": block(x=1),
    "result-error": block(type="tool_result", tool_use_id="t1", content="bad", is_error=True),
    "result-no-error": block(type="tool_result", tool_use_id="t1", content="", is_error=False),
    "result-odd-error": block(type="tool_result", tool_use_id="t1", content="", is_error=5),
    "result-none": block(type="tool_result", tool_use_id=5),
    "result-image": block(type="tool_result", tool_use_id="t1", content=[TEXT, {"type": "image"}, TEXT]),
    "result-object": block(type="tool_result", tool_use_id="t1", content={"a": 1}),
    "result-odd-id": block(type="tool_result", tool_use_id=[]),
    "no-role": {"content": "x"},
    "strange-role": {"role": "robot", "content": "x"},
    "redacted": model([{"type": "redacted_thinking", "data": "x"}, TEXT]),
    "thinks-none": model([{"type": "thinking"}]),
    "thinks-twice": model([{"type": "thinking", "thinking": "a"}, {"type": "thinking", "thinking": "b"}]),
    "uses-odd": model([{"type": "tool_use", "id": 5, "name": None, "input": "{"}]),
    "uses-none": model([{"type": "tool_use"}]),
    "uses-odd-id": model([{"type": "tool_use", "id": {}}]),
    "model-strings": model(["a", "b"]),
    "model-image": model([{"type": "image"}]),
    "model-null": model(None),
    "server-use": model([{"type": "server_tool_use", "id": "s"}, {"type": "web_search_tool_result", "title": "w"}]),
    "cleared": {"role": "system", "content": "gone", "clear_at": "next_user_message"},
    "not-cleared": {"role": "system", "content": "kept", "clear_at": "never"},
    "no-message": 5,
}  # fmt: skip


def sealed(text: str) -> str:
    return "reconciler.1:" + base64.b64encode(text.encode()).decode()


def item(type: str, **fields: Any) -> dict[str, Any]:
    return {"type": type, **fields}


RESPONSES: dict[str, Any] = {
    "user": user("hi"),
    "model": model("well", type="message"),
    "developer": {"role": "developer", "content": "be"},
    "calls": item("function_call", call_id="c1", name="f", arguments='{"a":1}'),
    "result": item("function_call_output", call_id="c1", output="out"),
    "reasons": item("reasoning", id="r", summary=[{"type": "summary_text", "text": "hm"}]),
    "parts": item("message", role="user", content=[{"type": "input_text", "text": "word"}]),
    "said": item("message", role="assistant", content=[{"type": "output_text", "text": "word"}]),
    "system": {"role": "system", "content": [{"type": "input_text", "text": "be"}]},
    "empty": user(""),
    "null": user(None),
    "model-null": model(None),
    "image": user([{"type": "input_image"}]),
    "file": user([{"type": "input_file", "filename": "a.pdf"}]),
    "audio": user([{"type": "input_audio"}, {"type": "input_text", "text": "word"}]),
    "no-role": item("message", content="x"),
    "strange-role": {"role": "tool", "content": "x"},
    "untyped": {"id": "x"},
    "reference": item("item_reference", id="x"),
    "odd-type": {"type": 5},
    "reasons-content": item("reasoning", content=[{"type": "reasoning_text", "text": "c"}], encrypted_content=sealed("e"), summary=[]),
    "reasons-sealed": item("reasoning", encrypted_content=sealed("sealed"), summary=[{"type": "summary_text", "text": "s"}]),
    "reasons-foreign": item("reasoning", encrypted_content="gAAA", summary=[{"type": "summary_text", "text": "s"}]),
    "reasons-changed": item("reasoning", encrypted_content="reconciler.1:***"),
    "reasons-no-text": item("reasoning", encrypted_content="reconciler.1:/w=="),
    "reasons-none": item("reasoning"),
    "reasons-odd": item("reasoning", encrypted_content=5),
    "calls-spaced": item("function_call", call_id="c1", namespace="n", name="f", arguments="{}"),
    "calls-mcp": item("function_call", call_id="c1", namespace="mcp__", name="f"),
    "calls-odd": item("function_call", call_id=5, name=6, arguments="{"),
    "calls-no-space": item("function_call", call_id="c1", namespace="", name="f", arguments=""),
    "custom": item("custom_tool_call", call_id="c2", name="h", input="in"),
    "custom-none": item("custom_tool_call", call_id="c2", namespace="n", name="h"),
    "custom-object": item("custom_tool_call", call_id="c2", name="h", input={"a": 1}),
    "custom-result": item("custom_tool_call_output", call_id="c2", output="out"),
    "shell": item("local_shell_call", call_id="c3", id="x", status="completed", action={"cmd": ["ls"]}),
    "shell-no-id": item("local_shell_call", action={}),
    "shell-odd-id": item("local_shell_call", call_id=5),
    "shell-deep": item("local_shell_call", call_id="c3", action=deep(70)),
    "shell-result": item("local_shell_call_output", id="c3", output="out"),
    "result-none": item("function_call_output", call_id="c1"),
    "result-parts": item("function_call_output", call_id="c1", output=[{"type": "input_text", "text": "a"}, {"type": "input_image"}]),
    "result-one-part": item("computer_call_output", call_id="c1", output={"type": "computer_screenshot"}),
    "result-object": item("function_call_output", call_id="c1", output={"a": 1}),
    "result-list": item("function_call_output", call_id="c1", output=[{"type": "input_text", "text": "a"}, 5]),
    "result-empty": item("function_call_output", call_id="c1", output=[]),
    "result-zero": item("function_call_output", call_id="c1", output=0),
    "search": item("web_search_call", id="w", status="completed"),
    "tools": item("mcp_list_tools", id="l"),
    "approval": item("mcp_approval_request", id="a"),
    "compaction": item("compaction", encrypted_content="x"),
    "strange": item("hologram"),
    "no-item": 5,
}  # fmt: skip
