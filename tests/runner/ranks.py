"""Real rank processes for tests, and a small client of their wire protocol."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from reconciler.planning.context.membership import certificate
from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, decode, from_wire, to_wire
from reconciler.wire.frames import encode, read
from reconciler.wire.generation import GATEWAY_RECEIVES, Accepted, Cancel, Delta, Failed, Finished, Generate
from reconciler.wire.launch import (
    CONFIG_LATER,
    CONFIG_VARIABLE,
    EXAMINE,
    PROGRESS_VARIABLE,
    Phase,
    Progress,
    RankConfig,
    RankId,
)
from reconciler.wire.sampling import Sampling
from tests import fork_server, processes
from tests.ports import free_ports

GREEDY = Sampling(temperature=0.0)
READY_SECONDS = 90.0
MODULE = "reconciler.runner"


def free_addresses(count: int) -> tuple[str, ...]:
    return tuple(f"127.0.0.1:{port}" for port in free_ports(count))


class Rank:
    """One rank process, with the pipes that its shim would hold."""

    def __init__(
        self,
        config: RankConfig,
        directory: Path,
        spare: bool = False,
        python: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Start it with the interpreter ``python``; without one, and unless it is a spare, the fork server starts it.
        ``variables`` are added to its environment."""
        self.config = config
        self.reports: list[Progress] = []
        self.answers: SimpleQueue[dict[str, Any]] = SimpleQueue()
        """About weights, of a spare."""
        path = self._path = directory / f"rank-{config.id.rank}.json"
        path.write_text(json.dumps(to_wire(config)))
        self.log = directory / f"rank-{config.id.rank}.log"
        reading, writing = os.pipe()
        env = {CONFIG_VARIABLE: CONFIG_LATER if spare else str(path), **(variables or {})}
        descriptors = {PROGRESS_VARIABLE: writing}
        with self.log.open("wb") as log:
            self.process: fork_server.Process = (
                fork_server.start_process(
                    python or sys.executable, MODULE, log, env=env, descriptors=descriptors, stdin=True
                )
                if spare or python
                else fork_server.start(
                    fork_server.RANKS, MODULE, log, env=env, descriptors=descriptors, stdin=True
                )
            )
        os.close(writing)
        self._reader = threading.Thread(target=self._read, args=(reading,), daemon=True)
        self._reader.start()

    def examine(self, folder: Path) -> dict[str, Any]:
        """Have a spare examine weights."""
        assert self.process.stdin is not None
        self.process.stdin.write(EXAMINE + json.dumps(str(folder)).encode() + b"\n")
        self.process.stdin.flush()
        return self.answers.get(timeout=READY_SECONDS)

    def begin(self) -> None:
        """Tell a spare which rank it is."""
        assert self.process.stdin is not None
        self.process.stdin.write(os.fsencode(self._path) + b"\n")
        self.process.stdin.flush()

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, encoding="utf-8") as lines:
            for line in lines:
                body = json.loads(line)
                if "phase" in body:
                    self.reports.append(from_wire(Progress, body))
                else:
                    self.answers.put(body)

    @property
    def last(self) -> Progress:
        return self.reports[-1] if self.reports else Progress(Phase.STARTING)

    def wait_for(self, phase: str, seconds: float = READY_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not any(report.phase == phase for report in self.reports):
            assert self.process.poll() is None, f"rank ended: {self.text()}"
            assert time.monotonic() < deadline, f"no {phase} in {seconds} s: {self.text()}"
            time.sleep(0.02)

    def wait_until(self, holds: Callable[[Progress], bool], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not holds(self.last):
            assert time.monotonic() < deadline, f"still {self.last} after {seconds} s"
            time.sleep(0.02)

    def exit_code(self, seconds: float = 60.0) -> int:
        code = self.process.wait(timeout=seconds)
        self._reader.join(timeout=60)
        return code

    def text(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def cpu_seconds(self) -> float:
        return processes.cpu_seconds([self.process.pid])

    def standing_still(self) -> AbstractContextManager[None]:
        """It does nothing within the block: no other rank gets beyond the step that it is at."""
        return processes.standing_still(self.process.pid)

    def __enter__(self) -> Rank:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=60)
        if self.process.stdin:
            self.process.stdin.close()
        self._reader.join(timeout=60)


@dataclasses.dataclass
class Group:
    """The ranks of one group; ``ranks[0]`` answers on ``socket``."""

    ranks: list[Rank]
    socket: str

    def ready(self) -> Group:
        for rank in self.ranks:
            rank.wait_for(Phase.READY)
        return self

    def terminate(self) -> list[int]:
        for rank in self.ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank.process.pid, signal.SIGTERM)
        return [rank.exit_code() for rank in self.ranks]


def configs(model: Path, directory: Path, size: int, **changes: Any) -> list[RankConfig]:
    """One configuration per rank of a group with fresh addresses."""
    *addresses, control = free_addresses(size + 1)
    first = RankConfig(
        id=RankId("tiny", 0, 1, 0),
        size=size,
        model_path=str(model),
        strategy="tensor",
        backend="ring",
        addresses=tuple(addresses),
        control=control,
        secret=certificate("the secret of this epoch"),
        socket=str(directory / "r.sock"),
        context=512,
        batch_max=4,
        rendezvous_seconds=60.0,
    )
    ranked = [dataclasses.replace(first, id=dataclasses.replace(first.id, rank=r)) for r in range(size)]
    return [dataclasses.replace(config, **changes) for config in ranked]


@contextlib.contextmanager
def short_directory() -> Iterator[Path]:
    """A directory with a path short enough for Unix sockets on macOS."""
    directory = Path(tempfile.mkdtemp(prefix="r-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def each_rank(size: int, module: str, *arguments: str, seconds: float) -> list[Any]:
    """What each rank of a ring found, as JSON: a process that runs ``module`` with the path of its configuration, the
    ``arguments``, and the path for what it finds."""
    with short_directory() as directory, contextlib.ExitStack() as started:
        found = [directory / f"{number}.found" for number in range(size)]
        ranks = []
        for config, path in zip(configs(directory, directory, size), found, strict=True):
            written = path.with_suffix(".json")
            written.write_text(json.dumps(to_wire(config)))
            with path.with_suffix(".log").open("wb") as log:
                own = [str(written), *arguments, str(path)]
                rank = fork_server.start(fork_server.RANKS, module, log, arguments=own, stdin=True)
            ranks.append(rank)
            assert rank.stdin is not None
            started.enter_context(rank.stdin)
            started.callback(rank.wait)
            started.callback(rank.kill)
        for rank, path in zip(ranks, found, strict=True):
            assert rank.wait(seconds) == 0, path.with_suffix(".log").read_text()[-3000:]
        return [json.loads(path.read_text()) for path in found]


@contextlib.contextmanager
def running(model: Path, size: int, python: str | None = None, **changes: Any) -> Iterator[Group]:
    """A started group, not yet waited for; ends every process it started. Of ``python`` see ``Rank``."""
    with short_directory() as directory, contextlib.ExitStack() as started:
        ranked = configs(model, directory, size, **changes)
        ranks = [started.enter_context(Rank(config, directory, python=python)) for config in ranked]
        yield Group(ranks, ranks[0].config.socket)


@dataclasses.dataclass
class Reply:
    """All events of one request, put together."""

    events: list[Any]

    @property
    def tokens(self) -> list[int]:
        return [token for e in self.events if isinstance(e, Delta) for token in e.tokens]

    @property
    def text(self) -> str:
        return "".join(e.text for e in self.events if isinstance(e, Delta))

    @property
    def reasoning(self) -> str:
        return "".join(e.reasoning for e in self.events if isinstance(e, Delta))

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Name and arguments of each call, joined from its fragments."""
        calls: dict[int, tuple[str, str]] = {}
        for part in (part for e in self.events if isinstance(e, Delta) for part in e.calls):
            if part.withdrawn:
                del calls[part.index]
            else:
                name, arguments = calls.get(part.index, ("", ""))
                calls[part.index] = (name + part.name, arguments + part.arguments)
        return list(calls.values())

    @property
    def call_ids(self) -> list[str]:
        return [part.id for e in self.events if isinstance(e, Delta) for part in e.calls if part.name]

    @property
    def prompt(self) -> tuple[int, ...]:
        (accepted,) = [e for e in self.events if isinstance(e, Accepted)]
        return accepted.prompt_tokens

    @property
    def last(self) -> Any:
        return self.events[-1]


class Client:
    """One connection to rank 0. Events are kept per request until somebody reads them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self._reader = reader
        self._events: dict[str, asyncio.Queue[Any]] = {}
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        with contextlib.suppress(ConnectionError):  # a connection closed under what is being sent ends so
            while (frame := await read(self._reader)) is not None:
                event = decode(frame, GATEWAY_RECEIVES)
                if not isinstance(event, Hello):
                    self._queue(event.request).put_nowait(event)
        for queue in self._events.values():
            queue.put_nowait(None)

    def _queue(self, request: str) -> asyncio.Queue[Any]:
        return self._events.setdefault(request, asyncio.Queue())

    def send(self, *messages: object) -> None:
        """Send messages that arrive together."""
        self.writer.write(b"".join([encode(to_wire(message)) for message in messages]))

    async def next(self, request: str, seconds: float = 60.0) -> Any:
        return await asyncio.wait_for(self._queue(request).get(), seconds)

    async def reply(self, request: str, *begun: Any) -> Reply:
        """Wait for the whole answer, of which the events ``begun`` are read already."""
        events: list[Any] = [*begun]
        while True:
            event = await self.next(request)
            assert event is not None, "connection closed before the last event"
            events.append(event)
            if isinstance(event, (Finished, Failed)):
                return Reply(events)

    async def closed(self, request: str) -> bool:
        """Whether the connection ends before the request does."""
        while True:
            event = await self.next(request)
            if event is None or isinstance(event, (Finished, Failed)):
                return event is None

    async def ask(self, request: str, text: str, **fields: Any) -> Reply:
        """Ask one question and wait for the whole answer."""
        self.send(question(request, text, **fields))
        return await self.reply(request)

    def cancel(self, request: str) -> None:
        self.send(Cancel(request))

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()
        self._listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._listening


def question(request: str, text: str, **fields: Any) -> Generate:
    fields.setdefault("sampling", GREEDY)
    fields.setdefault("messages", ({"role": "user", "content": text},))
    return Generate(request, **fields)


@contextlib.asynccontextmanager
async def connected(path: str) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_unix_connection(path)
    client = Client(reader, writer)
    client.send(Hello("test", SPOKEN))
    try:
        yield client
    finally:
        await client.close()
