"""The agent's end of a process that waits: asked, used, ended, and started anew where it is gone."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.agent.ranks import standby as module
from reconciler.agent.ranks.spare import ANSWER_BYTES_MAX
from reconciler.agent.ranks.standby import Program, Standby
from tests.agent.bench import soon

pytestmark = pytest.mark.processes

WAITS = """
import json, os, socket, sys
control = socket.socket(fileno=int(sys.argv[sys.argv.index("--control") + 1]))
program = json.load(open(sys.argv[sys.argv.index("--program") + 1]))
while True:
    content, descriptors, _, _ = socket.recv_fds(control, 65536, 4)
    if not content:
        break
    if descriptors:
        os.write(descriptors[1], b"I am the shim of " + content)
        break
    folder = json.loads(content.partition(b" ")[2])
    if folder == "hang":
        continue
    answer = json.dumps({"pid": os.getpid(), "folder": folder, **program["env"]}).encode()
    control.sendall(b"x" * 1_100_000 if folder == "flood" else answer[:9])
    if folder != "flood":
        control.sendall(answer[9:] + b"\\n")
"""
"""What an agent's file does as ``spare``, without a rank's program."""
PROGRAM, OTHER = Program(("python",), {"WHICH": "one"}), Program(("python",), {"WHICH": "other"})


class Waiting:
    """A node's standby process, and what it has answered."""

    def __init__(self, home: Path, command: tuple[str, ...] = (sys.executable, "-ISc", WAITS)) -> None:
        self.home = home
        self.standby = Standby(command, home)
        self.answers: list[Mapping[str, Any]] = []

    async def ask(self, folder: str, program: Program = PROGRAM, seconds: float = 600.0) -> Mapping[str, Any]:
        self.standby.examine(program, folder, seconds, self.answers.append)
        await soon(lambda: self.answers)
        return self.answers.pop()

    @property
    def pid(self) -> int | None:
        waiting = self.standby._waiting
        return waiting.process.pid if waiting is not None else None

    async def close(self) -> None:
        self.standby.end()
        for process in self.standby.ended:
            await soon(lambda process=process: process.poll() is not None)  # type: ignore[misc]


@pytest.fixture
async def waiting(tmp_path: Path) -> AsyncIterator[Waiting]:
    made = Waiting(tmp_path)
    yield made
    await made.close()


async def test_one_process_answers_for_one_folder_after_another(waiting: Waiting) -> None:
    first = await waiting.ask("/models/a")
    assert first == {"pid": waiting.pid, "folder": "/models/a", "WHICH": "one"}
    assert (await waiting.ask("/models/b"))["pid"] == first["pid"]
    kept = json.loads((waiting.home / "spare.json").read_text())
    assert kept == {"argv": ["python"], "env": {"WHICH": "one"}}


async def test_the_next_question_may_come_with_the_answer_to_the_last(waiting: Waiting) -> None:
    def ask_next(answer: Mapping[str, Any]) -> None:
        waiting.answers.append(answer)
        waiting.standby.examine(PROGRAM, "/models/b", 600.0, waiting.answers.append)

    waiting.standby.examine(PROGRAM, "/models/a", 600.0, ask_next)
    await soon(lambda: len(waiting.answers) == 2)
    assert [answer["folder"] for answer in waiting.answers] == ["/models/a", "/models/b"]


async def test_another_program_takes_another_process(waiting: Waiting) -> None:
    first = await waiting.ask("/models/a")
    other = await waiting.ask("/models/a", OTHER)
    assert (other["WHICH"], other["pid"] == first["pid"]) == ("other", False)
    assert [process.pid for process in waiting.standby.ended] == [first["pid"]]


async def test_one_that_has_ended_unnoticed_is_replaced_by_one_that_answers(waiting: Waiting) -> None:
    first = await waiting.ask("/models/a")
    assert waiting.standby._waiting is not None
    process = waiting.standby._waiting.process
    process.kill()
    process.wait()
    again = await waiting.ask("/models/a")
    assert (again["folder"], again["pid"] == first["pid"]) == ("/models/a", False)


