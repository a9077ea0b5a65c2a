"""The acts and reports of an agent in many short lives on virtual time, compared with those that were recorded before."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.agent import hung, serving
from reconciler.agent.local_host import LocalHost, Settings
from reconciler.agent.ranks.directory import Owner
from reconciler.agent.ranks.ranks import Ranks
from reconciler.agent.repairs import requests
from reconciler.agent.repairs.runner import Unconfirmed
from reconciler.agent.server import Agent
from reconciler.agent.system.connection import Peer
from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, Refused, WireError, to_wire
from reconciler.wire.frames import encode
from reconciler.wire.launch import Exit, Phase, Progress, RankId
from reconciler.wire.node import (
    AGENT_RECEIVES,
    ContinueRank,
    FetchWeights,
    ForgetRank,
    GiveWeights,
    Gone,
    Log,
    ModelReport,
    Observe,
    ReadLog,
    RemoveWeights,
    ShimState,
    Shutdown,
    StartRank,
    StopRank,
)
from reconciler.wire.repair import ConfirmRepair, Repair, RepairReport, RepairState
from reconciler.wire.tools import Ending, RunTool, ToolSaid
from reconciler.wire.weights import FetchSource
from tests.agent.ranks.machine import BOOT, Line, Machine, Running, spec
from tests.agent.test_requests import IDENTITY
from tests.recorded import compare, digest
from tests.simulation.world.loop import START, VirtualLoop

RECORDED = Path(__file__).parent / "recorded"
IDS = (RankId("llama", 0, 1, 0), RankId("llama", 0, 1, 1))
PHASES = (Phase.STARTING, Phase.LOADING, Phase.READY, Phase.READY, Phase.READY, Phase.DRAINING)
ENDS = (Exit(0, None, 9.0), Exit(66, None, 9.0, "port"), Exit(None, 9, 9.0, "killed"))


def virtual() -> VirtualLoop:
    return VirtualLoop()  # type: ignore[abstract]


def name(value: object) -> str:
    """A short name of a value that is written the same way in each process."""
    return digest(repr(value), 6)


class Crowd(Machine):
    """A machine with several ranks, which notes each signal and each standby process."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.acts: list[str] = []
        self.ears: dict[RankId, tuple[Callable[[Any], None], Callable[[], None]]] = {}
        self.full: OSError | None = None
        self.kept_token = 3

    def person(self, id: RankId) -> tuple[int, int]:
        return 70 + 10 * id.rank, 71 + 10 * id.rank

    def bring(self, id: RankId) -> None:
        """A rank that is there before the agent."""
        pid, shim = self.person(id)
        rng = self.rng
        self.specs[id] = rng.choice((spec(id), spec(id, spare=True), None))
        if rng.random() < 0.9:
            self.born[id] = (pid, rng.choice((f"{BOOT} 5", f"{BOOT} 5", f"{BOOT} 9", "boot-1 5")))
        self.running |= {each: Running(f"{BOOT} 5") for each in (pid, shim) if rng.random() < 0.9}
        if rng.random() < 0.9:
            self.written[id] = self.state_of(id)
        if rng.random() < 0.7:
            self.shims.add(id)
        self.owners[id] = rng.choice((Owner.THIS, Owner.THIS, Owner.OTHER, Owner.UNKNOWN))

    def state_of(self, id: RankId) -> ShimState:
        pid, shim = self.person(id)
        rng = self.rng
        progress = Progress(
            rng.choice(PHASES), rng.randrange(3), rng.choice((0, 0, 1)), tokens=rng.randrange(90)
        )
        ended = rng.choice((None, None, None, None, rng.choice(ENDS)))
        return ShimState(rng.choice((pid, pid, None)), shim, 3.0, progress, ended, rng.random() < 0.05)

    def connect(self, id: RankId, on_message: Any, on_close: Any) -> Line:
        line = super().connect(id, on_message, on_close)
        self.ears[id] = (on_message, on_close)
        return line

    def signal_process(self, pid: int, number: int) -> None:
        self.acts.append(f"{pid}:{signal.Signals(number).name}")
        super().signal_process(pid, number)

    def signal_group(self, pid: int, number: int) -> None:
        self.acts.append(f"-{pid}:{signal.Signals(number).name}")
        super().signal_process(pid, number)

    def prepare(self, id: RankId) -> None:
        if self.acts[-1:] != ["standby"]:
            self.acts.append("standby")

    def end_standby(self, seconds: float) -> None:
        if self.acts[-1:] != [f"no standby {seconds:g}"]:
            self.acts.append(f"no standby {seconds:g}")

    async def states(self, pids: Any) -> dict[int, str]:
        self.looks += 1
        return {pid: "T" if self.running[pid].stopped else "S" for pid in pids if pid in self.running}

    def remove(self, id: RankId, socket: str) -> None:
        if self.full is not None:
            raise self.full
        self.acts.append(f"remove {id} {socket}")
        super().remove(id, socket)

    def create(self, spec: Any) -> None:
        if self.full is not None:
            raise self.full
        super().create(spec)
        self.running |= dict.fromkeys(self.person(spec.id), Running(f"{BOOT} 5"))

    # --- what only a whole agent asks ---

    def identity(self) -> Any:
        return IDENTITY

    def token(self) -> int:
        return self.kept_token

    def save_token(self, token: int) -> None:
        if self.full is not None:
            raise self.full
        self.kept_token = token

    def room(self) -> tuple[int, int]:
        return 5, 10

    def stored_weights(self, requested: Any) -> tuple[Any, ...]:
        return tuple(requested)

    def runtime(self) -> dict[str, str]:
        return {"mlx": "1"}

    def repair_report(self) -> None:
        """There was none."""

    def continue_repair(self) -> bool:
        return False

    def model(self, path: str) -> ModelReport:
        return ModelReport(path, f"/m/{path}", present=False)

    def read_log(self, id: RankId, bytes_max: int, offset: int | None) -> Log:
        return Log(f"{id} {bytes_max} {offset}", 9)

    def _weights(self, what: str) -> None:
        if "bad" in what:
            raise ValueError(what)
        if self.full is not None:
            raise self.full
        self.acts.append(what)

    def fetch(self, request: FetchWeights) -> None:
        self._weights(f"fetch {request.path}")

    def serve_weights(self, path: str) -> None:
        self._weights(f"give {path}")

    def discard(self, path: str) -> None:
        self._weights(f"discard {path}")

    async def run_tool(self, call: RunTool) -> ToolSaid:
        await asyncio.sleep(2)
        return ToolSaid(Ending.ENDED, 0, call.argv[0])


