"""The reports on weights, fetches and examinations, compared with those that were recorded before."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.agent.system import process
from reconciler.agent.weights import examination, fetches, kept, runtime
from reconciler.agent.weights.examination import Examiner, Software
from reconciler.agent.weights.fetches import Fetches
from reconciler.agent.weights.files import Weights, mark
from reconciler.agent.weights.kept import StoredWeights
from reconciler.wire.codec import to_wire
from reconciler.wire.launch import UNANSWERED
from reconciler.wire.node import FetchWeights, ModelReport
from reconciler.wire.weights import (
    RECORD_NAME,
    FetchPhase,
    FetchProblem,
    FetchSource,
    Progress,
    Record,
    WantedFile,
    hub_path,
    partial_folder,
)
from tests.recorded import compare, digest, plain

RECORDED = Path(__file__).parents[1] / "recorded"
PATHS = tuple(hub_path(f"org/model{number}", str(number) * 40) for number in range(6))


class Loop:
    """A loop that calls what reads, and what is due, when a test says so."""

    def __init__(self) -> None:
        self.reading: dict[Any, Callable[[], None]] = {}
        self.due: list[SimpleNamespace] = []

    def add_reader(self, pipe: Any, read: Callable[[], None]) -> None:
        self.reading[pipe] = read

    def remove_reader(self, pipe: Any) -> None:
        self.reading.pop(pipe, None)

    def call_later(self, seconds: float, call: Callable[[], None]) -> SimpleNamespace:
        timer = SimpleNamespace(seconds=seconds, call=call, cancelled=0)
        timer.cancel = lambda: setattr(timer, "cancelled", timer.cancelled + 1)
        self.due.append(timer)
        return timer


class Pipe:
    """One end of a pipe: what comes next, and whether it was closed."""

    def __init__(self, number: int) -> None:
        self.number, self.closed = number, 0
        self.chunks: list[bytes] = []
        self.written = b""

    def fileno(self) -> Any:
        """Itself, so that a test's ``os`` finds it."""
        return self

    def close(self) -> None:
        self.closed += 1


class Process:
    """A process that ends when it is told to."""

    def __init__(self, number: int, command: Any, given: dict[str, Any]) -> None:
        self.command, self.given = command, given
        self.stdin, self.stdout = Pipe(2 * number), Pipe(2 * number + 1)
        self.killed = 0
        self.code: int | None = None
        self.waited: list[float] = []

    def kill(self) -> None:
        self.killed += 1
        self.code = self.code if self.code is not None else -9

    def wait(self, seconds: float) -> int:
        self.waited.append(seconds)
        if self.code is None:
            raise subprocess.TimeoutExpired("x", seconds)
        return self.code

    def poll(self) -> int | None:
        return self.code


class Machine:
    """Processes, pipes and a clock of a test's own, in the place of the module's."""

    def __init__(self, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = Loop()
        self.processes: list[Process] = []
        self.fails: OSError | None = None
        self.broken = False
        self.now = 100.0
        faked = SimpleNamespace(**{**vars(subprocess), "Popen": self.start})
        monkeypatch.setattr(module, "subprocess", faked)
        monkeypatch.setattr(module, "asyncio", SimpleNamespace(get_event_loop=lambda: self.loop))
        own = SimpleNamespace(
            read=self.read, write=self.write, environ=dict.fromkeys(fetches._PASSED_ON[:3], "proxy")
        )
        monkeypatch.setattr(module, "os", own)
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now), raising=False)

    def start(self, command: Any, **given: Any) -> Process:
        if self.fails is not None:
            raise self.fails
        self.processes.append(Process(len(self.processes), command, given))
        return self.processes[-1]

    def read(self, pipe: Pipe, most: int) -> bytes:
        return pipe.chunks.pop(0) if pipe.chunks else b""

    def write(self, pipe: Pipe, content: bytes) -> None:
        if self.broken:
            raise BrokenPipeError
        pipe.written += content


def line(phase: str, done: int = 0, problem: str = "") -> bytes:
    """A line of a fetcher."""
    return (
        json.dumps(
            to_wire(Progress(phase, done_bytes=done, problem=problem, text=problem and "words"))
        ).encode()
        + b"\n"
    )


