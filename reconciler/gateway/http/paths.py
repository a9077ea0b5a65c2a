"""All paths of the gateway: the methods they take, and the dialect that their clients speak."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from starlette.routing import Route, compile_path

from reconciler.gateway.dialects.dialect import Dialect


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one path."""

    method: str
    path: str
    """``{name:path}`` stands for a name that may have slashes in it."""
    app: Callable[..., Any]
    """What Starlette takes: an ASGI application, or a function from a request to a response."""
    dialect: Dialect
    open: bool = False
    """Whether it needs no key, also where keys are on."""

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
        """Return the endpoints as Starlette's routes."""
        return [Route(each.path, each.app, methods=[each.method]) for each in self._endpoints]

    def names(self) -> frozenset[str]:
        """Return the paths as the table has them."""
        return frozenset(each.path for each in self._endpoints)

    def open(self, path: str) -> bool:
        """Return whether ``path`` needs no key."""
        return path in self._open

    def dialect(self, path: str) -> Dialect:
        """Return the dialect that a client of ``path`` speaks: of a path that is none, the one of what it is below."""
        if path in self._plain:
            return self._plain[path]
        matching = [each.dialect for each in self._endpoints if each.matches(path)]
        above = sorted((plain for plain in self._plain if path.startswith(f"{plain}/")), key=len)
        return next(iter([*matching, *(self._plain[plain] for plain in reversed(above))]), self._default)

    def methods(self, path: str) -> Sequence[str]:
        """Return the methods that ``path`` takes. Starlette answers HEAD wherever GET is taken."""
        methods = sorted({each.method for each in self._endpoints if each.matches(path)})
        return [taken for method in methods for taken in ([method, "HEAD"] if method == "GET" else [method])]

    def listed(self) -> Sequence[str]:
        """Return all endpoints, such as ``GET /v1/models``, without those whose path takes a name."""
        return [f"{each.method} {each.path}" for each in self._endpoints if "{" not in each.path]