async def test_where_none_can_be_started_the_answer_says_so(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, ("/no/such/agent",))
    (why,) = (await waiting.ask("/models/a")).values()
    assert why.startswith("its process cannot be started: [Errno 2] No such file or directory")
    assert waiting.pid is None


@pytest.mark.parametrize(
    ("folder", "why"),
    [("hang", "it took longer than 0.5 s"), ("flood", f"its answer is longer than {ANSWER_BYTES_MAX} bytes")],
)
async def test_one_that_gives_no_answer_in_time_or_none_that_is_one_is_ended(
    waiting: Waiting, folder: str, why: str
) -> None:
    assert await waiting.ask(folder, seconds=0.5 if folder == "hang" else 600.0) == {"unanswered": why}
    assert waiting.pid is None
    assert len(waiting.standby.ended) == 1


async def test_what_waits_becomes_the_shim_of_a_rank_once(waiting: Waiting) -> None:
    errors = waiting.home / "shim.log"
    with socket.socket(socket.AF_UNIX) as listener, errors.open("wb") as log:
        assert waiting.standby.become(Path("/ranks/r"), listener, log) is None, "there is none"
        waiting.standby.prepare(PROGRAM)
        pid = waiting.pid
        waiting.standby.prepare(PROGRAM)
        assert waiting.pid == pid, "one waits"
        shim = waiting.standby.become(Path("/ranks/r"), listener, log)
        assert shim is not None
        assert (shim.pid, waiting.pid) == (pid, None)
        await soon(lambda: shim.poll() is not None)
        assert errors.read_text() == "I am the shim of /ranks/r"
        waiting.standby.prepare(PROGRAM)
        assert waiting.pid is not None, "it was of use: the next may come at once"


async def test_what_examines_weights_is_no_rank_s_yet(waiting: Waiting) -> None:
    waiting.standby.examine(PROGRAM, "hang", 600.0, waiting.answers.append)
    with socket.socket(socket.AF_UNIX) as listener, tempfile.TemporaryFile() as log:
        assert waiting.standby.become(Path("/ranks/r"), listener, log) is None
        waiting.standby.end_unused(0.0)
        assert waiting.pid is not None, "it is still at it"
    waiting.standby.end()
    assert waiting.answers == [{"unanswered": module.ENDED}], "who asked hears of it"


async def test_one_that_has_ended_becomes_nothing(waiting: Waiting) -> None:
    waiting.standby.prepare(PROGRAM)
    assert waiting.standby._waiting is not None
    process = waiting.standby._waiting.process
    process.kill()
    process.wait()
    with socket.socket(socket.AF_UNIX) as listener, tempfile.TemporaryFile() as log:
        assert waiting.standby.become(Path("/ranks/r"), listener, log) is None
    assert waiting.standby.ended == [process]


async def test_one_that_was_of_no_use_is_not_started_again_at_once(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting.standby.prepare(PROGRAM)
    waiting.standby.end_unused(600.0)
    assert waiting.pid is not None
    waiting.standby.end_unused(0.0)
    assert waiting.pid is None
    waiting.standby.end_unused(0.0)
    waiting.standby.prepare(PROGRAM)
    assert waiting.pid is None
    waiting.standby._not_before -= module.PAUSE_SECONDS
    waiting.standby.prepare(PROGRAM)
    assert waiting.pid is not None


async def test_one_that_ends_by_itself_is_let_go_of(waiting: Waiting) -> None:
    waiting.standby.reap()
    waiting.standby.prepare(PROGRAM)
    waiting.standby.reap()
    assert waiting.standby._waiting is not None
    process = waiting.standby._waiting.process
    process.kill()
    process.wait()
    waiting.standby.reap()
    assert waiting.pid is None
    await asyncio.sleep(0)
