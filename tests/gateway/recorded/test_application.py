"""Whole requests through the gateway's application: heads, bodies, refusals, answers, silences, log lines and webhooks.

There is no socket: the application is called as its server calls it, ranks are those of ``test_runs``, and the clock is
moved by a second whenever nothing happens. A line is a request and its answer.

``UPDATE_GOLDEN=1 .venv/bin/python -m pytest -n 0 tests/gateway/recorded`` writes the files again. Read each line of the
difference: a line that nobody meant to change is a fault.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import hashlib
import hmac
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson

from reconciler.gateway.app import build_app
from reconciler.gateway.dialects.dialect import Sources
from reconciler.gateway.http import answer as answers
from reconciler.gateway.records.logs import Logs
from reconciler.gateway.routing.pool import Pool
from reconciler.gateway.routing.routes import RoutesFile
from reconciler.gateway.routing.timeouts import Timing
from reconciler.serving.objections import Objection, unknown_expectation
from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello
from reconciler.wire.gateway import HookSecret
from reconciler.wire.generation import (
    Accepted,
    Backend,
    Delta,
    Failed,
    Finished,
    Prefill,
    Replaced,
    Route,
    Routes,
)
from reconciler.wire.keys import AccessKey, KeyLimits, SecretHash, hash_of
from tests.recorded import compare, digest

from .telling import FOLDER, short, told
from .test_runs import Loop, Rank, Transport

SECRET = "a secret of the forge"
HELLO = [{"role": "user", "content": "hello"}]
CHANGING = ("/metrics", "/", "/version")
"""Their bodies have the version of the product, or differ with the process."""
CHAT: Mapping[str, Any] = {"model": "m", "messages": HELLO}
KEYS = (
    AccessKey("all", (SecretHash(hash_of("good")),), metrics=True),
    AccessKey(
        "few", (SecretHash(hash_of("few")),), ("n",), KeyLimits(requests_per_minute=2, tokens_per_minute=4000)
    ),
)


@dataclasses.dataclass
class Exchange:
    """The server's part of one request and its answer."""

    arrived: bool = True
    objection: Objection | None = None
    ready: bool = True
    told: Any = None
    parts: list[bytes] = dataclasses.field(default_factory=list)

    def write(self, part: bytes) -> None:
        self.parts.append(b"!" + part)
        if self.told is not None:
            self.told(part)


class Lines:
    """A log that is kept."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def put(self, line: bytes) -> None:
        self.lines.append(line)


class Answering(Rank):
    """A rank that answers one event at a time; ``None`` is a second of silence."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.story: Sequence[Any] = ()
        self.next: list[Any] = []

    def take(self, frames: Sequence[Any]) -> None:
        super().take(frames)
        self.next += [
            event if event is None else dataclasses.replace(event, request=frame["request"])
            for frame in frames
            if frame["type"] == "generate"
            for event in self.story
        ]


STORIES: Mapping[str, Sequence[Any]] = {
    "usual": [Accepted("", (1, 2, 3)), Delta("", (4,), "one "), Delta("", (5, 6), "two"), Finished("", "stop", 3, 3, 1)],
    "slow": [None] * 6 + [Accepted("", (1, 2, 3))] + [None] * 6 + [Delta("", (4,), "one"), *[None] * 11, Finished("", "length", 3, 1)],
    "fails": [Failed("", "invalid_request", "bad tools", "tools")],
    "fails late": [Accepted("", (1,)), Delta("", (4,), "one"), Failed("", "invalid_request", "bad", None)],
    "fails later": [None] * 7 + [Failed("", "context_length_exceeded", "long", None)],
    "replaced": [Prefill("", 1, 3), Accepted("", (1, 2), replaced=(Replaced("audio", 2),)), Finished("", "stop", 2, 0)],
    "long": [Accepted("", (1,)), Delta("", (2,), "x" * 70_000), Delta("", (2,), "y" * 66_000), Finished("", "stop", 1, 2)],
    "nothing": [],
}  # fmt: skip