def happen(machine: Crowd, known: Any) -> str:
    """Something that the agent does not do."""
    rng, id = machine.rng, machine.rng.choice(IDS)
    what = rng.choice(
        (
            "told",
            "told",
            "told",
            "lost",
            "dies",
            "stops",
            "held",
            "disk",
            "deaf",
            "left",
            "shimless",
            "measure",
        )
    )
    pid, shim = machine.person(id)
    line = machine.lines.get(id)
    if what == "told" and line is not None and known(id):
        machine.ears[id][0](rng.choice((machine.state_of(id), machine.state_of(id), Hello("shim", SPOKEN))))
    elif what == "lost" and line is not None and line.open and known(id):
        line.open = False
        machine.ears[id][1]()
    elif what == "dies":
        machine.running.pop(rng.choice((pid, shim)), None)
    elif what in ("stops", "held") and (process := machine.running.get(rng.choice((pid, shim)))):
        process.stopped, process.held = process.stopped or what == "stops", process.held or what == "held"
    elif what == "disk":
        number = rng.choice((errno.ENOSPC, errno.EMFILE))
        machine.full = rng.choice((None, None, OSError(number, "no room")))
        machine.disk_full = rng.random() < 0.5
    elif what == "deaf":
        machine.deaf = rng.random() < 0.7
    elif what == "left":
        machine.left = [
            rng.choice(((Gone.NO, "port 5"), (Gone.UNKNOWN, "?"), (Gone.YES, ""))) for _ in range(3)
        ]
    elif what == "shimless":
        machine.cannot_start = rng.choice((None, OSError(2, "no shim")))
    elif what == "measure":
        machine.measurable = not machine.measurable
    return what


