"""The end of a rank, in processes of their own: what is watched is a process's signals and its exit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from reconciler.wire.launch import ExitCode

pytestmark = pytest.mark.processes

SLOW_TO_UNWIND = """
import os, sys, time
from reconciler.wire.launch import RankEnd
from reconciler.runner.process import watch
from reconciler.runner.process.progress import ProgressPipe
from threading import Event
from types import SimpleNamespace
standing_down = Event()
watch.time = SimpleNamespace(sleep=lambda seconds: standing_down.wait(60))
guard = watch.Watch(ProgressPipe(None))
try:
    guard.start()
    guard.shim(0)
    time.sleep(60)
except RankEnd as end:
    guard.disarm()
    standing_down.set()
    time.sleep(0.5)
    print("in order")
    sys.exit(end.code)
"""
SLOW_TO_EXIT = """
import atexit, sys, time
from reconciler.runner import rank
rank.EXIT_SECONDS = 0.3
atexit.register(time.sleep, 300)
sys.exit(rank.live("", None))
"""
TWO_ENDS = """
import os, sys, time
from reconciler.runner import rank
from reconciler.runner.process import watch
from reconciler.runner.process.progress import ProgressPipe
watch.ORDERLY_SECONDS = rank.EXIT_SECONDS = 60.0  # a busy machine may take its time for an end in order
reading, writing = os.pipe()
os.dup2(reading, 0)
said = []
def say(self, text):
    said.append(text)
    if len(said) == 1:
        os.close(writing)
        time.sleep(20)
def fail(path):
    raise ValueError("an error of its own")
ProgressPipe.report_detail, rank.read_config = say, fail
code = rank.live("", None)
print(*said, sep="; ")
sys.exit(code)
"""
TOLD_FIRST = """
import os, sys, time
from reconciler.wire.launch import RankEnd
from reconciler.runner.process import watch
from reconciler.runner.process.progress import ProgressPipe
from reconciler.runner.process.watch import Watch
watch.ORDERLY_SECONDS = 60.0
said = []
def say(self, text):
    time.sleep(0.1)
    said.append(text)
ProgressPipe.report_detail = say
guard = Watch(ProgressPipe(None))
try:
    guard.start()
    guard.shim(0)
    time.sleep(60)
except RankEnd as end:
    guard.disarm()
    print(*said)
    sys.exit(end.code)
"""
SETTLES_NEVER = """
import sys, time
from types import SimpleNamespace
from reconciler.runner import rank
from reconciler.wire.launch import RankEnd
from reconciler.runner.process.progress import ProgressPipe
from reconciler.runner.process.watch import Watch
guard = Watch(ProgressPipe(None))
guard.start()
def settle():
    guard.shim(0)
    time.sleep(10)
try:
    rank._settle(SimpleNamespace(settle=settle), guard)
except RankEnd as end:
    guard.disarm()
    sys.exit(end.code)
"""
LEFT = """
import time
from queue import SimpleQueue
from reconciler.runner.process.progress import ProgressPipe
from reconciler.runner.process.watch import Watch
from reconciler.wire.codec import to_wire
from reconciler.wire.frames import encode
from reconciler.wire.group import Leave
from tests.runner.sealing import sealed_pair
guard = Watch(ProgressPipe(None))
guard.start()
theirs, ours = sealed_pair()
orders = SimpleQueue()
guard.peer(0, ours, orders.put)
theirs.send(encode(to_wire(Leave("rank 0 was asked to stop"))))
theirs.close()
print(orders.get(timeout=60)["type"])
time.sleep(0.3)
print(guard.ending)
"""


def run(script: str, orphan: bool = False) -> subprocess.CompletedProcess[str]:
    """Run it to its end, with the pipe that a shim would hold; an orphan's has ended."""
    reading, writing = os.pipe()
    if orphan:
        os.close(writing)
    try:
        return subprocess.run(
            [sys.executable, "-c", script], stdin=reading, capture_output=True, text=True, timeout=90
        )
    finally:
        os.close(reading)
        if not orphan:
            os.close(writing)


def test_a_rank_that_ends_in_order_may_take_its_time() -> None:
    ended = run(SLOW_TO_UNWIND, orphan=True)
    assert (ended.returncode, ended.stdout) == (ExitCode.ORPHANED, "in order\n")


def test_an_exit_that_takes_too_long_is_cut_short_with_the_same_status_and_says_where_it_was() -> None:
    ended = run(SLOW_TO_EXIT)
    assert ended.returncode == ExitCode.CONFIG
    assert "most recent call first" in ended.stderr


def test_an_end_that_comes_while_another_is_being_reported_is_the_one_that_counts() -> None:
    ended = run(TWO_ENDS)
    assert ended.returncode == ExitCode.ORPHANED, ended.stderr
    assert ended.stdout.startswith("ValueError: an error of its own; the shim is gone")


def test_why_a_rank_ends_is_told_before_its_main_thread_is_asked_to_end() -> None:
    ended = run(TOLD_FIRST, orphan=True)
    assert (ended.returncode, ended.stdout) == (
        ExitCode.ORPHANED,
        "the shim is gone: standard input was closed\n",
    )


def test_a_rank_is_watched_until_it_owes_the_others_nothing() -> None:
    assert run(SETTLES_NEVER, orphan=True).returncode == ExitCode.ORPHANED


def test_who_has_said_that_the_group_ends_is_not_lost_when_its_connection_ends() -> None:
    assert run(LEFT).stdout == "leave\nNone\n"
