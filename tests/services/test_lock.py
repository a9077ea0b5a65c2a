"""The lock of a service tells who runs, and how it was started."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.services.lock import Holder, given_back, held, holder, started_as, to_inherit

ROOT = Path(__file__).parents[2]
HOLDS = """
import sys, time
from pathlib import Path
from reconciler.services.lock import held
with held(Path(sys.argv[1]), "as it was started"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_who_holds_a_lock_is_known_until_its_process_ends(tmp_path: Path) -> None:
    lock = tmp_path / "gateway.lock"
    assert holder(lock) is None
    command = [sys.executable, "-c", HOLDS, str(lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        expected = Holder(process.pid, "as it was started")
        assert holder(lock) == expected
        with held(lock, "another") as (identity, other):
            assert (identity, other) == (None, expected)
        assert holder(lock) == expected, "who looks changes nothing"
        process.send_signal(signal.SIGKILL)
        process.stdout.read()
        assert holder(lock) is None, "also before anybody has asked for its end"
    assert not given_back(lock)
    with held(lock, "the next") as (mine, other):
        assert other is None
        assert mine is not None
        assert not mine.identity.replaced
    assert given_back(lock)
    assert holder(lock) is None
    with held(lock, "the last") as (mine, other):
        assert mine is not None
        lock.unlink()
        assert mine.identity.replaced
    assert not given_back(lock)


def test_a_lock_of_an_older_version_names_its_process_alone(tmp_path: Path) -> None:
    lock = tmp_path / "controller.lock"
    with held(lock, "x"):
        lock.write_text("4711\n")
        assert holder(lock) == Holder(4711, "")
        lock.write_text("")
        found = holder(lock)
        assert found == Holder(0, "")
        assert str(found) == "unknown"


def test_other_arguments_are_another_way_to_start() -> None:
    assert started_as(["gateway"]) == started_as(["gateway"])
    assert started_as(["gateway"]) != started_as(["gateway", "--any-port"])
    assert sys.executable in started_as([])


def test_a_lock_that_is_handed_over_is_held_without_a_gap_and_given_back_by_the_last_holder(
    tmp_path: Path,
) -> None:
    lock = tmp_path / "gateway.lock"
    with held(lock, "the first") as (first, _):
        assert first is not None
        with to_inherit(lock, "the second") as second:
            second.write()
            second.give_back()
            assert holder(lock) == Holder(os.getpid(), "the first"), "the second has nothing to write yet"
            second.inherit(os.dup(first.fileno()))
            first.let_go()
            assert holder(lock) == Holder(os.getpid(), "the second")
            first.give_back()
            assert holder(lock) == Holder(os.getpid(), "the second"), "it has nothing to give back"
            assert not second.identity.replaced
    assert given_back(lock)
    assert holder(lock) is None


def test_a_lock_is_taken_over_also_where_nothing_can_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lock = tmp_path / "gateway.lock"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with held(lock, "the first") as (first, _), to_inherit(lock, "the second") as second:
        assert first is not None
        descriptor = os.dup(first.fileno())
        first.let_go()
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))  # as a disk with room for one byte
        try:
            second.inherit(descriptor)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert not second.written
        assert holder(lock) == Holder(0, ""), "it is held, and does not say by whom"
        assert f"{lock} cannot be written" in caplog.text
        second.write()
        assert second.written
        assert holder(lock) == Holder(os.getpid(), "the second")
        second.let_go()
        second.write()
        assert holder(lock) is None