def test_every_life_of_the_ranks_of_a_node_is_as_recorded() -> None:
    lines = []
    for number in range(40):
        rng, loop = random.Random(number), virtual()
        machine, told = Crowd(rng), []  # type: ignore[var-annotated]
        host: Any = machine
        for id in IDS:
            if rng.random() < 0.7:
                machine.bring(id)
        ranks = Ranks(host, told.append, standby_seconds=rng.choice((0.0, 5.0)))
        shown: list[str] = []

        def step(
            ranks: Ranks = ranks, machine: Crowd = machine, rng: random.Random = rng, shown: list[str] = shown
        ) -> None:
            id = rng.choice(IDS)
            act = rng.choice(("start", "stop", "resume", "forget", "", "", "", "", ""))
            try:
                if act == "start":
                    shown.append(f"start {ranks.start(spec(id, spare=rng.random() < 0.5)):d}")
                elif act == "stop":
                    ranks.stop(id, rng.choice((-1.0, 0.0, 3.0)))
                elif act == "resume":
                    ranks.resume(id)
                elif act == "forget" and (rank := ranks.get(id)) and rank.state.exit:
                    ranks.forget(id)
                elif not act:
                    act = happen(machine, ranks.get)
            except OSError as error:
                shown.append(f"failed {error}")
            shown.append(act)

        loop.call_soon(ranks.adopt)
        loop.run(START)
        watching = loop.call_soon(lambda ranks=ranks, loop=loop: loop.create_task(ranks.watch()))
        assert not watching.cancelled()
        now = START
        for _ in range(14):
            shown.clear()
            loop.call_soon(step)
            now += rng.choice((0.05, 1.0, 2.5, 12.0))
            loop.run(now)
            loop.call_soon(lambda shown=shown, ranks=ranks: shown.append(name(ranks.reports())))
            loop.run(now)
            sent = [len(each.sent) for each in machine.lines.values()]
            noted = (shown, machine.acts, machine.measured, ranks.load, machine.looks, sent)
            lines.append(f"{number} {name(noted)} {len(told)} {sum(told)}")
        loop.call_soon(ranks.close)
        loop.run(now)
        lines.append(f"{number} {loop.faults} {machine.looked_for} {name(machine.written)}")
        loop.close()
    compare(RECORDED / "agent-ranks.txt", lines)


class Controller:
    """A controller's connection."""

    def __init__(self, rng: random.Random) -> None:
        self.congested, self.greeted = rng.random() < 0.3, rng.random() < 0.9
        self.sent: list[Any] = []
        self.ended = ""

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def reply(self, request: int, message: Any) -> None:
        self.sent.append((request, message))

    def abort(self) -> None:
        self.ended += "abort"

    def close(self) -> None:
        self.ended += "close"


def _message(rng: random.Random) -> Any:
    id, token = rng.choice(IDS), rng.choice((0, 2, 3, 3, 4))
    good = spec(id)
    changed = rng.choice(
        (
            good,
            good,
            good,
            replace(good, argv=()),
            replace(good, id=RankId("Odd", 0, 1, 0)),
            replace(good, id=IDS[0]),
        )
    )
    path = rng.choice(("hub/a/b", "bad"))
    return rng.choice(
        (
            Observe(("a",), token), Observe((), token), StartRank(token, changed), StartRank(token, changed), StopRank(token, id, 1.0),
            ContinueRank(token, id), ForgetRank(token, id), ReadLog(id, 100), FetchWeights(token, path, FetchSource("a", "b")),
            GiveWeights(token, path), RemoveWeights(token, path), RunTool(("ps",), 1.0), Hello("x", SPOKEN), Refused("a", "b"),
        )
    )  # fmt: skip