class Gateway:
    """The application over a pool with one group."""

    def __init__(self, folder: Path, **routes: Any) -> None:
        self.loop = cast(Loop, asyncio.get_running_loop())
        self.rank = Answering("r")
        route = Route("m", ("alias",), 4096, 1, (Backend(0, 1, "r", "node"),), batch=8)
        more = Route("n", (), 0, 2, embeds=True)
        file = RoutesFile(folder / "routes.json")
        file.take(Routes(SPOKEN[-1], 1, "127.0.0.1:1", 8.0, (route, more), **routes))
        self.pool = Pool(file, Timing(), self.reach, self.wall)
        self.logs = Logs(folder, self.wall)
        self.access, self.content = Lines(), Lines()
        self.logs.access, self.logs.content = cast(Any, self.access), cast(Any, self.content)
        self.looks: list[float] = []
        numbers = itertools.count()
        sources = Sources(self.wall, lambda: str(next(numbers)), lambda: 7)
        self.app = build_app(self.pool, sources, self.logs, self.looks.append)

    def wall(self) -> float:
        return 1_700_000_000.0 + self.loop.now

    async def reach(self, backend: Backend, protocol: asyncio.Protocol) -> None:
        self.rank.protocol = protocol
        protocol.connection_made(Transport(self.rank, protocol))
        self.rank.say(Hello("rank", SPOKEN))

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        story: str = "usual",
        address: str = "127.0.0.1",
        exchange: Exchange | None = None,
        leaves: int = 0,
        breaks: bool = False,
    ) -> str:
        """Send a request in two parts, and return its answer; the client ``leaves`` after so many seconds."""
        self.rank.story, self.rank.next = STORIES[story], []
        exchange = exchange or Exchange()
        reading = SimpleNamespace(tell=None, tell_gone=lambda: None, is_gone=False)
        given = [
            (name.encode(), value.encode("latin-1"))
            for name, value in {"host": "localhost:1", **(headers or {})}.items()
        ]
        scope = {
            "type": "http", "method": method, "path": path, "headers": given, "query_string": b"", "scheme": "http", "http_version": "1.1",
            "client": (address, 5), "server": ("localhost", 1), "state": {"exchange": exchange, "reading": reading}, "root_path": "",
        }  # fmt: skip
        parts = [
            {"type": "http.request", "body": body[:10], "more_body": True},
            {"type": "http.request", "body": body[10:]},
        ]
        if breaks:
            parts[1] = {"type": "http.disconnect"}
        start: list[Any] = []

        async def receive() -> Any:
            if not parts:
                await asyncio.Event().wait()
            return parts.pop(0)

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                start.append(message)
            else:
                exchange.parts.append(message["body"] + (b"" if message.get("more_body") else b"."))

        task = asyncio.create_task(self.app(scope, receive, send))
        for second in range(40):
            for _ in range(12):
                await asyncio.sleep(0)
            if task.done():
                break
            if leaves and second == leaves:
                reading.tell_gone()
            elif self.rank.next and self.rank.next[0] is not None:
                self.rank.say(self.rank.next.pop(0))
                continue
            del self.rank.next[:1]
            self.loop.now += 1
        if not task.done():
            reading.tell_gone()
            for _ in range(12):
                await asyncio.sleep(0)
        error = task.exception()
        status = start[0]["status"] if start else "nothing"
        headers_sent = start[0]["headers"] if start else []
        head = told([each for each in headers_sent if path not in CHANGING or each[0] != b"content-length"])
        text = b"".join(exchange.parts)
        shown = "" if path in CHANGING else short(text.decode("utf-8", "replace"), 60)
        return f"{status} {head} {[len(part) for part in exchange.parts] if shown else ''} {shown} {type(error).__name__ if error else ''}"

    def logged(self, hidden: bool) -> str:
        found = [line.decode().strip() for line in (*self.access.lines, *self.content.lines)]
        self.access.lines.clear()
        self.content.lines.clear()
        return told(len(found) if hidden else found)


def body(**fields: Any) -> bytes:
    return orjson.dumps({**CHAT, **fields})


async def asked(gateway: Gateway, *arguments: Any, **more: Any) -> list[str]:
    """The lines of a request: what was asked and the answer, then what the logs say of it."""
    method, path, *rest = arguments
    given = [short(each.decode("latin-1") if isinstance(each, bytes) else told(each), 50) for each in rest]
    label = " ".join(
        [method, path, *given, *(f"{key}={short(str(value), 60)}" for key, value in more.items())]
    )
    text = await gateway.ask(*arguments, **more)
    return [f"{label}: {short(text, 70)}", f"  logged {digest(gateway.logged(path in CHANGING))}"]