SAID = (
    line(FetchPhase.FETCHING, 5), line(FetchPhase.FETCHING, 9), line(FetchPhase.VERIFYING, 9), line(FetchPhase.DONE, 9),
    line(FetchPhase.FAILED, 7, FetchProblem.TRUNCATED), b"{\n", b'{"odd": 1}\n', line(FetchPhase.LISTING),
)  # fmt: skip


def test_every_report_of_many_fetches_is_as_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = []
    for number in range(28):
        rng = random.Random(number)
        home = tmp_path / str(number)
        (home / "tmp").mkdir(parents=True)
        machine = Machine(fetches, monkeypatch)
        place: Any = SimpleNamespace(
            node="a", directory=home, models=home / "models", run_directory=Path("/run/r"), python="/p"
        )
        news: list[bool] = []
        found = Fetches(place, news.append)
        for _ in range(10):
            path, act, result = rng.choice(PATHS[: rng.choice((1, 2, 6))]), rng.random(), ""
            machine.now += rng.choice((0.0, 1.0, 7.0))
            running = [each for each in machine.processes if each.stdout in machine.loop.reading]
            if act < 0.35:
                machine.fails = OSError(2, "No such file or directory") if rng.random() < 0.1 else None
                machine.broken = rng.random() < 0.1
                wanted = FetchWeights(
                    1,
                    path,
                    FetchSource("org/m", "r"),
                    "w",
                    rng.random() < 0.3,
                    rng.random() < 0.3,
                    rng.choice(("", "secret")),
                    rng.choice((None, ("a",))),
                )
                result = _tried(found.start, wanted)
            elif act < 0.45:
                bad = rng.choice(("no", "hub/../x", "hub/a/..", path))
                (place.models / path).mkdir(parents=True, exist_ok=True)
                machine.fails = None
                result = _tried(found.serve_to_peers, bad)
                for each in machine.processes:
                    if "reconciler.fetcher.giving" in each.command and rng.random() < 0.3:
                        each.code = 0
            elif running:
                fetcher = rng.choice(running)
                if act < 0.85:
                    text = b"".join(rng.choices(SAID, k=rng.randrange(1, 3)))
                    fetcher.stdout.chunks = [text[:20], text[20:]]
                    for _ in range(2):
                        if fetcher.stdout in machine.loop.reading:
                            machine.loop.reading[fetcher.stdout]()
                else:
                    fetcher.code = rng.choice((0, 3, None))
                    (home / "fetcher.log").write_text(rng.choice(("", "one\n two \n")))
                    machine.loop.reading[fetcher.stdout]()
            told = [plain(found.report(each)) for each in PATHS]
            ended = "".join(
                f"{each.killed}{each.stdin.closed}{each.stdout.closed}" for each in machine.processes
            )
            lines.append(
                f"{number} {result or '-'} {digest(told)} {''.join('01'[each] for each in news)} {len(machine.loop.reading)} {ended}"
            )
        given = [
            (
                _words(each.command, home),
                _words(sorted(each.given["env"].items()), home),
                _words(each.stdin.written, home),
                each.given["start_new_session"],
            )
            for each in machine.processes
        ]
        found.close()
        ended = "".join(f"{each.killed}{each.stdin.closed}{each.stdout.closed}" for each in machine.processes)
        lines.append(f"{number} end {digest(given)} {ended} {len(machine.loop.reading)}")
    compare(RECORDED / "weights-fetches.txt", lines)


def _tried(act: Callable[[Any], None], given: object) -> str:
    try:
        act(given)
    except ValueError as error:
        return digest(str(error), 4)
    return "done"


def _words(value: object, home: Path) -> str:
    return repr(value).replace(str(home), "HOME")


def test_an_overlong_line_of_a_fetcher_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "_LINE_BYTES_MAX", 100)
    machine = Machine(fetches, monkeypatch)
    place: Any = SimpleNamespace(
        node="a", directory=tmp_path, models=tmp_path, run_directory=tmp_path, python="/p"
    )
    found = Fetches(place, lambda urgent: None)
    found.start(FetchWeights(1, PATHS[0], FetchSource("o/m", "r")))
    (started,) = machine.processes
    started.stdout.chunks = [b"x" * 100, b"y"]
    machine.loop.reading[started.stdout]()
    assert started.killed == 0
    machine.loop.reading[started.stdout]()
    assert (started.killed, machine.loop.reading, started.waited[0]) == (2, {}, fetches._END_SECONDS)
    report = found.report(PATHS[0])
    assert report is not None
    assert (report.progress.phase, report.progress.problem) == (FetchPhase.FAILED, FetchProblem.INTERRUPTED)