def test_every_answer_of_an_agent_is_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.agent.server.CONTROLLERS_MAX", 3)
    monkeypatch.setattr("reconciler.agent.server.TOOLS_MAX", 2)
    lines = []
    for number in range(40):
        rng, loop = random.Random(number), virtual()
        machine, peers = Crowd(rng), []  # type: ignore[var-annotated]
        host: Any = machine
        agents: list[Agent] = []
        loop.call_soon(lambda agents=agents, loop=loop, host=host: agents.append(Agent(loop, host)))
        loop.run(START)
        (agent,) = agents

        def step(
            agent: Agent = agent, machine: Crowd = machine, rng: random.Random = rng, peers: list[Any] = peers
        ) -> None:
            chance = rng.random()
            peer = rng.choice(peers) if peers else None
            if chance < 0.12 or peer is None:
                peers.append(Controller(rng))
                agent.on_connected(peers[-1])
            elif chance < 0.16:
                agent.leave(peer)
            elif chance < 0.22:
                peer.congested = not peer.congested
                if not peer.congested:
                    agent.catch_up(peer)
            elif chance < 0.3:
                happen(machine, agent.ranks.get)
            elif chance < 0.32:
                agent.end_with_session()
            elif chance < 0.34:
                agent.on_message(peer, Shutdown(3), 9)
            elif chance < 0.4:
                agent._changed(rng.random() < 0.3)
            else:
                agent.on_message(peer, _message(rng), rng.choice((1, 2, 3, None)))

        now = START
        for _ in range(22):
            loop.call_soon(step)
            now += rng.choice((0.0, 0.0, 0.5, 1.5, 2.0))
            loop.run(now)
        sent = [(each.sent, each.ended) for each in peers]
        lines += [f"{number} {len(each.sent)} {each.ended or '-'} {name(each.sent)}" for each in peers]
        lines.append(
            f"{number} {agent.ending.is_set():d} {len(agent._peers)} {name(machine.acts)} {machine.kept_token} {loop.faults} {name(sent)}"
        )
        loop.close()
    compare(RECORDED / "agent-answers.txt", lines)


class Repairing:
    """A host with a repair, whose states come one after the other."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.state = ""

    def repair(self, request: Repair) -> None:
        error = self.rng.choice(
            (None, None, None, Unconfirmed("one is running"), ValueError("not permitted"))
        )
        if error is not None:
            raise error
        self.state = RepairState.RUNNING

    def confirm_repair(self, id: str) -> bool:
        if self.state != RepairState.WAITING:
            return False
        self.state = RepairState.CONFIRMED
        return True

    def repair_report(self) -> RepairReport | None:
        return RepairReport("r", BOOT, self.state, problem="a problem") if self.state else None

    def continue_repair(self) -> bool:
        """It is still going on, or its process is."""
        if self.rng.random() < 0.05:
            raise OSError("no disk")
        return (
            self.state in (RepairState.RUNNING, RepairState.WAITING, RepairState.UNDOING)
            or self.rng.random() < 0.6
        )


def test_every_answer_about_a_repair_is_as_recorded() -> None:
    lines = []
    states = (
        "",
        RepairState.RUNNING,
        RepairState.WAITING,
        RepairState.WAITING,
        RepairState.UNDOING,
        RepairState.UNDONE,
        RepairState.LEFT,
    )
    for number in range(40):
        rng, loop = random.Random(number), virtual()
        host: Any = Repairing(rng)
        peers: list[Any] = [Controller(rng) for _ in range(3)]
        changes: list[int] = []

        def changed(changes: list[int] = changes) -> int:
            changes.append(1)
            return len(changes)

        asked = requests.RepairRequests(loop, host, partial(set, peers[:2]), changed)

        def step(
            asked: requests.RepairRequests = asked,
            host: Any = host,
            rng: random.Random = rng,
            peers: list[Any] = peers,
        ) -> None:
            chance, peer = rng.random(), rng.choice(peers)
            if chance < 0.2:
                asked.begin(peer, Repair(1, "r", BOOT, ()), rng.randrange(9))
            elif chance < 0.5:
                asked.confirm(peer, ConfirmRepair(1, "r"), rng.randrange(9))
            elif chance < 0.55:
                asked.leave(peer)
            elif chance < 0.6:
                asked.watch()
            else:
                host.state = rng.choice(states)

        now, shown = START, []
        for _ in range(16):
            loop.call_soon(step)
            now += rng.choice((0.0, 0.05, 0.1, 0.3, 6.0))
            loop.run(now)
            tending = asked._tending is not None and not asked._tending.done()
            shown.append(f"{host.state} {tending:d} {len(changes)} {[each.sent for each in peers]}")
        assert loop.faults == []
        lines += [f"{number} {name(shown[:8])} {name(shown[8:])} {len(changes)}"]
        loop.close()
    compare(RECORDED / "agent-repairs.txt", lines)


class Transport:
    """A connection's end, which notes what it is told."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.closing = False

    def __getattr__(self, act: str) -> Any:
        def note(*given: Any, **named: Any) -> None:
            self.said.append((act, given, sorted(named.items())))
            self.closing = self.closing or act in ("close", "abort")

        return note

    def is_closing(self) -> bool:
        return self.closing


