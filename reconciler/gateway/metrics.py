"""Metrics of the gateway, for Prometheus.

Names and meanings are vLLM's if it has them (vllm/v1/metrics/loggers.py), so that its dashboards show this endpoint
too. Names of further metrics begin with ``reconciler``. Times are as the gateway sees them. The label ``model_name`` is
the deployment's name, whatever alias a client used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from enum import Enum
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from reconciler.wire.figures import ModelFigures
from reconciler.wire.generation import Accepted, Delta, Finished, Prefill

from .collectors import Replicas, Seen
from .events import Event

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_FIRST_TOKEN = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
    1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
_PER_TOKEN = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
    1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_TOTAL = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0,
    120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
_TOKENS = tuple(float(m * 10**e) for e in range(7) for m in (1, 2, 5))
"""vLLM's buckets, so that quantiles of both can be compared."""

_LABELS = ("model_name",)


class _Stage(Enum):
    __hash__ = object.__hash__  # the library's is in Python, and each request asks for it eight times
    WAITING = "waiting"
    """Held by the gateway or queued by a group."""
    RUNNING = "running"
    """A group reads its prompt or decodes it."""


class _Times:
    """A histogram of one model. Adding to it costs less than to the library's, which takes a lock three times: a
    request adds to eight histograms, and each token to one."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    @property
    def counts(self) -> tuple[int, ...]:
        """Return the number of values up to each bound, and beyond the last."""
        return tuple(self._counts)

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def add_to(self, family: HistogramMetricFamily, model: str) -> None:
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        buckets = list(zip(names, map(float, accumulate(self._counts)), strict=True))
        family.add_metric((model,), buckets, self._sum)


class ModelCounts:
    def __init__(self, families: _Families, model: str) -> None:
        self.stages = dict.fromkeys(_Stage, 0)
        families.running.labels(model).set_function(lambda: self.stages[_Stage.RUNNING])
        families.waiting.labels(model).set_function(lambda: self.stages[_Stage.WAITING])
        self.prompt_tokens: int = 0
        self.generation_tokens: int = 0
        self.cache_queries: int = 0
        self.cache_hits: int = 0
        self.first_token: _Times = _Times(_FIRST_TOKEN)
        self.inter_token: _Times = _Times(_PER_TOKEN)
        self.per_token: _Times = _Times(_PER_TOKEN)
        self.latency: _Times = _Times(_TOTAL)
        self.queue: _Times = _Times(_TOTAL)
        self.prefill: _Times = _Times(_TOTAL)
        self.decode: _Times = _Times(_TOTAL)
        self.request_prompt: _Times = _Times(_TOKENS)
        self.request_generation: _Times = _Times(_TOKENS)
        self.continued = families.continued.labels(model)
        self.gave_way = families.gave_way.labels(model)
        self.ended = dict.fromkeys(_ENDS, 0)


_ENDS = ("stop", "length", "repetition", "abort", "error")
"""vLLM's ``finished_reason``; an answer that ends with tool calls counts as ``stop`` there."""


