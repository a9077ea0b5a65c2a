"""The tools of a request, and which of them the model may, must or must not call. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.errors import invalid
from reconciler.wire.form import FREE, Form

_CUSTOM = "custom"
"""The type of tools that the client describes; it may be left out."""
_PLAIN = re.compile(r"[\w.-]{1,64}", re.ASCII)
DROPPED_MAX = 32
"""Names in the header."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tools:
    """What the model is told of tools, and what is asked of its calls."""

    shown: Sequence[Mapping[str, Any]] = ()
    """In the shape of chat templates."""
    dropped: Sequence[str] = ()
    """The types of those that only Anthropic's own models know, or that run on its servers."""
    form: Form = FREE
    calls_max: int | None = None


def parse_tools(fields: Fields) -> Tools:
    """Return the tools of a request. Raises ``ApiError`` (400) with the path of what is wrong."""
    shown: list[Mapping[str, Any]] = []
    strict: list[str] = []
    dropped: list[str] = []
    for tool in fields.objects("tools"):
        kind = tool.optional_text("type")
        if kind not in (None, _CUSTOM):
            dropped.append(kind if _PLAIN.fullmatch(kind or "") else "unnamed")
            continue
        shown.append(_tool(tool))
        if tool.flag("strict"):
            strict.append(tool.text("name"))
    names = tuple(tool["function"]["name"] for tool in shown)
    found = _chosen(fields, names, tuple(strict))
    if found is None:
        return Tools(dropped=_once(dropped))
    form, calls_max = found
    return Tools(tuple(shown), _once(dropped), form, calls_max)


def _once(names: Sequence[str]) -> Sequence[str]:
    return tuple(dict.fromkeys(names))[:DROPPED_MAX]


def _chosen(fields: Fields, names: Sequence[str], strict: tuple[str, ...]) -> tuple[Form, int | None] | None:
    """Return what ``tool_choice`` asks for, and the most calls; None where the model is to see no tools."""
    choice = fields.object("tool_choice")
    if choice is None:
        return Form(strict=strict), None
    kind = choice.choice("type", ("auto", "any", "tool", "none"))
    calls_max = 1 if names and choice.flag("disable_parallel_tool_use") else None
    match kind:
        case "none":
            return None
        case "auto":
            return Form(strict=strict), calls_max
        case "any" if not names:
            raise invalid("there is no tool to call", choice.path("type"))
        case "any":
            return Form(calls_required=True, strict=strict), calls_max
        case _:
            name = choice.text("name")
            if name not in names:
                raise invalid(f"there is no tool {name!r:.80}", choice.path("name"))
            return Form(calls_required=True, callable=(name,), strict=strict), calls_max


def _tool(tool: Fields) -> Mapping[str, Any]:
    rendered: dict[str, Any] = {"name": tool.text("name")}
    description = tool.optional_text("description")
    if description is not None:
        rendered["description"] = description
    schema = tool.object("input_schema")
    if schema is None:
        raise invalid("a tool needs an input_schema", tool.path("input_schema"))
    rendered["parameters"] = schema.plain()
    return {"type": "function", "function": rendered}
