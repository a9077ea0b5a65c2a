"""The tools of a request, and which of them the model may, must or must not call. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.dialects.forms import ToolUse, form_of, refuse_equal_names
from reconciler.gateway.dialects.openai.messages import shown_function
from reconciler.gateway.errors import invalid
from reconciler.wire.form import FREE, Form

_CUSTOM = "custom"
"""The type of tools that the client describes; it may be left out."""
_PLAIN = re.compile(r"[\w.-]{1,64}", re.ASCII)
DROPPED_MAX = 32
"""Names in the header."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tools:
    """The tools that the model sees, and the form that its calls must have."""

    shown: Sequence[Mapping[str, Any]] = ()
    """In the shape of chat templates."""
    dropped: Sequence[str] = ()
    """The types of those that only Anthropic's own models know, or that run on its servers."""
    form: Form = FREE
    calls_max: int | None = None


def parse_tools(fields: Fields, content: Form | None = None) -> Tools:
    """Return the tools of a request; ``content`` is the form that it asks of the text. Raises ``ApiError`` (400) with
    the path of the faulty field."""
    own: list[Fields] = []
    dropped: dict[str, None] = {}
    for tool in fields.objects("tools"):
        kind = tool.optional_text("type")
        if kind in (None, _CUSTOM):
            own.append(tool)
        else:
            dropped[kind if _PLAIN.fullmatch(kind or "") else "unnamed"] = None
    rendered = tuple(_tool(tool) for tool in own)
    refuse_equal_names(tool.text("name") for tool in own)
    strict = [tool.text("name") for tool in own if tool.flag("strict")]
    use, calls_max = _use(fields)
    form = form_of(content, use, strict, [tool.text("name") for tool in own])
    return Tools(
        shown=rendered if use.offered else (),
        dropped=tuple(dropped)[:DROPPED_MAX],
        form=dataclasses.replace(form, tool_paths=tuple(tool.path("input_schema") for tool in own)),
        calls_max=calls_max if rendered and use.offered else None,
    )


def _use(fields: Fields) -> tuple[ToolUse, int | None]:
    """Return the use of tools that ``tool_choice`` asks for, and the most calls."""
    choice = fields.object("tool_choice")
    if choice is None:
        return ToolUse(), None
    calls_max = 1 if choice.flag("disable_parallel_tool_use") else None
    match choice.choice("type", ("auto", "any", "tool", "none")):
        case "auto":
            return ToolUse(), calls_max
        case "any":
            return ToolUse(required=True), calls_max
        case "tool":
            return ToolUse(required=True, names=(choice.text("name"),)), calls_max
        case _:
            return ToolUse(offered=False), None


def _tool(tool: Fields) -> Mapping[str, Any]:
    shown = shown_function(tool, tool.text("name"), "input_schema")
    if "parameters" not in shown["function"]:
        raise invalid("a tool needs an input_schema", tool.path("input_schema"))
    return shown
