"""The use of keys at this gateway: for a restart, for the status of each ApiKey, and for Prometheus."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from reconciler.wire.keys import KeyUsage

from .ledger import DAY_SECONDS, Limit

KEYS_SHOWN_MAX = 1000
"""The most keys with metrics: every name is a separate series in Prometheus."""


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request. A prompt counts once, however many answers it has, as in the answer's own ``usage``."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    """The cached tokens of the prompt."""

    @property
    def total(self) -> int:
        return self.prompt + self.completion


class KeyCounts:
    """The counts of one key: since this process began, which never go down, and of the present day. ``requests`` counts
    ended requests; ``requests_today`` also running ones."""

    __slots__ = (
        "_other",
        "completion",
        "day",
        "last_used",
        "prompt",
        "refused",
        "requests",
        "requests_today",
        "tokens_today",
    )

    def __init__(self) -> None:
        self.requests = self.prompt = self.completion = 0
        self.refused: Counter[Limit] = Counter()
        self.day = self.requests_today = self.tokens_today = 0
        self.last_used = 0.0
        self._other = (0, 0, 0)
        """The previous counted day, its requests and its tokens."""

    def begin_day(self, wall: float) -> None:
        """Count for the day of the clock, as ``ledger.Account`` does."""
        day = int(wall // DAY_SECONDS)
        if day != self.day:
            before, requests, tokens = self._other
            self._other = (self.day, self.requests_today, self.tokens_today)
            self.day = day
            self.requests_today, self.tokens_today = (requests, tokens) if before == day else (0, 0)


class Book:
    def __init__(self) -> None:
        self._counts: dict[str, KeyCounts] = {}
        self.changes = 0
        """Grows with each change."""

    def began(self, name: str, wall: float) -> None:
        """Count a request for the day."""
        counts = self._of(name, wall)
        counts.requests_today += 1
        counts.last_used = wall

    def seen(self, name: str, wall: float) -> None:
        self._of(name, wall).last_used = wall

    def never_began(self, name: str, wall: float) -> None:
        """Take a request out of the day's count."""
        counts = self._of(name, wall)
        counts.requests_today -= counts.requests_today > 0  # it may be in the count of the day before

    def ended(self, name: str, usage: Usage, wall: float) -> None:
        counts = self._of(name, wall)
        counts.requests += 1
        counts.prompt += usage.prompt
        counts.completion += usage.completion
        counts.tokens_today += usage.total

    def refused(self, name: str, limit: Limit, wall: float) -> None:
        self._of(name, wall).refused[limit] += 1

    def keep(self, names: frozenset[str]) -> None:
        """Forget all other keys."""
        gone = self._counts.keys() - names
        for name in gone:
            del self._counts[name]
        self.changes += bool(gone)

    def snapshot(self) -> tuple[KeyUsage, ...]:
        """Return the day's counts of each key that was ever used."""
        return tuple(
            KeyUsage(name, each.day, each.tokens_today, each.requests_today, int(each.last_used))
            for name, each in sorted(self._counts.items())
        )

    def add(self, used: KeyUsage, ended: int = 0, prompt: int = 0, completion: int = 0) -> None:
        """Count what was used elsewhere, or before: of a day, and since the process began."""
        counts = self._counts.setdefault(used.name, KeyCounts())
        latest = max(used.day, counts.day)
        counts.begin_day(used.day * DAY_SECONDS)
        counts.tokens_today += used.tokens
        counts.requests_today += used.requests
        counts.begin_day(latest * DAY_SECONDS)
        counts.requests += ended
        counts.prompt += prompt
        counts.completion += completion
        counts.last_used = max(counts.last_used, used.last_used)
        self.changes += 1

    def counts(self) -> Mapping[str, KeyCounts]:
        return self._counts

    def _of(self, name: str, wall: float) -> KeyCounts:
        counts = self._counts.get(name)
        if counts is None:
            counts = self._counts[name] = KeyCounts()
        counts.begin_day(wall)
        self.changes += 1
        return counts


class KeyMetrics(Collector):
    """Collects the counts of keys at each scrape. ``wall`` returns seconds since the Unix epoch."""

    def __init__(self, book: Book, wall: Callable[[], float]) -> None:
        self._book = book
        self._wall = wall

    def collect(self) -> Iterable[Metric]:
        counter = functools.partial(CounterMetricFamily, labels=("key",))
        requests = counter("reconciler_key_requests", "Requests of a key that have ended.")
        refused = CounterMetricFamily(
            "reconciler_key_refused", "Requests of a key that were over a limit.", labels=("key", "limit")
        )
        prompt = counter("reconciler_key_prompt_tokens", "Tokens of a key's prompts.")
        completion = counter("reconciler_key_generation_tokens", "Tokens generated for a key.")
        today = GaugeMetricFamily(
            "reconciler_key_tokens_today", "Tokens of a key on this day (UTC).", labels=("key",)
        )
        day = int(self._wall() // DAY_SECONDS)
        for name, counts in sorted(self._book.counts().items())[:KEYS_SHOWN_MAX]:
            labels = (name,)
            requests.add_metric(labels, counts.requests)
            prompt.add_metric(labels, counts.prompt)
            completion.add_metric(labels, counts.completion)
            today.add_metric(labels, counts.tokens_today if counts.day == day else 0)
            for limit, number in counts.refused.items():
                refused.add_metric((name, limit.value), number)
        yield from (requests, refused, prompt, completion, today)
