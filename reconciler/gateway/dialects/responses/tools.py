"""The tools of a request: those that the model sees, their names for the client, and those that it may call. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.dialects.forms import ToolUse, refuse_equal_names
from reconciler.gateway.dialects.known_parameters import refuse_unsupported_inside
from reconciler.gateway.dialects.openai.messages import shown_function
from reconciler.gateway.errors import invalid, unsupported

_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_.:-]+")
_DROPPED_MAX = 32
"""The most dropped tools that are named."""
_NAME_MAX = 64
"""The most characters of a name that a header repeats."""


def called_name(namespace: str | None, name: str) -> str:
    """Return the model's name for a tool: models know no namespaces."""
    if not namespace:
        return name
    return f"{namespace}{name}" if namespace.endswith("__") else f"{namespace}__{name}"


@dataclasses.dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model sees."""

    name: str
    """As the client knows it."""
    namespace: str | None
    rendered: Mapping[str, Any]
    """As chat templates take it, with the name that the model knows."""
    strict: bool
    path: str
    """The path of its parameters in the request."""

    @property
    def called(self) -> str:
        """Return the name that the model knows."""
        return called_name(self.namespace, self.name)


@dataclasses.dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a request."""

    known: tuple[Tool, ...] = ()
    dropped: tuple[str, ...] = ()
    """Type and name of the tools that the model does not see, in characters that headers allow."""
    shown: tuple[Mapping[str, Any], ...] = ()
    """The known ones as answers repeat them."""

    @property
    def strict(self) -> tuple[str, ...]:
        """Return the model's names of the tools whose calls must satisfy their schema."""
        return tuple(tool.called for tool in self.known if tool.strict)

    def named(self, called: str) -> tuple[str, str | None]:
        """Return the client's name and namespace of the tool that the model called."""
        found = next((tool for tool in self.known if tool.called == called), None)
        return (called, None) if found is None else (found.name, found.namespace)


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """The client's choice of tools."""

    use: ToolUse
    """With the model's names."""
    shown: Any
    """As answers repeat it."""


def parse_tools(fields: Fields) -> Tools:
    """Return the tools. Tools other than functions are dropped: nothing here runs them, and clients offer them
    unasked.

    Raises ``ApiError`` (400) for a function that is wrong, and for two that the model could not tell apart.
    """
    found = [entry for tool in fields.objects("tools") for entry in _entries(tool)]
    known = tuple(entry for entry in found if isinstance(entry, Tool))
    dropped = [entry for entry in found if isinstance(entry, str)]
    if len(dropped) > _DROPPED_MAX:
        dropped = [*dropped[:_DROPPED_MAX], f"and-{len(dropped) - _DROPPED_MAX}-more"]
    refuse_equal_names(tool.called for tool in known)
    return Tools(known, tuple(dropped), tuple(_shown(known, _descriptions(fields))))


def _descriptions(fields: Fields) -> Mapping[str, str]:
    """Return the description of each namespace, or else its name: OpenAI's objects do not leave it empty."""
    spaces = [tool for tool in fields.objects("tools") if tool.value("type") == "namespace"]
    return {tool.text("name"): tool.optional_text("description") or tool.text("name") for tool in spaces}


def _entries(tool: Fields) -> Iterator[Tool | str]:
    kind = tool.text("type")
    if kind == "function":
        yield _function(tool, None)
    elif kind == "namespace":
        namespace = tool.text("name")
        for nested in tool.objects("tools"):
            if nested.value("type") == "function":
                yield _function(nested, namespace)
            else:
                yield _label(f"namespace:{namespace}", nested)
    else:
        yield _label("", tool)


def _label(prefix: str, tool: Fields) -> str:
    parts = [prefix, tool.text("type"), tool.value("name"), tool.value("server_label")]
    named = ":".join(part[:_NAME_MAX] for part in parts if isinstance(part, str) and part)
    return _UNNAMEABLE.sub("_", named)


def _function(tool: Fields, namespace: str | None) -> Tool:
    refuse_unsupported_inside(tool, "tools[].function")
    name = tool.text("name")
    rendered = shown_function(tool, called_name(namespace, name))
    return Tool(name, namespace, rendered, tool.flag("strict"), tool.path("parameters"))


def _shown(known: Sequence[Tool], descriptions: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Yield the tools as the fields of OpenAI's objects, which are all there."""
    spaces: dict[str, list[Mapping[str, Any]]] = {}
    for tool in known:
        function = tool.rendered["function"]
        shown = {
            "type": "function",
            "name": tool.name,
            "description": function.get("description"),
            "parameters": function.get("parameters"),
            "strict": tool.strict,
        }
        if tool.namespace is None:
            yield shown
        else:
            spaces.setdefault(tool.namespace, []).append(shown)
    for name, tools in spaces.items():
        yield {"type": "namespace", "name": name, "description": descriptions[name], "tools": tools}


def parse_choice(fields: Fields, tools: Tools) -> Choice:
    """Return the choice. Raises ``ApiError`` (400) if it is wrong, or names a tool that does not exist."""
    value = fields.value("tool_choice")
    if value is None or value == "auto":
        return Choice(ToolUse(), "auto")
    if value == "none":
        return Choice(ToolUse(offered=False), value)
    if value == "required":
        return Choice(ToolUse(required=True), value)
    choice = fields.object("tool_choice") if isinstance(value, dict) else None
    if choice is None:
        raise invalid('tool_choice must be "none", "auto", "required" or an object', "tool_choice")
    kind = choice.text("type")
    if kind == "function":
        tool = _find(choice, _by_name(tools))
        return Choice(ToolUse(required=True, names=(tool.called,)), _reference(tool))
    if kind == "allowed_tools":
        return _allowed(choice, tools)
    raise unsupported(
        f"a tool_choice of type {kind[:60]!r}", choice.path("type"), "only functions are called"
    )


def _allowed(choice: Fields, tools: Tools) -> Choice:
    """Return the choice of some tools. If no function is among them, the model must not call any."""
    required = choice.choice("mode", ("auto", "required")) == "required"
    listed = [entry for entry in choice.objects("tools") if entry.text("type") == "function"]
    by_name = _by_name(tools)
    found = [_find(entry, by_name) for entry in listed]
    if required and not found:
        raise invalid("no function is allowed, and a call is required", choice.path("tools"))
    shown = {
        "type": "allowed_tools",
        "mode": "required" if required else "auto",
        "tools": [_reference(tool) for tool in found],
    }
    names = tuple(tool.called for tool in found)
    return Choice(ToolUse(offered=bool(found), required=required, names=names), shown)


def _reference(tool: Tool) -> Mapping[str, Any]:
    space = {} if tool.namespace is None else {"namespace": tool.namespace}
    return {"type": "function", "name": tool.name, **space}


def _by_name(tools: Tools) -> Mapping[tuple[str, str | None], Sequence[Tool]]:
    """Return the tools by the names that a choice may give: the name alone, or with the namespace."""
    found: dict[tuple[str, str | None], list[Tool]] = {}
    for tool in tools.known:
        for space in {None, tool.namespace}:
            found.setdefault((tool.name, space), []).append(tool)
    return found


def _find(named: Fields, by_name: Mapping[tuple[str, str | None], Sequence[Tool]]) -> Tool:
    name, namespace = named.text("name"), named.optional_text("namespace")
    found = by_name.get((name, namespace), ())
    if len(found) != 1:
        text = f"{'several tools have' if found else 'no tool has'} the name {name[:60]!r}"
        raise invalid(text, named.path("name"))
    return found[0]
