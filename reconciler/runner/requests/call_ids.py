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
