"""Files of a log: how large they become, and what is kept."""

from __future__ import annotations

import fcntl
import os
import resource
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.gateway.records import file as filing
from reconciler.gateway.records import writer as writing
from reconciler.gateway.records.file import TURN_LOOK_SECONDS, TURN_LOOKS, RotatedFile
from reconciler.gateway.records.writer import Writer
from reconciler.wire.gateway import AccessLog

ROOT = Path(__file__).parents[3]
DAY = 86_400.0
NOON = 20_000 * DAY + DAY / 2


def file(
    folder: Path, max_bytes: int = 1000, keep_files: int = 3, keep_seconds: float = 10 * DAY
) -> RotatedFile:
    return RotatedFile(folder / "access.jsonl", AccessLog(max_bytes, DAY, keep_files, keep_seconds))


def written(folder: Path, at: float) -> None:
    """Have everything look as if it was written then."""
    for path in folder.iterdir():
        os.utime(path, (at, at))


def texts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_file_that_would_become_too_large_is_rotated_and_the_oldest_goes(tmp_path: Path) -> None:
    log = file(tmp_path)
    for number in range(6):
        log.append(b"%d" % number * 599 + b"\n", time.time())
    assert {name: text[:1] for name, text in texts(tmp_path).items()} == {
        "access.jsonl": b"5",
        "access.jsonl.1": b"4",
        "access.jsonl.2": b"3",
        "access.jsonl.3": b"2",
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_each_day_has_a_file_and_old_ones_go_even_if_nothing_is_written(tmp_path: Path) -> None:
    log = file(tmp_path)
    log.append(b"one\n", NOON)
    written(tmp_path, NOON)
    log.append(b"two\n", NOON + 1)
    assert texts(tmp_path) == {"access.jsonl": b"one\ntwo\n"}
    written(tmp_path, NOON)
    log.append(b"three\n", NOON + DAY)
    assert texts(tmp_path) == {"access.jsonl": b"three\n", "access.jsonl.1": b"one\ntwo\n"}
    written(tmp_path, NOON + DAY)
    log.tidy(NOON + 2 * DAY)
    assert sorted(texts(tmp_path)) == ["access.jsonl.1", "access.jsonl.2"]
    log.tidy(NOON + 12 * DAY)
    assert texts(tmp_path) == {}


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    for name in ("access.jsonl.x", "content.jsonl.1", "access.jsonl.01"):
        (tmp_path / name).write_text("mine")
    written(tmp_path, 0.0)
    log = file(tmp_path)
    log.append(b"a" * 900 + b"\n", time.time())
    log.append(b"b" * 900 + b"\n", time.time())
    log.tidy(time.time())
    assert {name for name, text in texts(tmp_path).items() if text == b"mine"} == {
        "access.jsonl.x",
        "content.jsonl.1",
        "access.jsonl.01",
    }


@given(st.lists(st.integers(1, 1500), max_size=30))
def test_no_file_is_larger_than_its_bound_unless_it_is_one_line(sizes: list[int]) -> None:
    log = RotatedFile(Path("/none"), AccessLog(1000, DAY, 3, DAY))
    lines = [b"x" * (size - 1) + b"\n" for size in sizes]
    batches = list(log.batches(lines))
    assert [line for batch in batches for line in batch] == lines
    assert all(len(batch) == 1 or sum(map(len, batch)) <= 1000 for batch in batches)


def test_a_line_that_does_not_fit_on_the_disk_leaves_no_part_of_itself(tmp_path: Path) -> None:
    log = file(tmp_path, max_bytes=1 << 20)
    log.append(b"whole\n", NOON)
    written(tmp_path, NOON)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            log.append(b"y" * 10_000 + b"\n", NOON)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert texts(tmp_path) == {"access.jsonl": b"whole\n"}


class Stuck(RotatedFile):
    """A disk that takes nothing until it is told to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, AccessLog(1 << 30, DAY, 3, DAY))
        self.free = threading.Event()

    def append(self, text: bytes, now: float) -> None:
        assert self.free.wait(30)
        super().append(text, now)


def test_a_slow_disk_costs_lines_which_are_counted_and_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "WAITING_BYTES_MAX", 10_000)
    disk = Stuck(tmp_path / "access.jsonl")
    writer = Writer(disk, time.time)
    slowest = 0.0
    for number in range(1000):
        began = time.monotonic()
        writer.put(b'{"number":%5d}\n' % number)
        slowest = max(slowest, time.monotonic() - began)
    assert slowest < 0.1
    dropped = writer.dropped
    assert dropped == 1000 - 10_000 // len(b'{"number":    0}\n')
    disk.free.set()
    writer.close()
    lines = [orjson.loads(line) for line in (tmp_path / "access.jsonl").read_bytes().splitlines()]
    assert [line["number"] for line in lines if "number" in line] == list(range(1000 - dropped))
    assert sum(line.get("dropped", 0) for line in lines) == dropped


APPENDS = """
import sys, time
from pathlib import Path
from reconciler.gateway.records.file import RotatedFile
from reconciler.wire.gateway import AccessLog
file = RotatedFile(Path(sys.argv[1]), AccessLog(4000, 86_400.0, 500, 1e9))
for number in range(400):
    file.append(b"%s %d\\n" % (sys.argv[2].encode(), number), time.time())
"""


def test_two_gateways_write_one_log_and_no_line_is_lost_or_cut(tmp_path: Path) -> None:
    command = [sys.executable, "-c", APPENDS, str(tmp_path / "access.jsonl")]
    writers = [subprocess.Popen([*command, name], cwd=ROOT) for name in ("old", "new")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    files = list(tmp_path.iterdir())
    assert sorted(line for each in files for line in each.read_text().splitlines()) == sorted(
        f"{name} {number}" for name in ("old", "new") for number in range(400)
    )
    assert len(files) > 1
    assert all(0 < each.stat().st_size <= 4000 for each in files)


@pytest.mark.parametrize(
    ("taken", "sleeps"), [(0, 0), (2, 2), (TURN_LOOKS - 1, TURN_LOOKS - 1), (TURN_LOOKS, TURN_LOOKS - 1)]
)
def test_between_two_looks_for_the_end_of_another_turn_some_time_passes(
    monkeypatch: pytest.MonkeyPatch, taken: int, sleeps: int
) -> None:
    looks = iter(range(TURN_LOOKS))
    slept: list[float] = []

    def flock(descriptor: int, operation: int) -> None:
        if next(looks) < taken:
            raise BlockingIOError

    monkeypatch.setattr(filing, "fcntl", SimpleNamespace(flock=flock, LOCK_EX=2, LOCK_NB=4))
    monkeypatch.setattr(filing, "time", SimpleNamespace(sleep=slept.append))
    assert filing._locked(0) is (taken < TURN_LOOKS)
    assert slept == [TURN_LOOK_SECONDS] * sleeps


def test_a_gateway_that_keeps_its_turn_delays_lines_and_holds_none_back(tmp_path: Path) -> None:
    path, log = tmp_path / "access.jsonl", file(tmp_path, max_bytes=10)
    holding = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(holding, fcntl.LOCK_EX)
    try:
        log.append(b"more than ten bytes\n", NOON)
        log.append(b"rotated later\n", NOON)
    finally:
        os.close(holding)
    assert path.read_bytes() == b"more than ten bytes\nrotated later\n"


@pytest.mark.parametrize("ahead", [DAY, 365 * DAY])
def test_what_was_written_by_a_clock_that_was_ahead_is_rotated_and_kept_as_long_as_the_rest(
    tmp_path: Path, ahead: float
) -> None:
    log = file(tmp_path)
    log.append(b"one\n", NOON + ahead)
    written(tmp_path, NOON + ahead)
    log.append(b"two\n", NOON)
    os.utime(tmp_path / "access.jsonl", (NOON, NOON))
    assert texts(tmp_path)["access.jsonl"] == b"two\n"
    assert texts(tmp_path)["access.jsonl.1"] == b"one\n"
    log.tidy(NOON)
    (tmp_path / "access.jsonl").unlink()
    log.tidy(NOON + 9 * DAY)
    assert sorted(texts(tmp_path)) == ["access.jsonl.1"]
    log.tidy(NOON + 11 * DAY)
    assert texts(tmp_path) == {}
