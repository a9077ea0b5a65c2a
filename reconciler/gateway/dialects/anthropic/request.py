"""Turns a request as Anthropic defines it into the internal request. Pure.

The parameters are those of the Messages API (platform.claude.com/docs/en/api/messages) and of anthropic 2.13.0
(``types/message_create_params.py`` and the same under ``types/beta``). The rules are those of chat completions: null is the
same as absent, unknown fields are ignored, known ones that do nothing here are refused by name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from reconciler.gateway.dialects.content import Contents
from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.dialects.forms import schema_form
from reconciler.gateway.dialects.known_parameters import refuse_unsupported
from reconciler.gateway.dialects.openai.parameters import (
    parse_ending,
    parse_model,
    parse_object,
    parse_repetition,
    parse_sampling,
    parse_unset,
)
from reconciler.gateway.dialects.parameter_table import MESSAGES
from reconciler.gateway.errors import invalid
from reconciler.wire.form import Form
from reconciler.wire.generation import REASONING_SWITCHES, Generate, Replaced

from .conversation import parse_conversation
from .tools import Tools, parse_tools

STOPS_MAX = 64
"""The most stop sequences that a rank looks for."""
STOP_CHARACTERS_MAX = 4096
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_THINKING = ("enabled", "disabled", "adaptive", "between_tools")


@dataclasses.dataclass(frozen=True, slots=True)
class Prompt:
    """Everything that decides the tokens of a prompt."""

    messages: tuple[Mapping[str, Any], ...]
    replaced: tuple[Replaced, ...]
    tools: Tools
    template: Mapping[str, Any]
    """Variables of the chat template."""


@dataclasses.dataclass(frozen=True, slots=True)
class MessagesRequest:
    """A parsed request, and how to write the answer."""

    model: str
    """Empty if the client names none."""
    generate: Generate
    """Without its id, which belongs to attempts."""
    tokens_max: int
    stream: bool
    shows_thinking: bool
    """True if thinking blocks have their text."""
    edits_context: bool
    """True if the client wants to know which edits of its context were applied."""
    session: str
    """``metadata.user_id``: Claude Code has one for each session."""
    dropped: tuple[str, ...]
    """Tools that the model does not see."""


def parse_request(body: bytes, drawn_seed: int) -> MessagesRequest:
    """Check a body and translate it. Raises ``ApiError`` (400) with the path of the field that is wrong."""
    fields = parse_object(body)
    refuse_unsupported(fields, MESSAGES)
    prompt = parse_prompt(fields)
    tokens_max = _tokens_max(fields)
    generate = Generate(
        request="",
        messages=prompt.messages,
        tools=tuple(prompt.tools.shown),
        tokens_max=tokens_max,
        stop=_stops(fields),
        sampling=parse_sampling(fields, drawn_seed),
        tool_calls_max=prompt.tools.calls_max,
        template=prompt.template,
        ending=parse_ending(fields, tokens_max),
        repetition=parse_repetition(fields),
        unset=parse_unset(fields),
        form=prompt.tools.form,
        replaced=prompt.replaced,
    )
    return MessagesRequest(
        model=parse_model(fields),
        generate=generate,
        tokens_max=tokens_max,
        stream=fields.flag("stream"),
        shows_thinking=_shows_thinking(fields),
        edits_context=fields.object("context_management") is not None,
        session=_session(fields),
        dropped=tuple(prompt.tools.dropped),
    )


def parse_prompt(fields: Fields) -> Prompt:
    """Return the prompt of a request, also of one that only asks for its length. Raises ``ApiError`` (400)."""
    contents = Contents()
    messages = parse_conversation(fields, contents)
    tools = parse_tools(fields, _content(fields))
    return Prompt(messages, contents.replaced, tools, _template(fields))


def _tokens_max(fields: Fields) -> int:
    tokens_max = fields.optional_integer("max_tokens", low=1)
    if tokens_max is None:
        raise invalid("max_tokens is required", "max_tokens")
    return tokens_max


def _stops(fields: Fields) -> tuple[str, ...]:
    stops = fields.value("stop_sequences")
    if stops is None:
        return ()
    if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops):
        raise invalid("stop_sequences must be a list of non-empty strings", "stop_sequences")
    if len(stops) > STOPS_MAX or any(len(stop) > STOP_CHARACTERS_MAX for stop in stops):
        most = f"{STOPS_MAX} strings of at most {STOP_CHARACTERS_MAX} characters"
        raise invalid(f"stop_sequences takes at most {most}", "stop_sequences")
    return tuple(stops)


def _template(fields: Fields) -> Mapping[str, Any]:
    """Return the variables of the chat template. Those of ``chat_template_kwargs``, vLLM's extension, win."""
    variables: dict[str, Any] = {}
    thinks = _thinks(fields)
    if thinks is not None:
        variables |= dict.fromkeys(REASONING_SWITCHES, thinks)
    output = fields.object("output_config")
    if output is not None and output.value("effort") is not None:
        variables["reasoning_effort"] = output.choice("effort", _EFFORTS)
    given = fields.object("chat_template_kwargs")
    return variables if given is None else {**variables, **given.plain()}


def _thinks(fields: Fields) -> bool | None:
    """Return whether the model is to reason: ``thinking`` is an object, or a boolean as for chat completions. The
    model itself decides how long."""
    if isinstance(fields.value("thinking"), bool):
        return fields.flag("thinking")
    thinking = fields.object("thinking")
    if thinking is None:
        return None
    kind = thinking.choice("type", _THINKING)
    if kind == "enabled" and thinking.optional_integer("budget_tokens", low=1) is None:
        raise invalid("thinking needs budget_tokens", thinking.path("budget_tokens"))
    return kind != "disabled"


def _shows_thinking(fields: Fields) -> bool:
    thinking = None if isinstance(fields.value("thinking"), bool) else fields.object("thinking")
    return thinking is None or thinking.optional_choice("display", ("summarized", "omitted")) != "omitted"


def _content(fields: Fields) -> Form | None:
    """Return the form of the answer's text, from the JSON Schema of ``output_config``, or of its older name
    ``output_format``."""
    output = fields.object("output_config")
    form = output.object("format") if output is not None else None
    form = form or fields.object("output_format")
    if form is None:
        return None
    form.choice("type", ("json_schema",))
    return schema_form(form.value("schema"), form.path("schema"))


def _session(fields: Fields) -> str:
    metadata = fields.object("metadata")
    return "" if metadata is None else metadata.optional_text("user_id") or ""
