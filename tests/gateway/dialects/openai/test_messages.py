"""Arguments of calls come as text or parsed, and templates render either."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.gateway.dialects.openai.messages import arguments_of


def nested(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("given", "rendered"),
    [
        ('{"city": "Oslo"}', {"city": "Oslo"}),
        ({"city": "Oslo"}, {"city": "Oslo"}),
        ("not JSON", "not JSON"),
        ("", ""),
        ("[1, 2]", "[1, 2]"),
        ([1, 2], "[1,2]"),
        (3, "3"),
        (None, "null"),
        (nested(100), '{"a":' * 100 + "1" + "}" * 100),
        (nested(1000), {}),
    ],
    ids=[
        "object",
        "parsed",
        "no JSON",
        "empty",
        "list",
        "parsed list",
        "number",
        "null",
        "deep",
        "too deep for anything",
    ],
)
def test_an_object_is_rendered_as_one_and_anything_else_as_its_text(given: Any, rendered: Any) -> None:
    assert arguments_of(given) == rendered
