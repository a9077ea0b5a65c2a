"""The paths of the gateway: those of every dialect, and the probes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import orjson
from starlette.requests import Request
from starlette.responses import Response

from reconciler import __version__

from .dialects.dialect import Generation, Lookup, Sources
from .dialects.table import DEFAULT, DIALECTS
from .errors import metrics_forbidden
from .front import Front
from .hooks.receiver import PATH as HOOK
from .hooks.receiver import Receiver
from .http.authentication import caller_of
from .http.endpoint import GenerationEndpoint, LookupEndpoint
from .http.paths import Endpoint, Paths
from .metrics import CONTENT_TYPE
from .records.logs import Logs
from .routing.pool import Pool


def build_app(pool: Pool, sources: Sources, logs: Logs, announce: Callable[[float], None]) -> Front:
    """Return the endpoint over ``pool``, whose ``watch`` the caller keeps running. ``announce`` is called with the
    time when a forge reports news in the remote repository."""
    hook = Receiver(lambda: pool.file.current.hook, announce, sources.now)
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


class Probes:
    """``/``, ``/health``, ``/ping``, ``/ready`` and ``/metrics``: for clients that check the server, load balancers,
    scripts and Prometheus. ``/ping`` is SageMaker's name for ``/health``; vLLM has it too."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def root(self, request: Request) -> Response:
        """Answer with the name of this product. Claude Code and Ollama's clients send HEAD to check the server."""
        return _json(200, {"name": "reconciler", "version": __version__, "models": "/v1/models"})

    async def health(self, request: Request) -> Response:
        """Answer 200 as long as this process runs, whatever the state of the groups."""
        return _json(200, {"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Answer 200 when at least one model can be served now, else 503.

        The body has the number of connected groups of each model.
        """
        self._pool.refresh()
        models = self._pool.connected()
        if self._pool.closing:
            return _json(503, {"status": "stopping", "models": models})
        if not any(models.values()):
            return _json(503, {"status": "no group is connected", "models": models})
        return _json(200, {"status": "ready", "models": models})

    async def metrics(self, request: Request) -> Response:
        """Answer with all metrics in Prometheus' text format. With keys on, this needs a key that may read them."""
        key = caller_of(request.scope).key
        if key is not None and not key.metrics:
            rendered = DEFAULT.rendered(metrics_forbidden(key.name))
            return Response(rendered.body, rendered.status, media_type="application/json")
        return Response(self._pool.metrics.page(), headers={"content-type": CONTENT_TYPE})


def _json(status: int, body: object) -> Response:
    return Response(orjson.dumps(body), status, media_type="application/json")