async def open_to_all(folder: Path) -> list[str]:
    gateway, lines = Gateway(folder), []
    chat = "/v1/chat/completions"
    for story in STORIES:
        for fields in ({}, {"stream": True}):
            lines += await asked(gateway, "POST", chat, body(**fields), story=story)
    for story in ("usual", "slow"):
        lines += await asked(gateway, "POST", "/v1/messages", body(max_tokens=5, stream=True), story=story)
        lines += await asked(
            gateway,
            "POST",
            "/v1/responses",
            orjson.dumps({"input": "x", "stream": True, "model": "alias"}),
            story=story,
        )
        lines += await asked(
            gateway, "POST", chat, body(stream=True), story=story, exchange=Exchange(ready=False)
        )
        lines += await asked(gateway, "POST", chat, body(stream=True, return_groups=True), story=story)
    lines += await asked(gateway, "POST", chat, body(stream=True), story="slow", leaves=3)
    lines += await asked(gateway, "POST", chat, body(), story="slow", leaves=9)
    lines += await asked(gateway, "POST", chat, body(), breaks=True)
    lines += await asked(gateway, "POST", chat, body(model="n"))
    lines += await asked(gateway, "POST", chat, body(model="zz"))
    lines += await asked(gateway, "POST", chat, b"{")
    lines += await asked(gateway, "POST", chat, body(), {"x-request-id": "mine-1", "x-session-affinity": "s"})
    lines += await asked(gateway, "POST", "/v1/messages", body(), {"x-request-id": "not well formed"})
    lines += await asked(gateway, "POST", chat, body(), {"content-length": str(12 * 1024 * 1024)})
    lines += await asked(gateway, "POST", chat, body(), {"content-length": str(12 * 1024 * 1024 + 1)})
    lines += await asked(gateway, "POST", chat, body(), {"content-length": "x"})
    lines += await asked(gateway, "POST", chat, gzip.compress(body(), mtime=0), {"content-encoding": "gzip"})
    lines += await asked(gateway, "POST", chat, body(), {"content-encoding": "br"})
    lines += await asked(gateway, "POST", chat, body(), exchange=Exchange(objection=unknown_expectation("x")))
    lines += await asked(gateway, "POST", chat, body(), exchange=Exchange(arrived=False))
    lines += await asked(gateway, "POST", chat, body(), address="10.0.0.1")
    lines += await asked(gateway, "GET", "/health", address="10.0.0.1")
    lines += await asked(gateway, "GET", "/v1/models", headers={"x-forwarded-for": "10.0.0.1"})
    lines += await asked(gateway, "GET", "/v1/models", headers={"x-forwarded-proto": "https"})
    lines += await asked(gateway, "GET", "/v1/models", headers={"host": "evil.example"})
    lines += await asked(gateway, "GET", "/v1/models", headers={"origin": "https://page.example"})
    for method, path in itertools.product(
        ("GET", "HEAD", "POST", "OPTIONS", "BREW"),
        ("/", "/health", "/ping", "/ready", "/v1/models", "/v1/models/m", "/zz", "/version", "/hooks/git"),
    ):
        lines += await asked(gateway, method, path)
    lines.append(await counted(gateway))
    gateway.pool.close()
    lines += await asked(gateway, "GET", "/ready")
    lines += await asked(gateway, "POST", chat, body())
    return lines


async def counted(gateway: Gateway) -> str:
    """What the metrics say of all requests so far."""
    page = gateway.pool.metrics.page().decode()
    found = [
        line
        for line in page.splitlines()
        if "_created" not in line
        and line.startswith(("http_requests_total", "vllm:request_success", "reconciler_requests"))
    ]
    return f"counted: {len(found)} {digest(found)}"


