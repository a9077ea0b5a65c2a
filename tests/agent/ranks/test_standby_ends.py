"""Both ends of a standby process, each without the other: what the agent hears, and what the process passes on."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.agent import serving
from reconciler.agent.ranks import child, shim, spare, standby
from reconciler.agent.ranks.directory import RankDirectory
from reconciler.wire.launch import EXAMINE, UNANSWERED

PROGRAM = standby.Program(("python", "-m", "runner"), {"A": "1"})


class Loop:
    """A loop that reads, and makes calls, when a test says so."""

    def __init__(self) -> None:
        self.reading: dict[int, tuple[Callable[..., None], tuple[Any, ...]]] = {}
        self.later: list[SimpleNamespace] = []

    def add_reader(self, descriptor: int, read: Callable[..., None], *given: Any) -> None:
        self.reading[descriptor] = (read, given)

    def remove_reader(self, descriptor: int) -> None:
        self.reading.pop(descriptor, None)

    def call_later(self, seconds: float, call: Callable[[], None]) -> SimpleNamespace:
        timer = SimpleNamespace(seconds=seconds, call=call, cancelled=False)
        timer.cancel = lambda: setattr(timer, "cancelled", True)
        self.later.append(timer)
        return timer

    def read(self) -> None:
        for read, given in tuple(self.reading.values()):
            read(*given)


class Waiting:
    """The agent's end of a standby process, and the process's own end in a test's hands."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop, self.answers, self.ends = Loop(), [], 0  # type: ignore[var-annotated]
        self.commands: list[Any] = []
        monkeypatch.setattr(standby, "asyncio", SimpleNamespace(get_event_loop=lambda: self.loop))
        monkeypatch.setattr(
            standby, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": self.start})
        )
        self.made = standby._Waiting(("agent", "spare"), PROGRAM, folder)

    def start(self, command: list[str], **given: Any) -> Any:
        """Keep the other end open, as a process would."""
        self.theirs = socket.socket(fileno=os.dup(given["pass_fds"][0]))
        self.commands.append((command, given))
        return SimpleNamespace(pid=7)

    def end(self) -> None:
        """End it, as the agent does."""
        self.ends += 1
        self.made.close()

    def ask(self, folder: str = "/w") -> bool:
        return self.made.examine(folder, 5.0, self.answers.append, self.end)


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiting]:
    made = Waiting(tmp_path, monkeypatch)
    yield made
    made.made._control.close()
    made.theirs.close()


def test_a_standby_process_is_told_its_program_in_a_file(waiting: Waiting, tmp_path: Path) -> None:
    ((command, given),) = waiting.commands
    number = str(given["pass_fds"][0])
    assert command == ["agent", "spare", "--control", number, "--program", str(tmp_path / "spare.json")]
    assert given["start_new_session"]
    assert json.loads((tmp_path / "spare.json").read_text()) == {
        "argv": list(PROGRAM.argv),
        "env": PROGRAM.env,
    }
    assert not waiting.made.examines


def test_an_answer_in_pieces_ends_its_question_alone(waiting: Waiting) -> None:
    for answer in ({"a": 1}, {"b": 2}):
        assert waiting.ask("/w x")
        assert waiting.made.examines
        assert waiting.theirs.recv(100) == EXAMINE + b'"/w x"\n'
        text = json.dumps(answer).encode() + b"\n"
        for piece in (text[:3], text[3:]):
            assert waiting.made.examines
            waiting.theirs.sendall(piece)
            waiting.loop.read()
        assert waiting.answers.pop() == answer
        assert (waiting.made.examines, waiting.loop.reading, waiting.ends) == (False, {}, 0)
        timer = waiting.loop.later.pop()
        assert (timer.seconds, timer.cancelled) == (5.0, True)


@pytest.mark.parametrize("text", [b"{\n", b"[1]\n", b"[" * 60000 + b"\n"])
def test_an_answer_without_sense_is_none(text: bytes, waiting: Waiting) -> None:
    waiting.ask()
    waiting.theirs.sendall(text)
    waiting.loop.read()
    assert waiting.answers == [{UNANSWERED: "its answer cannot be read"}]
    assert waiting.ends == 0


