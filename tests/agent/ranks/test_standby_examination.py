"""Weights are examined by the process that waits for the next rank: in time, or not at all, and it becomes their rank."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import struct
import sys
from pathlib import Path

import pytest

from reconciler.agent.ranks import standby
from reconciler.agent.weights import examination
from reconciler.remote.agent_connection import AgentConnection
from reconciler.wire.launch import Phase, RankId
from reconciler.wire.node import Done, ModelReport, StartRank
from tests.agent.bench import QUICK_STANDBY_SECONDS, RANK, Bench, ask, gone, in_phase, observe, rank, until

pytestmark = pytest.mark.processes

MODEL = "llama"
OTHER = RankId("other", 0, 1, 0)
WAITS = """#!{python} -ISs
import json, os, sys, time
progress = int(os.environ.get("RECONCILER_PROGRESS_FD", -1))
if progress < 0:
    time.sleep({slowness})
    print(json.dumps({{"mlx": "1", "mlx-lm": "2"}}))
    sys.exit()
open({started!r}, "a").write("%d\\n" % os.getpid())
config = os.environ["RECONCILER_RANK_CONFIG"]
while config == "-" or config.startswith("examine "):
    config = sys.stdin.readline().strip()
    if config.startswith("examine "):
        {examination}
if config:
    os.write(progress, json.dumps({{"phase": "ready", "detail": config}}).encode() + b"\\n")
    sys.stdin.read()
"""
"""A runtime's Python: it says its versions, and is a rank's program that waits, whatever it is asked to run."""
ANSWERS = """os.write(progress, json.dumps({"code": json.loads(config[8:])}).encode() + b"\\n")"""
FLOODS = """os.write(progress, b"x" * 2_000_000)"""
FAILS = """print("MemoryError: too large", flush=True) or sys.exit(3)"""
KILLED = """os.kill(os.getpid(), 9)"""
LONG = """os.write(progress, json.dumps({"code": json.loads(config[8:]), "more": "x" * 700_000}).encode() + b"\\n")"""
HANGS = "sys.stdin.read()"


@pytest.fixture
def started(bench: Bench) -> Path:
    """Where each process that waits notes its number."""
    return bench.home / "started"


def runtime(bench: Bench, started: Path, examination: str = ANSWERS, slowness: float = 0.0) -> None:
    """Give the node a runtime, and weights."""
    bench.runtime = bench.home / "python"
    started.touch()
    bench.runtime.write_text(
        WAITS.format(python=sys.executable, started=str(started), examination=examination, slowness=slowness)
    )
    bench.runtime.chmod(0o700)
    folder = bench.models / MODEL
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    header = b"{}"
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)


async def examined(link: AgentConnection) -> ModelReport:
    """What the agent reports once nothing is examined any more."""
    while True:
        (report,) = (await observe(link, MODEL)).models
        if not report.examining:
            return report
        async for _ in link.changes():
            break


async def examined_again(link: AgentConnection) -> ModelReport:
    """What the agent reports a moment later, as controllers ask every few seconds."""
    await asyncio.sleep(0.1)
    return await examined(link)


async def start(bench: Bench, link: AgentConnection, id: RankId = RANK) -> int:
    """Start a rank of the runtime; its process."""
    program = standby.program_of_ranks(str(bench.runtime))
    spec = dataclasses.replace(bench.spec(program.argv, id, **program.env), spare=True)
    assert isinstance(await ask(link, StartRank(1, spec)), Done)
    await in_phase(link, Phase.READY, id)
    return (await rank(link, id)).pid or 0


def pids(started: Path) -> list[int]:
    return [int(line) for line in started.read_text().splitlines()]


async def test_what_examines_weights_becomes_the_next_rank(bench: Bench, started: Path) -> None:
    runtime(bench, started)
    link = await bench.agent()
    assert (await examined(link)).code == str(bench.models / MODEL)
    (waiting,) = pids(started)
    assert await start(bench, link) == waiting


async def test_nothing_waits_where_there_is_nothing_to_examine(bench: Bench, started: Path) -> None:
    runtime(bench, started)
    link = await bench.agent()
    (report,) = (await observe(link, "missing")).models
    assert not report.present
    assert not (bench.directory / "spare.json").exists()
    assert await start(bench, link) in pids(started)
    assert len(pids(started)) == 1


@pytest.mark.parametrize("slowness", [0.0, 3 * QUICK_STANDBY_SECONDS])
async def test_it_waits_for_what_it_was_started_to_examine_and_ends_if_no_rank_comes(
    bench: Bench, started: Path, slowness: float
) -> None:
    runtime(bench, started, slowness=slowness)
    link = await bench.quick_agent()
    assert (await examined(link)).code
    (waiting,) = pids(started)
    await gone(waiting)


async def test_an_answer_may_name_the_files_of_every_stage_of_a_model_of_hundreds(
    bench: Bench, started: Path
) -> None:
    runtime(bench, started, LONG)
    assert (await examined(await bench.agent())).code


@pytest.mark.parametrize(
    ("examines", "why"),
    [
        ("os.abort()", "its process was ended by signal 6 (SIGABRT)"),
        (KILLED, "its process was ended by signal 9 (SIGKILL)"),
        ("sys.exit()", "its process ended with status 0"),
        (FAILS, "its process ended with status 3: MemoryError: too large"),
        (FLOODS, "its answer is longer than 1048576 bytes"),
    ],
)
async def test_an_examination_that_ends_its_process_says_how_and_ranks_start_all_the_same(
    bench: Bench, started: Path, examines: str, why: str
) -> None:
    runtime(bench, started, examines)
    link = await bench.agent()
    report = await examined(link)
    assert (report.problem, report.code, report.ranks_tried) == ("", "", 0)
    assert report.examination is not None
    assert (report.examination.text, report.examination.attempts) == (why, 1)
    await examined(link)
    (waiting,) = pids(started)
    await gone(waiting)
    assert await start(bench, link) != waiting
    assert f"examination 1 failed: {why}; the next one in 30 s" in (bench.directory / "agent.log").read_text()


async def test_an_examination_that_failed_is_tried_again_while_the_controller_asks(
    bench: Bench, started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "AGAIN_SECONDS", (0.3,))
    runtime(
        bench,
        started,
        f"len(open({str(started)!r}).readlines()) < 3 and os.abort()\n        {ANSWERS}",
    )
    link = await bench.quick_agent()
    assert (await examined(link)).examination is not None
    while (report := await examined_again(link)).examination is not None:
        pass
    assert report.code == str(bench.models / MODEL)
    assert len(pids(started)) == 3


async def test_an_examination_that_takes_too_long_is_not_waited_for(
    bench: Bench, started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "EXAMINATION_SECONDS", 0.2)
    runtime(bench, started, HANGS)
    link = await bench.quick_agent()
    report = await examined(link)
    assert report.code == ""
    assert report.examination is not None
    assert report.examination.text == "it took longer than 0.2 s"
    for waiting in pids(started):
        await gone(waiting)


async def test_a_rank_that_comes_meanwhile_is_started_as_ever(bench: Bench, started: Path) -> None:
    runtime(bench, started, HANGS)
    link = await bench.agent()
    await observe(link, MODEL)
    await until(lambda: len(pids(started)) == 1)
    (examining,) = pids(started)
    while not (await observe(link, MODEL)).runtime:
        await observe(link, MODEL)
    assert await start(bench, link, OTHER) != examining
    os.kill(examining, signal.SIGKILL)
    assert not (await examined(link)).code
