"""Decides which request goes next when a model's groups do not have room for all. Pure: no clock, no socket.

A group decodes at most ``Route.batch`` requests together. Further requests would wait there in order of arrival: one
client's single request behind another's forty. So they wait here, and three rules decide:

1. **Fewest first.** A waiting request of the client with the fewest in flight goes first.
2. **Short ones first.** A request for few tokens goes before others, as long as few short ones are in flight.
3. **Giving way.** If a group is full, a request may take the place of another. A short one takes the place of a long
one. Others take the place of a request whose client has at least two more in flight. A request whose client reads
nothing gives way to any other work of its group. A request that gives way waits for its next turn, and its answer
continues from the tokens so far. A group has to read these and the prompt again, so a request gives way only after some
tokens, and only so often.

The API key identifies a client, or, without keys, the address. Programs on one machine are then one client, and only
rule 2 applies among them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Protocol

from reconciler.gateway.errors import overloaded
from reconciler.wire.generation import Generate, Route

SHORT_TOKENS = 64
"""The most tokens of a short answer."""
SHORT_SHARE = 4
"""Short requests go before others in one in ``SHORT_SHARE`` places of a batch."""
TOKENS_PER_TURN = 16
"""The tokens that an answer gets in a place before it gives way, so that it progresses however many ask for its
place."""
GIVES_WAY_MAX = 32
"""The most times that one request gives way. Each time costs an attempt, and a request has twice as many attempts."""
COST_MAX = 4096
"""The most tokens that a group reads again because a request gives way, unless its client does not read. Reading a long
context again would take longer than the request that gets the place."""
WAITING_SHARE = 0.75
"""The share of the queue that one client may have."""
FIRST_LOOKS_SECONDS = 0.05
"""The interval at which the first waiting request checks whether another may give way by now."""
LOOKS_SECONDS = 5.0
"""The same interval for all others, which are woken when they may go."""
QUESTIONS_MAX = 4
"""The most questions that a group gets at a time: it reads them one after the other, next to the prompts of
requests."""


def queue_of(generate: Generate, route: Route) -> tuple[str, int]:
    """Return the queue of a request, and the number of its requests that a group has at a time.

    A request with computation takes a place in the batch. A question without computation waits for no answer, and no
    answer gives way to it.
    """
    return (route.model, route.batch) if generate.computes else (f"?{route.model}", QUESTIONS_MAX)


class Queued(Protocol):
    """A request that waits for a place in a batch or has one."""

    @property
    def tokens(self) -> int:
        """Return the number of tokens of its answer so far."""

    def wake(self) -> None:
        """Make it check soon whether it may go."""

    def give_way(self) -> None:
        """Stop its group, and wait for the next turn."""


@dataclasses.dataclass(eq=False, slots=True)
class Turn:
    """One request and its place."""

    model: str
    """The queue: a model's name, or that of questions about its prompts (``queue_of``)."""
    client: str
    short: bool
    request: Queued
    number: int
    """Grows with each request. A request that gives way keeps it, so that it goes before later ones of its client."""
    place: Hashable | None = None
    """The group that has it in its batch."""
    prompt: int = 0
    """The number of tokens of its prompt, once that is known."""
    tokens_before: int = 0
    """The number of tokens that it had when it got its place."""
    gave_way: int = 0
    unread: bool = False
    """True while its client reads nothing of the answer."""

    @property
    def may_give_way(self) -> bool:
        """Return whether it has enough tokens from this place, is cheap to read again, and has not given way too
        often."""
        got = self.request.tokens - self.tokens_before
        cheap = got >= TOKENS_PER_TURN and self.cost <= COST_MAX
        return self.gave_way < GIVES_WAY_MAX and (self.unread or cheap)

    @property
    def cost(self) -> int:
        """Return the number of tokens that a group has to read again after it gave way."""
        return self.prompt + self.request.tokens


