"""Arguments of calls that are no JSON object, as one: models are cut off in the middle of a call, and some write none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from reconciler.runner.markup.json_text import DEPTH_MAX

WRAPPED = "arguments"
"""The key below which arguments stand that are JSON, but no object, or no JSON."""
_HALF_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*(\\(?:u[0-9a-fA-F]{0,3})?)$")
_HALF_ENTRY = re.compile(r'\s*,?\s*("(?:[^"\\]|\\.)*+(?:\\|"\s*(?::\s*[\w.+-]*)?)?)?', re.DOTALL)
"""All that may be lost at the end of an object: a key without a whole value."""
_HALF_ITEM = re.compile(r"\s*,?\s*[\w.+-]*")
"""The same of a list."""


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
