"""Manifests that somebody, or something, has spoiled: each is read, or every mistake in it has its place.

``RECONCILER_FUZZ_EXAMPLES`` sets how many are tried; ``make fuzz`` tries many more than the tests do.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reconciler.cli.core.app import run
from reconciler.errors import InvalidManifests, Problem
from reconciler.source.yaml.documents import PROBLEMS_MAX, Document, load

ROOT = Path(__file__).parents[3]
EXAMPLES = int(os.environ.get("RECONCILER_FUZZ_EXAMPLES", "500"))
FILES = sorted([*(ROOT / "manifests").glob("*.yaml"), *(ROOT / "examples" / "clusters").rglob("*.yaml")])
TEXTS = [path.read_text() for path in FILES]
KEYS = sorted(
    {line.split(":")[0].strip(" -#") for text in TEXTS for line in text.splitlines() if ":" in line}
)

ODD_SCALARS = [
    None, True, False, 0, -1, 1, 2**63, 2**70, 1e400, 0.1, float("nan"), "", " ", "~", "null", "010", "0x1f", "1:30",
    "1e3", "2026-01-01", "yes", "*", "&a", "!x", "%", "@", "`", "a: b", "- a", "a\nb", "\u00e9", "\u2028", "\x85",
    "\U0001f600", "A" * 300, "9" * 5000, "a" * 70_000, "127.0.0.1:99999", "../../etc", "-1GiB", "1e999GiB", "30",
]  # fmt: skip
ODD_VALUES: list[Any] = [*ODD_SCALARS, [], {}, [[]], [{}], {"": ""}, {"a": {"b": {"c": []}}}, ["x"] * 50]
INSERTS = [
    "&a ", "*a", "<<: *a", "!!python/object:os.system ", "!x ", "? ", ": ", "- ", "---\n", "...\n", "%YAML 1.2\n", "\t",
    "\r", "\r\n", "\ufeff", "\x00", "\x1b[31m", "\x85", "\u2028", "\u202e", "\ufffe", "\ud7ff", "{", "}", "[", "]", ",",
    "|", ">", "|2-", ">+9", '"', "'", "\\", "#", " #", "\n", "\n\n", " ", "@", "`", "=", "0o7", "[" * 40, "{a: " * 40,
    "a: &x [*x]\n", "&a &b ", "key: *missing\n", "\N{GRINNING FACE}", "\ue000", "--- |\n", "--- # c\n", "? [a]\n: b\n",
]  # fmt: skip

Edit = Callable[[st.DataObject, bytes], bytes]


def somewhere(data: st.DataObject, size: int) -> int:
    return data.draw(st.integers(0, max(0, size)))


def insert(data: st.DataObject, content: bytes) -> bytes:
    at = somewhere(data, len(content))
    return content[:at] + data.draw(st.sampled_from(INSERTS)).encode() + content[at:]


def insert_anything(data: st.DataObject, content: bytes) -> bytes:
    at = somewhere(data, len(content))
    return (
        content[:at]
        + data.draw(st.one_of(st.binary(max_size=8), st.text(max_size=8).map(encoded)))
        + content[at:]
    )


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def cut(data: st.DataObject, content: bytes) -> bytes:
    start = somewhere(data, len(content))
    return content[:start] + content[start + data.draw(st.integers(1, 20)) :]


def truncate(data: st.DataObject, content: bytes) -> bytes:
    return content[: somewhere(data, len(content))]


def of_lines(data: st.DataObject, content: bytes) -> bytes:
    lines = content.split(b"\n")
    one, other = somewhere(data, len(lines) - 1), somewhere(data, len(lines) - 1)
    match data.draw(st.sampled_from(["delete", "double", "swap", "indent", "dedent", "tab", "key", "odd"])):
        case "delete":
            del lines[one]
        case "double":
            lines.insert(other, lines[one])
        case "swap":
            lines[one], lines[other] = lines[other], lines[one]
        case "indent":
            lines[one] = b" " * data.draw(st.integers(1, 5)) + lines[one]
        case "dedent":
            lines[one] = lines[one][data.draw(st.integers(1, 4)) :]
        case "tab":
            lines[one] = lines[one].replace(b"  ", b"\t")
        case "key":
            lines[one] = lines[one].replace(lines[one].split(b":")[0].strip(b" -") or b"\0", drawn_key(data))
        case _:
            lines[one] = (
                lines[one].split(b":")[0] + b": " + encoded(str(data.draw(st.sampled_from(ODD_SCALARS))))
            )
    return b"\n".join(lines)


def drawn_key(data: st.DataObject) -> bytes:
    return data.draw(st.sampled_from(KEYS)).encode()


def line_ends(data: st.DataObject, content: bytes) -> bytes:
    return content.replace(b"\n", data.draw(st.sampled_from([b"\r\n", b"\r", b"\n\n", b"\xc2\x85"])))


def recode(data: st.DataObject, content: bytes) -> bytes:
    codec = data.draw(st.sampled_from(["utf-16", "utf-32", "utf-8-sig", "utf-7", "latin-1"]))
    return content.decode("utf-8", "replace").encode(codec, "replace")


def join(data: st.DataObject, content: bytes) -> bytes:
    return (
        content
        + data.draw(st.sampled_from([b"---\n", b"", b"\n---\n"]))
        + encoded(data.draw(st.sampled_from(TEXTS)))
    )


def restructure(data: st.DataObject, content: bytes) -> bytes:
    """A change of the tree: another type, another key, a part gone or put elsewhere; then written in some style."""
    try:
        documents = [
            document for document in yaml.safe_load_all(content) if document and isinstance(document, dict)
        ]
    except (yaml.YAMLError, ValueError, RecursionError):
        return content
    if b"*" in content or not documents:  # a tree that an alias has made endless
        return content
    for document in documents:
        place = data.draw(st.sampled_from(places(document)))
        change(data, place, document)
    written = yaml.safe_dump_all(
        documents,
        default_flow_style=data.draw(st.sampled_from([False, True, None])),
        allow_unicode=data.draw(st.booleans()),
        width=data.draw(st.sampled_from([10, 80, 10_000])),
        indent=data.draw(st.integers(2, 9)),
    )
    return encoded(written)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container of a tree with each of its keys or indexes."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    nested = [place for key in keys if isinstance(value[key], dict | list) for place in places(value[key])]
    return [*((value, key) for key in keys), *nested]


def change(data: st.DataObject, place: tuple[Any, Any], document: dict[str, Any]) -> None:
    container, key = place
    kind = data.draw(st.sampled_from(["odd", "delete", "wrap", "nest", "rename", "copy"]))
    if kind == "odd":
        container[key] = data.draw(st.sampled_from(ODD_VALUES))
    elif kind == "delete":
        del container[key]
    elif kind == "wrap":
        container[key] = data.draw(
            st.sampled_from([[container[key]], {"value": container[key]}, str(container[key])])
        )
    elif kind == "nest":
        for _ in range(data.draw(st.integers(1, 40))):
            container[key] = [container[key]]
    elif kind == "rename" and isinstance(container, dict):
        odd = [*KEYS, *(value for value in ODD_SCALARS if value == value)]
        container[data.draw(st.sampled_from(odd))] = container.pop(key)
    elif kind == "copy":
        document[data.draw(st.sampled_from(KEYS))] = container[key]


EDITS: list[Edit] = [
    insert, insert, insert_anything, cut, truncate, of_lines, of_lines, of_lines, line_ends, recode, join,
    restructure, restructure,
]  # fmt: skip


@st.composite
def spoiled(draw: st.DrawFn) -> bytes:
    """The contents of an example's file after some accidents."""
    content = draw(st.sampled_from(TEXTS)).encode()
    data = draw(st.data())
    for edit in draw(st.lists(st.sampled_from(EDITS), min_size=1, max_size=5)):
        content = edit(data, content)
    return content


