"""What a rank tells its shim: one line of JSON for each change, with what has come together since the last."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

import pytest

from reconciler.runner.process import progress as progress_module
from reconciler.runner.process.progress import ProgressPipe
from reconciler.wire.launch import Phase


def last_of(progress: ProgressPipe, reading: int) -> dict[str, Any]:
    """What it has told in the end, with a phase that it enters now."""
    progress.enter(Phase.READY)
    line = os.read(reading, 64 * 1024).splitlines()[-1]
    return dict(json.loads(line))


def test_steps_and_the_tokens_that_they_generate_are_counted() -> None:
    reading, writing = os.pipe()
    progress = ProgressPipe(writing)
    progress.step()
    for tokens in (3, 2):
        progress.step(tokens)
    told = last_of(progress, reading)
    assert (told["steps"], told["tokens"]) == (3, 5)
    os.close(reading)


def test_what_else_is_told_stays_until_it_is_told_anew() -> None:
    reading, writing = os.pipe()
    progress = ProgressPipe(writing)
    progress.reading(7)
    progress.demand(2)
    progress.loaded(10, 20)
    progress.demand(1)
    told = last_of(progress, reading)
    assert (told["step_tokens"], told["demand"]) == (7, 1)
    assert (told["loaded_bytes"], told["total_bytes"]) == (10, 20)
    assert (progress.phase, progress.step_tokens) == (Phase.READY, 7)
    os.close(reading)


def test_a_rank_that_has_reached_the_network_of_rdma_says_so_in_every_later_phase() -> None:
    reading, writing = os.pipe()
    progress = ProgressPipe(writing)
    for phase in (Phase.RENDEZVOUS, Phase.VERBS, Phase.LOADING):
        progress.enter(phase)
    told = [json.loads(line) for line in os.read(reading, 64 * 1024).splitlines()]
    assert {(each["phase"], each["verbs"]) for each in told} == {
        (Phase.RENDEZVOUS, False),
        (Phase.VERBS, True),
        (Phase.LOADING, True),
    }
    os.close(reading)


def test_what_has_not_changed_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "INTERVAL_SECONDS", 0.001)
    reading, writing = os.pipe()
    ProgressPipe(writing).step(3)
    told = os.read(reading, 64 * 1024)
    time.sleep(0.05)  # as long as fifty reports take
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)
    assert [json.loads(line)["tokens"] for line in told.splitlines()] == [3]
    os.close(reading)


def test_threads_write_their_lines_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the rest of one line could come within another."""
    reading, writing = os.pipe()
    progress = ProgressPipe(writing)
    write, both, met = os.write, threading.Barrier(2), []

    def slow(descriptor: int, line: bytes) -> int:
        if descriptor == writing:
            try:
                met.append(both.wait(0.1))
            except threading.BrokenBarrierError:
                both.reset()
        return write(descriptor, line)

    monkeypatch.setattr(os, "write", slow)
    threads = [threading.Thread(target=progress.report_detail, args=(text,)) for text in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert met == []
    os.close(reading)