async def with_keys(folder: Path) -> list[str]:
    gateway, lines = (
        Gateway(
            folder,
            auth="keys",
            keys=KEYS,
            origins=("https://page.example",),
            hosts=("own",),
            keep_alive="comment",
        ),
        [],
    )
    chat, good, few = "/v1/chat/completions", {"authorization": "Bearer good"}, {"x-api-key": "few"}
    lines += await asked(gateway, "POST", chat, body())
    lines += await asked(gateway, "POST", chat, body(), {"api-key": "bad"})
    lines += await asked(gateway, "POST", chat, body(), good)
    lines += await asked(gateway, "POST", chat, body(stream=True), good, story="slow")
    lines += await asked(gateway, "POST", chat, body(), few)
    lines += await asked(gateway, "GET", "/v1/models", b"", few)
    for _ in range(4):
        lines += await asked(
            gateway, "POST", "/v1/embeddings", orjson.dumps({"model": "n", "input": "x" * 3000}), few
        )
    lines += await asked(gateway, "POST", "/v1/messages", body(model="n", max_tokens=5), few)
    for path, headers in itertools.product(("/metrics", "/v1/models/m", "/health"), (good, few, {})):
        lines += await asked(gateway, "GET", path, b"", headers)
    page = {"origin": "https://page.example"}
    lines += await asked(
        gateway,
        "OPTIONS",
        chat,
        b"",
        {**page, "access-control-request-method": "POST", "access-control-request-headers": "x-a"},
    )
    lines += await asked(gateway, "OPTIONS", chat, b"", page)
    lines += await asked(gateway, "POST", chat, body(), {**page, **good})
    lines += await asked(gateway, "POST", chat, body(), page)
    lines += await asked(gateway, "POST", chat, body(), {**good, "origin": "https://other.example"})
    lines.append(told(gateway.pool.desk.snapshot()))
    return lines


async def with_webhook(folder: Path) -> list[str]:
    (folder / "secret").write_text(SECRET)
    gateway, lines = Gateway(folder, hook=HookSecret(file=str(folder / "secret"))), []
    gateway.logs.access = gateway.logs.content = None

    def signed(text: bytes, secret: str = SECRET) -> dict[str, str]:
        return {"x-signature": hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()}

    for text, headers in (
        (b"one", signed(b"one")), (b"one", signed(b"one")), (b"two", signed(b"two")), (b"one", signed(b"one")), (b"one", {}),
        (b"two", signed(b"two")), (b"one", signed(b"two")), (b"three", signed(b"three", "other")), (b"x" * 20, signed(b"x" * 20)),
        (b"two", {"content-length": str(1024 * 1024 + 1)}),
    ):  # fmt: skip
        lines += (await asked(gateway, "POST", "/hooks/git", text, headers))[:1]
        lines.append(f"  looks {told(gateway.looks)}")
        gateway.loop.now += 3
    gateway.loop.now += 3601
    lines += (await asked(gateway, "POST", "/hooks/git", b"one", signed(b"one")))[:1]
    lines += (await asked(gateway, "POST", "/hooks/git", b"one", breaks=True))[:1]
    for secret in ("x" * 15, "x" * 16, ""):
        (folder / "secret").write_text(secret)
        lines += (await asked(gateway, "POST", "/hooks/git", b"one", signed(b"one", secret)))[:1]
    lines.append(f"looks {told(gateway.looks)}")
    return lines


def run(history: Any, folder: Path) -> list[str]:
    with asyncio.Runner(loop_factory=Loop) as runner:
        lines: list[str] = runner.run(history(folder))
    return [line.replace(str(folder), "…") for line in lines]


def test_requests_are_answered_as_before(tmp_path: Path) -> None:
    compare(FOLDER / "application.txt", run(open_to_all, tmp_path))


def test_requests_with_keys_are_answered_as_before(tmp_path: Path) -> None:
    compare(FOLDER / "application_keys.txt", run(with_keys, tmp_path))


def test_webhooks_are_answered_as_before(tmp_path: Path) -> None:
    compare(FOLDER / "application_webhooks.txt", run(with_webhook, tmp_path))


async def test_parts_are_cut_as_before() -> None:
    lines = []
    for size in (0, 1, 65_535, 65_536, 65_537, 131_072, 131_073, 200_000):
        for stream in (False, True):
            sent: list[Any] = []

            async def send(message: Any, sent: list[Any] = sent) -> None:
                sent.append(message)

            await answers.send_json(send, 200 + stream, b"x" * size, [(b"a", b"b")])
            shown = [(len(each.get("body", b"")), each.get("more_body")) for each in sent[1:]]
            lines.append(f"{size}: {told(shown)} {told(sent[0])}")
    lines.append(short(answers.refuse(Objection(503, "full", "full", 3)).decode(), 200))
    compare(FOLDER / "parts.txt", lines)
