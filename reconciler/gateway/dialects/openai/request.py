"""Turns a chat completion request as OpenAI defines it into the internal request. Pure.

Clients rely on these rules: null is the same as absent, an int is a float, and unknown fields are ignored. A known
field that is not supported is refused by name (``dialects/parameter_table.py``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.gateway.dialects.content import Contents
from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.dialects.known_parameters import refuse_unsupported, refuse_unsupported_inside
from reconciler.gateway.dialects.parameter_table import CHAT
from reconciler.gateway.errors import invalid
from reconciler.wire.generation import REASONING_SWITCHES, Generate
from reconciler.wire.question import Question

from .form import parse_form, parse_tool_use
from .messages import parse_messages, shown_function
from .parameters import (
    LIKELIEST_MAX,
    parse_answers,
    parse_ending,
    parse_include_usage,
    parse_model,
    parse_object,
    parse_repetition,
    parse_sampling,
    parse_session,
    parse_stop,
    parse_unset,
    several,
)

_SWITCHES = ("thinking", "enable_thinking", "think")
"""The fields that ask for reasoning: GLM's and Anthropic's, DashScope's, Ollama's. The first that is given counts."""
_OF_TEMPLATE = frozenset(("reasoning_effort", "chat_template_kwargs", *_SWITCHES))
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


@dataclasses.dataclass(frozen=True, slots=True)
class ChatRequest:
    """A parsed request, and how to write the answer."""

    model: str
    """Empty if the client names none."""
    choices: Sequence[Generate]
    """One for each answer, without ids: these belong to attempts."""
    stream: bool
    include_usage: bool
    return_token_ids: bool
    """vLLM's extension: token ids in addition to the text."""
    return_groups: bool
    """True if the answer must say which groups worked on it, and a stream also when no group does."""
    session: str
    """``prompt_cache_key``, or else ``session_id``."""


def parse_chat(body: bytes, drawn_seed: int) -> ChatRequest:
    """Check a body and translate it. ``drawn_seed`` is for a client that gave none.

    Raises ``ApiError`` (400) with the path of the field that is wrong.
    """
    fields = parse_object(body)
    refuse_unsupported(fields, CHAT)
    use = parse_tool_use(fields)
    tools = tuple(_tool(tool) for tool in fields.objects("tools"))
    tokens_max = _tokens_max(fields)
    parallel = fields.flag("parallel_tool_calls", default=True)
    contents = Contents()
    messages = parse_messages(fields, contents)
    generate = Generate(
        request="",
        messages=messages,
        tools=tools if use.offered else (),
        tokens_max=tokens_max,
        stop=parse_stop(fields),
        sampling=parse_sampling(fields, drawn_seed),
        tool_calls_max=1 if tools and not parallel else None,
        template=_template(fields),
        ending=parse_ending(fields, tokens_max),
        repetition=parse_repetition(fields),
        logprobs=_logprobs(fields),
        unset=parse_unset(fields),
        form=parse_form(fields, use),
        replaced=contents.replaced,
    )
    return ChatRequest(
        model=parse_model(fields),
        choices=several(generate, parse_answers(fields)),
        stream=fields.flag("stream"),
        include_usage=parse_include_usage(fields),
        return_token_ids=fields.flag("return_token_ids"),
        return_groups=fields.flag("return_groups"),
        session=parse_session(fields),
    )


def parse_conversation(fields: Fields, question: Question) -> Generate:
    """Return a question about the prompt that a chat completion with these fields has. Raises ``ApiError`` (400)."""
    use = parse_tool_use(fields)
    tools = tuple(_tool(tool) for tool in fields.objects("tools"))
    contents = Contents()
    messages = parse_messages(fields, contents)
    return Generate(
        request="",
        messages=messages,
        tools=tools if use.offered else (),
        tokens_max=0,
        template=_template(fields),
        question=question,
        replaced=contents.replaced,
    )


def _logprobs(fields: Fields) -> int | None:
    """Return how many of the likeliest tokens to report with each token; None without ``logprobs``."""
    count = fields.integer("top_logprobs", 0, low=0, high=LIKELIEST_MAX)
    if fields.flag("logprobs"):
        return count
    if count:
        raise invalid("top_logprobs needs logprobs to be true", "top_logprobs")
    return None


def _tokens_max(fields: Fields) -> int | None:
    newer = fields.optional_integer("max_completion_tokens", low=1)
    older = fields.optional_integer("max_tokens", low=1)
    return older if newer is None else newer


def _template(fields: Fields) -> Mapping[str, Any]:
    """Return the variables of the chat template. Those of ``chat_template_kwargs``, vLLM's extension, win."""
    variables: dict[str, Any] = {}
    if fields.lacks(_OF_TEMPLATE):
        return variables
    thinks = _thinks(fields)
    levels = ("reasoning_effort", *(("think",) if isinstance(fields.value("think"), str) else ()))
    named = next((name for name in levels if fields.value(name) is not None), None)
    if named is not None:
        effort = fields.choice(named, EFFORTS)
        if effort == "none":
            thinks = False
        else:
            variables["reasoning_effort"] = effort
    if thinks is not None:
        variables |= dict.fromkeys(REASONING_SWITCHES, thinks)
    given = fields.object("chat_template_kwargs")
    return variables if given is None else {**variables, **given.plain()}


def _thinks(fields: Fields) -> bool | None:
    """Return whether the model is to reason: ``thinking`` is a boolean, or an object as Anthropic and GLM write it.
    If ``think`` is text, it is an effort."""
    if isinstance(fields.value("thinking"), dict):
        kind = fields.object("thinking")
        assert kind is not None
        return kind.choice("type", ("enabled", "disabled", "adaptive", "auto")) != "disabled"
    given = (name for name in _SWITCHES if fields.value(name) is not None)
    name = next((name for name in given if name != "think" or not isinstance(fields.value(name), str)), None)
    return None if name is None else fields.flag(name)


def _tool(tool: Fields) -> Mapping[str, Any]:
    tool.choice("type", ("function",))
    refuse_unsupported_inside(tool, "tools[]")
    function = tool.object("function")
    if function is None:
        raise invalid("a tool of type function needs a function", tool.path("function"))
    refuse_unsupported_inside(function, "tools[].function")
    return shown_function(function, function.text("name"))
