"""Calls as JSON objects between two markers: alone, one after the other, or in a list.

The names of the fields are those that the chat templates ask for: ``name`` and ``arguments`` (Hermes and Qwen, Granite,
Phi, Apriel, MiniMax M1, Mistral Nemo), ``parameters`` (Llama 3), ``tool_name``, ``tool_call_id`` and ``parameters``
(Command), or the tool's name as the only field (Apertus). Salvaged as in vLLM's ``tool_parsers/hermes_tool_parser.py``: a
last end marker that is missing, and arguments that are a string of JSON.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from .calls import Calls
from .json_text import copy_object, read_string, read_value
from .reading import Malformed, Reading, Text

NAMES = ("name", "tool_name")
ARGUMENTS = ("arguments", "parameters")


@dataclasses.dataclass(frozen=True)
class JsonCalls:
    """Calls between ``starts`` and ``ends``."""

    starts: Sequence[str] = ()
    ends: Sequence[str] = ()
    bare: bool = False
    """An answer may begin with a call that no marker announces; it is one if its name is that of a tool."""
    name_is_key: bool = False
    separators: Sequence[str] = (",", ";")

    @property
    def markers(self) -> Sequence[str]:
        return (*self.starts, *self.ends)

    def read(self, text: Text, calls: Calls) -> Reading[None]:
        if (yield from text.take(*self.starts)):
            yield from self.read_announced(text, calls)
        else:
            yield from self._read_series(text, calls, unannounced=True)

    def read_announced(self, text: Text, calls: Calls) -> Reading[None]:
        """Read calls after one of ``starts``."""
        yield from text.skip_space()
        listed = yield from text.take("[")
        yield from text.skip_space()
        yield from self._read_series(text, calls, unannounced=False)
        if listed:
            yield from text.expect("]")
        yield from text.skip_space()
        yield from text.take(*self.ends)

    def _read_series(self, text: Text, calls: Calls, unannounced: bool) -> Reading[None]:
        while True:
            yield from self._read_call(text, calls, unannounced)
            yield from text.skip_space()
            separated = yield from text.take(*self.separators)
            yield from text.skip_space()
            if not separated and (yield from text.peek()) != "{":
                return

    def _read_call(self, text: Text, calls: Calls, unannounced: bool) -> Reading[None]:
        yield from text.expect("{")
        yield from text.skip_space()
        if self.name_is_key:
            calls.begin((yield from read_string(text)))
            yield from _colon(text)
            yield from _copy_arguments(text, calls)
        else:
            yield from _read_fields(text, calls, unannounced)
        yield from text.skip_space()
        yield from text.expect("}")
        calls.end()


def _read_fields(text: Text, calls: Calls, unannounced: bool) -> Reading[None]:
    """Read the fields of a call, in any order, up to its brace. Arguments stream once the name is known."""
    name, id, held, begun = "", "", "", False
    while not (yield from text.at(("}",))):
        key = yield from read_string(text)
        yield from _colon(text)
        if key in NAMES:
            name = yield from read_string(text)
            if unannounced and not calls.knows(name):
                raise Malformed(f"there is no tool {name}")
        elif key in ARGUMENTS and name and not begun:
            calls.begin(name, id)
            yield from _copy_arguments(text, calls)
            begun = True
        elif key in ARGUMENTS:
            held = json.dumps((yield from read_value(text)), ensure_ascii=False)
        elif key in ("function", "type", "id", "tool_call_id"):
            value = yield from read_value(text)
            if key == "function" and isinstance(value, dict):
                name = str(value.get("name", ""))
                held = json.dumps(value.get("arguments", {}), ensure_ascii=False)
        elif unannounced:
            raise Malformed("an object that is no call")
        else:
            yield from read_value(text)
        yield from text.skip_space()
        if not (yield from text.take(",")):
            break
        yield from text.skip_space()
    if not begun:
        if unannounced and not held:
            raise Malformed("an object without arguments")
        calls.begin(name, id)
        calls.fragment(_without_brace(json.loads(held or "{}")))


def _colon(text: Text) -> Reading[None]:
    yield from text.skip_space()
    yield from text.expect(":")
    yield from text.skip_space()


def _copy_arguments(text: Text, calls: Calls) -> Reading[None]:
    if (yield from text.peek()) == "{":
        yield from copy_object(text, calls.fragment)
    else:
        calls.fragment(_without_brace((yield from read_value(text))))


def _without_brace(arguments: object) -> str:
    """Return the JSON of arguments without the last brace. Raises ``Malformed`` unless they are an object.

    They may also be a string of JSON, or null where there are none.
    """
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}", strict=False)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"arguments are no JSON: {error}") from None
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise Malformed("arguments are no object")
    return json.dumps(arguments, ensure_ascii=False)[:-1]
