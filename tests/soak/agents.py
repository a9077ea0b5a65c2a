"""Agents that talk, think and go away, and what became of their requests."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import openai

from tests.e2e.answers import Answer, stream, whole

from .conversations import Conversation, Request, projects

AGENTS = 16
THINK_SECONDS, THINK_SECONDS_MIN, THINK_SECONDS_MAX = 20.0, 5.0, 60.0
"""Between two turns of one agent: the mean at first, and within what that is kept."""
PACE_MIN, PACE_MAX = 0.7, 1.4
"""Within what the mean is changed at once."""
CHECKED = 20
"""Every so many answers that were not drawn, one is asked for again."""
REQUEST_SECONDS_MAX = 300.0


@dataclass(slots=True)
class Counts:
    """What became of the requests so far."""

    answered: int = 0
    cancelled: int = 0
    called: int = 0
    checked: int = 0
    tokens_asked: int = 0
    tokens_cached: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    """Of answers that were not the same when they were asked for again, what differs."""


@dataclass(slots=True)
class Agents:
    """In a thread of their own, from ``start`` to ``end``."""

    endpoint: str
    model: str
    seed: int
    counts: Counts = field(default_factory=Counts)
    think_seconds: float = THINK_SECONDS
    """The mean."""
    _greedy: int = 0
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to talk."""
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._run(),), name="agents"
        )
        self._thread.start()

    def end(self) -> None:
        """Begin no further turn, and wait for the answers."""
        self._loop.call_soon_threadsafe(self._over.set)
        if self._thread is not None:
            self._thread.join(2 * REQUEST_SECONDS_MAX)
        self._loop.close()

    @property
    def alive(self) -> bool:
        """Whether they talk."""
        return self._thread is not None and self._thread.is_alive()

    def ask(self, text: str) -> None:
        """Ask one more question, when all others are answered."""
        body = {"model": self.model, "messages": [{"role": "user", "content": text}], "max_tokens": 1}
        answer = asyncio.run(self._ask(body))
        if answer.error:
            self.counts.errors.append(answer.error)

    async def _ask(self, body: dict[str, Any]) -> Answer:
        """Ask on a connection of its own."""
        async with self._sdk() as sdk:
            return await whole(sdk, body)

    def pace(self, busy: float, wanted: float) -> None:
        """Have them think longer, or less, after the machine was that busy, so that it gets as busy as is wanted."""
        changed = self.think_seconds * min(PACE_MAX, max(PACE_MIN, busy / wanted))
        self.think_seconds = min(THINK_SECONDS_MAX, max(THINK_SECONDS_MIN, changed))

    async def _run(self) -> None:
        async with self._sdk() as sdk, asyncio.TaskGroup() as agents:
            for number in range(AGENTS):
                agents.create_task(self._talk(sdk, random.Random(f"{self.seed} {number}")))

    def _sdk(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(
            base_url=self.endpoint, api_key="none", max_retries=0, timeout=REQUEST_SECONDS_MAX
        )

    async def _talk(self, sdk: openai.AsyncOpenAI, rng: random.Random) -> None:
        about = projects()
        while not self._over.is_set():
            conversation = Conversation(rng, rng.choice(about))
            while not self._over.is_set() and not conversation.is_over:
                await self._think(rng)
                if not self._over.is_set():
                    await self._turn(sdk, conversation)

    async def _think(self, rng: random.Random) -> None:
        with suppress(TimeoutError):
            seconds = max(THINK_SECONDS_MIN, rng.expovariate(1 / self.think_seconds))
            await asyncio.wait_for(self._over.wait(), seconds)

    async def _turn(self, sdk: openai.AsyncOpenAI, conversation: Conversation) -> None:
        request = conversation.next(self.model)
        if request.cancelled_after is not None:
            await self._give_up(sdk, request)
        else:
            answer = await (stream if request.streamed else whole)(sdk, request.body)
            self._take(conversation, answer)
            if request.is_greedy and not answer.error:
                self._greedy += 1
                if self._greedy % CHECKED == 0:
                    await self._check(request, answer)

    async def _give_up(self, sdk: openai.AsyncOpenAI, request: Request) -> None:
        """Ask, and go away in the middle."""
        assert request.cancelled_after is not None
        enough = asyncio.Event()
        pieces = 0

        def piece() -> None:
            nonlocal pieces
            pieces += 1
            if pieces == request.cancelled_after:
                enough.set()

        asking = asyncio.create_task(stream(sdk, request.body, piece))
        if request.cancelled_after == 0:
            await asyncio.sleep(0.2)
        else:
            waiting = asyncio.create_task(enough.wait())
            await asyncio.wait((asking, waiting), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        if asking.cancel():
            self.counts.cancelled += 1
        await asyncio.wait((asking,))
        if not asking.cancelled() and asking.result().error:
            self.counts.errors.append(asking.result().error)

    def _take(self, conversation: Conversation, answer: Answer) -> None:
        counts = self.counts
        if answer.error or answer.finish is None:
            counts.errors.append(answer.error or "the answer ended without a reason")
            conversation.tokens = 1 << 30
            return
        counts.answered += 1
        counts.called += bool(answer.calls)
        counts.finished[answer.finish] += 1
        counts.tokens_asked += answer.prompt_tokens
        counts.tokens_cached += answer.cached_tokens
        conversation.answered(answer.text, answer.calls, sum(answer.used))

    async def _check(self, request: Request, answer: Answer) -> None:
        """Ask again, as somebody else would."""
        again = await self._ask(request.body)
        self.counts.checked += 1
        if again.error:
            self.counts.errors.append(again.error)
        elif _kept(again) != _kept(answer):
            self.counts.differing.append(f"{answer} and then {again}, asked {request.body}")


def _kept(answer: Answer) -> tuple[Any, ...]:
    """What must be the same whenever it is asked for. How much of a call was sent before it proved to be none, and was
    withdrawn, depends on how the events came together."""
    text, calls, finish = answer.said
    return text, [call for call in calls if _is_json(call[1])], finish, answer.used


def _is_json(arguments: str) -> bool:
    try:
        json.loads(arguments)
    except ValueError:
        return False
    return True
