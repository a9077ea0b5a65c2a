"""A request as token ids, or the reason why it cannot be answered.

Everything a client can get wrong is found here, before the request reaches the loop that all ranks share.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from reconciler.wire.generation import Failed, Generate, Sampling

from .adapter import FOREIGN_ERRORS, Tokenizer
from .answer import Answer, Event

STOP_STRINGS_MAX = 64
STOP_CHARACTERS_MAX = 4096
USUAL_TOKEN_CHARACTERS = 8
"""Text has fewer characters for each token; more of it is looked at in part before it is as a whole."""
SEAM_TOKENS = 64
"""What a cut may add to the tokens of a text."""


class Unanswerable(Exception):
    """Why a request cannot be answered."""

    def __init__(self, code: str, text: str, parameter: str | None = None) -> None:
        super().__init__(text)
        self._fields = (code, text, parameter)

    def failed(self, request: str) -> Failed:
        """The answer to the request of this name."""
        return Failed(request, *self._fields)


@dataclasses.dataclass(frozen=True)
class Prompt:
    """A request that can be answered."""

    tokens: tuple[int, ...]
    """Of the conversation, without ``Generate.resume``."""
    tokens_max: int
    """Tokens that may still come; 0 when the answer is already as long as it may be."""
    answer: Answer
    last: tuple[Event, ...] = ()
    """The events that end the answer, where ``Generate.resume`` holds all of it."""


def check_length(wish: Generate, tokenizer: Tokenizer, context: int) -> int:
    """Bytes of text in a request. Raises ``Unanswerable`` when no tokenizer could make them fit.

    Takes milliseconds, where a template and a tokenizer take seconds.
    """
    length = 0
    parts: list[Any] = [wish.messages, wish.tools]
    while parts:
        part = parts.pop()
        if isinstance(part, str):
            length += len(part.encode("utf-8", "surrogatepass"))
        elif isinstance(part, Mapping):
            parts.extend(part.values())
        elif isinstance(part, (list, tuple)):
            parts.extend(part)
    most = context * tokenizer.token_bytes_max
    if length > most:
        raise _too_long(
            f"has {length} bytes of text, and {context} tokens of this model hold {most}", context
        )
    return length


def read_prompt(wish: Generate, tokenizer: Tokenizer, vocabulary: int, context: int) -> Prompt:
    """Check and tokenize a request. Raises ``Unanswerable``."""
    _check_sampling(wish.sampling)
    _check_stop(wish.stop)
    messages = [_message(message) for message in wish.messages]
    try:
        tokens = _tokens(tokenizer, tokenizer.render(messages, wish.tools), context)
    except FOREIGN_ERRORS as error:
        what = "tools" if wish.tools else "messages"
        raise _invalid(f"the model's chat template does not take these {what}: {error}", what) from None
    if not tokens:
        raise _invalid("the messages give an empty prompt", "messages")
    if not all(0 <= token < vocabulary for token in (*tokens, *wish.resume)):
        raise _invalid("the prompt has tokens that the model does not know", "messages")
    left = context - len(tokens)
    if left < 1:
        raise _too_long(f"has {len(tokens)} tokens", context)
    tokens_left = max(0, _tokens_max(wish.tokens_max, left) - len(wish.resume))
    answer = Answer(wish, tokens, tokenizer)
    last: list[Event] = []
    if answer.stopped or not tokens_left:
        last = answer.finish("stop" if answer.stopped else "length")
    return Prompt(tuple(tokens), tokens_left, answer, tuple(last))


def _tokens(tokenizer: Tokenizer, text: str, context: int) -> list[int]:
    """Tokenize a prompt, but not all of one that is seen to be too long after a part of it."""
    usual = USUAL_TOKEN_CHARACTERS * context
    if len(text) > usual:
        count = len(tokenizer.rendered(text[:usual]))
        if count > context + SEAM_TOKENS:
            raise _too_long(f"has more than {count - SEAM_TOKENS} tokens", context)
    return tokenizer.rendered(text)


def _tokens_max(wished: int | None, left: int) -> int:
    if wished is not None and wished < 1:
        raise _invalid(f"tokens_max is {wished}, the least is 1", "tokens_max")
    return left if wished is None else min(wished, left)


def _check_sampling(sampling: Sampling) -> None:
    for name, value, low, high in (
        ("temperature", sampling.temperature, 0.0, 100.0),
        ("top_p", sampling.top_p, 0.0, 1.0),
        ("min_p", sampling.min_p, 0.0, 1.0),
    ):
        if not (math.isfinite(value) and low <= value <= high):
            raise _invalid(f"{name} is {value}, expected {low:g} to {high:g}", name)
    if sampling.top_k < 0:
        raise _invalid(f"top_k is {sampling.top_k}, expected 0 (off) or more", "top_k")


def _check_stop(stop: tuple[str, ...]) -> None:
    if len(stop) > STOP_STRINGS_MAX or not all(0 < len(text) <= STOP_CHARACTERS_MAX for text in stop):
        raise _invalid(
            f"stop takes up to {STOP_STRINGS_MAX} strings of 1 to {STOP_CHARACTERS_MAX} characters", "stop"
        )


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as chat templates take it: content is text, the arguments of tool calls are objects."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise _invalid("every message needs a role", "messages")
    shaped = copy.deepcopy(dict(message))
    shaped["content"] = _content(message.get("content"))
    calls = shaped.get("tool_calls") or []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise _invalid("tool_calls is a list of objects", "messages")
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
        raise _invalid(
            "content is text, or a list of parts with text: this model takes nothing else", "messages"
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


def _too_long(what: str, context: int) -> Unanswerable:
    text = f"the prompt {what}; with at least one token for the answer the most is {context}"
    return Unanswerable("context_length_exceeded", text, "messages")


def _invalid(text: str, parameter: str) -> Unanswerable:
    return Unanswerable("invalid_request", text, parameter)
