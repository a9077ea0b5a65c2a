"""The gateway as one ASGI application: the paths of every dialect, the probes, and what stands before all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from .dialects.dialect import Generation, Lookup, Sources
from .dialects.table import DEFAULT, DIALECTS
from .health import Counted, Probes
from .hooks.receiver import PATH as HOOK
from .hooks.receiver import Receiver
from .http.authentication import Authentication, client_of
from .http.cross_origin import CrossOrigin
from .http.endpoint import GenerationEndpoint, LookupEndpoint
from .http.middleware import ErrorPages, NoForeignPages, RequestIds
from .http.paths import Endpoint, Paths
from .records.logs import Logs
from .records.middleware import Logged
from .routing.pool import Pool


def build_app(pool: Pool, sources: Sources, logs: Logs, announce: Callable[[float], None]) -> Starlette:
    """Return the endpoint over ``pool``, whose ``watch`` the caller keeps running. ``announce`` is called with the time
    when somebody says that there is something new in the remote repository."""
    hook = Receiver(lambda: pool.file.hook, announce, sources.now)
    hooks = Endpoint("POST", HOOK, hook.receive, DEFAULT, open=True)
    paths = Paths([*_endpoints(pool, sources), *_probes(pool), hooks], DEFAULT)
    pages = ErrorPages(paths)
    app = Starlette(
        routes=paths.routes(),
        middleware=[
            Middleware(Logged, logs=logs, client=client_of),
            Middleware(Counted, metrics=pool.metrics, paths=paths.names()),
            Middleware(RequestIds, paths=paths, new_id=sources.new_id),
            Middleware(CrossOrigin, origins=lambda: pool.file.origins),
            Middleware(
                NoForeignPages,
                paths=paths,
                hosts=lambda: pool.file.hosts,
                origins=lambda: pool.file.origins,
                keys=lambda: pool.file.ring is not None,
            ),
            Middleware(Authentication, paths=paths, ring=lambda: pool.file.ring, now=sources.now),
        ],
        exception_handlers={HTTPException: pages.refuse, Exception: pages.fail},
    )
    app.router.redirect_slashes = False
    return app


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
