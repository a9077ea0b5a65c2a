"""``/``, ``/health``, ``/ping``, ``/ready`` and ``/metrics``: for clients that check the server, load balancers,
scripts and Prometheus. ``/ping`` is SageMaker's name for ``/health``; vLLM has it too."""

from __future__ import annotations

import orjson
from starlette.requests import Request
from starlette.responses import Response

from reconciler import __version__

from .dialects.table import DEFAULT
from .errors import metrics_forbidden
from .http.authentication import caller_of
from .metrics import CONTENT_TYPE
from .routing.pool import Pool


class Probes:
    """Endpoints about the gateway itself."""

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