def test_free_room_is_told_in_steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    step = fetches._ROOM_STEP_BYTES
    for free, told in ((0, 0), (step - 1, 0), (step, step), (2 * step + 5, 2 * step)):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free: SimpleNamespace(free=free, total=9))
        assert fetches.room(tmp_path) == (told, 9)
    monkeypatch.undo()
    assert fetches.room(tmp_path / "none") == (None, 0)


# --- examinations ---

ANSWERS: tuple[dict[str, Any], ...] = (
    {}, {"problem": "p", "code": "c", "tools": "t", "reuse": "r", "reread": "x", "embeds": True, "rope": ("a", 1), "ranks_tried": 3},
    {"unsplittable": {"a": 1}, "shares": {"2": [{"weights_bytes": 5}]}}, {"unsplittable": [1], "shares": [2]},
    {"shares": {"2": [{"odd": 5}]}}, {"shares": {"2": 5}}, {UNANSWERED: "late"}, {UNANSWERED: "odd", "code": "c"}, {UNANSWERED: "late"},
)  # fmt: skip


class Asked:
    """A runtime that is asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float]] = []
        self.answer: Callable[[Any], None] | None = None

    def prepare(self) -> None:
        self.calls.append(("prepare", 0))

    def prepared(self) -> None:
        self.calls.append(("prepared", 0))

    def examine(self, folder: str, seconds: float, on_answer: Callable[[Any], None]) -> None:
        self.calls.append((Path(folder).name, seconds))
        self.answer = on_answer


def test_every_examination_is_asked_for_and_told_as_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "_KEPT_MAX", 4)
    monkeypatch.setattr(examination, "time", SimpleNamespace(time=lambda: 5000.0, monotonic=lambda: 0.0))
    lines = []
    for number in range(16):
        rng, asked, news, clock = random.Random(number), Asked(), [], [0.0]  # type: ignore[var-annotated]
        examiner = Examiner(asked, partial(news.append, 1), partial(clock.__getitem__, 0))
        folders = [tmp_path / f"{number}{each}" for each in "abc"]
        for each in folders[:2]:
            each.mkdir()
        for _ in range(16):
            chance, folder, told = rng.random(), rng.choice(folders), None
            if chance < 0.5:
                report = ModelReport(
                    "m",
                    str(folder),
                    rng.random() < 0.95,
                    problem="bad" if rng.random() < 0.05 else "",
                    verified=rng.random() < 0.3,
                )
                told = replace(examiner.complete(report), directory="")
            elif chance < 0.8 and asked.answer is not None:
                answer, asked.answer = asked.answer, None
                answer(rng.choice(ANSWERS))
            elif chance < 0.95:
                clock[0] += rng.choice((29.0, 1.0, 60.0, 600.0))
                path = rng.choice(folders[:2]) / "config.json"
                path.write_text("x" * rng.randrange(3))
                os.utime(path, (7, 7))
            elif rng.random() < 0.2:
                examiner.close()
            calls = [(name.replace(str(number), "", 1), seconds) for name, seconds in asked.calls]
            lines.append(
                f"{number} {digest(str(told).replace(str(tmp_path), 'HOME'))} {calls[-1:]} {len(calls)} {len(news)}"
            )
    compare(RECORDED / "weights-examinations.txt", lines)


def test_attempts_wait_longer_and_get_longer_up_to_their_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, clock, waits = Asked(), [0.0], []
    monkeypatch.setattr(
        examination, "time", SimpleNamespace(time=lambda: 5000.0 + clock[0], monotonic=lambda: 0.0)
    )
    examiner = Examiner(asked, lambda: None, lambda: clock[0])
    report = ModelReport("m", str(tmp_path), True, verified=True)
    for attempt in range(1, 13):
        examiner.complete(report)
        assert asked.answer is not None
        asked.answer({UNANSWERED: f"no {attempt}"})
        asked.answer = None
        failed = examiner.complete(report).examination
        assert failed is not None
        assert (failed.attempts, failed.since, failed.text) == (attempt, 5000.0, f"no {attempt}")
        waits.append(failed.again - 5000.0 - clock[0])
        clock[0] += waits[-1] - 0.5
        examiner.complete(report)
        assert asked.answer is None
        clock[0] += 0.5
    assert waits == [30.0, 60.0, 120.0, 300.0, 600.0, *[1800.0] * 7]
    assert [seconds for _, seconds in asked.calls] == [120.0, 240.0, 480.0, *[600.0] * 9]


def test_a_question_to_a_program_is_answered_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_BYTES_MAX", 30)
    monkeypatch.setattr(process, "end", lambda ended: ended.kill())
    lines = []
    outputs: tuple[tuple[bytes, ...], ...] = (
        (b'{"mlx": 1, "a": "b"}', b""), (b'{"mlx"', b": 2}", b""), (b"[1]", b""), (b"{", b""), (b"",), (b'{"a": 1}',), (b"x" * 29, b"y", b"z"),
        (b'{"a": 1}' + b" " * 30, b"!"),
    )  # fmt: skip
    for output in outputs:
        for act in ("read", "late", "withdrawn", "over"):
            machine, told = Machine(runtime, monkeypatch), []  # type: ignore[var-annotated]
            question = runtime.versions("/p", told.append)
            question.withdraw()
            question.start()
            (started,) = machine.processes
            started.stdout.chunks = list(output)
            for _ in output:
                if act != "over" and started.stdout in machine.loop.reading:
                    machine.loop.reading[started.stdout]()
            if act == "late" and machine.loop.reading:
                machine.loop.due[0].call()
            if act == "over":
                started.code = 0
            if act in ("withdrawn", "over"):
                question.withdraw()
            (timer,) = machine.loop.due
            lines.append(
                f"{act} {output!r:.60} {told} {len(machine.loop.reading)} {started.killed} {started.stdout.closed} {timer.cancelled} {timer.seconds}"
            )
    machine, told = Machine(runtime, monkeypatch), []
    machine.fails = OSError("none")
    runtime.versions("/p", told.append).start()
    assert (told, machine.loop.due) == ([{}], [])
    compare(RECORDED / "weights-questions.txt", lines)


def test_a_runtime_is_asked_once_and_weights_once_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked()
    news: list[int] = []
    questions: list[Any] = []

    def versions(python: str, on_answer: Any) -> Any:
        questions.append((python, on_answer))
        return SimpleNamespace(
            start=lambda: questions.append("start"), withdraw=lambda: questions.append("withdraw")
        )

    monkeypatch.setattr(examination, "versions", versions)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text("{}")
    monkeypatch.setattr(
        Weights,
        "report",
        lambda self, path: ModelReport(
            path, str(tmp_path / path), path != "none", problem="p" if path == "bad" else ""
        ),
    )
    found = Software("/p", tmp_path, asked, lambda: news.append(1))
    found.close()
    found.ask()
    assert [found.model(path).examining for path in ("none", "bad", "m")] == [False, False, True]
    assert (asked.calls, found.runtime, news) == ([("prepare", 0)], None, [])
    questions[0][1]({"mlx": "1"})
    assert (found.runtime, asked.calls[1:], news) == ({"mlx": "1"}, [("prepared", 0)], [1])
    assert not found.model("m").examining
    assert asked.answer is None
    found._know({"mlx-lm": "1"})
    found._examiner._closed = False
    assert found.model("m").examining
    assert asked.answer is not None
    found.close()
    assert questions[1:] == ["start", "withdraw"]


# --- files ---


def test_weights_that_are_kept_are_told_as_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, clock = [], [50.0]
    monkeypatch.setattr(kept, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    files = (WantedFile("a", 5, "d"), WantedFile("b", 7, "d"))
    for number in range(24):
        rng, models = random.Random(number), tmp_path / str(number)
        found = StoredWeights(models, 600.0)
        for step in range(9):
            path, chance, result = rng.choice(PATHS[:3]), rng.random(), ""
            clock[0] += rng.choice((0.0, 1.0, 300.0, 600.0))
            folder = models / path if rng.random() < 0.5 else partial_folder(models / path)
            if chance < 0.4:
                folder.mkdir(parents=True, exist_ok=True)
                record = Record("org/m", "r", files, {name: 1 for name in "abc" if rng.random() < 0.6})
                text = rng.choice((json.dumps(to_wire(record)), "{", "{}"))
                if rng.random() < 0.8:
                    (folder / RECORD_NAME).write_text(text)
                os.utime(folder, (step, step))
            elif chance < 0.5:
                folder.parent.mkdir(parents=True, exist_ok=True)
                (folder.parent / rng.choice((".hidden", ".x.partial", "a file"))).touch()
                (folder.parent / ".gone-old").mkdir(exist_ok=True)
            elif chance < 0.7:
                folder.parent.mkdir(parents=True, exist_ok=True)
                folder.with_name(f".{Path(path).name}.lock").touch()
                result = _tried(found.remove, rng.choice((path, path, "a/b", "hub/../x")))
            seen = found.scan(rng.choice(((), (path,), ("/elsewhere", path))))
            if found._removing is not None:
                found._removing.join()
            told = _words(seen, models)
            left = sorted(each.name for each in models.rglob("*") if each.name.startswith("."))
            lines.append(
                f"{number} {result or '-'} {len(seen)} {digest(told)} {digest(left, 4)} {len(found._requested)}"
            )
    compare(RECORDED / "weights-kept.txt", lines)


def shard(path: Path, tensors: dict[str, int], cut: int = 0) -> None:
    """A weight file with tensors of so many bytes."""
    at, head = 0, {}
    for tensor, size in tensors.items():
        head[tensor] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    content = len(text).to_bytes(8, "little") + text + bytes(at)
    path.write_bytes(content[: len(content) - cut])
    os.utime(path, ns=(1, 1))


def test_reports_on_the_files_of_models_are_as_recorded(tmp_path: Path) -> None:
    lines = []
    for number in range(44):
        rng = random.Random(number)
        path = rng.choice((PATHS[0], "local"))
        models = tmp_path / str(number)
        folder = models / path
        weights = Weights(models)
        for step in range(3):
            chance = rng.random()
            if chance < 0.9:
                folder.mkdir(parents=True, exist_ok=True)
                config = rng.choice(("{}", '{"a": NaN}', '{"model_type": "x"}', "[1]", "{", None))
                (folder / "config.json").unlink(missing_ok=True)
                if config is not None:
                    (folder / "config.json").write_text(config)
                for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
                    if rng.random() < 0.8:
                        shard(
                            folder / name,
                            {f"{name[8]}.w": rng.randrange(5), "same": 1}
                            if rng.random() < 0.2
                            else {f"{name[8]}.w": 4},
                            rng.choice((0, 0, 0, 1)),
                        )
                index = rng.choice(
                    (None, {"1.w": "model-00001-of-00002.safetensors"}, {"9.w": "none.safetensors"}, [1])
                )
                if index is not None:
                    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
            stamp = rng.choice((5, 5, 6))
            for each in folder.glob("*"):
                os.utime(each, ns=(stamp, stamp))
            if chance > 0.2 and folder.is_dir():
                names = sorted(each.name for each in folder.iterdir() if each.name[0] != ".")
                wanted = tuple(
                    WantedFile(name, (folder / name).stat().st_size + (rng.random() < 0.05), "d")
                    for name in names
                )
                verified = {name: rng.choice((5, 5, 5, 5, 6)) for name in names if rng.random() < 0.9}
                outlines = {name: 5 for name in names if rng.random() < 0.2}
                text = json.dumps(to_wire(Record("o/m", "r", wanted, verified, outlines=outlines)))
                (folder / RECORD_NAME).write_text(rng.choice((text, text, text, text, "{}")))
                os.utime(folder / RECORD_NAME, (step, step))
            lines += [f"{number} {digest(_words(weights.report(path), models))}" for _ in range(2)]
    report = Weights(tmp_path).report("none")
    assert (report.present, report.problem) == (False, "")
    compare(RECORDED / "weights-files.txt", lines)


def test_the_mark_of_a_folder_changes_with_what_a_runtime_reads(tmp_path: Path) -> None:
    before = mark(tmp_path)
    marks = {before}
    for name in ("a.json", "b.safetensors", "c.py", "d.jinja", "e.model", "f.txt", "g.tiktoken"):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (5, 5))
        marks.add(mark(tmp_path))
    assert len(marks) == 8
    now = mark(tmp_path)
    for name in (".hidden.json", "log.md", "weights.bin"):
        (tmp_path / name).write_text("x")
    (tmp_path / "broken.json").symlink_to("nowhere")
    assert mark(tmp_path) == now
    os.utime(tmp_path / "a.json", (6, 6))
    later = mark(tmp_path)
    (tmp_path / "a.json").write_text("xy")
    os.utime(tmp_path / "a.json", (6, 6))
    assert len({now, later, mark(tmp_path)}) == 3
