"""Turns the items of a request into the messages that chat templates take. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from reconciler.gateway.dialects.content import Contents
from reconciler.gateway.dialects.fields import Fields, too_deep
from reconciler.gateway.dialects.openai.messages import called_custom, called_function, newest_of_user
from reconciler.gateway.errors import invalid

from .tools import called_name

_ROLES = ("system", "developer", "user", "assistant")
_OUTPUT = "_output"
"""The suffix of the types of items with the result of a tool."""
_CALL = "_call"
_PUBLISHED = frozenset(
    (
        "additional_tools",
        "compaction",
        "compaction_trigger",
        "configuration_update",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_list_tools",
        "program",
    )
)
"""OpenAI's types of items other than messages, reasoning, calls and their results (openai 3.52.0)."""
_OF_ITEMS = ("type", "id", "call_id", "status", "created_by")
_SEALED = "reconciler.1:"
"""The beginning of each ``encrypted_content`` that was written here."""


def seal(reasoning: str) -> str:
    """Return reasoning as ``encrypted_content``: not encrypted, because it is the client's own, but in a form that
    clients hand back unchanged."""
    return _SEALED + base64.b64encode(reasoning.encode("utf-8", "replace")).decode()


def parse_input(fields: Fields, contents: Contents) -> tuple[Mapping[str, Any], ...]:
    """Return the conversation: ``instructions``, then ``input``. Raises ``ApiError`` (400) with the path of the
    faulty field."""
    conversation = _Conversation(contents)
    instructions = fields.optional_text("instructions")
    if instructions:
        conversation.add({"role": "system", "content": instructions})
    value = fields.value("input")
    if isinstance(value, str) and value:
        conversation.add({"role": "user", "content": value})
    elif isinstance(value, list) and value:
        items = list(fields.objects("input"))
        newest = newest_of_user([_side(item) for item in items], (_OUTPUT,))
        for index, item in enumerate(items):
            conversation.newest = index == newest
            conversation.answered = index < len(items) - 1
            _reader(_kind(item))(item, conversation)
    else:
        raise invalid("input must be a non-empty string, or a list of at least one item", "input")
    return tuple(conversation.messages)


class _Conversation:
    """Messages so far. Consecutive items of the model are one turn, as the model wrote it, and make one message."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.newest = False
        """True if the current item is the newest message of the user."""
        self.answered = True
        """True if other items come after it."""
        self.messages: list[dict[str, Any]] = []
        self._turn: dict[str, Any] | None = None
        """The turn of the model that further items belong to."""
        self._said = False
        """True if the last item was its text."""

    def add(self, message: dict[str, Any]) -> None:
        """Add a message that is not the model's."""
        self.messages.append(message)
        self._turn = None

    def say(self, text: str) -> None:
        """Add text of the model. Two messages in a row are two turns: no answer has them."""
        if self._said:
            self._turn = None
        turn = self._model_turn()
        turn["content"] += text
        self._said = True

    def reason(self, text: str) -> None:
        """Add reasoning of the model."""
        if text:
            turn = self._model_turn()
            turn["reasoning_content"] = turn.get("reasoning_content", "") + text

    def call(self, call: Mapping[str, Any]) -> None:
        """Add a call of a tool."""
        self._model_turn().setdefault("tool_calls", []).append(call)

    def note(self, text: str) -> None:
        """Add a placeholder to the model's turn."""
        turn = self._model_turn()
        turn["content"] = "\n".join(filter(None, (turn["content"], text)))

    def _model_turn(self) -> dict[str, Any]:
        if self._turn is None:
            self._turn = {"role": "assistant", "content": ""}
            self.messages.append(self._turn)
        self._said = False
        return self._turn


def _kind(item: Fields) -> str:
    """Return the type of an item. Only messages may leave it out."""
    if item.value("type") is None:
        return "message" if item.value("role") is not None else "item_reference"
    return item.text("type")


def _side(item: Fields) -> str:
    """Return whose item it is: the role of a message, ``_OUTPUT``, or else the model's."""
    kind = _kind(item)
    if kind == "message":
        return item.choice("role", _ROLES)
    return _OUTPUT if kind.endswith(_OUTPUT) else "assistant"


