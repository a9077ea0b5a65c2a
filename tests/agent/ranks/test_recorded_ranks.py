"""The answers about ranks to many states, outputs and ticks, compared with those that were recorded before."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.agent.ranks import child, directory, leftovers, rank, shim, standby
from reconciler.agent.ranks.hearing import Hearing
from reconciler.agent.ranks.log import RankLog, last_line, read_log, segments
from reconciler.agent.ranks.vitals import Vitals
from reconciler.agent.system import files, operating_system
from reconciler.agent.system.usage import RankUsage
from reconciler.wire.launch import CONFIG_VARIABLE, UNANSWERED, Exit, Phase, Progress, RankId
from reconciler.wire.node import Gone, ShimState
from tests.agent.ranks.machine import ID, spec
from tests.recorded import compare, digest, plain

RECORDED = Path(__file__).parents[1] / "recorded"
LIVING = (Phase.STARTING, Phase.VERBS, Phase.LOADING, Phase.WARM, Phase.READY, Phase.DRAINING)


# --- leftovers ---

PS = ("1 70 S", "71 70 Z", "72 7 S", "73 70 T+", "70 S", "74 70 S more", "75 70 Zs")
NETSTAT = (
    "tcp4 0 0 127.0.0.1.5000 *.* LISTEN",
    "tcp6 0 0 *.5001 *.* LISTEN",
    "tcp4 0 0 10.0.0.1.5002 10.0.0.2.9 ESTABLISHED",
    "tcp4 0 0 *.* *.* LISTEN",
    "tcp4 0 0 *.5003 *.* LISTEN more",
    "tcp4 0 *.5004 *.* LISTEN",
)
PROC = (
    "0: 0100007F:1388 00000000:0000 0A 0",
    "1: 00000000:1389 00000000:0000 0A 0",
    "2: 00000000:138A 00000000:0000 01 0",
    "3: 00000000:138B 00000000:0000",
    "4: 00000000:138C 00000000:0000 0A",
)


def test_outputs_of_tools_about_an_ended_rank_are_read_as_recorded() -> None:
    lines, rng = [], random.Random(2)
    for _ in range(40):
        ps, net, proc = (rng.sample(each, rng.randrange(len(each) + 1)) for each in (PS, NETSTAT, PROC))
        found = (
            leftovers.members("\n".join(ps), 70),
            sorted(leftovers.listeners("\n".join(net))),
            sorted(leftovers.listeners_in_proc("\n".join(["sl local", *proc]))),
        )
        lines.append(f"{digest((ps, net, proc))} {found}")
    for pids, ports in product(
        ([], [3], [9, 1], [4, 3, 2, 1], [5, 4, 3, 2, 1], [*range(8)]), ([], [1], [2, 1])
    ):
        lines.append(f"{pids} {ports}: {leftovers._describe(pids, ports)}")
    compare(RECORDED / "ranks-leftovers.txt", lines)


@pytest.mark.parametrize("linux", [False, True])
def test_an_ended_rank_left_what_is_recorded(
    linux: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, mark = "/r/config.json", f"A=1\0{CONFIG_VARIABLE}=/r/config.json".encode()
    asked: list[list[str]] = []

    def run(command: list[str], **given: Any) -> Any:
        asked.append(command)
        assert (given["check"], given["timeout"], given["env"]["LC_ALL"]) == (True, 10, "C")
        shown = ["70 70 Z", "71 70 S", "72 8 S"] if "ps" in command[0] else NETSTAT
        return SimpleNamespace(stdout="\n".join(shown).encode())

    faked = SimpleNamespace(**{**vars(subprocess), "run": run})
    monkeypatch.setattr(operating_system, "subprocess", faked)
    monkeypatch.setattr(operating_system, "is_linux", lambda: linux)
    monkeypatch.setattr(operating_system, "tool", lambda name: f"/bin/{name}")
    for each in (leftovers, operating_system):
        monkeypatch.setattr(each, "Path", lambda text: tmp_path / str(text).replace("/proc", "."))
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text("\n".join(["sl", *PROC[:2]]))
    (tmp_path / "net" / "tcp6").write_text("\n".join(["sl", *PROC[2:]]))
    processes = (
        (70, b"Z", 70, b""),
        (71, b"S", 70, b""),
        (72, b"S", 9, mark),
        (73, b"S", 9, mark + b"5"),
        (74, b"X", 70, b""),
    )
    for pid, state, session, given in processes:
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_bytes(
            b"%d (a) b) %b 1 70 %d" % (pid, state, session) + b" 0" * 13 + b" 1 0"
        )
        (tmp_path / str(pid) / "environ").write_bytes(given)
    (tmp_path / "75").mkdir()
    lines = []
    for asked_for, reused, path, ports in product(
        (None, 70, 99), (False, True), (config, "/o"), ((), (5000, 5001, 5002, 5003, 5004))
    ):
        ended = leftovers.Ended(asked_for, reused, path, ports)
        lines.append(f"{asked_for} {reused:d} {path} {len(ports)}: {leftovers.find(ended)}")
    assert linux or asked[0] in (
        ["/bin/ps", "-axo", "pid=,pgid=,stat="],
        ["/bin/netstat", "-an", "-p", "tcp"],
    )
    (tmp_path / "net" / "tcp6").unlink()
    lines.append(f"{leftovers.find(leftovers.Ended(70, False, config, (5000, 5004)))}")
    compare(RECORDED / f"ranks-left-{'proc' if linux else 'tools'}.txt", lines)


@pytest.mark.parametrize("error", [OSError("no"), ValueError("odd"), subprocess.TimeoutExpired("ps", 10)])
def test_leftovers_that_cannot_be_looked_for_are_unknown(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(ended: leftovers.Ended) -> list[str]:
        raise error

    monkeypatch.setattr(leftovers, "_find_with_tools", fail)
    monkeypatch.setattr(leftovers, "_find_on_linux", fail)
    gone, text = leftovers.find(leftovers.Ended(70, False, "/c", ()))
    assert (gone, text) == (Gone.UNKNOWN, f"it cannot be determined: {error}")


# --- vitals and hearing ---


def test_every_tick_of_many_ranks_counts_as_recorded() -> None:
    lines, rng = [], random.Random(4)
    for number in range(30):
        vitals, state = Vitals(), ShimState(7, 6, 1.0, Progress(Phase.STARTING))
        for _ in range(12):
            if rng.random() < 0.3:
                progress = Progress(
                    rng.choice(LIVING), rng.randrange(3), rng.choice((0, 0, 1, 2)), rng.randrange(2)
                )
                state = replace(state, progress=progress)
            stopped = (rng.random() < 0.1, rng.random() < 0.1)
            told = vitals.tick(state, rng.choice((0.0, 0.5, 1.0, 2.0, 2.5, 90.0)), stopped)
            counted = (vitals.silent_seconds, vitals.idle_seconds, vitals.age_seconds)
            marks = "".join(
                "01"[each] for each in (told, vitals.was_ready, vitals.stopped, vitals.shim_stopped)
            )
            lines.append(f"{number} {marks} {' '.join(f'{each:g}' for each in counted)}")
    compare(RECORDED / "ranks-vitals.txt", lines)


def test_the_time_since_a_rank_was_killed_counts_as_recorded() -> None:
    lines, rng = [], random.Random(9)
    for _ in range(3):
        vitals = Vitals()
        for _ in range(50):
            told = vitals.tick_killed(rng.choice((0.5, 1.0, 2.0, 3.0)))
            lines.append(f"{told:d} {vitals.killed_seconds} {vitals.killed_step}")
    compare(RECORDED / "ranks-killed.txt", lines)


async def test_every_question_to_rank_0_is_asked_as_recorded() -> None:
    lines, rng = [], random.Random(7)
    for number in range(30):
        asked: list[asyncio.Future[None]] = []

        def ask(asked: list[asyncio.Future[None]] = asked) -> asyncio.Future[None]:
            asked.append(asyncio.get_running_loop().create_future())
            return asked[-1]

        hearing = Hearing(ask)
        for _ in range(16):
            done = rng.random()
            if asked and not asked[-1].done():
                if done < 0.2:
                    asked[-1].set_result(None)
                elif done < 0.35:
                    asked[-1].set_exception(ConnectionResetError())
                elif done < 0.4:
                    asked[-1].cancel()
                elif done < 0.45:
                    hearing.close()
            told = hearing.tick(rng.choice((0.5, 1.0, 1.0, 2.0, 5.0)))
            lines.append(f"{number} {told:d} {len(asked)} {hearing.deaf_seconds:g}")
        hearing.close()
        assert asked[-1].done()
        assert hearing.deaf_seconds == 0.0
    compare(RECORDED / "ranks-hearing.txt", lines)


# --- logs ---


def test_every_piece_of_a_log_is_as_recorded(tmp_path: Path) -> None:
    lines, rng = [], random.Random(1)
    texts = ("a", "line\n", "é", "€\n", "\N{GRINNING FACE}", "0123456789\n", "\n")
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "rank.x.log").write_text("not one of them")
        log = RankLog(folder, rng.choice((7, 16, 40)))
        lines.append(f"{number} {plain(read_log(folder, 5, None))} {last_line(folder)!r}")
        for _ in range(4):
            log.write("".join(rng.choices(texts, k=rng.randrange(9))).encode())
            kept = [(start, path.name, path.stat().st_size) for start, path in segments(folder)]
            lines.append(f"{number} {kept} {last_line(folder, rng.choice((4, 9, 400)))!r}")
            offsets = (None, 0, rng.randrange(60), rng.randrange(60), 999)
            for size in (0, 5, 12, 400):
                found = [read_log(folder, size, each) for each in offsets]
                lines.append(f" {size} {' '.join(digest(each, 4) for each in found)}")
        log.close()
    compare(RECORDED / "ranks-log.txt", lines)


def test_a_record_of_the_log_is_no_last_line(tmp_path: Path) -> None:
    log = RankLog(tmp_path)
    for text, last in (
        (b" one \n\n", "one"),
        (b"two\nthree", "three"),
        (b"\n2026-11-29T06:00:00.000Z INFO begun\n", ""),
    ):
        log.write(text)
        assert last_line(tmp_path) == last, text
    log.close()


def test_lines_are_whole_or_not_there() -> None:
    lines, rng = [], random.Random(12)
    most = shim.LINE_BYTES_MAX
    for number in range(20):
        split = shim.Lines()
        for _ in range(8):
            size = rng.choice((0, 1, 3, most - 2, most - 1, most, most + 1))
            chunk = rng.choice((b"", b"\n")) + b"x" * size + rng.choice((b"", b"\n", b"\ny"))
            lines.append(f"{number} {size} {chunk.count(10)}: {[len(each) for each in split.feed(chunk)]}")
    compare(RECORDED / "ranks-lines.txt", lines)


# --- directories and reports ---


def test_ids_and_files_of_ranks_are_read_as_recorded(tmp_path: Path) -> None:
    lines = []
    for name in ("a", "a-b", "a..b", "a.b", "-a", "a-", "A", "", "a/b", "a\n", "a" * 253, "a" * 254):
        for numbers in ((0, 1, 0), (-1, 1, 0), (0, -1, 0), (0, 0, -1)):
            try:
                directory.check_id(RankId(name, *numbers))
                lines.append(f"{name!r:.20} {numbers} good")
            except ValueError as error:
                lines.append(f"{name!r:.20} {numbers} {str(error)[:60]!r}")
    own = files.place(tmp_path)
    kept = directory.RankDirectory(tmp_path)
    frames: tuple[Any, ...] = (
        None, [], 5, {}, {"pid": 7}, {"pid": 7, "birth": "b"}, {"pid": "8", "birth": 9, "place": ""},
        {"pid": "x", "birth": "b", "place": own}, {"pid": None, "birth": "b", "place": "0:0"}, {"birth": "b"},
    )  # fmt: skip
    lines.append(f"{kept.process()} {kept.owner()} {kept.state()}")
    for frame in frames:
        (tmp_path / "process.json").write_text(json.dumps(frame))
        (tmp_path / "state.json").write_text(json.dumps(frame))
        lines.append(f"{str(frame).replace(own, 'own')}: {kept.process()} {kept.owner()} {kept.state()}")
    kept.write_process(9, "born")
    kept.write_state(ShimState(9, 8, 1.0, Progress(Phase.READY)))
    lines.append(f"{kept.process()} {kept.owner()} {kept.state()}")
    (tmp_path / "process.json").write_text("{")
    (tmp_path / "state.json").write_text("{")
    lines.append(f"{kept.process()} {kept.owner()} {kept.state()}")
    compare(RECORDED / "ranks-directories.txt", lines)


def test_directories_appear_and_disappear_whole(tmp_path: Path) -> None:
    (tmp_path / f".new-{ID}").mkdir()
    (tmp_path / f".new-{ID}" / "old").touch()
    made = directory.create(tmp_path, spec())
    assert sorted(path.name for path in made.path.iterdir()) == ["config.json", "spec.json"]
    assert (made.spec(), json.loads(made.file("config.json").read_text())["size"]) == (spec(), 2)
    for name in (".new-b-0-1-0", ".gone-b-0-1-0", "no rank"):
        (tmp_path / name).mkdir()
    assert directory.scan(tmp_path) == [ID]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([str(ID), "no rank"])
    (tmp_path / f".gone-{ID}").mkdir()
    directory.remove(tmp_path, ID)
    assert directory.scan(tmp_path) == []


async def test_reports_of_many_ranks_are_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, rng = [], random.Random(11)
    now = asyncio.get_running_loop().time()
    monkeypatch.setattr(
        rank, "asyncio", SimpleNamespace(get_event_loop=lambda: SimpleNamespace(time=lambda: now))
    )
    host: Any = SimpleNamespace(ask_rank=None)
    for _ in range(120):
        id = RankId("llama", 0, 1, rng.choice((0, 0, 1)))
        given = spec(id, rng.choice(("10.0.0.1:4000", "none", "10.0.0.1:x", "")), rng.random() < 0.5)
        if rng.random() < 0.3:
            given = replace(given, config=replace(given.config, addresses=(), socket=""))
        known = rank.Rank(id, given if rng.random() < 0.8 else None, host)
        known.peer = rng.choice((None, host, host))
        ended = Exit(1, None, 5.0, "bad") if rng.random() < 0.3 else None
        phase = rng.choice((Phase.READY, *LIVING))
        known.state = ShimState(
            7, rng.choice((0, 6)), 2.0, Progress(phase, 1, 2, 3, 4, "d"), ended, rng.random() < 0.2
        )
        known.vitals.stopped, known.vitals.shim_stopped = rng.random() < 0.2, rng.random() < 0.2
        known.vitals.silent_seconds = known.vitals.idle_seconds = known.vitals.age_seconds = rng.random() * 9
        known.vitals.killed_seconds = rng.choice((None, 0.0, 7.0))
        known.usage = RankUsage(1.5, 4096, 2.5)
        known.ended_at = rng.choice((None, now - rng.choice((0.0, 4.9, 5.0, 9.0, 119.9, 120.0, 900.0))))
        before = "".join("01"[known.ended_before(each)] for each in (0.0, 5.0, 120.0))
        report = known.report()
        shown = f"{report.phase} {report.stopped:d} {report.ended_seconds:g} {report.killed_seconds} {report.port} {report.size}"
        lines.append(f"{digest(report)} {known.watched:d}{known.asked:d} {before} {known.own_ports} {shown}")
    compare(RECORDED / "ranks-reports.txt", lines)


# --- standby ---


class Waiting:
    """A standby process that answers, has ended, or cannot be started, as it is told."""

    made: list[Waiting]
    fates: list[str]

    def __init__(self, command: Any, program: Any, folder: Path) -> None:
        fate = Waiting.fates.pop(0) if Waiting.fates else "good"
        if fate == "unstarted":
            raise OSError(2, "no such file")
        self.fate, self.program, self.on_answer = fate, program, None
        self.process: Any = SimpleNamespace(
            pid=len(Waiting.made) + 1, poll=lambda: 1 if self.fate == "over" else None
        )
        self.process.returncode = 1
        self.closed = 0
        Waiting.made.append(self)

    @property
    def examines(self) -> bool:
        return self.on_answer is not None

    def examine(self, folder: str, seconds: float, on_answer: Any, end: Any) -> bool:
        if self.fate == "dead":
            return False
        self.on_answer = on_answer
        return True

    def become(self, path: Path, listener: Any, errors: Any) -> bool:
        return self.fate != "dead"

    def close(self) -> None:
        self.closed += 1
        if self.on_answer is not None:
            taken, self.on_answer = self.on_answer, None
            taken({UNANSWERED: "closed"})


def test_every_act_with_a_standby_process_is_as_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, rng, clock = [], random.Random(13), [1000.0]
    monkeypatch.setattr(standby, "_Waiting", Waiting)
    monkeypatch.setattr(standby, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    programs = [standby.Program(("a",), {}), standby.Program(("b",), {})]
    acts = (
        "prepare",
        "expect",
        "no more",
        "examine",
        "examine",
        "answer",
        "become",
        "unused",
        "end",
        "reap",
        "dies",
        "over",
    )
    for number in range(24):
        Waiting.made, Waiting.fates = (
            [],
            [rng.choice(("good", "good", "dead", "unstarted")) for _ in range(9)],
        )
        kept, said = standby.Standby(("x",), tmp_path), []  # type: ignore[var-annotated]
        for _ in range(14):
            act, result = rng.choice(acts), None
            program, waiting = rng.choice(programs), kept._waiting
            clock[0] += rng.choice((0.0, 1.0, 9.0, 10.0, 59.0, 60.0))
            if act == "prepare":
                kept.prepare(program)
            elif act == "expect":
                standby.StandbyExaminations(kept, program).prepare()
            elif act == "no more":
                standby.StandbyExaminations(kept, program).prepared()
            elif act == "examine" and not (waiting and waiting.examines):
                standby.StandbyExaminations(kept, program).examine("/w", 5.0, said.append)
            elif act == "answer" and waiting is not None and waiting.examines:
                made: Any = waiting
                taken, made.on_answer = made.on_answer, None
                taken({"ok": 1})
            elif act == "become":
                become: Any = kept.become
                result = getattr(become(tmp_path, None, None), "pid", None)
            elif act == "unused":
                kept.end_unused(10.0)
            elif act == "end":
                kept.end()
            elif act == "reap":
                kept.reap()
            elif act in ("dies", "over") and waiting is not None:
                dying: Any = waiting
                dying.fate = "dead" if act == "dies" else "over"
            now = getattr(getattr(kept._waiting, "process", None), "pid", None)
            ended = [each.pid for each in kept.ended]
            closed = "".join(str(each.closed) for each in Waiting.made)
            lines.append(f"{number} {act} {now} {digest((result, ended, closed, said), 6)}")
    compare(RECORDED / "ranks-standby.txt", lines)


def test_environments_of_ranks_hold_nothing_else() -> None:
    own = {"HOME": "/h", "PATH": "/p", "USER": "u", "SECRET": "s", "LANG": "de", "TMPDIR": "/t"}
    assert child.environment(own, {"A": "1", "LC_ALL": "X"}, Path("/n/tmp")) == {
        "HOME": "/h",
        "PATH": "/p",
        "USER": "u",
        "LANG": "C",
        "LC_ALL": "X",
        "TMPDIR": "/n/tmp",
        "A": "1",
    }
    assert child.environment({}, {}, Path("/n")) == {"LANG": "C", "LC_ALL": "C", "TMPDIR": "/n"}


# --- shims ---


class Timer:
    """A call that a loop makes later, or not."""

    def __init__(self, due: float, call: Any, given: tuple[Any, ...]) -> None:
        self.due, self.call, self.given, self.cancelled = due, call, given, False

    def when(self) -> float:
        return self.due

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """A loop that keeps what it is to do later."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, due: float, call: Any, *given: Any) -> Timer:
        self.timers.append(Timer(due, call, given))
        return self.timers[-1]

    def call_later(self, seconds: float, call: Any, *given: Any) -> Timer:
        return self.call_at(self.now + seconds, call, *given)

    def remove_reader(self, descriptor: int) -> None:
        """Nothing is read here."""

    def until(self, now: float) -> None:
        while due := [each for each in self.timers if not each.cancelled and each.due <= now]:
            first = min(due, key=lambda each: each.due)
            self.timers.remove(first)
            self.now = first.due
            first.call(*first.given)
        self.now = now


