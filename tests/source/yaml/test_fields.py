"""One field changed in the text of a document: everything else stays, byte for byte."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import InvalidManifests
from reconciler.source.editing import Result, put_text, set_fields
from reconciler.source.yaml import fields
from reconciler.source.yaml.documents import load
from reconciler.source.yaml.parser import LOADER, parse

REPLICAS = ("spec", "replicas")

BLOCK = """\
# head
kind: X   # what
spec:  # wish
  model: tiny      # which
  # before replicas
  replicas: 1   # how many
  # after replicas

  serving: {context: 2048}
# tail
"""

CASES: list[tuple[str, tuple[str, ...], Any, str]] = [
    (BLOCK, REPLICAS, 3, BLOCK.replace("replicas: 1 ", "replicas: 3 ")),
    (BLOCK, REPLICAS, fields.REMOVED, BLOCK.replace("  replicas: 1   # how many\n", "")),
    (
        BLOCK,
        ("spec", "serving", "maxBatch"),
        4,
        BLOCK.replace("{context: 2048}", "{context: 2048, maxBatch: 4}"),
    ),
    (BLOCK, ("spec", "serving", "context"), fields.REMOVED, BLOCK.replace("{context: 2048}", "{}")),
    (
        BLOCK,
        ("spec", "drain"),
        True,
        BLOCK.replace("{context: 2048}\n", "{context: 2048}\n  drain: true\n"),
    ),
    (BLOCK, ("spec", "a", "b"), "x", BLOCK.replace("2048}\n", "2048}\n  a: {b: x}\n")),
    (BLOCK, ("spec", "missing"), fields.REMOVED, BLOCK),
    ("spec:\n  a: 1", ("spec", "b"), 2, "spec:\n  a: 1\n  b: 2"),
    ("spec:\r\n  a: 1\r\n", ("spec", "b"), 2, "spec:\r\n  a: 1\r\n  b: 2\r\n"),
    ("{spec: {}}", ("spec", "b"), True, "{spec: {b: true}}"),
    (" {spec: {a: 1, b: 2, c: 3}}", ("spec", "a"), fields.REMOVED, " {spec: {b: 2, c: 3}}"),
    (" {spec: {a: 1, b: 2, c: 3}}", ("spec", "b"), fields.REMOVED, " {spec: {a: 1, c: 3}}"),
    ("spec: {a: 1, # one\n  b: 2}\n", ("spec", "b"), fields.REMOVED, "spec: {a: 1 # one\n  }\n"),
    ("spec: {a: 1,}\n", ("spec", "b"), 2, "spec: {a: 1, b: 2,}\n"),
    ("spec:\n", ("spec", "b"), 2, "spec: {b: 2}\n"),
    ("spec: # none yet\n", ("spec",), 2, "spec: 2 # none yet\n"),
    ("a: 'x'  # q\nb: 1\n", ("a",), "y z", "a: 'y z'  # q\nb: 1\n"),
    ('a: "x"\n', ("a",), "2026-11-21T10:00:00Z", 'a: "2026-11-21T10:00:00Z"\n'),
    ("a: x\n", ("a",), "2026-11-21T10:00:00Z", "a: '2026-11-21T10:00:00Z'\n"),
    ("a: x\n", ("a",), "yes", "a: 'yes'\n"),
    ("a:  # c\n  # d\n  b: 1  # e\n  c: 2\n# f\nd: 1\n", ("a",), 5, "a: 5  # c\n  # d\n# f\nd: 1\n"),
    ("a:\n- 1\n- 2\nb: 1\n", ("a",), 5, "a: 5\nb: 1\n"),
    ("a: |  # text\n  one\n  two\n\n# c\nb: 1\n", ("a",), "x", "a: x  # text\n\n# c\nb: 1\n"),
    ("a:\n  b: 1 # only\n# c\nd: 1\n", ("a", "b"), fields.REMOVED, "a: {}\n# c\nd: 1\n"),
]


@pytest.mark.parametrize(("before", "path", "value", "after"), CASES)
def test_a_field_is_changed_where_it_stands(
    before: str, path: tuple[str, ...], value: Any, after: str
) -> None:
    assert fields.changed(before, path, value) == after


def comments(text: str) -> list[str]:
    """Every comment, as what stands between the tokens of YAML, and in the first line of a block of text."""
    found: list[str] = []
    end = 0
    for token in yaml.scan(text, Loader=LOADER):
        start, after = token.start_mark.index, token.end_mark.index
        if start < after:
            block = isinstance(token, yaml.ScalarToken) and token.style in ("|", ">")
            found += text[end:start].splitlines() + (text[start:after].splitlines()[:1] if block else [])
            end = after
    found += text[end:].splitlines()
    return [line[line.index("#") :] for line in found if "#" in line]


WORDS = st.sampled_from(["a", "b", "c", "spec"])
SCALARS = st.sampled_from(["1", "x", "'q # no'", '"d: e"', "x y", "true", "", "|\n{}t\n{}u", ">-\n{}t: #"])
NOTES = st.sampled_from(["", "", "", "  # one", "   # two: {"])
ABOVE = st.sampled_from(["", "", "", "\n", "# above\n", "      # deep above\n", "# x\n\n"])
FLOWS = st.sampled_from(["{}", "{a: 1}", "{a: 1, b: {c: 2}}", "[1, x]", "{a: 'x', b: [1], c: 3,}", "{\n  }"])
Drawn = tuple[str, str, str, Any]
"""What stands above, the key, what stands at the end of the line, and the value: text or entries."""
ENTRIES: Any = st.deferred(
    lambda: st.lists(
        st.tuples(ABOVE, WORDS, NOTES, st.one_of(SCALARS, FLOWS, st.just("\n{}- 1\n{}- x"), ENTRIES)),
        min_size=1,
        max_size=4,
        unique_by=lambda entry: entry[1],
    )
)


def block(entries: list[Drawn], indent: int = 0) -> str:
    """Entries as a block mapping, indented by two spaces a level."""
    text, deeper = "", " " * (indent + 2)
    for above, key, note, value in entries:
        text += above + " " * indent + f"{key}:"
        if isinstance(value, list):
            text += f"{note}\n{block(value, indent + 2)}"
            continue
        first, newline, rest = value.partition("\n")
        text += f"{' ' if first else ''}{first}{note}{newline}{rest.replace('{}', deeper)}"
        text += note + "\n" if newline and rest.endswith(("}", "x")) else "\n"
    return text


def found(plain: Any, path: list[str]) -> Any:
    for name in path:
        if not isinstance(plain, dict) or name not in plain:
            return fields.REMOVED
        plain = plain[name]
    return plain


@settings(max_examples=250, deadline=None)
@given(
    ENTRIES,
    ABOVE,
    st.lists(WORDS, min_size=1, max_size=3),
    st.sampled_from([fields.REMOVED, 3, True, "text: # no", {"x": 1}]),
)
def test_only_the_field_changes_and_no_comment_is_lost(
    entries: list[Drawn], tail: str, path: list[str], value: Any
) -> None:
    text = "kind: X\n" + block(entries) + tail
    before = parse("", text)
    assert before.root is not None, before.problems
    assert not before.problems
    after = fields.changed(text, path, value)
    if after is None:  # a comment would become a part of the block of text before it
        assert "|" in text or ">" in text
        return
    root = parse("", after).root
    assert root is not None
    assert root.value == fields.with_field(before.root.value, path, value)
    old = found(before.root.value, path)
    lists = [found(before.root.value, path[:count]) for count in range(1, len(path))]
    if value is fields.REMOVED or isinstance(old, dict | list) or any(isinstance(x, list) for x in lists):
        return  # its own comments go with it
    assert comments(after) == comments(text)
    lines = [line for line in difflib.ndiff(text.splitlines(), after.splitlines()) if line[0] in "+-"]
    assert len(lines) <= 2 or "\n" in str(old) or "|" in text or ">" in text


NODE = (
    "apiVersion: reconciler/v1alpha1\nkind: Node\nmetadata: {name: %s}\nspec:  # of %s\n  local: {}  # here\n"
)


def test_the_other_documents_of_a_file_stay_as_they_are() -> None:
    text = f"# first\n{NODE % ('a', 'a')}--- # second\n{NODE % ('b', 'b')}---\n{NODE % ('c', 'c')}# end"
    files = {"n.yaml": text.encode(), "other.yaml": b"# nothing here\n"}
    edit = set_fields(files, {("Node", "b"): {("spec", "unschedulable"): True, ("spec", "drain"): True}})
    more = "  unschedulable: true\n  drain: true\n"
    assert edit.changes == {"n.yaml": text.replace(NODE % ("b", "b"), NODE % ("b", "b") + more).encode()}
    assert edit.results == (Result("Node", "b", "configured"),)
    after = edit.applied_to(files)
    removed: dict[tuple[str, ...], Any] = {
        ("spec", "drain"): fields.REMOVED,
        ("spec", "unschedulable"): fields.REMOVED,
    }
    assert set_fields(after, {("Node", "b"): removed}).applied_to(after) == files


def test_a_field_that_means_this_already_is_left_alone() -> None:
    files = {"n.yaml": (NODE % ("a", "a")).encode()}
    edit = set_fields(files, {("Node", "a"): {("spec", "unschedulable"): False}})
    assert (edit.changes, edit.results) == ({}, (Result("Node", "a", "unchanged"),))
    assert set_fields(files, {("Node", "z"): {("spec", "unschedulable"): True}}).results == ()


def test_what_would_not_be_valid_is_refused() -> None:
    files = {"n.yaml": (NODE % ("a", "a")).encode()}
    with pytest.raises(InvalidManifests, match="unschedulable"):
        set_fields(files, {("Node", "a"): {("spec", "unschedulable"): "often"}})


def test_text_is_put_where_its_object_stands_and_replaces_its_comments() -> None:
    text = (
        f"# first\n{NODE % ('a', 'a')}--- # second\n# old\n{NODE % ('b', 'b')}---\n{NODE % ('c', 'c')}# end"
    )
    (new,) = load({"edited.yaml": (NODE % ("b", "B") + "  unschedulable: true").encode()})
    after = put_text({"n.yaml": text.encode()}, new).changes["n.yaml"]
    old = f"# old\n{NODE % ('b', 'b')}"
    assert after == text.replace(old, NODE % ("b", "B") + "  unschedulable: true\n").encode()
    assert put_text({"n.yaml": after or b""}, load({"n.yaml": after or b""})[1]).changes == {}
