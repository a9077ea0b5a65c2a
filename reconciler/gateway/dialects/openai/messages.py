"""From OpenAI's chat messages to the shape that chat templates take. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from reconciler.gateway.dialects.fields import Fields, too_deep
from reconciler.gateway.errors import invalid

_ROLES = ("system", "developer", "user", "assistant", "tool")
TEXT_PARTS = ("text", "input_text", "output_text")


def parse_messages(fields: Fields) -> tuple[Mapping[str, Any], ...]:
    """Return the conversation, at least one message long. Raises ``ApiError`` (400) with the path of what is wrong."""
    messages: list[Mapping[str, Any]] = []
    called: set[str] = set()
    for message in fields.objects("messages"):
        rendered = _message(message)
        called.update(call["id"] for call in rendered.get("tool_calls", ()))
        if rendered["role"] == "tool" and rendered["tool_call_id"] not in called:
            text = f"no earlier message calls a tool with the id {rendered['tool_call_id']!r:.80}"
            raise invalid(text, message.path("tool_call_id"))
        messages.append(rendered)
    if not messages:
        raise invalid("messages must be a list of at least one message", "messages")
    return tuple(messages)


def _message(message: Fields) -> Mapping[str, Any]:
    role = message.choice("role", _ROLES)
    rendered: dict[str, Any] = {"role": "system" if role == "developer" else role}
    rendered["content"] = text_of(message, "content", required=role != "assistant")
    name = message.optional_text("name")
    if name is not None:
        rendered["name"] = name
    if role == "tool":
        rendered["tool_call_id"] = message.text("tool_call_id")
    if role == "assistant":
        _add_assistant_parts(message, rendered)
    return rendered


def _add_assistant_parts(message: Fields, rendered: dict[str, Any]) -> None:
    reasoning = message.optional_text("reasoning_content") or message.optional_text("reasoning")
    if reasoning:
        rendered["reasoning_content"] = reasoning
    calls = [_tool_call(call) for call in message.objects("tool_calls")]
    if calls:
        rendered["tool_calls"] = calls


def _tool_call(call: Fields) -> Mapping[str, Any]:
    if call.value("type") is not None:
        call.choice("type", ("function",))
    function = call.object("function")
    if function is None:
        raise invalid("a tool call needs a function", call.path("function"))
    arguments = function.optional_text("arguments")
    rendered = {"name": function.text("name"), "arguments": arguments_of(arguments or "{}")}
    return {"id": call.text("id"), "type": "function", "function": rendered}


def arguments_of(text: str) -> Any:
    """Return arguments as templates render them: the object, or the text itself where the model did not write JSON."""
    try:
        parsed = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return parsed if isinstance(parsed, dict) and not too_deep(parsed) else text


def text_of(message: Fields, name: str, required: bool, kinds: Sequence[str] = TEXT_PARTS) -> str:
    """Return the text of a field that is a string or a list of parts of these ``kinds``. Unless it is ``required``, it may be
    absent or empty."""
    value = message.value(name)
    if isinstance(value, str):
        return value
    if not required and (value is None or value == []):
        return ""
    if not isinstance(value, list) or not value:
        raise invalid(f"{name} must be a string or a list of text parts", message.path(name))
    return "\n".join(_part(part, name, kinds) for part in message.objects(name))


def _part(part: Fields, name: str, kinds: Sequence[str]) -> str:
    kind = part.value("type")
    if kind == "refusal":
        return part.optional_text("refusal") or ""
    if kind not in kinds:
        named = f" of type {kind[:60]!r}" if isinstance(kind, str) else " that is not of a named type"
        text = f"{name}{named} is not supported: this endpoint takes text only"
        raise invalid(text, part.path("type"), "unsupported_content")
    if part.value("text") is None:
        raise invalid("text must be a string", part.path("text"))
    return part.optional_text("text") or ""
