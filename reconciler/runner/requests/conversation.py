"""A conversation as the text of a prompt, by the model's chat template.

Templates differ in the messages that they take. ``traits`` finds out once, by trying, how this model's template
behaves, and ``shaping`` adapts the conversation to it.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.runner.model.adapter import FOREIGN_ERRORS, NoTemplate, Tokenizer

from .shaping import shape
from .traits import STRICTEST, ask
from .unanswerable import invalid

traits_of = functools.lru_cache(maxsize=128)(ask)
"""The traits of a tokenizer's template; a rank has one."""


@dataclasses.dataclass(frozen=True)
class Rendered:
    """The text of a prompt."""

    text: str
    replaced: Mapping[str, int]
    """Counts of the parts that the template did not take, by their names in ``shaping.REPLACED``."""


def render(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    tokenizer: Tokenizer,
    variables: Mapping[str, Any] | None = None,
    generation_prompt: bool = True,
) -> Rendered:
    """Return the prompt for the next message, with or without the beginning of that message.

    Raises ``Unanswerable``, and the template's ``FOREIGN_ERRORS`` where it does not take the plainest form either.
    """
    known, found = tokenizer.known, traits_of(tokenizer)
    simple = dataclasses.replace(found, any_schemas=False, plain_schemas=False)
    refusal: Exception | None = None
    for traits in (found, simple, STRICTEST):
        given = [_message(message) for message in messages]
        try:
            shaped = shape(given, tools, traits, known.family, known.id_pattern)
            text = tokenizer.render(shaped.messages, shaped.tools, variables, generation_prompt)
        except NoTemplate:
            raise
        except FOREIGN_ERRORS as error:
            refusal = refusal or error
        else:
            return Rendered(_whole(text), shaped.replaced)
    raise refusal or AssertionError("every try has rendered or refused")


def _whole(text: str) -> str:
    """Return text that has UTF-8: arguments that were cut off in an emoji end with half of a surrogate pair."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message for chat templates: content is text, and the arguments of tool calls are objects."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise invalid("every message needs a role", "messages")
    shaped = copy.deepcopy(dict(message))
    shaped["content"] = _content(message.get("content"))
    calls = shaped.get("tool_calls") or []
    if not isinstance(calls, list) or not all(_is_call(call) for call in calls):
        raise invalid("tool_calls must be a list of objects with a function, which has a name", "messages")
    for call in calls:
        call["function"]["arguments"] = _arguments(call["function"].get("arguments"))
    return shaped


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str) and "id" in call


def _content(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(map(_is_text, content)):
        raise invalid(
            "content must be text, or a list of text parts: this model accepts nothing else", "messages"
        )
    return "".join(part["text"] for part in content)


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def _arguments(arguments: Any) -> Any:
    """Return arguments as an object, or as the text that the model wrote."""
    if not isinstance(arguments, str):
        return (
            {} if arguments is None else arguments if isinstance(arguments, dict) else json.dumps(arguments)
        )
    try:
        found = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    return found if isinstance(found, dict) else arguments
