"""The grammar of calls, for each way in which families write them. Pure.

``markup`` reads all that it allows as calls whose arguments satisfy the schemas of their tools.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

from reconciler.runner.markup.calls import Format
from reconciler.runner.markup.headed_calls import HeadedCalls
from reconciler.runner.markup.json_calls import JsonCalls
from reconciler.runner.markup.loose_calls import LooseCalls
from reconciler.runner.markup.nested_calls import NestedCalls
from reconciler.runner.markup.tagged_calls import TaggedCalls

from .lark import GAP, Grammar, choice, escaped, many, quoted, regex, sequence
from .schemas import Schema
from .values import Loose, Nested, Tagged, spelled

NUMBER = regex("[0-9]{1,3}")
ID = regex("[A-Za-z0-9_-]{1,40}")


@dataclasses.dataclass(frozen=True)
class Tool:
    name: str
    path: str
    """The path of its parameters in the request."""
    schema: Schema | None
    """The schema of its arguments; None: any object."""
    names: Sequence[str] = ()
    """The names of its declared arguments."""


class Calls:
    """Calls of some tools in one format."""

    def __init__(
        self, grammar: Grammar, format: Format, tools: Sequence[Tool], several: bool, ends: Sequence[str]
    ) -> None:
        """``several`` is whether an answer may have more than one; ``ends`` are texts of the model's end tokens, which a
        grammar does not write: they end the answer."""
        self.tools = tools
        self.several = several
        self._grammar = grammar
        self._format = format
        self._ends = ends

    def only(self, tool: Tool) -> Calls:
        """Return one call of one tool."""
        return Calls(self._grammar, self._format, (tool,), False, self._ends)

    def all(self) -> str:
        """Return an answer of calls alone."""
        starts = self._format.starts
        blocks = [sequence(self._literal(start), self.after(start)) for start in starts[:1] or ("",)]
        if self._format.bare:
            blocks.append(self.after(""))
        return self._series(choice(*blocks), GAP)

    def after(self, start: str) -> str:
        """Return what follows the text that begins a call or several."""
        match self._format:
            case JsonCalls() as format:
                return self._json(format)
            case HeadedCalls() as format:
                return self._headed(format, start)
            case TaggedCalls() as format:
                return self._tagged(format, start)
            case LooseCalls() as format:
                return self._loose(format)
            case NestedCalls() as format:
                return self._nested(format)
            case _:
                raise AssertionError(f"no grammar is known of {self._format}")

    def arguments(self, tool: Tool) -> str:
        """Return the arguments of a tool as JSON."""
        return self._grammar.json({"type": "object"} if tool.schema is None else tool.schema)

    def _literal(self, text: str) -> str:
        return self._grammar.literal(text)

    def _end(self, ends: Sequence[str]) -> str:
        """Return what ends a call: nothing, where that ends the answer."""
        written = [end for end in ends if end not in self._ends]
        return self._literal(written[0]) if written and len(written) == len(ends) else ""

    def _series(self, one: str, separator: str) -> str:
        """Return one, or several if there may be more than one call."""
        return sequence(one, many(sequence(separator, one))) if self.several else one

    def _each(self, write: Callable[[Tool], str]) -> str:
        return self._grammar.rule(choice(*(self._grammar.rule(write(tool)) for tool in self.tools)))

    def _json(self, format: JsonCalls) -> str:
        one = self._each(lambda tool: self._object(format, tool))
        if format.bare:
            return self._series(one, regex("[,;] ?"))
        listed = sequence(quoted("["), self._series(one, regex(", ?")), quoted("]"))
        return sequence(GAP, choice(one, listed), GAP, self._end(format.ends))

    def _object(self, format: JsonCalls, tool: Tool) -> str:
        name = escaped(json.dumps(tool.name, ensure_ascii=False))
        if format.name_is_key:
            return sequence(regex(rf"\{{{name}: ?"), self.arguments(tool), quoted("}"))
        id = r'("tool_call_id": ?"[0-9A-Za-z_-]{1,40}", ?)?'
        head = rf'\{{{id}"(tool_)?name": ?{name}, ?"(arguments|parameters)": ?'
        return sequence(regex(head), self.arguments(tool), regex(r'(, ?"id": ?"[0-9A-Za-z_-]{1,40}")?\}'))

    def _headed(self, format: HeadedCalls, start: str) -> str:
        one = self._each(lambda tool: self._with_head(format, tool))
        if start != format.section:
            listed = self._json(format.listed) if format.listed else None
            return choice(one, listed) if listed else one
        call = sequence(self._literal(format.call), one)
        return sequence(GAP, self._series(call, GAP), GAP, self._end(format.section_ends))

    def _with_head(self, format: HeadedCalls, tool: Tool) -> str:
        arguments = self.arguments(tool)
        return choice(
            *(
                sequence(self._template(head, tool.name), arguments, self._end((end,)) if end else "")
                for head, end in format.written
            )
        )

    def _template(self, template: str, name: str) -> str:
        """Return a text with ``{name}``, ``{number}`` and ``{id}`` in it."""
        return spelled(self._grammar, template, {"name": quoted(name), "number": NUMBER, "id": ID})

    def _tagged(self, format: TaggedCalls, start: str) -> str:
        values = Tagged(self._grammar, format)
        call = format.call if start != format.call else ""

        def write(tool: Tool) -> str:
            head = self._template(format.name_written, tool.name)
            return sequence(
                head,
                self._head_end(format),
                GAP,
                values.arguments(tool.schema, tool.path),
                self._literal(format.ends),
            )

        one = sequence(self._literal(call) if call else "", self._each(write))
        if not call:
            return one
        return sequence(GAP, self._series(one, GAP), GAP, self._end(format.region_ends[:1]))

    def _head_end(self, format: TaggedCalls) -> str:
        """Return what ends a name, unless the first argument or the end of the call does."""
        own = [end for end in format.head_ends if end not in (format.value, format.ends)]
        return self._literal(own[0]) if own else ""

    def _loose(self, format: LooseCalls) -> str:
        values = Loose(self._grammar, format)

        def write(tool: Tool) -> str:
            opened = quoted(format.before + tool.name + format.opens)
            return sequence(opened, values.arguments(tool.schema, tool.path), quoted(format.closes))

        one = self._each(write)
        if format.listed:
            one = sequence(quoted("["), self._series(one, regex(", ?")), quoted("]"))
        return sequence(one, self._end(format.ends))

    def _nested(self, format: NestedCalls) -> str:
        values = Nested(self._grammar, format)

        def write(tool: Tool) -> str:
            head = self._literal(format.mark + f'<invoke name="{tool.name}">')
            free = tool.schema is None
            inside = values.free(tool.names) if free else values.arguments(tool.schema or {}, tool.path)
            return sequence(head, GAP, inside, self._literal(format.mark + "</invoke>"))

        one = self._each(write)
        return sequence(GAP, self._series(one, GAP), GAP, self._literal(format.mark + "</tool_call>"))


def declared(tool: Any) -> tuple[str, Any]:
    function = tool.get("function") or {}
    return str(function.get("name", "")), function.get("parameters")