def test_an_end_before_the_answer_is_told(waiting: Waiting) -> None:
    waiting.ask()
    waiting.theirs.sendall(b"{")
    waiting.loop.read()
    assert waiting.answers == []
    waiting.theirs.close()
    waiting.loop.read()
    assert (waiting.answers, waiting.ends, waiting.loop.reading) == ([{UNANSWERED: standby.ENDED}], 1, {})


def test_an_answer_that_comes_too_late_or_is_too_long_is_told(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting.ask()
    waiting.loop.later[0].call()
    assert (waiting.answers, waiting.ends) == ([{UNANSWERED: "it took longer than 5 s"}], 1)
    assert waiting.made._control.fileno() == -1
    assert not waiting.ask()


def test_an_answer_is_taken_up_to_its_bound(waiting: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby, "ANSWER_BYTES_MAX", 20)
    waiting.ask()
    waiting.theirs.sendall(b'{"a": 1}' + b" " * 10 + b"\n")
    waiting.loop.read()
    assert waiting.answers.pop() == {"a": 1}
    waiting.ask()
    waiting.theirs.sendall(b'{"a": 1}' + b" " * 11 + b"\n")
    waiting.loop.read()
    assert (waiting.answers, waiting.ends) == ([{UNANSWERED: "its answer is longer than 20 bytes"}], 1)


def test_a_process_becomes_a_shim_with_both_descriptors(waiting: Waiting, tmp_path: Path) -> None:
    listener: Any
    with socket.socket(socket.AF_UNIX) as listener, (tmp_path / "errors").open("wb") as errors:
        assert waiting.made.become(tmp_path / "rank", listener, errors)
        message, descriptors, _, _ = socket.recv_fds(waiting.theirs, 100, 2)
        assert (message, len(descriptors)) == (os.fsencode(tmp_path / "rank"), 2)
        assert os.path.sameopenfile(descriptors[1], errors.fileno())
        assert os.path.sameopenfile(descriptors[0], listener.fileno())
        for each in descriptors:
            os.close(each)
        assert waiting.made._control.fileno() == -1
        assert not waiting.made.become(tmp_path / "rank", listener, errors)


# --- the process's own end ---


class Spare:
    """A standby process's own end, with the agent and the process that waits in a test's hands."""

    def __init__(self) -> None:
        self.agent, self.own = socket.socketpair()
        progress, self.progress = os.pipe()
        stdin, self.given = os.pipe()
        self.heard = stdin
        self.child = child.Child(70, self.given, -1, progress, "")

    def close(self) -> None:
        self.agent.close()
        self.own.close()
        for descriptor in (self.child.progress, self.heard, self.given):
            os.close(descriptor)


@pytest.fixture
def own() -> Iterator[Spare]:
    """One whose agent waits."""
    made = Spare()
    yield made
    made.close()


def test_questions_and_answers_are_passed_on_until_there_is_a_rank(
    own: Spare, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[bytes] = []

    def select(read: list[int], write: list[int], odd: list[int]) -> tuple[list[int], list[int], list[int]]:
        step = next(steps)
        if step == "ask":
            own.agent.sendall(b"question\n")
            return [own.own.fileno()], [], []
        if isinstance(step, bytes):
            if step.startswith(b"a"):
                passed.append(os.read(own.heard, 100))
            os.write(own.progress, step)
            return [own.child.progress], [], []
        socket.send_fds(own.agent, [b"/rank"], [0, 1])
        return [own.own.fileno()], [], []

    steps = iter(("ask", b"ans", b"wer\n", "rank"))
    monkeypatch.setattr(spare, "select", SimpleNamespace(select=select))
    directory, descriptors = spare._wait_for_rank(own.own, own.child)
    assert (directory, len(descriptors), passed) == (b"/rank", 2, [b"question\n"])
    assert own.agent.recv(100) == b"answer\n"
    for each in (*descriptors, own.progress):
        os.close(each)


@pytest.mark.parametrize("asked", [False, True])
def test_the_end_of_the_process_that_waits_is_told_to_who_asked(
    asked: bool, own: Spare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child.Child, "ending", lambda self: "it ended")
    if asked:
        own.agent.sendall(b"question\n")
        steps = iter((own.own.fileno(), own.child.progress))
        monkeypatch.setattr(spare, "select", SimpleNamespace(select=lambda *given: ([next(steps)], [], [])))
    os.close(own.progress)
    assert spare._wait_for_rank(own.own, own.child) == (b"", [])
    own.own.close()
    said = own.agent.recv(200)
    assert said == (json.dumps({UNANSWERED: "it ended"}).encode() + b"\n" if asked else b"")


def test_the_end_of_the_agent_is_the_end_of_waiting(own: Spare) -> None:
    own.agent.close()
    assert spare._wait_for_rank(own.own, own.child) == (b"", [])
    os.close(own.progress)


@pytest.mark.parametrize(
    ("program", "waits", "taken"),
    [
        ((("a",), {}), True, True),
        ((("a",), {}), False, False),
        ((("b",), {}), True, False),
        (None, True, False),
    ],
)
def test_a_standby_process_of_the_same_program_becomes_the_rank(
    program: Any, waits: bool, taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts: list[str] = []
    waiting: Any = SimpleNamespace(
        pid=70,
        waits=lambda: waits,
        end_unused=lambda: acts.append("ended"),
        begin=lambda path: acts.append(f"begin {path.name}"),
    )
    monkeypatch.setattr(shim, "read_program", lambda directory: (("a",), {}))
    monkeypatch.setattr(shim.Shim, "_at_gate", lambda self, pid: acts.append(f"gate {pid}"))
    given = None if program is None else shim.Standby(program, waiting)
    loop: Any = Loop()
    made = shim.Shim(loop, RankDirectory(tmp_path), given)
    assert (made._standby_child() is waiting) == taken
    assert acts == (["gate 70", "begin config.json"] if taken else ["ended"] if program else [])
    made._rank_log.close()


@pytest.mark.parametrize(
    ("looks", "status", "output", "said"),
    [
        (0, 0, b"", "its process ended with status 0"),
        (0, 3 << 8, b"one\ntwo \n", "its process ended with status 3: two"),
        (3, int(signal.SIGKILL), b"x" * 300, f"its process was ended by signal 9 (SIGKILL): {'x' * 160}"),
        (10**6, 0, b"", "its process closed its pipe"),
    ],
)
def test_the_end_of_a_process_is_told_with_its_last_line(
    looks: int, status: int, output: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, clock = [0], [5.0]

    def wait(pid: int, options: int) -> tuple[int, int]:
        assert (pid, options) == (70, os.WNOHANG)
        looked[0] += 1
        return (70, status) if looked[0] > looks else (0, 0)

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    read, write = os.pipe()
    os.write(write, output)
    monkeypatch.setattr(os, "waitpid", wait)
    monkeypatch.setattr(child, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    try:
        assert child.Child(70, -1, read, -1, "").ending() == said
    finally:
        os.close(read)
        os.close(write)
    assert clock[0] <= 5.0 + child.ENDING_SECONDS + 0.02


# --- the arguments of an agent ---

NEEDED = ("--node", "a", "--directory", "d", "--models", "m", "--run-directory", "r", "--python", "p")


def parsed(*words: str) -> argparse.Namespace:
    """The arguments of an agent."""
    parser = argparse.ArgumentParser()
    serving.add_arguments(parser)
    return parser.parse_args(words)


def test_an_agent_has_its_places_and_nothing_else_by_default() -> None:
    found = parsed(*NEEDED)
    places = {"node": "a", "directory": "d", "models": "m", "run_directory": "r", "python": "p"}
    assert vars(found) == {
        **places,
        "detach": False,
        "held_by": "process",
        "ask": False,
        "token": 0,
        "tools": None,
    }
    assert vars(parsed(*NEEDED, "--detach", "--token", "7", "--tools", "/a:/b")) == {
        **vars(found), "detach": True, "token": 7, "tools": "/a:/b"
    }  # fmt: skip
    assert [parsed(*NEEDED, "--held-by", each).held_by for each in ("launchd", "systemd", "session")] == [
        "launchd",
        "systemd",
        "session",
    ]
    assert parsed(*NEEDED, "--ask").ask


@pytest.mark.parametrize("at", range(0, len(NEEDED), 2))
def test_an_agent_without_one_of_its_places_does_not_start(
    at: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(*NEEDED[:at], *NEEDED[at + 2 :])
    assert NEEDED[at] in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [("--detach", "--ask"), ("--ask", "--held-by", "systemd"), ("--held-by", "nobody"), ("--token", "x")],
)
def test_an_agent_takes_no_arguments_that_contradict_each_other(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(*NEEDED, *words)
    assert "error" in capsys.readouterr().err