def test_every_frame_of_a_connection_is_taken_as_recorded() -> None:
    hello, odd = encode(to_wire(Hello("controller", SPOKEN))), encode(to_wire(Hello("x", (99,))))
    frames = (
        encode({**to_wire(Observe()), "call": 1}), encode(to_wire(Observe(("a",)))), encode({"type": "odd", "call": 2}), encode({"type": "odd"}),
        encode({**to_wire(Observe()), "call": "x"}), hello, encode({**to_wire(ReadLog(IDS[0], 5)), "call": 3}), b"\xff" * 9,
    )  # fmt: skip
    lines = []
    for number in range(60):
        rng, heard = random.Random(number), []  # type: ignore[var-annotated]
        peer = Peer(
            "agent",
            AGENT_RECEIVES,
            lambda peer, message, request, heard=heard: heard.append((message, request)),  # type: ignore[misc]
            lambda peer, heard=heard: heard.append("open"),  # type: ignore[misc]
            lambda peer, heard=heard: heard.append("over"),  # type: ignore[misc]
        )
        peer.on_drained = lambda peer, heard=heard: heard.append("drained")  # type: ignore[misc]
        transport: Any = Transport()
        if rng.random() < 0.3:
            peer.send(Observe())
            peer.close()
        peer.connection_made(transport)
        content = rng.choice((hello, hello, hello, hello, odd, frames[0])) + b"".join(
            rng.choices(frames, k=rng.randrange(6))
        )
        while content:
            size = rng.choice((3, 40, 400))
            chance = rng.random()
            if chance < 0.1 and not peer.congested:
                peer.pause_writing()
            elif chance < 0.3 and peer.congested:
                peer.resume_writing()
            elif chance < 0.35:
                peer.reply(7, rng.choice((Observe(), Log("x", 1))))
            peer.data_received(content[:size])
            content = content[size:]
            if transport.closing:
                break
        state = f"{peer.greeted:d}{peer.congested:d}"
        if peer.congested:
            peer.resume_writing()
        peer.connection_lost(None)
        peer.send(Observe())
        peer.close()
        peer.abort()
        peer.resume_writing()
        lines.append(
            f"{number} {state} {len(heard)} {name(heard)} {len(transport.said)} {digest(repr(transport.said))}"
        )
    compare(RECORDED / "agent-connections.txt", lines)


def test_an_answer_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(frame: dict[str, Any]) -> bytes:
        if len(repr(frame)) > 300:
            raise WireError("too long")
        return encode(frame)

    monkeypatch.setattr("reconciler.agent.system.connection.encode", short)
    peer, transport = Peer("agent", AGENT_RECEIVES, print, print, print), Transport()
    peer.connection_made(transport)  # type: ignore[arg-type]
    peer.reply(7, Log("x" * 300, 1))
    refused = encode({**to_wire(Refused("TooLong", "too long")), "reply": 7})
    assert transport.said[-1] == ("write", (refused,), [])
    with pytest.raises(WireError):
        peer.send(Log("x" * 300, 1))


# --- the agent's process and its place ---