class Agent:
    """An agent that is connected to a shim."""

    def __init__(self, congested: bool = False) -> None:
        self.congested = congested
        self.sent: list[Any] = []

    def send(self, message: Any) -> None:
        self.sent.append(message)


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(shim, "signal_process", lambda pid, number: found.append(f"{pid}:{int(number)}"))
    monkeypatch.setattr(shim, "signal_group", lambda pid, number: found.append(f"-{pid}:{int(number)}"))
    monkeypatch.setattr(shim, "machine", SimpleNamespace(boot_id=lambda: "boot"))
    return found


class Disk(directory.RankDirectory):
    """A directory whose state is not written, so that nothing waits for a disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.written: list[ShimState] = []

    def write_state(self, state: ShimState) -> None:
        """Keep it, unless the disk is full, as it is for each third."""
        self.written.append(state)
        if len(self.written) % 3 == 0:
            raise OSError(28, "no space left on device")


class Held:
    """A shim with a rank whose output and end are what a test says."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, problem: str = "") -> None:
        self.loop: Any = Loop()
        self.statuses: list[tuple[int, int]] = []
        self.born: str | None = "boot 1"
        self.pipes: dict[int, list[bytes | None]] = {4: [], 5: []}
        self.disk = Disk(path)
        self.shim = shim.Shim(self.loop, self.disk)  # type: ignore[arg-type]
        self.shim._child = child.Child(70, 3, 4, 5, problem)
        self.agents: list[Any] = [Agent(), Agent(True)]
        self.shim._peers = set(self.agents)
        self.shim._state = replace(self.shim._state, pid=70, shim_pid=69)
        every = {name: getattr(os, name) for name in ("WIFEXITED", "WEXITSTATUS", "WTERMSIG", "WNOHANG")}
        system = SimpleNamespace(**every, waitpid=self.wait)
        monkeypatch.setattr(shim, "os", system)
        monkeypatch.setattr(shim, "_read", lambda at: self.pipes[at].pop(0) if self.pipes[at] else None)
        monkeypatch.setattr(shim, "birth", lambda pid, boot: self.born)

    def wait(self, pid: int, options: int) -> tuple[int, int]:
        """The next status of the rank."""
        return self.statuses.pop(0) if self.statuses else (0, 0)

    def told(self) -> str:
        state = self.shim._state
        ended = state.exit and (state.exit.code, state.exit.signal)
        sent = [len(each.sent) for each in self.agents]
        return f"{state.progress.phase} {state.killed:d} {ended} {sent} {len(self.disk.written)}"


