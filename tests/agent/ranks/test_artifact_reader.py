"""Which files of a working directory are artifacts, and which bytes of them are read: compared with a simple model."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.agent.ranks import artifact_reader, artifacts
from reconciler.agent.ranks.artifact_reader import (
    DEPTH_MAX,
    OWN_FOLDERS,
    PROBLEMS_MAX,
    Listing,
    matches,
    read,
)
from reconciler.wire.codec import Refused
from reconciler.wire.node import ARTIFACT_BYTES_MAX, ReadArtifact

from .machine import spec

NAMES = st.sampled_from(["a", "b", "ab", "[b]", "*", *OWN_FOLDERS])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
PATTERNS = st.lists(st.sampled_from(["a", "b", "*", "?", "a*", "[b]", ".tmp"]), min_size=1, max_size=3).map(
    "/".join
)


def is_artifact(path: str, patterns: list[str]) -> bool:
    """The model: a path, or one of the folders above it, is as one of the patterns says."""
    if path.startswith(tuple(f"{own}/" for own in OWN_FOLDERS)) or path in OWN_FOLDERS:
        return False
    above = ["/".join(path.split("/")[:end]) for end in range(1, path.count("/") + 2)]
    expressions = [
        "".join({"*": "[^/]*", "?": "[^/]"}.get(letter, re.escape(letter)) for letter in pattern)
        for pattern in patterns
    ]
    return any(re.fullmatch(expression, each) for expression in expressions for each in above)


def listed(work: Path, patterns: list[str], files_max: int = 100) -> tuple[Listing, bool]:
    listing = Listing(patterns, files_max)
    return listing, listing.walk(os.open(work, os.O_RDONLY))


def descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


@given(st.lists(PATHS, max_size=6, unique=True), st.lists(PATTERNS, min_size=1, max_size=3))
def test_the_files_that_match_are_listed_with_their_sizes_and_no_others(
    paths: list[str], patterns: list[str]
) -> None:
    before = descriptors()
    with tempfile.TemporaryDirectory() as folder:
        work, files = Path(folder), {}
        for path in paths:
            if not any(each.is_file() for each in (work / path).parents) and not (work / path).exists():
                (work / path).parent.mkdir(parents=True, exist_ok=True)
                (work / path).write_bytes(b"x" * len(path))
                files[path] = len(path)
        listing, complete = listed(work, patterns)
    expected = {path: size for path, size in files.items() if is_artifact(path, patterns)}
    assert ({path: size for path, size, _ in listing.files}, listing.problems, complete) == (
        expected,
        [],
        True,
    )
    assert all(matches(path, patterns) == (path in expected) for path in files)
    assert descriptors() == before


@given(st.binary(max_size=40), st.integers(-2, 50), st.integers(-2, 50))
def test_a_piece_of_a_file_is_what_stands_there(content: bytes, offset: int, bytes_max: int) -> None:
    before = descriptors()
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / "f").write_bytes(content)
        answer = read(work, "f", offset, bytes_max)
    if offset < 0:
        assert answer is None
    else:
        assert answer is not None
        assert base64.b64decode(answer["data"]) == content[offset : offset + max(0, bytes_max)]
        assert answer["size"] == len(content)
    assert descriptors() == before


def test_a_large_piece_is_read_whole(tmp_path: Path) -> None:
    content = os.urandom((2 << 20) + 5)
    (tmp_path / "f").write_bytes(content)
    answer = read(str(tmp_path), "f", 3, len(content))
    assert answer is not None
    assert base64.b64decode(answer["data"]) == content[3:]


@pytest.mark.parametrize("path", ["", "/f", "d//f", "./f", "d/../f", "..", "d", "pipe"])
def test_nothing_but_a_file_by_its_plain_path_is_read(tmp_path: Path, path: str) -> None:
    (tmp_path / "f").write_text("f")
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before = descriptors()
    assert read(str(tmp_path), path, 0, 9) is None
    assert descriptors() == before


@pytest.mark.parametrize("path", ["link", "linked/f", "f/f", "gone", "gone/f"])
def test_no_link_is_followed_and_an_error_leaves_nothing_open(tmp_path: Path, path: str) -> None:
    (tmp_path / "f").write_text("f")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_text("f")
    (tmp_path / "link").symlink_to("f")
    (tmp_path / "linked").symlink_to("d")
    before = descriptors()
    with pytest.raises(OSError, match="Errno"):
        read(str(tmp_path), path, 0, 9)
    assert descriptors() == before


def test_a_problem_is_told_of_each_thing_that_is_no_file_and_only_where_it_was_asked_for(
    tmp_path: Path,
) -> None:
    for folder in (tmp_path, tmp_path / "other"):
        folder.mkdir(exist_ok=True)
        os.mkfifo(folder / "pipe")
        (folder / "link").symlink_to("/etc/passwd")
        (folder / "odd\n").write_text("")
    listing, complete = listed(tmp_path, ["pipe", "link", "odd?", "absent"])
    assert (listing.files, complete) == ([], True)
    assert listing.problems == [
        "'link' is not a file",
        r"'odd\n' is no name that people can read",
        "'pipe' is not a file",
    ]


def test_a_folder_that_cannot_be_read_is_told_and_the_others_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text("")
    opens = os.open

    def refuse(path: Any, *more: Any, **options: Any) -> int:
        if path == "b":
            raise PermissionError(13, "Permission denied")
        return opens(path, *more, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        listing, complete = listed(tmp_path, ["*"])
    assert [path for path, _, _ in listing.files] == ["a/f", "c/f"]
    assert (listing.problems, complete) == (["'b' cannot be read: Permission denied"], True)


def test_a_folder_that_cannot_be_listed_any_more_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> list[str]:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "listdir", fail)
    listing, complete = listed(tmp_path, ["*"])
    assert (listing.files, listing.problems, complete) == (
        [],
        ["'' cannot be read: Input/output error"],
        True,
    )


def test_so_many_folders_may_be_above_a_file_and_no_more(tmp_path: Path) -> None:
    assert DEPTH_MAX == 64
    deep = tmp_path / "/".join(["d"] * DEPTH_MAX)
    deep.mkdir(parents=True)
    (deep / "f").write_text("")
    assert len(listed(tmp_path, ["d"])[0].files) == 1
    (deep / "d").mkdir()
    (deep / "d" / "f").write_text("")
    listing, complete = listed(tmp_path, ["d"])
    (problem,) = listing.problems
    assert problem.endswith("has more than 64 folders above it")
    assert (len(listing.files), complete) == (1, True)


@pytest.mark.parametrize(("files", "complete"), [(3, True), (4, False)])
def test_so_many_artifacts_may_there_be_and_no_more(tmp_path: Path, files: int, complete: bool) -> None:
    (tmp_path / "d").mkdir()
    for number in range(files):
        (tmp_path / "d" / f"{number}").write_text("")
    (tmp_path / "e").mkdir()
    listing, whole = listed(tmp_path, ["d"], files_max=3)
    assert len(listing.files) == 3
    assert listed(tmp_path / "d", ["*"], files_max=3)[1] is complete
    assert whole is False, "another folder might have more"


@pytest.mark.parametrize(("entries", "complete"), [(4, True), (5, False)])
def test_so_many_files_are_looked_at_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int, complete: bool
) -> None:
    monkeypatch.setattr(artifact_reader, "ENTRIES_MAX", 4)
    (tmp_path / "d").mkdir()
    for number in range(entries - 1):
        (tmp_path / "d" / f"{number}").write_text("")
    listing, whole = listed(tmp_path, ["*"])
    assert whole is complete
    assert listing.problems == ([] if complete else ["there are more than 100 artifacts or 4 files"])


def test_a_few_problems_are_told_and_not_all(tmp_path: Path) -> None:
    for number in range(PROBLEMS_MAX + 5):
        (tmp_path / f"{number}").symlink_to("/")
    assert len(listed(tmp_path, ["*"])[0].problems) == PROBLEMS_MAX == 20


def answered(request: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """One line of JSON for another."""
    out = io.StringIO()
    stdin = SimpleNamespace(buffer=io.BytesIO(json.dumps(request).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr(sys, "stdout", out)
    artifact_reader.main()
    return json.loads(out.getvalue())


def test_the_program_lists_artifacts_in_order_and_reads_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b", "a", "secret", "a\n"):
        (tmp_path / name).write_text(name)

    def ask(**request: Any) -> Any:
        return answered({"work": str(tmp_path), "patterns": ["b", "a?", "a"], **request}, monkeypatch)

    found = ask(files_max=9)
    assert [file[:2] for file in found["files"]] == [["a", 1], ["b", 1]]
    assert found["problems"] == [r"'a\n' is no name that people can read"]
    assert ask(files_max=9, work=str(tmp_path / "gone")) == {"files": [], "problems": []}
    assert base64.b64decode(ask(path="b", offset=0, bytes_max=9)["data"]) == b"b"
    for path in ("secret", "a\n", "a\0", "gone"):
        assert ask(path=path, offset=0, bytes_max=9, patterns=["*"] if path != "secret" else ["b"]) is None


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (-5, -5),
        (0, 0),
        (7, 7),
        (ARTIFACT_BYTES_MAX, ARTIFACT_BYTES_MAX),
        (ARTIFACT_BYTES_MAX + 1, ARTIFACT_BYTES_MAX),
    ],
)
def test_no_piece_is_larger_than_a_frame_has_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: int, given: int
) -> None:
    asked: list[Any] = []

    def ask(directory: Path, of: object, request: Any) -> Any:
        asked.append(request)
        return {"data": "eA==", "size": 1}

    monkeypatch.setattr(artifacts, "_ask", ask)
    found = artifacts.piece(tmp_path, spec(), ReadArtifact(spec().id, "a", 3, wanted))
    assert (found.data, found.size) == ("eA==", 1)
    assert asked == [{"path": "a", "offset": 3, "bytes_max": given}]


def test_a_file_that_is_no_artifact_is_refused_and_so_is_a_rank_without_a_job(tmp_path: Path) -> None:
    message = ReadArtifact(spec().id, "a", 0, 9)
    assert artifacts.piece(tmp_path, spec(), message) == artifacts.unknown(spec().id)
    assert artifacts.listing(tmp_path, spec()) == artifacts.unknown(spec().id)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifacts, "_ask", lambda *_: None)
        assert artifacts.piece(tmp_path, spec(), message) == Refused(
            "NotFound", f"'a' is no artifact of {spec().id}"
        )
