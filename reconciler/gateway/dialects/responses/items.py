"""From the items of a request to the messages that chat templates take. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.dialects.openai.messages import arguments_of, text_of
from reconciler.gateway.errors import invalid

from .tools import called_name

_ROLES = ("system", "developer", "user", "assistant")
_SEALED = "reconciler.1:"
"""What ``encrypted_content`` begins with that was written here."""


def seal(reasoning: str) -> str:
    """Return reasoning as ``encrypted_content``: not encrypted, for it is the client's own, but in a form that clients hand
    back as it is."""
    return _SEALED + base64.b64encode(reasoning.encode("utf-8", "replace")).decode()


def parse_input(fields: Fields) -> tuple[Mapping[str, Any], ...]:
    """Return the conversation: ``instructions``, then ``input``. Raises ``ApiError`` (400) with the path of what is wrong."""
    conversation = _Conversation()
    instructions = fields.optional_text("instructions")
    if instructions:
        conversation.add({"role": "system", "content": instructions})
    value = fields.value("input")
    if isinstance(value, str) and value:
        conversation.add({"role": "user", "content": value})
    elif isinstance(value, list) and value:
        for item in fields.objects("input"):
            _READERS.get(_kind(item), _refuse)(item, conversation)
    else:
        raise invalid("input must be a non-empty string, or a list of at least one item", "input")
    return tuple(conversation.messages)


class _Conversation:
    """Messages so far. Items of the model that follow each other are one turn, as the model wrote it: one message."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.called: set[str] = set()
        self._turn: dict[str, Any] | None = None
        """The model's turn that further items belong to."""
        self._said = False
        """Whether the last item was its text."""

    def add(self, message: dict[str, Any]) -> None:
        """Add a message of somebody else than the model."""
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

    def call(self, id: str, function: Mapping[str, Any]) -> None:
        """Add a call of a tool."""
        self.called.add(id)
        call = {"id": id, "type": "function", "function": function}
        self._model_turn().setdefault("tool_calls", []).append(call)

    def _model_turn(self) -> dict[str, Any]:
        if self._turn is None:
            self._turn = {"role": "assistant", "content": ""}
            self.messages.append(self._turn)
        self._said = False
        return self._turn


def _kind(item: Fields) -> str:
    """Return the type of an item. Only that of messages may be left out."""
    if item.value("type") is None:
        return "message" if item.value("role") is not None else "item_reference"
    return item.text("type")


def _read_message(item: Fields, conversation: _Conversation) -> None:
    role = item.choice("role", _ROLES)
    text = text_of(item, "content", required=role != "assistant")
    if role == "assistant":
        conversation.say(text)
    else:
        conversation.add({"role": "system" if role == "developer" else role, "content": text})


def _read_reasoning(item: Fields, conversation: _Conversation) -> None:
    content = text_of(item, "content", False, ("reasoning_text", "text"))
    summary = text_of(item, "summary", False, ("summary_text",))
    conversation.reason(content or _unsealed(item) or summary)


def _unsealed(item: Fields) -> str:
    """Return the reasoning in ``encrypted_content``; nothing where somebody else wrote that."""
    sealed = item.optional_text("encrypted_content") or ""
    if not sealed.startswith(_SEALED):
        return ""
    try:
        return base64.b64decode(sealed.removeprefix(_SEALED), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise invalid("encrypted_content was changed", item.path("encrypted_content")) from None


def _read_call(item: Fields, conversation: _Conversation) -> None:
    name = called_name(item.optional_text("namespace"), item.text("name"))
    arguments = arguments_of(item.optional_text("arguments") or "{}")
    conversation.call(item.text("call_id"), {"name": name, "arguments": arguments})


def _read_output(item: Fields, conversation: _Conversation) -> None:
    id = item.text("call_id")
    if id not in conversation.called:
        raise invalid(f"no earlier item calls a tool with the id {id!r:.80}", item.path("call_id"))
    content = text_of(item, "output", required=True)
    conversation.add({"role": "tool", "content": content, "tool_call_id": id})


def _refuse_reference(item: Fields, conversation: _Conversation) -> None:
    text = (
        "items are not stored here, so that none can be referred to: send the item itself, as clients do that are told so by "
        "`store: false`"
    )
    raise invalid(text, item.path("id"), "unsupported_item")


def _refuse(item: Fields, conversation: _Conversation) -> None:
    text = (
        f"items of type {item.text('type')[:60]!r} are not supported: this endpoint has no tools of its own"
    )
    raise invalid(text, item.path("type"), "unsupported_item")


_READERS = {
    "message": _read_message,
    "reasoning": _read_reasoning,
    "function_call": _read_call,
    "function_call_output": _read_output,
    "item_reference": _refuse_reference,
}
