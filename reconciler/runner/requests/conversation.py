"""A conversation in the shape that a model's chat template takes.

Templates differ in what they do with system messages: some take one at the beginning and raise for any other,
some drop it silently, some take none at all. What this model's does is found out by trying it.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.runner.model.adapter import FOREIGN_ERRORS, PROBE, PROBE_TOOLS, Tokenizer

from .call_ids import shape_ids
from .unanswerable import invalid

Messages = list[dict[str, Any]]

_FIRST, _SECOND = "first-marker", "second-marker"
_USER = {"role": "user", "content": "question"}
_ASSISTANT = {"role": "assistant", "content": "answer"}
_LONG_ID, _SHORT_ID = "call_" + 24 * "a", 9 * "a"


class TemplateTraits:
    """What a template takes: which system messages, tools, and ids of calls."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        first, second = {"role": "system", "content": _FIRST}, {"role": "system", "content": _SECOND}
        self.first = _takes(tokenizer, [first, _USER])
        self.several = self.first and _takes(tokenizer, [first, second, _USER])
        self.later = self.first and _takes(tokenizer, [first, _USER, _ASSISTANT, second, _USER])
        self._tokenizer = tokenizer

    @functools.cached_property
    def tools(self) -> bool:
        """Return whether it shows tools to the model."""
        return _shows_tools(self._tokenizer)

    @functools.cached_property
    def text_arguments(self) -> bool:
        """Return whether it takes the arguments of calls as JSON text, not as objects."""
        return not _takes_call(self._tokenizer, _SHORT_ID, {}) and _takes_call(
            self._tokenizer, _SHORT_ID, "{}"
        )

    @functools.cached_property
    def short_ids(self) -> bool:
        """Return whether it takes call ids of nine letters and digits alone, as those of Mistral do."""
        arguments: Any = "{}" if self.text_arguments else {}
        return not _takes_call(self._tokenizer, _LONG_ID, arguments) and _takes_call(
            self._tokenizer, _SHORT_ID, arguments
        )


def _takes(tokenizer: Tokenizer, messages: Messages) -> bool:
    try:
        text = tokenizer.render(messages, [])
    except FOREIGN_ERRORS:
        return False
    return all(message["content"] in text for message in messages)


def _shows_tools(tokenizer: Tokenizer) -> bool:
    """Return whether the template renders the tools of a request; what cannot be rendered shows nothing."""
    name = PROBE_TOOLS[0]["function"]["name"]
    try:
        return name in tokenizer.render([_USER], PROBE_TOOLS)
    except FOREIGN_ERRORS:
        return False


def _takes_call(tokenizer: Tokenizer, id: str, arguments: Any) -> bool:
    """Return whether the template renders a turn with a call and its result."""
    name = PROBE_TOOLS[0]["function"]["name"]
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    result = {"role": "tool", "tool_call_id": id, "name": name, "content": "result"}
    try:
        tokenizer.render([PROBE[0], {**PROBE[1], "tool_calls": [call]}, result], PROBE_TOOLS)
    except FOREIGN_ERRORS:
        return False
    return True


manners_of = functools.lru_cache(maxsize=4)(TemplateTraits)
"""Traits of a tokenizer's template; a rank has one."""


def render(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    tokenizer: Tokenizer,
    variables: Mapping[str, Any] | None = None,
    generation_prompt: bool = True,
) -> str:
    """Return the prompt's text for the next message, with the beginning of it or without. Raises ``Unanswerable``, and the template's ``FOREIGN_ERRORS``."""
    shaped = [_message(message) for message in messages]
    _shape_calls(shaped, tokenizer)
    if any(message["role"] == "system" for message in shaped):
        shaped = fold_system(shaped, manners_of(tokenizer))
    return tokenizer.render(shaped, tools, variables, generation_prompt)


def _shape_calls(messages: Messages, tokenizer: Tokenizer) -> None:
    """Write calls as the template takes them. Only a conversation that has some asks what it takes."""
    if any(message.get("tool_calls") for message in messages):
        manners = manners_of(tokenizer)
        shape_ids(messages, tokenizer.known.id_pattern, manners.short_ids)
        if manners.text_arguments:
            _write_arguments(messages)


def _write_arguments(messages: Messages) -> None:
    for call in (call for message in messages for call in message.get("tool_calls") or ()):
        function = call.get("function")
        if isinstance(function, dict) and not isinstance(function.get("arguments"), str):
            function["arguments"] = json.dumps(function.get("arguments") or {}, ensure_ascii=False)


def fold_system(messages: Messages, manners: TemplateTraits) -> Messages:
    """Put system messages where the template takes them: as they are, all in the first one, or with a user's."""
    leading = next((i for i, message in enumerate(messages) if message["role"] != "system"), len(messages))
    is_later = any(message["role"] == "system" for message in messages[leading:])
    if manners.first and (manners.several or leading <= 1) and (manners.later or not is_later):
        return messages
    reach = leading if manners.first and manners.later else len(messages)
    folded = "\n\n".join(m["content"] for m in messages[:reach] if m["role"] == "system")
    rest = [m for m in messages[:reach] if m["role"] != "system"] + messages[reach:]
    if manners.first:
        return [{"role": "system", "content": folded}, *rest]
    if rest and rest[0]["role"] == "user":
        return [{**rest[0], "content": f"{folded}\n\n{rest[0]['content']}"}, *rest[1:]]
    return [{"role": "user", "content": folded}, *rest]


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message for chat templates: content is text, and the arguments of tool calls are objects."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise invalid("every message needs a role", "messages")
    shaped = copy.deepcopy(dict(message))
    shaped["content"] = _content(message.get("content"))
    calls = shaped.get("tool_calls") or []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise invalid("tool_calls must be a list of objects", "messages")
    for call in calls:
        function = call.get("function")
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            function["arguments"] = _arguments(function["arguments"])
    return shaped


def _content(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = (
        [part.get("text") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    )
    if (
        not isinstance(content, list)
        or len(texts) != len(content)
        or not all(isinstance(t, str) for t in texts)
    ):
        raise invalid(
            "content must be text, or a list of text parts: this model accepts nothing else", "messages"
        )
    return "".join(str(text) for text in texts)


def _arguments(text: str) -> Any:
    if not text.strip():
        return {}
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        # The model wrote it so and the client cannot take it back; many templates print text as it is.
        return text