def test_ends_of_ranks_are_told_as_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals: list[str]
) -> None:
    lines = []
    outputs: tuple[list[bytes | None], ...] = (
        [],
        [b"last words\n", b""],
        [b"a\n", b"[METAL] out of memory\n"],
    )
    details = (b"", b'{"phase": "loading", "detail": "no room"}\n', b'{"phase": "ready"}\n')
    every = product((0, 256, 66 << 8, 9, 15), outputs, details, ("", "cannot start x"), (None, 2.0))
    for number, (status, output, progress, problem, grace) in enumerate(every):
        path = tmp_path / str(number)
        path.mkdir()
        with monkeypatch.context() as patch:
            held = Held(path, patch, problem)
            held.pipes = {4: list(output), 5: [progress, b""]}
            if grace is not None:
                held.shim._terminate(grace)
                held.loop.until(103.0)
            held.statuses = [(70, status)]
            held.shim._reap()
            held.shim._reap()
        ended = held.shim._state.exit
        assert ended is not None
        assert held.shim._ended.is_set()
        told = (ended.code, ended.signal, ended.detail, ended.killed_after, ended.metal)
        lines.append(
            f"{status} {digest((output, progress))} {problem[:6]} {grace}: {digest((told, held.told()))}"
        )
        held.shim._rank_log.close()
    compare(RECORDED / "ranks-ends.txt", lines)


