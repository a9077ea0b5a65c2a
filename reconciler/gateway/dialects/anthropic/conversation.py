"""From Anthropic's messages to the shape that chat templates take. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.errors import invalid, unsupported

_ROLES = ("user", "assistant", "system")
_BILLING = "x-anthropic-billing-header:"
"""Claude Code begins its system prompt with a line for Anthropic's bills, which differs from request to request: with it no
prompt would begin like an earlier one."""


def parse_conversation(fields: Fields) -> tuple[Mapping[str, Any], ...]:
    """Return the system prompt and the conversation. Raises ``ApiError`` (400) with the path of what is wrong."""
    conversation = _Conversation()
    system = _system(fields)
    if system:
        conversation.add({"role": "system", "content": system})
    messages = list(fields.objects("messages"))
    if not messages:
        raise invalid("messages must be a list of at least one message", "messages")
    for message, later in zip(messages, _user_later(messages), strict=True):
        _add(message, conversation, later)
    if conversation.messages[-1:] and conversation.messages[-1]["role"] == "assistant":
        why = "end the conversation with a message of the user"
        raise unsupported("an answer that continues the last message", messages[-1].path("role"), why)
    return tuple(conversation.messages)


class _Conversation:
    """The messages so far. What one side says in a row is one message: templates want sides to take turns."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._called: set[str] = set()

    def add(self, message: dict[str, Any]) -> None:
        """Add a message, or join it to the last one."""
        self._called.update(call["id"] for call in message.get("tool_calls", ()))
        role = message["role"]
        if self.messages and role in ("user", "assistant") and self.messages[-1]["role"] == role:
            self.messages[-1] = _joined(self.messages[-1], message)
        else:
            self.messages.append(message)

    def has_called(self, id: str) -> bool:
        """Return whether an earlier message calls a tool with this id."""
        return id in self._called


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
    """Return for each message whether one of the user comes after it."""
    last = max((at for at, message in enumerate(messages) if message.value("role") == "user"), default=-1)
    return [at < last for at in range(len(messages))]


def _add(message: Fields, conversation: _Conversation, user_later: bool) -> None:
    match message.choice("role", _ROLES):
        case "user":
            _add_user(message, conversation)
        case "assistant":
            conversation.add(_assistant(message))
        case _:
            if not (user_later and message.value("clear_at") == "next_user_message"):
                conversation.add({"role": "system", "content": _lines(list(_texts(message, "content")))})


def _system(fields: Fields) -> str:
    if fields.value("system") is None:
        return ""
    return _lines([text for text in _texts(fields, "system") if not text.startswith(_BILLING)])


def _add_user(message: Fields, conversation: _Conversation) -> None:
    """Add what the user says, and the results of tools: each is a message of its own."""
    texts: list[str] = []
    for block in _blocks(message):
        if isinstance(block, str):
            texts.append(block)
        elif block.value("type") == "tool_result":
            if texts:
                conversation.add({"role": "user", "content": _lines(texts)})
                texts = []
            conversation.add(_result(block, conversation))
        else:
            texts.append(_text(block))
    if texts:
        conversation.add({"role": "user", "content": _lines(texts)})


def _result(block: Fields, conversation: _Conversation) -> dict[str, Any]:
    id = block.text("tool_use_id")
    if not conversation.has_called(id):
        text = f"no earlier message calls a tool with the id {id!r:.80}"
        raise invalid(text, block.path("tool_use_id"))
    content = "" if block.value("content") is None else _lines(list(_texts(block, "content")))
    if block.flag("is_error"):
        content = f"Error: {content}"  # templates know of no failure, and the model has to
    return {"role": "tool", "tool_call_id": id, "content": content}


def _assistant(message: Fields) -> dict[str, Any]:
    texts: list[str] = []
    reasoning: list[str] = []
    calls: list[Mapping[str, Any]] = []
    for block in _blocks(message, may_be_empty=True):
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
                texts.append(_text(block))
    rendered: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if any(reasoning):
        rendered["reasoning_content"] = _lines(reasoning)
    if calls:
        rendered["tool_calls"] = calls
    return rendered


def _call(block: Fields) -> Mapping[str, Any]:
    arguments = block.object("input")
    function = {"name": block.text("name"), "arguments": {} if arguments is None else arguments.plain()}
    return {"id": block.text("id"), "type": "function", "function": function}


def _blocks(message: Fields, may_be_empty: bool = False) -> Iterator[str | Fields]:
    """Yield the content of a message: a string, or the objects of a list."""
    value = message.value("content")
    if isinstance(value, str):
        yield value
        return
    if not isinstance(value, list) or not (value or may_be_empty):
        raise invalid("content must be a string or a list of content blocks", message.path("content"))
    yield from message.objects("content")


def _texts(fields: Fields, name: str) -> Iterator[str]:
    """Yield the texts of a field that is a string or a list of blocks of text."""
    value = fields.value(name)
    if isinstance(value, str):
        yield value
        return
    if not isinstance(value, list):
        raise invalid(f"{name} must be a string or a list of blocks of text", fields.path(name))
    for block in fields.objects(name):
        yield _text(block)


def _text(block: Fields) -> str:
    kind = block.value("type")
    if kind != "text":
        named = f" of type {kind[:60]!r}" if isinstance(kind, str) else " that is not of a named type"
        text = f"content{named} is not supported here: this endpoint takes text only"
        raise invalid(text, block.path("type"), "unsupported_content")
    if block.value("text") is None:
        raise invalid("text must be a string", block.path("text"))
    return block.optional_text("text") or ""
