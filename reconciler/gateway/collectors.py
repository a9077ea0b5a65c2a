"""Metrics that are looked up at each scrape: groups, connections of clients, lines of the access log."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from reconciler.serving.limiter import ConnectionLimiter, End, Stage
from reconciler.wire.generation import KeptPrefixes

Seen = tuple[str, int, int, bool, KeptPrefixes | None]
"""A routed group: model, replica, epoch, whether it is connected, and its last report of its prefix cache."""


class Replicas(Collector):
    def __init__(self, seen: Callable[[], Iterable[Seen]]) -> None:
        self._seen = seen

    def collect(self) -> Iterable[Metric]:
        labels = ("model_name", "replica")
        gauge = functools.partial(GaugeMetricFamily, labels=labels)
        epoch = gauge("reconciler_replica_epoch", "Epoch of a replica's group.")
        up = gauge("reconciler_replica_connected", "1 when the gateway is connected to its group.")
        size = gauge("reconciler_prefix_cache_bytes", "Memory of the prefix cache on each rank.")
        room = gauge("reconciler_prefix_cache_max_bytes", "Its bound; 0 where nothing can be kept.")
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


class Connections(Collector):
    def __init__(self, limiter: ConnectionLimiter) -> None:
        self._limiter = limiter

    def collect(self) -> Iterable[Metric]:
        now = GaugeMetricFamily(
            "reconciler_connections", "Connections of clients, by what they are doing.", labels=("state",)
        )
        for stage in Stage:
            now.add_metric((stage.value,), self._limiter.count(stage))
        ended = CounterMetricFamily(
            "reconciler_connections_ended",
            "Connections that the gateway ended, by reason.",
            labels=("reason",),
        )
        for end in End:
            ended.add_metric((end.value,), self._limiter.ended[end])
        most = GaugeMetricFamily("reconciler_connections_max", "The most connections of clients.")
        most.add_metric((), self._limiter.limits.in_all)
        yield from (now, ended, most)


class AccessLog(Collector):
    def __init__(self, dropped: Callable[[], int]) -> None:
        self._dropped = dropped

    def collect(self) -> Iterable[Metric]:
        text = "Lines of the access log that were lost because the disk took none."
        yield CounterMetricFamily("reconciler_access_log_dropped_lines", text, value=self._dropped())
