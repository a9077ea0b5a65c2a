"""The cluster's own metrics in Prometheus' text format, at the address where browsers get a page."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from reconciler.errors import ReconcilerError
from reconciler.wire import answers
from reconciler.wire.admin import ShowSeries

from .feed import Feed

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
UP = "reconciler_controller_up"
UP_TEXT = "1 while the controller answers the console; else there are no other series."


def is_scrape(connection: HTTPConnection) -> bool:
    """Return whether a request is for series: browsers ask for HTML, and Prometheus does not."""
    return bool(connection.scope["path"] == PATH) and "text/html" not in connection.headers.get("accept", "")


class Exposition:
    """ASGI: answers scrapes, and passes everything else on."""

    def __init__(self, app: ASGIApp, feed: Feed) -> None:
        self._app = app
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_scrape(HTTPConnection(scope)):
            await self._app(scope, receive, send)
            return
        try:
            body = await self._feed.ask(ShowSeries())
        except ReconcilerError:
            body = None
        headers = {"cache-control": "no-store", "vary": "accept"}
        await Response(written(body), 200, headers, CONTENT_TYPE)(scope, receive, send)


def written(body: answers.MetricFamilies | None) -> bytes:
    """Return the exposition of the controller's answer to ``ShowSeries``. ``body``: None without an answer."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Gauges(body))
    return generate_latest(registry)


class _Gauges(Collector):
    def __init__(self, body: answers.MetricFamilies | None) -> None:
        self._body = body

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(UP, UP_TEXT, value=self._body is not None)
        for each in self._body["families"] if self._body is not None else ():
            family = GaugeMetricFamily(each["name"], each["text"], labels=each["labels"])
            for labels, value in each["series"]:
                family.add_metric(labels, value)
            yield family