class _Families:
    """Every metric of requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *more: str) -> Counter:
            return Counter(name, text, (*_LABELS, *more), registry=registry)

        self.running = Gauge(
            "vllm:num_requests_running", "Requests being read or decoded.", _LABELS, registry=registry
        )
        self.waiting = Gauge(
            "vllm:num_requests_waiting", "Requests held or queued.", _LABELS, registry=registry
        )
        self.continued = counter(
            "reconciler_requests_continued", "Answers that went on with another group after a loss."
        )
        self.gave_way = counter(
            "reconciler_requests_gave_way",
            "Times that an answer gave its place in a batch to another request.",
        )


class Timeline:
    """Measures the stages of one request. ``now`` is in seconds of the event loop's clock."""

    def __init__(self, counts: ModelCounts, now: float) -> None:
        self._counts = counts
        self._began = self._entered = now
        self._stage = _Stage.WAITING
        self._waited = 0.0
        self._prompt: int | None = None
        self.cached_tokens = 0
        """Cached tokens of the prompt; known at the end."""
        self.tokens = 0
        """The number of generated tokens."""
        self.reading: tuple[int, int] | None = None
        """The number of read tokens of the prompt, and of all its tokens. None before the first part, once all are read,
        and while the request waits."""
        self._first_at: float | None = None
        self._last_at = now
        counts.stages[_Stage.WAITING] += 1

    @property
    def prompt_tokens(self) -> int:
        """Return the length of the prompt; 0 while no group has read it."""
        return self._prompt or 0

    @property
    def first_token(self) -> float | None:
        """Return the seconds from the request to its first token; None if there was none."""
        return None if self._first_at is None else self._first_at - self._began

    def on_event(self, event: Event, now: float) -> None:
        """Count an event of a backend."""
        match event:
            case Delta():
                self.on_tokens(len(event.tokens), now)
            case Prefill():
                self.reading = (event.done, event.total) if event.done < event.total else None
                self._enter(_Stage.RUNNING, now)
            case Accepted() if self._prompt is None and event.prompt_tokens:
                self._count_prompt(len(event.prompt_tokens))
            case Finished():
                if self._prompt is None:  # only the end has the tokens of texts whose vectors were wanted
                    self._count_prompt(event.prompt_tokens)
                unseen = max(0, event.completion_tokens - self.tokens)
                self.tokens += unseen
                self._counts.generation_tokens += unseen
                self._counts.cache_queries += event.prompt_tokens
                self._counts.cache_hits += event.cached_tokens
                self.cached_tokens = event.cached_tokens
            case _:
                pass  # a tool call comes with its tokens, and ``Run`` decides the meaning of a failure

    def _count_prompt(self, tokens: int) -> None:
        self._prompt = tokens
        self._counts.prompt_tokens += tokens
        self._counts.request_prompt.observe(tokens)

    def on_tokens(self, tokens: int, now: float) -> None:
        """Count the tokens of a ``Delta``; there may be none."""
        if self._stage is not _Stage.RUNNING:
            self._enter(_Stage.RUNNING, now)
        if not tokens:
            return
        if self._first_at is None:
            self._first_at = now
            self._counts.first_token.observe(now - self._began)
            self._counts.prefill.observe(now - self._entered)
        else:
            self._counts.inter_token.observe((now - self._last_at) / tokens)
        self._last_at = now
        self.tokens += tokens
        self._counts.generation_tokens += tokens

    def wait(self, now: float) -> None:
        """Note that the request waits again: its group is gone or has refused it."""
        if self._stage is _Stage.RUNNING:
            self._counts.continued.inc()
        self._enter(_Stage.WAITING, now)

    def give_way(self, now: float) -> None:
        """Note that the request waits again: another request has its place."""
        self._counts.gave_way.inc()
        self._enter(_Stage.WAITING, now)

    def _enter(self, stage: _Stage, now: float) -> None:
        if stage is self._stage:
            return
        if self._stage is _Stage.WAITING:
            self._waited += now - self._entered
        else:
            self.reading = None  # the next group reads the prompt again
        self._counts.stages[self._stage] -= 1
        self._counts.stages[stage] += 1
        self._stage, self._entered = stage, now

    def end(self, reason: str, now: float) -> None:
        """Count the request. ``reason``: a finish reason, ``abort`` for a client that went away, or ``error``."""
        counts = self._counts
        if self._stage is _Stage.WAITING:
            self._waited += now - self._entered
        counts.stages[self._stage] -= 1
        counts.ended["stop" if reason == "tool_calls" else reason] += 1
        counts.latency.observe(now - self._began)
        counts.queue.observe(self._waited)
        counts.request_generation.observe(self.tokens)
        if self._first_at is not None:
            counts.decode.observe(self._last_at - self._first_at)
            if self.tokens > 1:
                counts.per_token.observe((self._last_at - self._first_at) / (self.tokens - 1))


_COUNTERS: tuple[tuple[str, str, Callable[[ModelCounts], int]], ...] = (
    ("vllm:prompt_tokens", "Tokens of accepted prompts.", lambda of: of.prompt_tokens),
    ("vllm:generation_tokens", "Tokens generated.", lambda of: of.generation_tokens),
    (
        "vllm:prefix_cache_queries",
        "Tokens of prompts that were looked for in the prefix cache.",
        lambda of: of.cache_queries,
    ),
    (
        "vllm:prefix_cache_hits",
        "Those that were there, and were not read again.",
        lambda of: of.cache_hits,
    ),
)


