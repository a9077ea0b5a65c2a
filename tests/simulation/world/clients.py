"""Clients of the endpoint: they send, try again as SDKs do, go away in the middle, and some send poison."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING

from reconciler.gateway.errors import ApiError
from reconciler.gateway.routing.runs import Runs
from reconciler.gateway.routing.suspects import QUARANTINED_SECONDS, SUSPECTED_SECONDS
from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire.generation import Delta, Generate

from .gateway import POISON, SimGateway
from .loop import Process

if TYPE_CHECKING:
    from .ranks import Rank
    from .world import World

RETRIES = 2
"""The SDK's own (``openai._constants.DEFAULT_MAX_RETRIES``)."""
RETRY_AFTER_MAX = 60.0
"""The SDK waits for no longer than this because a server says so."""
DEATHS_MAX = 2
"""As many groups may one prompt end before nobody sends it to a group any more."""
HIDDEN_SECONDS = 60.0
"""A fault of something else so soon before a death may be taken for its cause."""


class Clients:
    """Everybody who uses the endpoint of a world."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.seed = seed
        self.gateway = SimGateway(world)
        self.until = 0.0
        self.asking = 0
        """Questions without an answer yet, whether a request is being sent or waits to be sent again."""
        self.answered = 0
        self.refused: Counter[str] = Counter()
        """How often each prompt was refused for good."""
        self._deaths: dict[str, list[float]] = {}
        """When each poison ended a group, as far as that is remembered."""
        self._ends: list[float] = []
        """When a poison ended a group."""
        self._jumps: dict[str, int] = {}
        """How often the clock had been set by an hour when each poison ended a group."""
        self.process = Process("clients")

    def use(self, good: int, poisons: int, until: float) -> None:
        """Have so many clients that behave, and so many with a poison, ask until then."""
        self.until = until
        loop = self.world.loop
        for number in range(good):
            loop.spawn(self.process, self._ask_again_and_again(f"question {number}", number), "client")
        for number in range(poisons):
            prompt = f"{POISON} {number}"
            loop.spawn(self.process, self._ask_again_and_again(prompt, 100 + number), "client")

    def poisoned(self, rank: Rank, prompt: str) -> None:
        """A group is about to end by a prompt."""
        now, deaths = self.world.loop.now, self._deaths.setdefault(prompt, [])
        if deaths and now - deaths[-1] >= (
            QUARANTINED_SECONDS if len(deaths) >= DEATHS_MAX else SUSPECTED_SECONDS
        ):
            deaths.clear()  # whoever waits for so long is not remembered
        if self._jumps.get(prompt, self.world.jumps) != self.world.jumps:
            deaths.clear()  # by a clock that was set by an hour, so long has passed
        self._jumps[prompt] = self.world.jumps
        deaths.append(now)
        self._ends.append(now)
        beside = sum(at > deaths[0] - HIDDEN_SECONDS for at in self.world.disturbed)
        if len(deaths) > DEATHS_MAX + beside:
            self.world.oracles.violated(f"{prompt!r} ends {rank}, its group number {len(deaths)}")

    async def _ask_again_and_again(self, prompt: str, number: int) -> None:
        draw = random.Random(f"{self.seed} {number} {prompt}")
        while self.world.loop.time() < self.until:
            await asyncio.sleep(draw.uniform(0.5, 6.0))
            self.asking += 1
            await self._ask(prompt, draw.randrange(5, 40), draw)
            self.asking -= 1

    async def _ask(self, prompt: str, tokens: int, draw: random.Random) -> None:
        """One question, as the SDK asks it."""
        for attempt in range(RETRIES + 1):
            error = await self._try(prompt, tokens, gone_after=5.0 if draw.random() < 0.05 else None)
            if error is None:
                return
            self._judge(prompt, error)
            again = (
                error.retry
                if error.retry is not None
                else error.status in (408, 409, 429) or error.status >= 500
            )
            if not again:
                return
            hint = error.retry_after or 0
            await asyncio.sleep(hint if 0 < hint <= RETRY_AFTER_MAX else 0.5 * 2**attempt)

    async def _try(self, prompt: str, tokens: int, gone_after: float | None) -> ApiError | None:
        """Send it once; the error, if there is one."""
        pool = self.gateway.pool
        if pool is None or not pool.names():
            return None
        model = sorted(pool.names())[0]
        generate = Generate("", ({"role": "user", "content": prompt},), tokens_max=tokens)
        name, began = f"run-{next(self.world.numbers)}", self.world.loop.time()
        got: list[int] = []
        try:
            with Runs(pool, model, (generate,), name, name) as runs:
                while not runs.done:
                    for _, answer in await runs.next(5.0):
                        if isinstance(answer, Delta):
                            got += answer.tokens
                    if gone_after is not None and self.world.loop.time() - began > gone_after:
                        return None
        except ApiError as error:
            return error
        self.answered += 1
        if got != list(range(tokens)):
            self.world.oracles.violated(f"{name} asked for {tokens} tokens and got {got}")
        return None

    def _judge(self, prompt: str, error: ApiError) -> None:
        """A client that behaves is refused for nothing but that there is no group."""
        self.refused[prompt] += error.status == 422
        if error.status in (503, 404) or prompt.startswith(POISON):
            return
        since = self.world.loop.now - HIDDEN_SECONDS - SUSPECTED_SECONDS
        beside = sum(at > since for at in self.world.disturbed)
        ended = sum(at > since for at in self._ends)
        if error.status == 422 and beside and beside + ended > 1:
            return  # it was there when two groups ended, of which something else ended one
        if error.status == 500 and beside + ended >= Timing().losses_max:
            return  # it was there when so many ended, for whatever reason, and got no token meanwhile
        self.world.oracles.violated(f"{prompt!r} was answered {error.status} {error.code}: {error.text}")
