"""Requests from their first look to their end: groups that come, go, fail and give way, on a clock that the test moves.

All of it is the product's but for the ranks: sockets, frames and the loop's clock are in this process. Of each history the
first steps are lines, and every further 25 steps have one digest.

``UPDATE_GOLDEN=1 .venv/bin/python -m pytest -n 0 tests/gateway/recorded`` writes the files again. Read each line of the
difference: a line that nobody meant to change is a fault.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

from reconciler.gateway.errors import ApiError, ClientGone, internal
from reconciler.gateway.events import Piece
from reconciler.gateway.routing.pool import Pool
from reconciler.gateway.routing.routes import RoutesFile
from reconciler.gateway.routing.runs import Runs
from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, to_wire
from reconciler.wire.frames import Decoder, encode, read_json
from reconciler.wire.generation import (
    Accepted,
    Backend,
    Delta,
    Failed,
    Finished,
    Formed,
    Generate,
    KeptPrefixes,
    Prefill,
    Route,
    Routes,
    ToolCall,
)
from reconciler.wire.question import Question
from tests.gateway.conftest import write_routes
from tests.recorded import compare

from .telling import FOLDER, folded, refused, short, told

TIMING = Timing(held_max=3, reconnect_first=1.0, reconnect_max=4.0, losses_max=3, attempts_max=12)


class Loop(asyncio.SelectorEventLoop):
    """A loop whose clock only a test moves."""

    now = 1000.0

    def time(self) -> float:
        return self.now


class Transport(asyncio.Transport):
    """The gateway's end of a connection to a rank, which answers its greeting."""

    def __init__(self, rank: Rank, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._rank, self._protocol, self._decoder = rank, protocol, Decoder(read_json)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        self._rank.take(list(self._decoder.feed(data)))

    def abort(self) -> None:
        self._rank.protocol = None
        self._rank.open.clear()


class Rank:
    """Rank 0 of a group."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.protocol: asyncio.Protocol | None = None
        self.refuses = False
        self.open: dict[str, dict[str, Any]] = {}
        self.told: list[str] = []
        self._clients: dict[str, int] = {}

    def take(self, frames: Sequence[Any]) -> None:
        for frame in frames:
            if frame["type"] == "generate":
                self.open[frame["request"]] = frame
                client = self._clients.setdefault(frame["client"], len(self._clients))
                self.told.append(
                    f"{self.name}<{frame['request']} {told(frame.get('resume', []))} of {client}"
                )
            elif frame["type"] == "cancel":
                self.open.pop(frame["request"], None)
                self.told.append(f"{self.name}<cancel {frame['request']}")

    def say(self, *events: Any) -> None:
        assert self.protocol is not None
        self.protocol.data_received(b"".join(encode(to_wire(event)) for event in events))


class World:
    """A pool, its ranks, and the requests that it has."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = Random(f"runs {seed}")
        self.seed = seed
        self.loop = cast(Loop, asyncio.get_running_loop())
        self.folder = folder
        self.ranks: dict[str, Rank] = {}
        self.epochs = [1, 1, 1]
        self.there = {0, 1, 2} if seed % 3 else {0}
        self.written = 0
        self.file = RoutesFile(folder / "routes.json")
        self.write()
        self.file.refresh()
        self.pool = Pool(self.file, TIMING, self.reach, lambda: 1_700_000_000.0 + self.loop.now)
        self.runs: dict[str, Runs] = {}
        self.waiting: dict[str, asyncio.Task[Sequence[Piece]]] = {}
        self.begun = 0
        self.taken: list[str] = []

    async def reach(self, backend: Backend, protocol: asyncio.Protocol) -> None:
        rank = self.ranks.setdefault(backend.socket, Rank(backend.socket))
        if rank.refuses:
            raise OSError("refused")
        rank.protocol = protocol
        protocol.connection_made(Transport(rank, protocol))
        rank.say(Hello("rank", SPOKEN))

    def write(self, attempt_at: float = 0.0, refused: str = "") -> None:
        self.written += 1
        backends = [
            Backend(
                at, self.epochs[at], f"{'abc'[at]}{self.epochs[at]}", "node", None, ("x", "y") if at else ()
            )
            for at in sorted(self.there)
        ]
        rng = self.rng
        formed = tuple(
            Formed(at, epoch, epoch % 3) for at in range(3) for epoch in range(2, self.epochs[at] + 1)
        )
        route = Route(
            "m",
            ("alias",),
            100,
            1,
            tuple(backends[:2]),
            5.0,
            rng.choice((0, 1, 2, 2)),
            formed if rng.random() < 0.6 else (),
            attempt_at,
            2,
            refused=refused,
        )
        other = Route("n", (), 0, 1, tuple(backends[2:]), 0.0, 1)
        write_routes(self.folder, Routes(SPOKEN[-1], self.written, "127.0.0.1:1", 30.0, (route, other), 1))

    def begin(self) -> str:
        name = f"q{self.begun}"
        self.begun += 1
        rng = self.rng
        said = ({"role": "user", "content": rng.choice("uvw")},)
        generate = rng.choice(
            (
                Generate("", said), Generate("", said, tokens_max=8), Generate("", said, tokens_max=0, question=Question()),
                Generate("", (), prompt_tokens=tuple(range(rng.choice((5, 99, 100, 101))))),
            )
        )  # fmt: skip
        model = rng.choice(("m", "m", "m", "alias", "n", "none"))
        choices = [generate] * rng.choice((1, 1, 2))
        self.runs[name] = Runs(
            self.pool,
            model,
            choices,
            name,
            rng.choice("xy"),
            f"req-{name}",
            rng.choice(("", "s")),
            rng.random() < 0.5,
        )
        self.runs[name].__enter__()
        return (
            f"{name} begins {model} {len(choices)} {generate.tokens_max} {len(generate.prompt_tokens or ())}"
        )

    def end(self, name: str) -> str:
        runs = self.runs.pop(name)
        task = self.waiting.pop(name, None)
        if task is not None:
            task.cancel()
        runs.__exit__(None, None, None)
        return told(runs.tally())

    def shown(self, name: str, pieces: Sequence[Piece]) -> str:
        text = told(
            [
                (index, type(part).__name__, getattr(part, "text", ""), dataclasses.astuple(part)[-3:])
                for index, part in pieces
            ]
        )
        if self.runs[name].done:
            text += f" over {self.end(name)}"
        return text

    async def next(self, name: str) -> str:
        """What there is for a request now."""
        try:
            if name in self.waiting:
                if not self.waiting[name].done():
                    return "waits"
                pieces = self.waiting.pop(name).result()
            else:
                pieces = await self.runs[name].next(0.0)
            return self.shown(name, pieces)
        except ApiError as error:
            return f"{refused(error)} over {self.end(name)}"
        except ClientGone:
            return f"gone over {self.end(name)}"

    def wait(self, name: str) -> str:
        if name not in self.waiting:
            self.runs[name].outlet = self
            self.waiting[name] = asyncio.create_task(self.runs[name].next(1000.0))
        return "waits"

    def take(self, pieces: Sequence[Piece]) -> bool:
        if self.rng.random() < 0.2:
            return False
        self.taken.append(told([(index, getattr(part, "text", "")) for index, part in pieces]))
        return True

    def say(self) -> str:
        """Let a rank send an event."""
        able = [rank for rank in self.ranks.values() if rank.open and rank.protocol is not None]
        if not able:
            return "nothing to say"
        rank, rng = self.rng.choice(able), self.rng
        request = rng.choice(list(rank.open))
        kinds = (
            ("accepted",) * 4
            + ("delta",) * 8
            + ("prefill", "call", "finished", "finished", "failed", "failed", "both", "stop", "text", "text")
        )
        events: list[Any]
        match rng.choice(kinds):
            case "accepted":
                events = [Accepted(request, (1, 2, 3))]
            case "delta":
                events = [Delta(request, tuple(range(rng.choice((0, 1, 16, 20)))), "w")]
            case "prefill":
                events = [Prefill(request, rng.choice((1, 3)), 3)]
            case "call":
                events = [ToolCall(request, rng.choice((0, 1)), "f", "{}")]
            case "finished":
                reason = rng.choice(("stop", "length", "cancelled"))
                events = [Finished(request, reason, 3, 5, 1, rng.choice((None, KeptPrefixes(1, 2, 3, 4))))]
            case "failed":
                code = rng.choice(
                    ("overloaded", "draining", "internal", "invalid_request", "context_length_exceeded")
                )
                events = [Failed(request, code, "text", rng.choice((None, "tokens_max")))]
            case "both":
                other = rng.choice(list(rank.open))
                events = [Accepted(request, (1,)), Delta(other, (7,), "x"), Delta(request, (8,), "y")]
            case "text":
                events = [Delta(request, (7,), "a"), Delta(request, (8,), "b")]
            case _:
                events = [Delta(request, (9,), "z"), Finished(request, "stop", 3, 9)]
        for event in events:
            if isinstance(event, Finished | Failed):
                rank.open.pop(event.request, None)
        rank.say(*events)
        return f"{rank.name} says {short(told(events), 60)}"

    def lose(self) -> str:
        able = [rank for rank in self.ranks.values() if rank.protocol is not None]
        if not able:
            return "none to lose"
        rank = self.rng.choice(able)
        rank.refuses = self.rng.random() < 0.3
        protocol, rank.protocol = rank.protocol, None
        assert protocol is not None
        rank.open.clear()
        match self.rng.choice(("lost", "lost", "paused", "broken")):
            case "paused":
                rank.protocol = protocol
                protocol.pause_writing()
                if self.rng.random() < 0.7:
                    protocol.resume_writing()
                return f"{rank.name} pauses"
            case "broken":
                protocol.data_received(encode({"type": "what"}))
                return f"{rank.name} breaks"
            case _:
                protocol.connection_lost(None)
                return f"{rank.name} is lost {rank.refuses}"

    def change(self) -> str:
        """Let the controller write other routes."""
        at = self.rng.choice((0, 1, 2))
        match self.rng.choice(("new", "new", "away", "back")):
            case "new":
                self.epochs[at] += 1
            case "away":
                self.there.discard(at)
            case _:
                self.there.add(at)
        now = 1_700_000_000.0 + self.loop.now
        self.write(*self.rng.choice(((), (now + 10,), (now + 100,), (0.0, "NoRoom"))))
        for rank in self.ranks.values():
            rank.refuses = False
        return f"routes {sorted(self.there)} {self.epochs} {self.pool.refresh()}"

    async def step(self) -> str:
        rng = self.rng
        self.loop.now += rng.choice((0, 0, 0, 0.05, 0.5, 1, 2, 5, 11, 31))
        name = rng.choice(list(self.runs)) if self.runs else ""
        what = rng.choice(
            ("next",) * 7
            + ("say",) * 8
            + ("begin", "begin", "wait", "wait", "lose", "change", "abandon", "read", "end", "leave")
        )
        if what == "begin" or not name:
            return self.begin()
        match what:
            case "next":
                return f"{name} {await self.next(name)}"
            case "say":
                return self.say()
            case "wait":
                return f"{name} {self.wait(name)}"
            case "lose":
                return self.lose()
            case "change":
                return self.change()
            case "read":
                unread = rng.random() < 0.5
                self.runs[name].read(unread)
                return f"{name} unread {unread}"
            case "abandon" if rng.random() < 0.3:
                self.runs[name].abandon()
                return f"{name} abandoned"
            case "end" if rng.random() < 0.3:
                self.runs[name].end(internal("ended"))
                return f"{name} ended"
            case "leave" if rng.random() < 0.5:
                return f"{name} leaves {self.end(name)}"
        return "nothing"

    async def line(self, number: int) -> str:
        text = await self.step()
        for _ in range(4):
            await asyncio.sleep(0)
        heard = [each for rank in self.ranks.values() for each in rank.told] + self.taken
        for rank in self.ranks.values():
            rank.told.clear()
        self.taken.clear()
        used = [(name, told(runs.usage(1)), runs.done) for name, runs in self.runs.items()]
        state = f"{told(self.pool.connected())} {told(used)} {len(self.pool.quarantined_prompts())} {told(self.pool.metrics.figures()[1])}"
        return f"{self.seed}-{number}: {short(text, 90)} {heard} {short(state, 0)}"

    async def close(self) -> str:
        self.pool.close()
        ends = [f"{name} {await self.next(name)}" for name in list(self.runs)]
        for name in list(self.runs):
            self.end(name)
        for _ in range(4):
            await asyncio.sleep(0)
        return f"{self.seed}-closed: {short(told(ends), 100)}"


async def history(folder: Path, seed: int, steps: int) -> list[str]:
    world = World(folder, seed)
    lines = [await world.line(number) for number in range(steps)]
    return [*lines, await world.close()]


def test_requests_go_their_ways_as_before(tmp_path: Path) -> None:
    lines = []
    for seed in range(12):
        folder = tmp_path / str(seed)
        folder.mkdir()
        with asyncio.Runner(loop_factory=Loop) as runner:
            lines += runner.run(history(folder, seed, 150))
    compare(FOLDER / "runs.txt", folded([short(line, 170) for line in lines], 60))
