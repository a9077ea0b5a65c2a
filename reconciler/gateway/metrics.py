"""Metrics of the gateway, for Prometheus.

Names and meanings are vLLM's where it has them (vllm/v1/metrics/loggers.py), so that its dashboards show this
endpoint too; what only this product has begins with ``reconciler``. Times are as the gateway sees them.
The label ``model_name`` is the deployment's name, whatever alias a client used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from reconciler.wire.generation import Accepted, Delta, Finished, KeptPrefixes, Prefill

from .admission import Admission, End, Stage
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
"""vLLM's buckets: quantiles of both can be compared."""

_LABELS = ("model_name",)


class _Stage(Enum):
    __hash__ = object.__hash__  # the library's is written in Python, and each request asks for it eight times
    WAITING = "waiting"
    """Held by the gateway or queued by a group."""
    RUNNING = "running"
    """A group reads its prompt or decodes it."""


class _Times:
    """A histogram of one model, cheaper to add to than the library's, which asks for a lock three times: a request adds to
    eight of them, and each token to one."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def add_to(self, family: HistogramMetricFamily, model: str) -> None:
        """Add all that was counted."""
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        buckets = list(zip(names, map(float, accumulate(self._counts)), strict=True))
        family.add_metric((model,), buckets, self._sum)


class ModelCounts:
    """The series of one model."""

    def __init__(self, families: _Families, model: str) -> None:
        self.stages = dict.fromkeys(_Stage, 0)
        families.running.labels(model).set_function(lambda: self.stages[_Stage.RUNNING])
        families.waiting.labels(model).set_function(lambda: self.stages[_Stage.WAITING])
        self.prompt_tokens = families.prompt_tokens.labels(model)
        self.generation_tokens = 0
        self.cache_queries = families.cache_queries.labels(model)
        self.cache_hits = families.cache_hits.labels(model)
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
        self.ended = {reason: families.ended.labels(model, reason) for reason in _ENDS}


_ENDS = ("stop", "length", "abort", "error")
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
        self.prompt_tokens = counter("vllm:prompt_tokens", "Tokens of accepted prompts.")
        self.cache_queries = counter(
            "vllm:prefix_cache_queries", "Tokens of prompts that were looked for in the prefix cache."
        )
        self.cache_hits = counter("vllm:prefix_cache_hits", "Those that were there, and were not read again.")
        self.ended = counter("vllm:request_success", "Requests by how they ended.", "finished_reason")
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
        self._cached = 0
        self._tokens = 0
        self._first_at: float | None = None
        self._last_at = now
        counts.stages[_Stage.WAITING] += 1

    @property
    def prompt_tokens(self) -> int:
        """Return the length of the prompt; 0 while no group has read it."""
        return self._prompt or 0

    @property
    def cached_tokens(self) -> int:
        """Return how many tokens of the prompt were there already; known at the end."""
        return self._cached

    @property
    def tokens(self) -> int:
        """Return how many tokens were generated."""
        return self._tokens

    @property
    def first_token(self) -> float | None:
        """Return how many seconds after the request its first token came; None if none did."""
        return None if self._first_at is None else self._first_at - self._began

    def on_event(self, event: Event, now: float) -> None:
        """Count an event of a backend."""
        match event:
            case Delta():
                self._take(len(event.tokens), now)
            case Prefill():
                self._enter(_Stage.RUNNING, now)
            case Accepted() if self._prompt is None and event.prompt_tokens:
                self._count_prompt(len(event.prompt_tokens))
            case Finished():
                if self._prompt is None:  # only its end tells the tokens of texts whose vectors were wanted
                    self._count_prompt(event.prompt_tokens)
                self._count_tokens(max(0, event.completion_tokens - self._tokens))
                self._counts.cache_queries.inc(event.prompt_tokens)
                self._counts.cache_hits.inc(event.cached_tokens)
                self._cached = event.cached_tokens
            case _:
                pass  # a tool call comes with its tokens, and ``Run`` decides what a failure means

    def _count_prompt(self, tokens: int) -> None:
        self._prompt = tokens
        self._counts.prompt_tokens.inc(tokens)
        self._counts.request_prompt.observe(tokens)

    def _take(self, tokens: int, now: float) -> None:
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
        self._count_tokens(tokens)

    def _count_tokens(self, tokens: int) -> None:
        if tokens:
            self._tokens += tokens
            self._counts.generation_tokens += tokens

    def wait(self, now: float) -> None:
        """Note that the request waits again: its group is gone or has refused it."""
        if self._stage is _Stage.RUNNING:
            self._counts.continued.inc()
        self._enter(_Stage.WAITING, now)

    def give_way(self, now: float) -> None:
        """Note that the request waits again: another one has its place."""
        self._counts.gave_way.inc()
        self._enter(_Stage.WAITING, now)

    def _enter(self, stage: _Stage, now: float) -> None:
        if stage is self._stage:
            return
        if self._stage is _Stage.WAITING:
            self._waited += now - self._entered
        self._counts.stages[self._stage] -= 1
        self._counts.stages[stage] += 1
        self._stage, self._entered = stage, now

    def end(self, reason: str, now: float) -> None:
        """Count the request. ``reason``: a finish reason, ``abort`` for a client that went away, or ``error``."""
        counts = self._counts
        if self._stage is _Stage.WAITING:
            self._waited += now - self._entered
        counts.stages[self._stage] -= 1
        counts.ended["stop" if reason == "tool_calls" else reason].inc()
        counts.latency.observe(now - self._began)
        counts.queue.observe(self._waited)
        counts.request_generation.observe(self._tokens)
        if self._first_at is not None:
            counts.decode.observe(self._last_at - self._first_at)
            if self._tokens > 1:
                counts.per_token.observe((self._last_at - self._first_at) / (self._tokens - 1))


Seen = tuple[str, int, int, bool, KeptPrefixes | None]
"""A routed group: model, replica, epoch, whether it is connected, and what it last said of its prefix cache."""


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


class _Counted(Collector):
    """Collects what is counted here rather than by the library."""

    def __init__(self, models: Mapping[str, ModelCounts]) -> None:
        self._models = models

    def collect(self) -> Iterable[Metric]:
        tokens = CounterMetricFamily("vllm:generation_tokens", "Tokens generated.", labels=_LABELS)
        for model, counts in self._models.items():
            tokens.add_metric((model,), counts.generation_tokens)
        yield tokens
        for name, text, times in _HISTOGRAMS:
            family = HistogramMetricFamily(name, text, labels=_LABELS)
            for model, counts in self._models.items():
                times(counts).add_to(family, model)
            yield family


class _Replicas(Collector):
    """Collects the routed groups at each scrape."""

    def __init__(self, seen: Callable[[], Iterable[Seen]]) -> None:
        self._seen = seen

    def collect(self) -> Iterable[Metric]:
        labels = ("model_name", "replica")
        epoch = GaugeMetricFamily("reconciler_replica_epoch", "Epoch of a replica's group.", labels=labels)
        up = GaugeMetricFamily(
            "reconciler_replica_connected", "1 when the gateway is connected to its group.", labels=labels
        )
        size = GaugeMetricFamily(
            "reconciler_prefix_cache_bytes", "Memory of the prefix cache on each rank.", labels=labels
        )
        room = GaugeMetricFamily(
            "reconciler_prefix_cache_max_bytes", "Its bound; 0 where nothing can be kept.", labels=labels
        )
        evicted = CounterMetricFamily(
            "reconciler_prefix_cache_evictions", "Entries that made room for others.", labels=labels
        )
        for model, replica, number, connected, kept in self._seen():
            names = (model, str(replica))
            epoch.add_metric(names, number)
            up.add_metric(names, connected)
            if kept is not None:
                size.add_metric(names, kept.bytes)
                room.add_metric(names, kept.bytes_max)
                evicted.add_metric(names, kept.evictions)
        yield from (epoch, up, size, room, evicted)


class _Connections(Collector):
    """Collects the connections of clients at each scrape."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def collect(self) -> Iterable[Metric]:
        now = GaugeMetricFamily(
            "reconciler_connections", "Connections of clients, by what they are doing.", labels=("state",)
        )
        for stage in Stage:
            now.add_metric((stage.value,), self._admission.count(stage))
        ended = CounterMetricFamily(
            "reconciler_connections_ended",
            "Connections that the gateway ended, by reason.",
            labels=("reason",),
        )
        for end in End:
            ended.add_metric((end.value,), self._admission.ended[end])
        most = GaugeMetricFamily("reconciler_connections_max", "The most connections of clients.")
        most.add_metric((), self._admission.limits.in_all)
        yield from (now, ended, most)


