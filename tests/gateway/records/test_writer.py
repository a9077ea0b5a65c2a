"""The writer of a log counts the lines that are lost, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson
import pytest

from reconciler.gateway.records import writer as module
from reconciler.gateway.records.writer import Writer


class File:
    """Takes each line alone, except those that fail."""

    def __init__(self, failing: frozenset[bytes]) -> None:
        self.failing = failing
        self.texts: list[bytes] = []

    def batches(self, lines: Iterable[bytes]) -> Iterator[list[bytes]]:
        return ([line] for line in lines)

    def append(self, text: bytes, now: float) -> None:
        if text.splitlines(True)[-1] in self.failing:
            raise OSError("the disk is full")
        self.texts.append(text)

    def tidy(self, now: float) -> None:
        pass


@pytest.mark.parametrize(
    ("failing", "lost"),
    [("", {}), ("b", {"c": 1}), ("bc", {"d": 2}), ("bd", {"c": 1, "e": 1}), ("a", {"b": 1}), ("e", {})],
)
def test_each_line_is_told_the_number_of_those_lost_just_before_it(
    failing: str, lost: dict[str, int]
) -> None:
    file: Any = File(frozenset(f"{name}\n".encode() for name in failing))
    writer = Writer(file, lambda: 0.0)
    for name in "abcde":
        writer.put(f"{name}\n".encode())
    writer.close()
    assert writer.dropped == len(failing)
    told: dict[str, int] = {}
    for text in file.texts:
        *notes, line = text.splitlines()
        told |= {line.decode(): orjson.loads(note)["dropped"] for note in notes}
    assert told == lost
    assert [text.splitlines()[-1].decode() for text in file.texts] == [n for n in "abcde" if n not in failing]


def test_each_problem_of_the_disk_is_told_once_until_another_comes_between(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = iter(["full", "full", "", "full", "gone", "full", "", ""])

    class Disk(File):
        def append(self, text: bytes, now: float) -> None:
            problem = next(answers)
            if problem:
                raise OSError(problem)

    disk: Any = Disk(frozenset())
    writer = Writer(disk, lambda: 0.0)
    for name in "abcdefgh":
        writer.put(f"{name}\n".encode())
    writer.close()
    told = [record.getMessage() for record in caplog.records if record.name == module.__name__]
    assert told == [f"the access log loses lines: {problem}" for problem in ("full", "full", "gone", "full")]
    assert writer.dropped == 5


def test_lines_that_wait_have_a_bound_that_lines_which_were_written_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WAITING_BYTES_MAX", 10)
    monkeypatch.setattr(module, "GATHER_SECONDS", 600.0)  # nothing is written before the end
    file: Any = File(frozenset())
    writer = Writer(file, lambda: 0.0)
    for line, dropped in ((b"123456\n", 0), (b"12\n", 0), (b"\n", 1), (b"12345678901\n", 2)):
        writer.put(line)
        assert writer.dropped == dropped
    writer.close()
    assert [text.splitlines()[-1] for text in file.texts] == [b"123456", b"12"]
    assert writer._bytes == 0