def read(name: str, content: bytes) -> tuple[tuple[Document, ...], tuple[Problem, ...]]:
    """The documents, or what is wrong; nothing else may happen."""
    try:
        return load({name: content}), ()
    except InvalidManifests as error:
        return (), error.problems


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(spoiled())
@example("\ufeff\ufeffa: b\n\tc: d\n".encode())
@example(b"kind: Node\rmetadata: {}\r---\rkind: Node")
@example(b"kind: Node\nmetadata: {")
def test_a_spoiled_manifest_is_read_or_every_mistake_has_a_place_in_it(content: bytes) -> None:
    documents, problems = read("m.yaml", content)
    assert len(problems) <= PROBLEMS_MAX + 1
    for problem in problems:
        check(problem, content)
    assert all(1 <= document.line <= len(lines_of(content)) for document in documents)


def check(problem: Problem, content: bytes) -> None:
    lines = lines_of(content)
    assert problem.file == "m.yaml"
    assert problem.text
    assert 1 <= problem.line <= len(lines), f"{problem} in {len(lines)} lines"
    assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1, (
        f"{problem} in {lines[problem.line - 1]!r}"
    )
    assert str(problem).isprintable(), ascii(str(problem))


def lines_of(content: bytes) -> list[str]:
    """As editors show them."""
    return content.decode("utf-8", "replace").removeprefix("\ufeff").split("\n")


@settings(max_examples=max(20, EXAMPLES // 10), suppress_health_check=list(HealthCheck))
@given(spoiled())
def test_validate_says_what_is_wrong_with_a_spoiled_manifest_and_never_how_it_failed(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.yaml")
        path.write_bytes(content)
        code, output = validated(path)
    documents, problems = read(str(path), content)
    assert code == (0 if documents else 1)
    assert output[: len(problems)] == [str(problem) for problem in problems]
    assert len(output) == len(problems) + (not documents)


def validated(path: Path) -> tuple[int, list[str]]:
    """Exit status of `reconciler validate`, and its lines on standard error."""
    errors = io.StringIO()
    before, sys.argv = (
        sys.argv,
        ["reconciler", "--home", str(path.parent / "home"), "validate", "-f", str(path)],
    )
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            run()
    except SystemExit as ended:
        return int(ended.code or 0), errors.getvalue().splitlines()
    finally:
        sys.argv = before
    raise AssertionError("a command ends with an exit status")