class Turns:
    """All requests that wait for a place or have one. At most ``waiting_max`` may wait."""

    def __init__(self, waiting_max: int) -> None:
        self._waiting_max = waiting_max
        self._numbers = itertools.count()
        self._waiting: dict[Turn, None] = {}
        self._places: dict[Hashable, dict[Turn, None]] = {}
        """Those in flight by group."""
        self._in_flight: Counter[tuple[str, str]] = Counter()
        """By model and client."""
        self._short_in_flight: Counter[str] = Counter()
        self._batch: dict[str, int] = {}

    def turn(self, model: str, client: str, tokens_max: int | None, request: Queued) -> Turn:
        """Return the turn of a new request, which does not wait yet."""
        short = tokens_max is not None and tokens_max <= SHORT_TOKENS
        return Turn(model, client, short, request, next(self._numbers))

    def take(self, turn: Turn, place: Hashable, batch: int) -> float | None:
        """Give ``turn`` a place in a group with ``batch`` places, or let it wait. With ``batch`` 0, there is always
        room.

        Returns None if it has its place, else the seconds until the next look. Raises ``ApiError`` if too many wait
        already.
        """
        self._batch[turn.model] = batch
        if batch and not self._may_go(turn, place, batch):
            self._wait(turn)
            return FIRST_LOOKS_SECONDS if self._first(turn.model) is turn else LOOKS_SECONDS
        self._waiting.pop(turn, None)
        self._enter(turn, place)
        self._free_of_unread(place)
        self._wake_first(turn.model)
        return None

    def leave(self, turn: Turn) -> None:
        """Free the place of a request that has ended or no longer waits."""
        if turn.place is not None:
            self._exit(turn)
        elif turn in self._waiting:
            del self._waiting[turn]
        else:
            return
        self._wake_first(turn.model)

    def read(self, turn: Turn, unread: bool) -> None:
        """Note whether the client of a request reads its answer. If not, the request gives way to other work of its
        group."""
        turn.unread = unread
        if unread and turn.place is not None:
            self._free_of_unread(turn.place)
            self._wake_first(turn.model)

    def look_again(self) -> None:
        """Wake the first request of each model: there may be another group."""
        for model in {turn.model for turn in self._waiting}:
            self._wake_first(model)

    # --- rules ---------------------------------------------------------------------------------------

    def _may_go(self, turn: Turn, place: Hashable, batch: int) -> bool:
        taken = self._places.get(place, {})
        if len(taken) < batch:
            first = self._first(turn.model, turn)
            if first is not turn:
                first.request.wake()
            return first is turn
        other = self._gives_way(turn, taken)
        if other is None:
            return False
        self._give_way(other)
        return True

    def _free_of_unread(self, place: Hashable) -> None:
        """Make requests that nobody reads give way, if their group has other work."""
        here = self._places.get(place, {})
        if not all(turn.unread for turn in here):
            for turn in [turn for turn in here if turn.unread and turn.may_give_way]:
                self._give_way(turn)

    def _give_way(self, turn: Turn) -> None:
        self._exit(turn)
        turn.gave_way += 1
        turn.request.give_way()

    def _first(self, model: str, newcomer: Turn | None = None) -> Turn:
        """Return the first by rules 1 and 2, among the waiting requests and ``newcomer``."""
        waiting: Iterable[Turn] = (turn for turn in self._waiting if turn.model == model)
        among = waiting if newcomer is None else itertools.chain(waiting, (newcomer,))
        short = self._short_may_go_first(model)
        return min(among, key=lambda turn: (not (short and turn.short), self._count(turn), turn.number))

    def _gives_way(self, turn: Turn, taken: Iterable[Turn]) -> Turn | None:
        """Return the request that gives way to ``turn`` by rule 3: the cheapest to read again, of the client with the
        most."""
        able = [other for other in taken if other.may_give_way]
        unread = [other for other in able if other.unread]
        if unread:
            return unread[0]
        if turn.short and self._short_may_go_first(turn.model):
            able = [other for other in able if not other.short]
        else:
            able = [other for other in able if self._count(other) > self._count(turn) + 1]
        return min(able, key=lambda other: (-self._count(other), other.cost), default=None)

    def _short_may_go_first(self, model: str) -> bool:
        return self._short_in_flight[model] < max(1, self._batch.get(model, 0) // SHORT_SHARE)

    def _count(self, turn: Turn) -> int:
        return self._in_flight[turn.model, turn.client]

    # --- bookkeeping ---------------------------------------------------------------------------------

    def _wait(self, turn: Turn) -> None:
        """Let a request wait. A request with tokens always may: its work so far would be lost."""
        if turn in self._waiting:
            return
        if not turn.request.tokens:
            same = sum(1 for other in self._waiting if other.client == turn.client)
            if len(self._waiting) >= self._waiting_max or same >= self._waiting_max * WAITING_SHARE:
                raise overloaded("too many requests are waiting for a model already")
        self._waiting[turn] = None

    def _enter(self, turn: Turn, place: Hashable) -> None:
        self._places.setdefault(place, {})[turn] = None
        turn.place, turn.tokens_before = place, turn.request.tokens
        self._in_flight[turn.model, turn.client] += 1
        self._short_in_flight[turn.model] += turn.short

    def _exit(self, turn: Turn) -> None:
        taken = self._places[turn.place]
        del taken[turn]
        if not taken:
            del self._places[turn.place]
        turn.place = None
        self._in_flight[turn.model, turn.client] -= 1
        if not self._in_flight[turn.model, turn.client]:
            del self._in_flight[turn.model, turn.client]
        self._short_in_flight[turn.model] -= turn.short

    def _wake_first(self, model: str) -> None:
        if any(turn.model == model for turn in self._waiting):
            self._first(model).request.wake()
