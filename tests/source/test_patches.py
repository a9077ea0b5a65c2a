"""Patches: RFC 7396 and RFC 6902 by their own examples, and the fields that a patch changes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import Invalid
from reconciler.source.patches import changes, merged, patched
from reconciler.source.yaml.fields import REMOVED, with_field

VALUES: Any = st.recursive(
    st.integers(-3, 3) | st.text("ab", max_size=2) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS: Any = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)

MERGES: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("plain", "patch", "after"), MERGES)
def test_a_merge_patch_does_what_its_rfc_says(plain: Any, patch: Any, after: Any) -> None:
    assert merged(plain, patch) == after


@pytest.mark.parametrize(
    ("plain", "operation", "after"),
    [
        ({"foo": "bar"}, {"op": "add", "path": "/baz", "value": "qux"}, {"foo": "bar", "baz": "qux"}),
        ({"a": [1, 3]}, {"op": "add", "path": "/a/1", "value": 2}, {"a": [1, 2, 3]}),
        ({"a": [1]}, {"op": "add", "path": "/a/-", "value": 2}, {"a": [1, 2]}),
        ({"a": 1, "b": 2}, {"op": "remove", "path": "/a"}, {"b": 2}),
        ({"a": [1, 2, 3]}, {"op": "replace", "path": "/a/1", "value": 9}, {"a": [1, 9, 3]}),
        ({"a": {"b": 1}, "c": {}}, {"op": "move", "from": "/a/b", "path": "/c/d"}, {"a": {}, "c": {"d": 1}}),
        ({"a": [1]}, {"op": "copy", "from": "/a", "path": "/b"}, {"a": [1], "b": [1]}),
        ({"a/b": 1, "m~n": 2}, {"op": "test", "path": "/a~1b", "value": 1}, {"a/b": 1, "m~n": 2}),
        ({"a/b": 1, "a~1b": 2}, {"op": "remove", "path": "/a~01b"}, {"a/b": 1}),
        ({"a/b": 1, "a~1b": 2}, {"op": "remove", "path": "/a~1b"}, {"a~1b": 2}),
    ],
)
def test_a_json_patch_does_what_its_rfc_says(plain: Any, operation: Any, after: Any) -> None:
    before = copy.deepcopy(plain)
    assert patched(plain, [operation]) == after
    assert plain == before


@pytest.mark.parametrize(
    ("operations", "text"),
    [
        ({"op": "add"}, "expected a list"),
        ([{"op": "ad", "path": "/a"}], 'expected "op" to be one of add, remove'),
        ([{"op": "add", "path": "/a"}], '"value" is missing'),
        ([{"op": "remove", "path": "a"}], "expected a path such as /spec/replicas, got 'a'"),
        ([{"op": "remove", "path": "/x/y"}], "there is no /x; what there is: reconciler get KIND/NAME -o yaml"),
        ([{"op": "remove", "path": ""}], "the whole object cannot be removed"),
        ([{"op": "replace", "path": "/l/2", "value": 1}], 'expected a place from 0 to 1 in a list of 2, got "2"'),
        ([{"op": "add", "path": "/l/01", "value": 1}], 'got "01"'),
        ([{"op": "test", "path": "/a", "value": 2}], "the test failed: the value is 1"),
        ([{"op": "add", "path": "/a/b", "value": 2}], "/a has no fields"),
    ],
)  # fmt: skip
def test_a_json_patch_that_cannot_be_is_refused_with_the_reason(operations: Any, text: str) -> None:
    with pytest.raises(Invalid) as raised:
        patched({"a": 1, "l": [1, 2]}, operations)
    assert text in str(raised.value)


@given(OBJECTS, OBJECTS)
def test_the_changes_lead_from_one_to_the_other(before: Any, after: Any) -> None:
    found = before
    for path, value in changes(before, after):
        found = with_field(found, path, value)
    assert found == after
    assert all(value is REMOVED or path for path, value in changes(before, after))
