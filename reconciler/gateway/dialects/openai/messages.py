"""Turns OpenAI's chat messages into the shape that chat templates take. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from reconciler.gateway.dialects.content import Contents
from reconciler.gateway.dialects.fields import Fields, too_deep
from reconciler.gateway.errors import invalid

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_TOOLS = ("tool", "function")


def parse_messages(fields: Fields, contents: Contents) -> tuple[Mapping[str, Any], ...]:
    """Return the conversation, at least one message long. Raises ``ApiError`` (400) with the path of the faulty
    field."""
    given = list(fields.objects("messages"))
    if not given:
        raise invalid("messages must be a list of at least one message", "messages")
    newest = newest_of_user([message.choice("role", _ROLES) for message in given], _TOOLS)
    called: dict[str, str] = {}
    messages: list[Mapping[str, Any]] = []
    for index, message in enumerate(given):
        messages.append(_message(message, contents, index == newest, called))
    return tuple(messages)


def newest_of_user(roles: Sequence[str], tools: Sequence[str]) -> int | None:
    """Return the index of the user's newest message that asks for an answer. No message of ``tools`` or of the model
    comes after it, and none of ``tools`` right before it: agents put the output of a tool there."""
    for index in range(len(roles) - 1, -1, -1):
        if roles[index] == "user":
            return None if index and roles[index - 1] in tools else index
        if roles[index] not in ("system", "developer"):
            break
    return None


def _message(message: Fields, contents: Contents, newest: bool, called: dict[str, str]) -> Mapping[str, Any]:
    """``called`` has the last id of each function that was called through ``function_call``."""
    role = message.choice("role", _ROLES)
    required = role in ("system", "developer", "user")
    content = contents.text(message, "content", newest, required)
    rendered: dict[str, Any] = {"role": "system" if role == "developer" else role, "content": content}
    name = message.optional_text("name")
    if name is not None:
        rendered["name"] = name
    if role == "tool":
        rendered["tool_call_id"] = message.id("tool_call_id")
    if role == "function":
        rendered |= {"role": "tool", "tool_call_id": called.get(message.id("name"), "")}
    if role == "assistant":
        _add_assistant_parts(message, rendered, called)
    return rendered


def _add_assistant_parts(message: Fields, rendered: dict[str, Any], called: dict[str, str]) -> None:
    reasoning = message.optional_text("reasoning_content") or message.optional_text("reasoning")
    if reasoning:
        rendered["reasoning_content"] = reasoning
    if not rendered["content"]:
        rendered["content"] = message.optional_text("refusal") or ""
    calls = [_tool_call(call) for call in message.objects("tool_calls")]
    older = message.object("function_call")
    if older is not None:
        id = called[older.id("name")] = f"function-{len(called)}-{older.id('name')}"
        calls.append(called_function(id, older.id("name"), older.value("arguments")))
    if calls:
        rendered["tool_calls"] = calls


def _tool_call(call: Fields) -> Mapping[str, Any]:
    if call.value("type") and call.choice("type", ("function", "custom")) == "custom":
        custom = call.object("custom")
        if custom is None:
            raise invalid("a tool call of type custom needs a custom", call.path("custom"))
        return called_custom(
            call.id("id"),
            custom.id("name"),
            custom.written(custom.value("input") or "", custom.path("input")),
        )
    function = call.object("function")
    if function is None:
        raise invalid("a tool call needs a function", call.path("function"))
    return called_function(call.id("id"), function.id("name"), function.value("arguments"))


def called_function(id: str, name: str, arguments: Any) -> Mapping[str, Any]:
    """Return a call as templates take it."""
    function = {"name": name, "arguments": {} if arguments in (None, "") else arguments_of(arguments)}
    return {"id": id, "type": "function", "function": function}


def shown_function(tool: Fields, name: str, parameters: str = "parameters") -> Mapping[str, Any]:
    """Return a tool as templates take it, by the name that the model knows. ``parameters`` is the field with their
    schema."""
    function: dict[str, Any] = {"name": name}
    description = tool.optional_text("description")
    if description is not None:
        function["description"] = description
    schema = tool.object(parameters)
    if schema is not None:
        function["parameters"] = schema.plain()
    return {"type": "function", "function": function}


def called_custom(id: str, name: str, text: str | None) -> Mapping[str, Any]:
    """Return a call of a tool that takes text, as a function: templates know nothing else."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": {"input": text or ""}}}


def arguments_of(given: Any) -> Any:
    """Return arguments as templates render them: as an object, or as text if they are not one. Some clients send them
    parsed."""
    try:
        parsed = orjson.loads(given) if isinstance(given, str) else given
    except orjson.JSONDecodeError:
        return given
    if isinstance(parsed, dict) and not too_deep(parsed):
        return parsed
    try:
        return given if isinstance(given, str) else orjson.dumps(given).decode()
    except orjson.JSONEncodeError:  # nested deeper than any real call
        return {}
