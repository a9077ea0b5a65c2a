"""Calls as the model writes them, for chat templates that leave out those of earlier turns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.runner.markup.answer import Family
from reconciler.runner.markup.headed_calls import HeadedCalls
from reconciler.runner.markup.json_calls import JsonCalls
from reconciler.runner.markup.loose_calls import LooseCalls

from .cut_off import as_object


def written(calls: Sequence[Mapping[str, Any]], family: Family) -> str:
    """Return calls as text: a list in JSON, where no template of the family leaves them out."""
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
