"""Turns the JSON of a request into ``Generate``. Pure.

The rules are those of chat completions: null is the same as absent, an int is a float, and unknown fields are
ignored. A known field that is not supported is refused by name (``dialects/parameter_table.py``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from reconciler.gateway.dialects.content import Contents
from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.dialects.forms import ANY_OBJECT, form_of, schema_form
from reconciler.gateway.dialects.known_parameters import refuse_unsupported, refuse_unsupported_inside
from reconciler.gateway.dialects.openai.parameters import (
    LIKELIEST_MAX,
    parse_ending,
    parse_include_usage,
    parse_model,
    parse_object,
    parse_repetition,
    parse_sampling,
    parse_session,
    parse_stop,
    parse_unset,
)
from reconciler.gateway.dialects.openai.request import EFFORTS
from reconciler.gateway.dialects.parameter_table import RESPONSES
from reconciler.gateway.errors import invalid
from reconciler.wire.form import Form
from reconciler.wire.generation import REASONING_SWITCHES, Generate

from .items import parse_input
from .tools import Choice, Tools, parse_choice, parse_tools

_SUMMARIES = ("auto", "concise", "detailed")
_LOGPROBS, _SEALED = "message.output_text.logprobs", "reasoning.encrypted_content"
_INCLUDABLE = (
    _LOGPROBS,
    _SEALED,
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "web_search_call.action.sources",
    "web_search_call.results",
)
"""The others are parts of items that no answer has."""
_METADATA_MAX = 16
"""The most entries: OpenAI's limit."""


@dataclasses.dataclass(frozen=True, slots=True)
class ResponseRequest:
    """A parsed request, and how to write the answer."""

    model: str
    """Empty if the client names none."""
    generate: Generate
    """Without its id, which belongs to attempts."""
    stream: bool
    session: str
    tools: Tools
    summarized: bool
    """True if reasoning is sent as its own summary: clients that ask for a summary show nothing else."""
    sealed: bool
    """True if items of reasoning have ``encrypted_content``."""
    repeated: Mapping[str, Any]
    """Fields of the request that the answer repeats."""


def parse_response(body: bytes, drawn_seed: int) -> ResponseRequest:
    """Check a body and translate it. ``drawn_seed`` is for a client that gave none.

    Raises ``ApiError`` (400) with the path of the field that is wrong.
    """
    fields = parse_object(body)
    refuse_unsupported(fields, RESPONSES)
    parse_include_usage(fields)
    tools = parse_tools(fields)
    choice = parse_choice(fields, tools)
    included = _included(fields)
    text = _text(fields)
    reasoning = _reasoning(fields)
    tokens_max = fields.optional_integer("max_output_tokens", low=1)
    parallel = fields.flag("parallel_tool_calls", default=True)
    rendered = tuple(tool.rendered for tool in tools.known) if choice.use.offered else ()
    contents = Contents()
    messages = parse_input(fields, contents)
    generate = Generate(
        request="",
        messages=messages,
        tools=rendered,
        tokens_max=tokens_max,
        stop=parse_stop(fields),
        sampling=parse_sampling(fields, drawn_seed),
        tool_calls_max=1 if rendered and not parallel else None,
        template=_template(fields, reasoning["effort"]),
        ending=parse_ending(fields, tokens_max),
        repetition=parse_repetition(fields),
        logprobs=_logprobs(fields, included),
        unset=parse_unset(fields),
        form=_form(fields, tools, choice),
        replaced=contents.replaced,
    )
    return ResponseRequest(
        model=parse_model(fields),
        generate=generate,
        stream=fields.flag("stream"),
        session=parse_session(fields),
        tools=tools,
        summarized=reasoning["summary"] is not None,
        sealed=_SEALED in included,
        repeated={
            "instructions": fields.optional_text("instructions"),
            "max_output_tokens": tokens_max,
            "max_tool_calls": fields.optional_integer("max_tool_calls", low=1),
            "metadata": _metadata(fields),
            "parallel_tool_calls": parallel,
            "reasoning": reasoning,
            "temperature": fields.value("temperature"),
            "text": text,
            "tool_choice": choice.shown,
            "tools": tools.shown,
            "top_logprobs": fields.value("top_logprobs") or 0,
            "top_p": fields.value("top_p"),
            "truncation": _truncation(fields),
            **_repeated_texts(fields),
        },
    )


