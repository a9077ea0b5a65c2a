"""The endpoint's paths, and what stands before all of them."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from .dialects.openai.chat import Chat
from .dialects.openai.completions import Completions
from .dialects.openai.model_list import ModelList, OneModel
from .health import Counted, Probes
from .http.exchange import Sources
from .http.middleware import NoForeignPages, RequestIds, http_error, unexpected
from .routing.pool import Pool


def build_app(pool: Pool, sources: Sources) -> Starlette:
    """The endpoint over ``pool``, whose ``watch`` the caller keeps running."""
    probes = Probes(pool)
    routes = [
        Route("/health", probes.health, methods=["GET"]),
        Route("/ready", probes.ready, methods=["GET"]),
        Route("/metrics", probes.metrics, methods=["GET"]),
        Route("/v1/models", ModelList(pool), methods=["GET"]),
        Route("/v1/models/{name:path}", OneModel(pool), methods=["GET"]),
        Route("/v1/chat/completions", Chat(pool, sources), methods=["POST"]),
        Route("/v1/completions", Completions(pool, sources), methods=["POST"]),
    ]
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(Counted, metrics=pool.metrics, paths=frozenset(route.path for route in routes)),
            Middleware(RequestIds, new_id=sources.new_id),
            Middleware(NoForeignPages),
        ],
        exception_handlers={HTTPException: http_error, Exception: unexpected},
    )
    app.router.redirect_slashes = False
    return app
