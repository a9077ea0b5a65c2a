"""Turns Anthropic's messages into the shape that chat templates take. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.gateway.dialects.content import Contents
from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.dialects.openai.messages import called_function, newest_of_user
from reconciler.gateway.errors import invalid, unsupported

_ROLES = ("user", "assistant", "system")
_RESULTS = "results"
"""Stands for the role of a message with results of tools."""
_BILLING = "x-anthropic-billing-header:"
"""Claude Code begins its system prompt with a line for Anthropic's billing, which differs with each request. With
that line, no prompt would begin like an earlier one."""


def parse_conversation(fields: Fields, contents: Contents) -> tuple[Mapping[str, Any], ...]:
    """Return the system prompt and the conversation. Raises ``ApiError`` (400) with the path of the faulty field."""
    conversation = _Conversation(contents)
    system = _system(fields, contents)
    if system:
        conversation.add({"role": "system", "content": system})
    messages = list(fields.objects("messages"))
    if not messages:
        raise invalid("messages must be a list of at least one message", "messages")
    newest = newest_of_user([_kind(message) for message in messages], (_RESULTS,))
    for index, (message, later) in enumerate(zip(messages, _user_later(messages), strict=True)):
        _add(message, conversation, later, index == newest)
    if conversation.messages[-1:] and conversation.messages[-1]["role"] == "assistant":
        why = "end the conversation with a message of the user"
        raise unsupported("an answer that continues the last message", messages[-1].path("role"), why)
    return tuple(conversation.messages)


class _Conversation:
    """The messages so far. Consecutive messages of one side are joined, because templates want the sides to take
    turns."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.messages: list[dict[str, Any]] = []

    def add(self, message: dict[str, Any]) -> None:
        """Add a message, or join it to the last one."""
        role = message["role"]
        if self.messages and role in ("user", "assistant") and self.messages[-1]["role"] == role:
            self.messages[-1] = _joined(self.messages[-1], message)
        else:
            self.messages.append(message)


def _kind(message: Fields) -> str:
    """Return the role of a message, or the stand-in for a message with results of tools."""
    content = message.value("content")
    blocks = content if isinstance(content, list) else ()
    if any(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks):
        return _RESULTS
    return message.choice("role", _ROLES)


def _joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    joined = {**first, "content": _lines([first["content"], second["content"]])}
    reasoning = _lines([message.get("reasoning_content", "") for message in (first, second)])
    calls = [*first.get("tool_calls", ()), *second.get("tool_calls", ())]
    return (
        joined
        | ({"reasoning_content": reasoning} if reasoning else {})
        | ({"tool_calls": calls} if calls else {})
    )


def _lines(texts: Sequence[str]) -> str:
    return "\n".join(text for text in texts if text)


def _user_later(messages: Sequence[Fields]) -> Sequence[bool]:
    """Return for each message whether a message of the user comes after it."""
    last = max((at for at, message in enumerate(messages) if message.value("role") == "user"), default=-1)
    return [at < last for at in range(len(messages))]


def _add(message: Fields, conversation: _Conversation, user_later: bool, newest: bool) -> None:
    match message.choice("role", _ROLES):
        case "user":
            _add_user(message, conversation, newest)
        case "assistant":
            conversation.add(_assistant(message, conversation.contents))
        case _:
            if not (user_later and message.value("clear_at") == "next_user_message"):
                content = _lines(conversation.contents.texts(message, "content", required=True))
                conversation.add({"role": "system", "content": content})


def _system(fields: Fields, contents: Contents) -> str:
    texts = contents.texts(fields, "system", newest=True, required=fields.value("system") is not None)
    return _lines([text for text in texts if not text.startswith(_BILLING)])


def _add_user(message: Fields, conversation: _Conversation, newest: bool) -> None:
    """Add a message of the user, and one for each result of a tool."""
    texts: list[str] = []
    for block in _blocks(message):
        if isinstance(block, str):
            texts.append(block)
        elif block.value("type") == "tool_result":
            if texts:
                conversation.add({"role": "user", "content": _lines(texts)})
                texts = []
            conversation.add(_result(block, conversation.contents))
        else:
            texts.append(conversation.contents.part(block, newest=newest))
    if texts:
        conversation.add({"role": "user", "content": _lines(texts)})


def _result(block: Fields, contents: Contents) -> dict[str, Any]:
    content = _lines(contents.texts(block, "content"))
    if block.flag("is_error"):
        content = f"Error: {content}"  # templates know of no failure, and the model has to
    return {"role": "tool", "tool_call_id": block.id("tool_use_id"), "content": content}


def _assistant(message: Fields, contents: Contents) -> dict[str, Any]:
    texts: list[str] = []
    reasoning: list[str] = []
    calls: list[Mapping[str, Any]] = []
    for block in _blocks(message):
        if isinstance(block, str):
            texts.append(block)
            continue
        match block.value("type"):
            case "thinking":
                reasoning.append(block.optional_text("thinking") or "")
            case "redacted_thinking":
                continue  # nobody but Anthropic can read it
            case "tool_use":
                calls.append(_call(block))
            case _:
                texts.append(contents.part(block))
    rendered: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if any(reasoning):
        rendered["reasoning_content"] = _lines(reasoning)
    if calls:
        rendered["tool_calls"] = calls
    return rendered


def _call(block: Fields) -> Mapping[str, Any]:
    """Return a call. Its arguments are an object, or whatever a client has made of arguments that were cut off."""
    return called_function(block.id("id"), block.id("name"), block.value("input"))


def _blocks(message: Fields) -> Iterator[str | Fields]:
    """Yield the content of a message: a string, or the objects of a list."""
    value = message.value("content")
    if isinstance(value, str):
        yield value
        return
    if not isinstance(value, list):
        raise invalid("content must be a string or a list of content blocks", message.path("content"))
    yield from message.entries("content")
