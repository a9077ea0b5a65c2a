"""All paths of the gateway: the methods they take, and the dialect that their clients speak."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from starlette.routing import Route, compile_path
from starlette.types import ASGIApp

from reconciler.gateway.dialects import elsewhere
from reconciler.gateway.dialects.dialect import Dialect


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: str
    """``{name:path}`` stands for a name that may have slashes in it."""
    app: Callable[..., Any]
    """An ASGI application, or a function from a request to a response: the two that Starlette takes."""
    dialect: Dialect
    open: bool = False
    """True if it needs no key even while keys are on."""

    def matches(self, path: str) -> bool:
        """Return whether a request for ``path`` comes here, whatever its method."""
        return compile_path(self.path)[0].match(path) is not None


class Paths:
    """All endpoints. ``default`` is the dialect of unknown paths."""

    def __init__(self, endpoints: Sequence[Endpoint], default: Dialect) -> None:
        self._endpoints = endpoints
        self._default = default
        self._plain = {each.path: each.dialect for each in endpoints if "{" not in each.path}
        self._open = frozenset(each.path for each in endpoints if each.open)

    def routes(self) -> list[Route]:
        return [Route(each.path, each.app, methods=[each.method]) for each in self._endpoints]

    def plain(self) -> dict[tuple[str, str], ASGIApp]:
        """Return the endpoints that are ASGI applications and have no name in their path, by method and path. They need
        no search."""
        return {
            (each.method, each.path): each.app
            for each in self._endpoints
            if "{" not in each.path and not inspect.isroutine(each.app)
        }

    def names(self) -> frozenset[str]:
        return frozenset(each.path for each in self._endpoints)

    def open(self, path: str) -> bool:
        return path in self._open

    def dialect(self, path: str) -> Dialect:
        """Return the dialect that a client of ``path`` speaks. For an unknown path, this is the dialect of the path
        above it, or of the path that the client probably meant."""
        if path in self._plain:
            return self._plain[path]
        matching = [each.dialect for each in self._endpoints if each.matches(path)]
        above = sorted((plain for plain in self._plain if path.startswith(f"{plain}/")), key=len)
        found = [*matching, *(self._plain[plain] for plain in reversed(above))]
        meant = self._meant(path) if not found else None
        return found[0] if found else meant.dialect if meant is not None else self._default

    def methods(self, path: str) -> Sequence[str]:
        """Return the methods that ``path`` takes. Starlette answers HEAD wherever GET is taken."""
        methods = sorted({each.method for each in self._endpoints if each.matches(path)})
        return [taken for method in methods for taken in ([method, "HEAD"] if method == "GET" else [method])]

    def advice(self, path: str, address: str) -> str:
        """Return the message for an unknown path. ``address`` is the scheme and the host that the client uses."""
        row, meant = elsewhere.found(path), self._meant(path)
        if row is not None and (meant is None or path.startswith("/v1/") or elsewhere.is_named(path)):
            return f"{path}, of {row.whose}, is not served here: {row.instead}"
        if meant is None:
            there = [f"{each.method} {each.path}" for each in self._endpoints if "{" not in each.path]
            return f"no such endpoint: {path}; there are {', '.join(there)}"
        base = meant.dialect.base
        url = f"; the base URL of clients is {address}{base}" if meant.path.startswith(f"{base}/") else ""
        return f"no such endpoint: {path}; use {meant.method} {meant.path}{url}"

    def _meant(self, path: str) -> Endpoint | None:
        """Return the endpoint that a path would reach with another base URL: without ``/v1``, with it twice, with a
        slash at its end, below another folder."""
        asked = "/" + "/".join(part for part in path.split("/") if part)
        tails = {
            each.path.removeprefix("/v1"): each for each in reversed(self._endpoints) if "{" not in each.path
        }
        able = [tail for tail in tails if len(tail) > 1 and asked.endswith(tail)]
        return tails[max(able, key=len)] if able else None
