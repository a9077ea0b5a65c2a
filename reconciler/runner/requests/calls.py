"""Calls of earlier turns in the form that the model's chat template takes: their ids, their arguments, and all of them
as text. Pure.

A client sends back what it was given, but a conversation may have begun with another model. Kimi's template writes the id
where others write the name, as ``functions.NAME:INDEX``, and that of Mistral takes nine letters and digits alone. Models
are cut off in the middle of a call, and some write arguments that are no JSON object.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.runner.markup.answer import Family
from reconciler.runner.markup.headed_calls import HeadedCalls
from reconciler.runner.markup.json_calls import JsonCalls
from reconciler.runner.markup.json_text import DEPTH_MAX
from reconciler.runner.markup.loose_calls import LooseCalls

SHORT = re.compile(r"[a-zA-Z0-9]{9}")
WRAPPED = "arguments"
"""The key below which arguments stand that are JSON, but no object, or no JSON."""
_HALF_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*(\\(?:u[0-9a-fA-F]{0,3})?)$")
_HALF_ENTRY = re.compile(r'\s*,?\s*("(?:[^"\\]|\\.)*+(?:\\|"\s*(?::\s*[\w.+-]*)?)?)?', re.DOTALL)
"""All that may be lost at the end of an object: a key without a whole value."""
_HALF_ITEM = re.compile(r"\s*,?\s*[\w.+-]*")
"""The same of a list."""


def shape_ids(messages: Sequence[dict[str, Any]], pattern: str, short: bool) -> int:
    """Replace ids in place, and those of results with them. Return how many calls have another one.

    ``pattern`` is a form with ``{name}`` and ``{index}``, which counts all calls; empty: any form, or with ``short`` nine
    letters and digits.
    """
    renamed: dict[str, str] = {}
    count = index = 0
    for message in messages:
        for call in message.get("tool_calls") or ():
            old = str(call.get("id"))
            new = _by_pattern(call, pattern, index) if pattern else short_id(old) if short else old
            call["id"] = renamed[old] = new
            count += new != old
            index += 1
        if "tool_call_id" in message:
            old = str(message["tool_call_id"])
            message["tool_call_id"] = renamed.get(old, short_id(old) if short else old)
    return count


def short_id(id: str) -> str:
    """Return an id of nine letters and digits: the same for the same one, and itself where it is one."""
    return id if SHORT.fullmatch(id) else hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:9]


def _by_pattern(call: Mapping[str, Any], pattern: str, index: int) -> str:
    function = call.get("function")
    name = str(function.get("name")) if isinstance(function, Mapping) else ""
    id = str(call.get("id"))
    before, _, after = (part.replace("{name}", name) for part in pattern.partition("{index}"))
    fits = id.startswith(before) and id.endswith(after) and id[len(before) : len(id) - len(after)].isdecimal()
    return id if fits else pattern.format(name=name, index=index)


def as_object(text: str) -> dict[str, Any]:
    """Return arguments as an object: what was cut off ends where it was cut, anything else stands below ``WRAPPED``."""
    if not text.strip():
        return {}
    for candidate in _candidates(text):
        try:
            found = json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            continue
        if found is None:
            return {}
        return found if isinstance(found, dict) else {WRAPPED: found}
    return {WRAPPED: text}


def _candidates(text: str) -> Iterator[str]:
    """Yield the text, then what it may have been before it was cut, the longest first."""
    yield text
    if not text.lstrip().startswith("{"):
        return
    closers: list[str] = []
    end, closers_there = 0, ""
    """The last place where it could have ended."""
    quoted = escaped = False
    for at, character in enumerate(text):
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted = True
        elif character in "{[":
            if len(closers) == DEPTH_MAX:
                return
            closers.append("}" if character == "{" else "]")
            end, closers_there = at + 1, "".join(closers)
        elif character in "}]" and closers:
            closers.pop()
            end, closers_there = at + 1, "".join(closers)
        elif character == ",":
            end, closers_there = at, "".join(closers)
    whole = text
    if quoted:
        half = _HALF_ESCAPE.search(text)
        whole = (text[: half.start(1)] if half else text) + '"'
    if closers:
        yield whole + "".join(reversed(closers))
        rest = _HALF_ENTRY if closers_there.endswith("}") else _HALF_ITEM
        if rest.fullmatch(text, end):
            yield text[:end] + closers_there[::-1]


def written(calls: Sequence[Mapping[str, Any]], family: Family) -> str:
    """Return calls as the model writes them, for templates that leave out those of earlier turns: a list in JSON, where no
    template of the family does."""
    match family.format:
        case LooseCalls(quote="", before="") as form:
            return f"{form.starts[0]}[{', '.join(map(_pythonic, calls))}]{form.ends[0]}"
        case HeadedCalls(section=str(section)) as form if section and form.written:
            inner = "".join(form.call + _headed(call, *form.written[0]) for call in calls)
            return section + inner + form.section_ends[0]
        case JsonCalls(starts=[start, *_], ends=[end, *_]):
            return start + _listed(calls) + end
        case _:
            return _listed(calls)


def _listed(calls: Sequence[Mapping[str, Any]]) -> str:
    return _dumps([{"name": _name(call), "arguments": call["function"]["arguments"]} for call in calls])


def _pythonic(call: Mapping[str, Any]) -> str:
    given = call["function"]["arguments"]
    given = as_object(given) if isinstance(given, str) else given
    return f"{_name(call)}({', '.join(f'{key}={value!r}' for key, value in given.items())})"


def _headed(call: Mapping[str, Any], before: str, after: str) -> str:
    given = call["function"]["arguments"]
    number = str(call["id"]).rpartition(":")[2]
    head = before.format(name=_name(call), number=number, id=call["id"])
    return f"{head}{given if isinstance(given, str) else _dumps(given)}{after}"


def _name(call: Mapping[str, Any]) -> str:
    return str(call["function"]["name"])


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
