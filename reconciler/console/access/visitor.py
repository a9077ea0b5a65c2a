"""The sender of a request to the console, with the rights of that person."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from reconciler.source.git.repository import Author

SCOPE_KEY = "visitor"


@dataclass(frozen=True, slots=True)
class Visitor:
    author: Callable[[], Author]
    """Returns the author of commits. It may ask git, which takes some milliseconds."""
    operate: bool
    """True if acts, such as to approve or to drain, are allowed."""
    key: str = ""
    """The name of the ApiKey; empty if none is needed."""
    secret: str = ""
    """The secret of that key, for requests to the gateway in its name. Never show it."""
    read_only: bool = False
    """True if the Gateway forbids every change in the console, with any key."""


def visitor_of(request: HTTPConnection) -> Visitor:
    """Return the sender of a request: every request that reaches a page has a visitor."""
    visitor: Visitor = request.scope[SCOPE_KEY]
    return visitor
