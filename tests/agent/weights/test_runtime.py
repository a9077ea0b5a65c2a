"""Questions to the runtime of a node are answered in time, with or without an answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.agent.system import process
from reconciler.agent.weights.runtime import Question
from tests.agent.bench import until
from tests.processes import gone
from tests.tracing import held

pytestmark = pytest.mark.processes

SECONDS = 20.0
PROGRAM = """
import os, sys, time
print('{"known": 1}', flush=True)
with open(sys.argv[1] + ".part", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".part", sys.argv[1])
time.sleep(600)
"""


async def test_a_question_that_is_withdrawn_ends_its_program_and_is_not_answered(tmp_path: Path) -> None:
    answers: list[Mapping[str, Any]] = []
    note = tmp_path / "pid"
    question = Question((sys.executable, "-I", "-S", "-c", PROGRAM, str(note)), answers.append)
    question.start()
    await until(note.exists)
    question.withdraw()
    await until(lambda: gone(int(note.read_text())))
    question.withdraw()  # of one that has ended changes nothing
    assert answers == []


async def test_a_program_that_nothing_ends_does_not_keep_anybody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "REAP_SECONDS", 0.1)
    answered: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
    note = tmp_path / "pid"
    command = (sys.executable, "-I", "-S", "-c", PROGRAM, str(note))
    question = Question(command, answered.set_result, seconds=0.5)
    question.start()
    await until(note.exists)
    async with asyncio.timeout(SECONDS):
        with held(int(note.read_text())):
            assert await answered == {"known": 1}
    await until(lambda: process.reap() == 0)
