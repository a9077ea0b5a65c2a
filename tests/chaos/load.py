"""Clients that never stop asking, and what became of each of their requests."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from dataclasses import dataclass, field

import openai

QUESTIONS = (
    "What is an epoch?",
    "Why does one dead rank end a group?",
    "Name the transports from the fastest down.",
    "What does a person have to do in Recovery?",
)
TOKENS_MAX = 32
REQUEST_SECONDS_MAX = 300.0
PAUSE_SECONDS = 0.3
"""Between two requests of one client: the machine is to break the cluster as well."""
RETRY_SECONDS_MAX = 10.0
"""A client waits no longer than that, whatever it is told to wait."""
UNSTREAMED = 4
"""Each client of which the number is divided by this takes its answers in one piece."""


@dataclass(slots=True)
class Request:
    """One request, from its first byte to its end. Times are of ``time.monotonic``."""

    begun_at: float
    first_at: float | None = None
    """When the first piece of the answer came; None as long as none did."""
    ended_at: float | None = None
    status: int = 0
    """Of HTTP; 0 where there was no answer at all."""
    code: str = ""
    """Of the error, such as ``model_loading``."""
    retry_after: float | None = None
    error: str = ""
    """Why it failed; empty for one that was answered to its end."""

    @property
    def answered(self) -> bool:
        """To its end."""
        return self.ended_at is not None and not self.error

    @property
    def put_off(self) -> bool:
        """Refused as a client can live with, before a piece of the answer: 503, and when to come again. Of a stream
        that had to wait, and was begun with comments, the same as its last event."""
        retryable = self.retry_after is not None if self.status == 503 else self.code == "model_loading"
        return bool(self.error) and self.first_at is None and retryable

    @property
    def broken(self) -> bool:
        """Failed otherwise than by being put off, though no piece of its answer had been sent."""
        return bool(self.error) and self.first_at is None and not self.put_off


@dataclass(slots=True)
class Load:
    """``clients`` clients of the official SDK, which does not try again by itself. In a thread of its own."""

    endpoint: str
    model: str
    clients: int = 4
    requests: list[Request] = field(default_factory=list)
    _ended: bool = False
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to ask."""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="load")
        self._thread.start()

    def end(self) -> None:
        """Begin no further request, and wait for the answers."""
        self._ended = True
        if self._thread is not None:
            self._thread.join(2 * REQUEST_SECONDS_MAX)

    def served_since(self, at: float) -> float | None:
        """When the first request that was begun after a moment got its first piece; None while none did."""
        times = (r.first_at for r in self.requests if r.begun_at >= at and r.first_at is not None)
        return min(times, default=None)

    async def _run(self) -> None:
        async with (
            openai.AsyncOpenAI(
                base_url=self.endpoint, api_key="none", max_retries=0, timeout=REQUEST_SECONDS_MAX
            ) as client,
            asyncio.TaskGroup() as clients,
        ):
            for number in range(self.clients):
                clients.create_task(self._ask(client, number))

    async def _ask(self, client: openai.AsyncOpenAI, number: int) -> None:
        streamed = number % UNSTREAMED != 0
        for question in itertools.islice(itertools.cycle(QUESTIONS), number, None):
            if self._ended:
                return
            request = Request(time.monotonic())
            self.requests.append(request)
            try:
                await (self._read_stream if streamed else self._read)(client, request, question)
            except openai.APIStatusError as error:
                _note(request, error)
                request.status = error.status_code
                retry_after = error.response.headers.get("retry-after", "")
                request.retry_after = (
                    float(retry_after) if retry_after.replace(".", "", 1).isdigit() else None
                )
            except openai.APIError as error:
                _note(request, error)
            request.ended_at = time.monotonic()
            await asyncio.sleep(min(request.retry_after or PAUSE_SECONDS, RETRY_SECONDS_MAX))

    async def _read_stream(self, client: openai.AsyncOpenAI, request: Request, question: str) -> None:
        stream = await client.chat.completions.create(
            model=self.model,
            messages=[{"role": "user", "content": question}],
            max_tokens=TOKENS_MAX,
            stream=True,
        )
        request.status = 200
        finished = ""
        async for chunk in stream:
            choice = chunk.choices[0] if chunk.choices else None
            if choice and choice.delta.content:
                request.first_at = request.first_at or time.monotonic()
            finished = (choice and choice.finish_reason) or finished
        if not finished:
            request.error = "the stream ended without a reason"

    async def _read(self, client: openai.AsyncOpenAI, request: Request, question: str) -> None:
        answer = await client.chat.completions.create(
            model=self.model, messages=[{"role": "user", "content": question}], max_tokens=TOKENS_MAX
        )
        request.status = 200
        request.first_at = time.monotonic()
        if not answer.choices[0].message.content:
            request.error = "the answer is empty"


def _note(request: Request, error: openai.APIError) -> None:
    request.code = str(error.code or "")
    request.error = f"{type(error).__name__}: {error.message}"