def _included(fields: Fields) -> frozenset[str]:
    value = fields.value("include")
    if value is None:
        return frozenset()
    if not isinstance(value, list):
        raise invalid("include must be a list", "include")
    for index, entry in enumerate(value):
        if entry not in _INCLUDABLE:
            raise invalid(f"include takes: {', '.join(_INCLUDABLE)}", f"include[{index}]")
    return frozenset(value)


def _logprobs(fields: Fields, included: frozenset[str]) -> int | None:
    """Return how many of the likeliest tokens to report with each token; None if the request asks for none."""
    count = fields.integer("top_logprobs", 0, low=0, high=LIKELIEST_MAX)
    return count if count or _LOGPROBS in included else None


def _reasoning(fields: Fields) -> Mapping[str, Any]:
    """Return ``effort`` and ``summary``, each None if the client does not say."""
    reasoning = fields.object("reasoning")
    if reasoning is None:
        return {"effort": None, "summary": None}
    refuse_unsupported_inside(reasoning, "reasoning")
    older = reasoning.optional_choice("generate_summary", _SUMMARIES)
    return {
        "effort": reasoning.optional_choice("effort", EFFORTS),
        "summary": reasoning.optional_choice("summary", _SUMMARIES) or older,
    }


def _template(fields: Fields, effort: str | None) -> Mapping[str, Any]:
    """Return the variables of the chat template. Those of ``chat_template_kwargs``, vLLM's extension, win."""
    variables: dict[str, Any] = {}
    if effort == "none":
        variables |= dict.fromkeys(REASONING_SWITCHES, False)
    elif effort is not None:
        variables["reasoning_effort"] = effort
    given = fields.object("chat_template_kwargs")
    return variables if given is None else {**variables, **given.plain()}


def _format(fields: Fields) -> Fields:
    """Return the form of text that the request asks for."""
    text = fields.object("text") or Fields({}, "text")
    refuse_unsupported_inside(text, "text")
    return text.object("format") or Fields({"type": "text"})


def _text(fields: Fields) -> Mapping[str, Any]:
    """Return the form of text as answers repeat it."""
    asked = _format(fields)
    kind = asked.choice("type", ("text", "json_object", "json_schema"))
    if kind != "json_schema":
        return {"format": {"type": kind}}
    named = {"type": kind, "name": asked.text("name"), "schema": asked.value("schema")}
    description = asked.optional_text("description")
    described = {} if description is None else {"description": description}
    return {"format": {**named, **described, "strict": asked.flag("strict")}}


def _form(fields: Fields, tools: Tools, choice: Choice) -> Form:
    asked = _format(fields)
    content = None
    if asked.value("type") == "json_object":
        content = schema_form(ANY_OBJECT, asked.path("type"))
    elif asked.value("type") == "json_schema":
        content = schema_form(asked.value("schema"), asked.path("schema"))
    form = form_of(content, choice.use, tools.strict, [tool.called for tool in tools.known])
    paths = tuple(tool.path for tool in tools.known) if choice.use.offered else ()
    return dataclasses.replace(form, tool_paths=paths)


def _metadata(fields: Fields) -> Mapping[str, Any]:
    metadata = fields.object("metadata")
    if metadata is None:
        return {}
    entries = {name: metadata.optional_text(name) for name in metadata.names()}
    if len(entries) > _METADATA_MAX:
        raise invalid(f"metadata takes at most {_METADATA_MAX} entries, got {len(entries)}", "metadata")
    return {name: value for name, value in entries.items() if value is not None}


def _truncation(fields: Fields) -> str:
    """Return the treatment of a prompt that is too long: it is refused, even if the client asks to cut it."""
    fields.optional_choice("truncation", ("auto", "disabled"))
    return "disabled"


def _repeated_texts(fields: Fields) -> Mapping[str, str]:
    """Return the fields that answers have only if the request has them as text; values of other types do nothing."""
    given = {name: fields.value(name) for name in ("prompt_cache_key", "safety_identifier", "user")}
    return {name: value for name, value in given.items() if isinstance(value, str)}
