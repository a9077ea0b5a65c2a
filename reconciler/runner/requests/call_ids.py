"""The ids of calls in a conversation, in the form that the model's chat template takes.

A client sends back what it was given, but a conversation may have begun with another model. Kimi's template writes the id
where others write the name, as ``functions.NAME:INDEX``, and that of Mistral takes nine letters and digits alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

SHORT = re.compile(r"[a-zA-Z0-9]{9}")


def shape_ids(messages: Sequence[dict[str, Any]], pattern: str, short: bool) -> None:
    """Replace ids in place, and those of results with them.

    ``pattern`` is a form with ``{name}`` and ``{index}``, which counts all calls; empty: any form, or with ``short`` nine
    letters and digits.
    """
    renamed: dict[str, str] = {}
    index = 0
    for message in messages:
        for call in message.get("tool_calls") or ():
            if pattern:
                call["id"] = _keep(renamed, call.get("id"), _by_pattern(call, pattern, index))
            elif short:
                call["id"] = _keep(renamed, call.get("id"), short_id(str(call.get("id"))))
            index += 1
        if message.get("tool_call_id") in renamed:
            message["tool_call_id"] = renamed[message["tool_call_id"]]


def short_id(id: str) -> str:
    """Return an id of nine letters and digits: the same for the same one, and itself where it is one."""
    return id if SHORT.fullmatch(id) else hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:9]


def _by_pattern(call: Mapping[str, Any], pattern: str, index: int) -> str:
    function = call.get("function")
    name = str(function.get("name")) if isinstance(function, Mapping) else ""
    id = str(call.get("id"))
    form = re.escape(pattern).replace(r"\{name\}", re.escape(name)).replace(r"\{index\}", r"\d+")
    return id if re.fullmatch(form, id) else pattern.format(name=name, index=index)


def _keep(renamed: dict[str, str], old: Any, new: str) -> str:
    if isinstance(old, str):
        renamed[old] = new
    return new