def test_progress_of_ranks_is_told_as_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals: list[str]
) -> None:
    said = (
        b'{"phase":"ready","steps":1}', b'{"phase":"ready","steps":2,"demand":1}', b'{"phase":"loading"}', b"{", b"[" * 60000,
        b'{"phase":"exited"}', b'{"phase":"odd"}', b'{"steps":1}', b'{"phase":"ready","steps":"x"}', b"5",
    )  # fmt: skip
    held, lines, rng = Held(tmp_path, monkeypatch), [], random.Random(3)
    for _ in range(120):
        line = rng.choice(said)
        held.pipes[5] = [line[:9], line[9:] + b"\n"]
        read = held.shim._progress(), held.shim._progress(), held.shim._progress()
        held.loop.until(held.loop.now + rng.choice((0.0, 0.1, 0.2)))
        pushes = sum(not each.cancelled for each in held.loop.timers)
        bad = (tmp_path / "rank.0.log").read_text().count("[shim] not understood on the progress pipe: ")
        lines.append(f"{line[:36]!r} {''.join('01'[each] for each in read)} {pushes} {bad} {held.told()}")
    held.shim._rank_log.close()
    words = (tmp_path / "rank.0.log").read_text()
    assert "'exited' is not a phase of a living rank\n" in words
    assert max(map(len, words.splitlines())) <= 260
    compare(RECORDED / "ranks-progress.txt", lines)


def test_every_signal_to_a_rank_is_sent_as_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals: list[str]
) -> None:
    lines, rng = [], random.Random(21)
    for number in range(40):
        path = tmp_path / str(number)
        path.mkdir()
        with monkeypatch.context() as patch:
            held = Held(path, patch)
            for _ in range(8):
                signals.clear()
                chance = rng.random()
                if chance < 0.4:
                    held.shim._terminate(rng.choice((-1.0, 0.0, 2.0, 5.0)))
                elif chance < 0.5:
                    held.statuses = [(70, rng.choice((0, 9)))]
                elif chance < 0.55:
                    held.born = None
                held.loop.until(held.loop.now + rng.choice((0.5, 1.0, 3.0)))
                due = sorted(each.due for each in held.loop.timers if not each.cancelled)
                lines.append(
                    f"{number} {' '.join(signals) or '-'} {digest((held.loop.now, due, held.told()), 6)}"
                )
        held.shim._rank_log.close()
    compare(RECORDED / "ranks-signals.txt", lines)