_HISTOGRAMS: tuple[tuple[str, str, Callable[[ModelCounts], _Times]], ...] = (
    ("vllm:time_to_first_token_seconds", "From the request to its first token.", lambda of: of.first_token),
    ("vllm:inter_token_latency_seconds", "Between tokens of one answer.", lambda of: of.inter_token),
    (
        "vllm:request_time_per_output_token_seconds",
        "Mean time of an answer's tokens after its first.",
        lambda of: of.per_token,
    ),
    ("vllm:e2e_request_latency_seconds", "From the request to its end.", lambda of: of.latency),
    ("vllm:request_queue_time_seconds", "Held or queued, all together.", lambda of: of.queue),
    (
        "vllm:request_prefill_time_seconds",
        "From the end of waiting to the first token.",
        lambda of: of.prefill,
    ),
    ("vllm:request_decode_time_seconds", "From the first token to the last.", lambda of: of.decode),
    ("vllm:request_prompt_tokens", "Tokens of each prompt.", lambda of: of.request_prompt),
    ("vllm:request_generation_tokens", "Tokens of each answer.", lambda of: of.request_generation),
)


class Metrics(Collector):
    """The registry of one gateway process, and the counts of its requests, which cost less here than in the library.

    ``replicas`` returns every routed group at each scrape.
    """

    def __init__(self, replicas: Callable[[], Iterable[Seen]]) -> None:
        self._registry = CollectorRegistry()
        self._families = _Families(self._registry)
        self._models: dict[str, ModelCounts] = {}
        self._registry.register(self)
        self._registry.register(Replicas(replicas))
        ProcessCollector(registry=self._registry)
        self._http = Counter(
            "http_requests",
            "Requests by path, method and class of status.",
            ("handler", "method", "status"),
            registry=self._registry,
        )
        self._answers: dict[tuple[str, str, str], Counter] = {}
        """By the values of their labels: the library looks for them under a lock."""

    def add(self, collector: Collector) -> None:
        """Show a collector's metrics on the page at each scrape."""
        self._registry.register(collector)

    def collect(self) -> Iterable[Metric]:
        for name, text, number in _COUNTERS:
            counter = CounterMetricFamily(name, text, labels=_LABELS)
            for model, counts in self._models.items():
                counter.add_metric((model,), number(counts))
            yield counter
        ended = CounterMetricFamily(
            "vllm:request_success", "Requests by how they ended.", labels=(*_LABELS, "finished_reason")
        )
        for model, counts in self._models.items():
            for reason, times in counts.ended.items():
                ended.add_metric((model, reason), times)
        yield ended
        for name, text, histogram in _HISTOGRAMS:
            family = HistogramMetricFamily(name, text, labels=_LABELS)
            for model, counts in self._models.items():
                histogram(counts).add_to(family, model)
            yield family

    def begin(self, model: str, now: float) -> Timeline:
        counts = self._models.get(model)
        if counts is None:
            counts = self._models[model] = ModelCounts(self._families, model)
        return Timeline(counts, now)

    def answered(self, handler: str, method: str, status: int) -> None:
        """Count an HTTP answer. ``handler`` is one of the known paths, and ``method`` one of HTTP's methods, never a
        client's invention."""
        answer = (handler, method, f"{status // 100}xx")
        counter = self._answers.get(answer)
        if counter is None:
            counter = self._answers[answer] = self._http.labels(*answer)
        counter.inc()

    def figures(self) -> tuple[tuple[float, ...], tuple[ModelFigures, ...]]:
        """Return the bounds of the times to first tokens, and the counts for plots of the last hours."""
        return _FIRST_TOKEN, tuple(
            ModelFigures(
                model,
                counts.stages[_Stage.RUNNING],
                counts.stages[_Stage.WAITING],
                counts.ended["error"],
                counts.first_token.counts,
                counts.generation_tokens,
            )
            for model, counts in self._models.items()
        )

    def page(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
