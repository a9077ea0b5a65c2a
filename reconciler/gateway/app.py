"""The paths of the gateway: those of every dialect, and the probes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .dialects.dialect import Generation, Lookup, Sources
from .dialects.table import DEFAULT, DIALECTS
from .front import Front
from .health import Probes
from .hooks.receiver import PATH as HOOK
from .hooks.receiver import Receiver
from .http.endpoint import GenerationEndpoint, LookupEndpoint
from .http.paths import Endpoint, Paths
from .records.logs import Logs
from .routing.pool import Pool


def build_app(pool: Pool, sources: Sources, logs: Logs, announce: Callable[[float], None]) -> Front:
    """Return the endpoint over ``pool``, whose ``watch`` the caller keeps running. ``announce`` is called with the
    time when a forge reports news in the remote repository."""
    hook = Receiver(lambda: pool.file.hook, announce, sources.now)
    hooks = Endpoint("POST", HOOK, hook.receive, DEFAULT, open=True)
    paths = Paths([*_endpoints(pool, sources), *_probes(pool), hooks], DEFAULT)
    return Front(paths, pool.file, pool.metrics, logs, sources.new_id, sources.now)


def _probes(pool: Pool) -> Iterator[Endpoint]:
    probes = Probes(pool)
    yield Endpoint("GET", "/", probes.root, DEFAULT, open=True)
    yield Endpoint("GET", "/health", probes.health, DEFAULT, open=True)
    yield Endpoint("GET", "/ping", probes.health, DEFAULT, open=True)
    yield Endpoint("POST", "/ping", probes.health, DEFAULT, open=True)
    yield Endpoint("GET", "/ready", probes.ready, DEFAULT, open=True)
    yield Endpoint("GET", "/metrics", probes.metrics, DEFAULT)


def _endpoints(pool: Pool, sources: Sources) -> Iterator[Endpoint]:
    for dialect in DIALECTS:
        for row in dialect.paths:
            match row:
                case Generation():
                    app = GenerationEndpoint(dialect, row, pool, sources)
                    yield Endpoint(row.method, row.path, app, dialect)
                case Lookup():
                    yield Endpoint(row.method, row.path, LookupEndpoint(dialect, row, pool), dialect)