class _AccessLog(Collector):
    """Collects at each scrape how many lines the access log has lost."""

    def __init__(self, dropped: Callable[[], int]) -> None:
        self._dropped = dropped

    def collect(self) -> Iterable[Metric]:
        text = "Lines of the access log that were lost because the disk took none."
        yield CounterMetricFamily("reconciler_access_log_dropped_lines", text, value=self._dropped())


class Metrics:
    """The registry of one gateway process.

    ``replicas`` returns every routed group at each scrape.
    """

    def __init__(self, replicas: Callable[[], Iterable[Seen]]) -> None:
        self._registry = CollectorRegistry()
        self._families = _Families(self._registry)
        self._models: dict[str, ModelCounts] = {}
        self._registry.register(_Counted(self._models))
        self._registry.register(_Replicas(replicas))
        ProcessCollector(registry=self._registry)
        self._http = Counter(
            "http_requests",
            "Requests by path, method and class of status.",
            ("handler", "method", "status"),
            registry=self._registry,
        )
        self._answers: dict[tuple[str, str, str], Counter] = {}
        """By the values of their labels: the library looks for them under a lock."""

    def show(self, admission: Admission, lines_dropped: Callable[[], int]) -> None:
        """Have the page show clients' connections too, and what the access log has lost."""
        self.add(_Connections(admission))
        self.add(_AccessLog(lines_dropped))

    def add(self, collector: Collector) -> None:
        """Have the page show what a collector has at each scrape."""
        self._registry.register(collector)

    def begin(self, model: str, now: float) -> Timeline:
        """Start to measure a request for a routed model."""
        counts = self._models.get(model)
        if counts is None:
            counts = self._models[model] = ModelCounts(self._families, model)
        return Timeline(counts, now)

    def answered(self, handler: str, method: str, status: int) -> None:
        """Count an HTTP answer. ``handler`` is one of the known paths, and ``method`` one that HTTP has; never what a client
        made up."""
        answer = (handler, method, f"{status // 100}xx")
        counter = self._answers.get(answer)
        if counter is None:
            counter = self._answers[answer] = self._http.labels(*answer)
        counter.inc()

    def page(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