@pytest.mark.parametrize(
    ("noted", "age", "answers", "born", "tries", "taken", "killed"),
    [
        ("7 boot 5", 60, False, "boot 5", 1, True, True),
        ("7 boot 5", 60, False, "boot 5", 3, True, True),
        ("7 boot 5", 60, False, "boot 5", 999, False, True),
        ("7 boot 5", 20, False, "boot 5", 1, True, True),
        ("7 boot 5", 19.5, False, "boot 5", 1, False, False),
        ("7 boot 5", 0, False, "boot 5", 1, False, False),
        ("7 boot 5", -0.5, False, "boot 5", 1, True, True),
        ("7 boot 5", -9, False, "boot 5", 1, True, True),
        ("7 boot 5", 60, True, "boot 5", 1, False, False),
        ("7 boot 5", 60, False, "boot 6", 1, False, False),
        ("7 boot 5", 60, False, None, 1, False, False),
        ("", 60, False, "boot 5", 1, False, False),
        ("x boot 5", 60, False, "boot 5", 1, False, False),
    ],
)
def test_only_an_agent_that_hangs_for_certain_is_ended(
    noted: str, age: float, answers: bool, born: str | None, tries: int, taken: bool, killed: bool,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    clock, sent, tried = [1000.0], [], []

    def try_lock(lock: int) -> bool:
        tried.append(lock)
        return len(tried) >= tries

    monkeypatch.setattr(hung, "_noted", lambda directory: noted)
    monkeypatch.setattr(hung, "_answers", lambda path: answers)
    monkeypatch.setattr(hung, "birth", lambda pid, boot: born if pid == 7 else None)
    monkeypatch.setattr(hung, "boot_id", lambda: "boot")
    monkeypatch.setattr(hung, "signal_process", lambda pid, number: sent.append((pid, int(number))))
    monkeypatch.setattr(hung, "try_lock", try_lock)
    monkeypatch.setattr(
        hung, "os", SimpleNamespace(fstat=lambda lock: SimpleNamespace(st_mtime=1000.0 - age))
    )

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(
        hung, "time", SimpleNamespace(time=lambda: 1000.0, monotonic=lambda: clock[0], sleep=sleep)
    )
    assert hung.take_over(tmp_path, 5, tmp_path / "socket") == taken
    assert sent == ([(7, 9)] if killed else [])
    assert set(tried) <= {5}
    assert clock[0] <= 1000.0 + hung.END_SECONDS + 0.1


def test_a_note_counts_in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hung._noted(tmp_path) == ""
    monkeypatch.setattr(hung, "birth", lambda pid, boot: "born 1")
    hung.remember(tmp_path)
    assert hung._noted(tmp_path) == f"{os.getpid()} born 1"
    (tmp_path / "agent.process").write_text("0:0 7 born 1\n")
    assert hung._noted(tmp_path) == ""


@pytest.mark.parametrize(
    ("outcomes", "answered"), [([True], True), ([False, OSError(), True], True), ([OSError()], False)]
)
def test_an_agent_is_asked_until_its_time_is_over(
    outcomes: list[Any], answered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, asked = [50.0], []

    def ask(path: Path, until: float) -> bool:
        asked.append(until)
        outcome = outcomes[min(len(asked), len(outcomes)) - 1]
        if isinstance(outcome, Exception):
            raise outcome
        return bool(outcome)

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(hung, "_ask", ask)
    monkeypatch.setattr(hung, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    assert hung._answers(tmp_path) == answered
    assert set(asked) == {50.0 + hung.ANSWER_SECONDS}
    assert len(asked) in ((len(outcomes),) if answered else (80, 81))


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """A place of an agent."""
    with tempfile.TemporaryDirectory(prefix="r-") as run:  # short enough for sockets
        yield Settings("a", tmp_path / "d", tmp_path / "m", Path(run) / "r", "/p", ("/p", "/agent.pyz"))


@pytest.mark.parametrize(
    ("kept", "token", "status"),
    [
        ("3", 0, 0),
        ("3", 2, serving.EXIT_FENCED),
        ("3", 3, 0),
        ("3", 4, 0),
        (None, 1, 0),
        ('"x"', 1, 1),
        ("null", 1, 1),
    ],
)
def test_an_agent_is_refused_to_controllers_that_were_replaced(
    kept: str | None, token: int, status: int, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.directory.mkdir()
    if kept is not None:
        (settings.directory / "fence.json").write_text(f'{{"version": 1, "token": {kept}}}')
    assert serving._refusal(settings, token) == status
    assert bool(capsys.readouterr().err) == bool(status)
    assert serving._ask(settings, token, settings.directory / "s") == status
    assert not (settings.directory / "agent.lock").exists()


@pytest.mark.parametrize("locked", [False, True])
def test_who_asks_ends_an_agent_that_hangs_and_keeps_no_lock(
    locked: bool, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Any] = []
    settings.directory.mkdir()
    (settings.directory / "agent.lock").touch()
    monkeypatch.setattr(hung, "try_lock", lambda lock: not locked)
    monkeypatch.setattr(hung, "take_over", lambda directory, lock, path: ended.append((directory, path)))
    assert serving._ask(settings, 5, Path("/s")) == 0
    assert ended == ([(settings.directory, Path("/s"))] if locked else [])


def test_the_disk_of_an_agent_is_read_as_it_is(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    host, id = LocalHost(settings), IDS[0]
    settings.directory.mkdir()
    settings.run_directory.mkdir()
    assert host.token() == 0
    host.save_token(7)
    assert host.token() == 7
    for text in ("[]", "{", '{"token": "7"}'):
        (settings.directory / "fence.json").write_text(text)
        with pytest.raises(ValueError, match=r"fence\.json"):
            host.token()
    assert host.ranks() == []
    host.create(spec(id))
    assert (host.ranks(), host.spec(id), host.state(id), host.process(id), host.owner(id)) == (
        [id],
        spec(id),
        None,
        None,
        Owner.UNKNOWN,
    )
    folder = settings.directory / "ranks" / str(id)
    assert host.words(id) == "it printed no reason"
    for text, words in ((" \n", "it printed no reason"), ("one\n two \n\n", "two"), ("x" * 900, "x" * 400)):
        (folder / "shim.log").write_text(text)
        assert host.words(id) == words
    own, other = settings.run_directory / "r.sock", settings.directory / "r.sock"
    shim = host._shim_socket(id)
    for each in (own, other, shim):
        each.touch()
    host.remove(id, str(other))
    assert [each.exists() for each in (own, other, shim)] == [True, True, False]
    host.create(spec(id))
    host.remove(id, str(own))
    assert [each.exists() for each in (own, other)] == [False, True]
    assert host.spec(id) is None


@pytest.mark.parametrize(
    ("process", "owner", "born", "ended"),
    [
        (None, Owner.THIS, None, (None, False)),
        ((7, "boot 5"), Owner.THIS, None, (7, False)),
        ((7, "boot 5"), Owner.THIS, "boot 5", (7, False)),
        ((7, "boot 5"), Owner.UNKNOWN, "boot 6", (7, True)),
        ((7, "boot 5"), Owner.OTHER, "boot 5", (None, False)),
        ((7, "other 5"), Owner.THIS, "boot 5", (None, False)),
    ],
)
def test_leftovers_are_those_of_the_ranks_own_process(
    process: Any, owner: str, born: Any, ended: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, seen = LocalHost(settings), []
    for act, answer in (("process", process), ("owner", owner), ("birth", born)):
        monkeypatch.setattr(host, act, lambda given, answer=answer: answer)
    monkeypatch.setattr(host, "boot_id", lambda: "boot")

    def find(each: Any) -> tuple[str, str]:
        seen.append(each)
        return "gone", ""

    monkeypatch.setattr("reconciler.agent.ranks.leftovers.find", find)
    host._find_leftovers(IDS[0], (5,))
    (found,) = seen
    assert ((found.pid, found.reused), found.ports) == (ended, (5,))
    assert found.config in ("", str(settings.directory / "ranks" / str(IDS[0]) / "config.json"))
    assert bool(found.config) == (ended[0] is not None)


def test_weights_that_are_being_fetched_are_not_discarded(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, removed = LocalHost(settings), []  # type: ignore[var-annotated]
    monkeypatch.setattr(host._kept, "remove", removed.append)
    host.discard("a")
    for running in (True, False, None):
        fetch = None if running is None else SimpleNamespace(running=running)
        fetching: Any = SimpleNamespace(report=lambda path, fetch=fetch: fetch)
        host._fetches = fetching
        if running:
            with pytest.raises(ValueError, match="b is being fetched"):
                host.discard("b")
        else:
            host.discard("b")
    assert removed == ["a", "b", "b"]


def test_commands_of_shims_name_the_tools_that_are_not_the_systems(settings: Settings) -> None:
    assert settings.started_as("shim") == ["/p", "/agent.pyz", "shim"]
    assert replace(settings, tools=("/a", "/b")).started_as("spare") == [
        "/p",
        "/agent.pyz",
        "spare",
        "--tools",
        "/a:/b",
    ]


def test_a_socket_in_the_place_of_a_dead_agents_is_the_users_alone() -> None:
    with tempfile.TemporaryDirectory(prefix="r-") as run:
        path = Path(run) / "s"
        assert not serving._answers(path)
        path.touch()
        with serving._listen(path) as listener:
            assert (path.stat().st_mode & 0o777, listener.family) == (0o600, socket.AF_UNIX)
            assert serving._answers(path)
        assert not serving._answers(path)


class Part:
    """A part of a host, which notes what it is asked."""

    def __init__(self, asked: list[str], name: str) -> None:
        self.asked, self.name = asked, name
        self.ended: list[Any] = []
        self.runtime = {"mlx": "1"}

    def __getattr__(self, act: str) -> Any:
        def do(*given: object) -> str:
            self.asked.append(f"{self.name}.{act}{given}")
            return act

        return do


async def test_a_host_asks_its_parts(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    host, asked = LocalHost(settings), []

    async def asks(path: str) -> None:
        asked.append(f"ask {path}")

    assert host.runtime() is None
    host.end()
    made: Any = host
    for part in ("_tools", "_repairs", "_standby", "_kept", "_fetches", "_software"):
        setattr(made, part, Part(asked, part))
    for module in ("usage", "process"):
        monkeypatch.setattr(f"reconciler.agent.local_host.{module}", Part(asked, module))
    monkeypatch.setattr("reconciler.agent.local_host.machine.boot_id", lambda: "boot")
    monkeypatch.setattr("reconciler.agent.ranks.hearing.ask", asks)
    call: Any = "call"
    answers = [
        host.runtime(), host.stored_weights(["a"]), await host.run_tool(call), host.confirm_repair("r"),
        host.repair_report(), host.continue_repair(), await host.measure(iter([1, 2])), await host.states(iter([3])), host.birth(5),
    ]  # fmt: skip
    assert answers == [
        {"mlx": "1"}, "scan", "run", "confirm", "report", "continue_abandoned", "measure", "states", "birth",
    ]  # fmt: skip
    host.repair(call)
    host.fetch(call)
    host.serve_weights("w")
    host.end_standby(3.0)
    host.signal_process(5, 9)
    host.signal_group(6, 15)
    await host.ask_rank("/s")
    host.end()
    assert asked == [
        "_kept.scan(['a'],)", "_tools.run('call',)", "_repairs.confirm('r',)", "_repairs.report()", "_repairs.continue_abandoned()",
        "usage.measure((1, 2),)", "process.states((3,),)", "process.birth(5, 'boot')", "_repairs.begin('call',)", "_fetches.start('call',)",
        "_fetches.serve_to_peers('w',)", "_standby.end_unused(3.0,)", "process.signal_process(5, 9)", "process.signal_group(6, 15)",
        "ask /s", "_tools.close()", "_software.close()", "_standby.end()", "_fetches.close()",
    ]  # fmt: skip


def test_shims_that_have_ended_are_forgotten(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    host, asked = LocalHost(settings), []  # type: ignore[var-annotated]
    made: Any = host
    made._standby = Part(asked, "standby")
    monkeypatch.setattr("reconciler.agent.local_host.process", Part(asked, "process"))
    shims = [SimpleNamespace(poll=lambda code=code: code) for code in (None, 0, None, -9)]
    made._shims, made._standby.ended[:] = shims[:2], shims[2:]
    host.reap()
    assert (made._shims, made._standby.ended) == ([shims[0], shims[2]], [])
    assert asked == ["process.reap()", "standby.reap()"]


def test_the_next_rank_is_prepared_for_with_the_program_of_this_one(settings: Settings) -> None:
    host, asked = LocalHost(settings), []  # type: ignore[var-annotated]
    settings.directory.mkdir()
    made: Any = host
    made._standby = Part(asked, "standby")
    host.ranks()
    host.prepare(IDS[0])
    assert asked == []
    settings.run_directory.mkdir()
    host.create(spec(IDS[0]))
    host.prepare(IDS[0])
    assert asked == ["standby.prepare(Program(argv=('python',), env={}),)"]


@pytest.mark.parametrize("fetch", [None, "a fetch"])
def test_weights_are_told_with_their_fetch(fetch: Any, settings: Settings) -> None:
    host = LocalHost(settings)
    made: Any = host
    made._software = SimpleNamespace(model=lambda path: ModelReport(path, "/m", present=True))
    made._fetches = SimpleNamespace(report=lambda path: fetch)
    assert host.model("a") == replace(ModelReport("a", "/m", present=True), fetch=fetch)


def test_a_host_says_what_it_is(settings: Settings) -> None:
    found = LocalHost(replace(settings, held_by="launchd")).identity()
    own = os.uname()
    assert (found.system, found.release, found.machine, found.hostname) == (
        own.sysname,
        own.release,
        own.machine,
        own.nodename,
    )
    assert (found.sequence, found.token, found.runtime, found.python) == (0, 0, None, "/p")
    assert (found.agent_file, found.held_by, found.run_directory) == (
        "agent.pyz",
        "launchd",
        str(settings.run_directory),
    )
    assert (found.cpus, found.emulated, len(found.agent_id)) == (os.cpu_count(), False, 32)
