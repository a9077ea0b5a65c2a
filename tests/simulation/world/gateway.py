"""The product's gateway on virtual time: its pool, its runs and what they remember, with wires to simulated ranks."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler.gateway.routing.pool import Pool
from reconciler.gateway.routing.routes import RoutesFile
from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, decode, to_wire
from reconciler.wire.frames import Decoder, encode
from reconciler.wire.generation import (
    RANK_RECEIVES,
    Accepted,
    Backend,
    Cancel,
    Delta,
    Failed,
    Finished,
    Generate,
)
from reconciler.wire.launch import Phase

from .loop import Process
from .net import LATENCY

if TYPE_CHECKING:
    from .ranks import Rank
    from .world import World

LOOK_SECONDS = 0.02
"""After a change of the routes the gateway sees it."""
STEP_SECONDS = 0.5
TOKENS_A_STEP = 5
PROMPT_STEPS = 2
"""Steps that a prompt takes to be read."""
POISON = "poison"
"""A prompt that begins with this word ends the rank that has read it."""


class SimGateway:
    """One life of the gateway; nobody ends it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.process = Process("gateway")
        self.pool: Pool | None = None
        self._file = _Routes(world)
        world.loop.spawn(self.process, self._start(), "gateway")

    async def _start(self) -> None:
        self._file.refresh()
        timing = Timing(held_max=64)
        self.pool = Pool(self._file, timing, self._reach, self.world.wall)

    def look(self) -> None:
        """The routes have been replaced."""
        self.world.loop.call_later(LOOK_SECONDS, self._refresh, context=self.process.context)

    def _refresh(self) -> None:
        if self.pool is not None:
            self.pool.refresh()
            for connection in self.pool._connections.values():
                connection.open(self.world.loop.time())

    async def _reach(self, backend: Backend, protocol: asyncio.Protocol) -> None:
        await asyncio.sleep(LATENCY)
        rank = self.world.sockets.get(backend.socket)
        if rank is None or not rank.process.alive or not rank.machine.reachable:
            raise ConnectionRefusedError(f"nobody listens on {backend.socket}")
        rank.serving().connect(protocol, self.process)


class _Routes(RoutesFile):
    """The routes without a file."""

    def __init__(self, world: World) -> None:
        super().__init__(Path("routes.json"))
        self._world = world

    def refresh(self) -> bool:
        routes = self._world.routes
        return routes is not None and routes is not self.current and self.take(routes)


class Wire(asyncio.Transport):
    """A connection of the gateway to rank 0. What is written arrives a moment later, if there is somebody."""

    def __init__(self, serving: Serving, protocol: asyncio.Protocol, gateway: Process) -> None:
        super().__init__()
        self._serving = serving
        self._protocol = protocol
        self._gateway = gateway
        self._loop = serving.rank.machine.world.loop
        self._decoder = Decoder()
        self._to_rank: deque[bytes] = deque()
        self._to_gateway: deque[bytes] = deque()
        """In the order in which it was sent, whatever the loop does with what falls due together."""
        self.open = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is room for everything."""

    def write(self, data: Any) -> None:
        self._to_rank.append(bytes(data))
        self._loop.call_later(LATENCY, self._arrive, context=self._serving.rank.process.context)

    def _arrive(self) -> None:
        data = self._to_rank.popleft()
        if self.open:
            for frame in self._decoder.feed(data):
                self._serving.receive(self, decode(frame, RANK_RECEIVES))

    def send(self, *events: Any) -> None:
        """From the rank to the gateway."""
        self._to_gateway.append(b"".join(encode(to_wire(event)) for event in events))
        self._loop.call_later(LATENCY, self._deliver, context=self._gateway.context)

    def _deliver(self) -> None:
        data = self._to_gateway.popleft()
        if self.open:
            self._protocol.data_received(data)

    def abort(self) -> None:
        self.open = False
        self._serving.closed(self)

    def cut(self) -> None:
        """The rank is gone."""
        self._loop.call_later(LATENCY, self._lost, context=self._gateway.context)

    def _lost(self) -> None:
        if self.open:
            self.open = False
            self._protocol.connection_lost(None)


class _Answer:
    def __init__(self, wire: Wire, generate: Generate) -> None:
        self.wire = wire
        self.generate = generate
        self.steps = PROMPT_STEPS
        self.tokens = len(generate.resume)

    @property
    def prompt(self) -> str:
        return str(self.generate.messages[0]["content"])


class Serving:
    """What rank 0 does for clients: it reads prompts and counts up, all answers in one step."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self._wires: list[Wire] = []
        self._answers: dict[str, _Answer] = {}
        self._stepping = False

    def connect(self, protocol: asyncio.Protocol, gateway: Process) -> None:
        wire = Wire(self, protocol, gateway)
        self._wires.append(wire)
        protocol.connection_made(wire)
        wire.send(Hello("rank", SPOKEN))

    def closed(self, wire: Wire) -> None:
        if wire in self._wires:
            self._wires.remove(wire)
        self._answers = {name: each for name, each in self._answers.items() if each.wire is not wire}

    def receive(self, wire: Wire, message: Any) -> None:
        if isinstance(message, Cancel):
            self._answers.pop(message.request, None)
        elif isinstance(message, Generate) and not self.rank.deaf:
            if self.rank.phase != Phase.READY:
                wire.send(Failed(message.request, "draining", "it is being stopped"))
                return
            self._answers[message.request] = _Answer(wire, message)
            wire.send(Accepted(message.request, (1, 2, 3)))
            self._step_later()

    def _step_later(self) -> None:
        if not self._stepping:
            self._stepping = True
            self.rank.later(STEP_SECONDS, self._step)

    def _step(self) -> None:
        self._stepping = False
        if self.rank.hung:
            return
        for name, answer in list(self._answers.items()):
            answer.steps -= 1
            if answer.steps > 0:
                continue
            if answer.prompt.startswith(POISON):
                self.rank.machine.world.poisoned(self.rank, answer.prompt)
                return
            self._continue(name, answer)
        if self._answers:
            self._step_later()

    def _continue(self, name: str, answer: _Answer) -> None:
        wanted = answer.generate.tokens_max or 0
        more = tuple(range(answer.tokens, min(wanted, answer.tokens + TOKENS_A_STEP)))
        answer.tokens += len(more)
        answer.wire.send(Delta(name, more, "".join(f"{token} " for token in more)))
        if answer.tokens >= wanted:
            answer.wire.send(Finished(name, "length", 3, answer.tokens))
            self.rank.answered = True
            del self._answers[name]

    def gone(self) -> None:
        """The rank has ended."""
        wires, self._wires = self._wires, []
        for wire in wires:
            wire.cut()
        self._answers.clear()