def _reader(kind: str) -> Callable[[Fields, _Conversation], None]:
    """Return the reader for items of a type. All calls are alike, and so are all results, whatever the tool."""
    if kind in _READERS:
        return _READERS[kind]
    if kind.endswith(_OUTPUT):
        return _read_output
    return _read_other_call if kind.endswith(_CALL) else _omit


def _read_message(item: Fields, conversation: _Conversation) -> None:
    role = item.choice("role", _ROLES)
    text = conversation.contents.text(item, "content", conversation.newest, required=role != "assistant")
    if role == "assistant":
        conversation.say(text)
    else:
        conversation.add({"role": "system" if role == "developer" else role, "content": text})


def _read_reasoning(item: Fields, conversation: _Conversation) -> None:
    content = conversation.contents.text(item, "content")
    summary = conversation.contents.text(item, "summary")
    conversation.reason(content or _unsealed(item) or summary)


def _unsealed(item: Fields) -> str:
    """Return the reasoning in ``encrypted_content``; nothing if another server wrote it."""
    sealed = item.optional_text("encrypted_content") or ""
    if not sealed.startswith(_SEALED):
        return ""
    try:
        return base64.b64decode(sealed.removeprefix(_SEALED), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise invalid("encrypted_content was changed", item.path("encrypted_content")) from None


def _read_call(item: Fields, conversation: _Conversation) -> None:
    name = called_name(item.optional_text("namespace"), item.id("name"))
    conversation.call(called_function(item.id("call_id"), name, item.value("arguments")))


def _read_custom_call(item: Fields, conversation: _Conversation) -> None:
    name = called_name(item.optional_text("namespace"), item.id("name"))
    conversation.call(
        called_custom(item.id("call_id"), name, item.written(item.value("input") or "", item.path("input")))
    )


def _read_other_call(item: Fields, conversation: _Conversation) -> None:
    """Read a call of a tool that the provider knows, and that the client has run and answers in another item."""
    kind, id = item.text("type"), item.value("call_id")
    if not isinstance(id, str) or not id:
        _omit(item, conversation)
        return
    arguments = {name: item.value(name) for name in item.names() if name not in _OF_ITEMS}
    name = kind.removesuffix(_CALL)
    written = orjson.dumps(arguments if not too_deep(arguments) else {}).decode()
    conversation.call(called_function(id, name, written))


def _read_output(item: Fields, conversation: _Conversation) -> None:
    """Read a result: text, parts, or other fields of the tool's own items."""
    id = item.id("call_id") or item.id("id")
    output = item.value("output")
    parts = output if isinstance(output, list) else [output]
    if output is None or isinstance(output, str):
        content = output or ""
    elif all(map(_is_part, parts)):
        content = conversation.contents.text(Fields({"output": parts}, item.path("")[:-1]), "output")
    else:
        content = orjson.dumps(output).decode()
    conversation.add({"role": "tool", "content": content, "tool_call_id": id})


def _is_part(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("type"), str)


def _omit(item: Fields, conversation: _Conversation) -> None:
    """Leave a placeholder for an item that only the provider's own servers know. Refuse unknown types in the part of
    the conversation that has no answer yet."""
    if (
        not conversation.answered
        and item.text("type") not in _PUBLISHED
        and not item.text("type").endswith(_CALL)
    ):
        text = f"items of type {item.text('type')[:60]!r} are not known"
        raise invalid(text, item.path("type"), "unsupported_item")
    conversation.note(conversation.contents.omit(item.text("type")))


def _refuse_reference(item: Fields, conversation: _Conversation) -> None:
    text = (
        "items are not stored here, so that none can be referred to: send the item itself, as clients do that are told so by "
        "`store: false`"
    )
    raise invalid(text, item.path("id"), "unsupported_item")


_READERS: Mapping[str, Callable[[Fields, _Conversation], None]] = {
    "message": _read_message,
    "reasoning": _read_reasoning,
    "function_call": _read_call,
    "custom_tool_call": _read_custom_call,
    "item_reference": _refuse_reference,
}
