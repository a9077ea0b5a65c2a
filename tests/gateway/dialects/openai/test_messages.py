"""Arguments of calls come as text or parsed, and templates render either."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.gateway.dialects.openai.messages import arguments_of, newest_of_user


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


ROLES = ("system", "developer", "user", "assistant", "tool")


@given(st.lists(st.sampled_from(ROLES), max_size=5))
def test_the_user_asks_last_where_nobody_has_answered_and_no_tool_was_right_before(roles: list[str]) -> None:
    """Instructions may follow the question. A text that an agent puts behind the output of a tool asks nothing."""
    asking = [
        at
        for at, role in enumerate(roles)
        if role == "user"
        and set(roles[at + 1 :]) <= {"system", "developer"}
        and roles[at - 1 : at] != ["tool"]
    ]
    assert newest_of_user(roles, ("tool",)) == (asking[-1] if asking else None)
