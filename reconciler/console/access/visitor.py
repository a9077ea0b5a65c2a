"""Who has sent a request to the console, and what that person may do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from reconciler.source.git.repository import Author

SCOPE_KEY = "visitor"


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who has sent a request."""

    author: Callable[[], Author]
    """Whose name commits have. It may ask git, which takes some milliseconds."""
    operate: bool
    """Whether what is done at once, such as to approve or to drain, is allowed."""
    key: str = ""
    """The name of the ApiKey; empty where none is needed."""
    secret: str = ""
    """The secret of that key, for requests to the gateway in its name."""
    read_only: bool = False
    """Whether the Gateway forbids every change in the console, with whatever key."""


def visitor_of(request: HTTPConnection) -> Visitor:
    """Return who has sent a request: every one that reaches a page has a visitor."""
    visitor: Visitor = request.scope[SCOPE_KEY]
    return visitor


def person_of(request: HTTPConnection) -> Author:
    """Return whose name a commit has that a request asks for."""
    return visitor_of(request).author()


def may_operate(request: HTTPConnection) -> bool:
    """Return whether a request may change something; whoever may not is told by ``visitor_of(request).key`` which key it has."""
    return visitor_of(request).operate


def secret_of(request: HTTPConnection) -> str:
    """Return the secret to send to the gateway in the name of a request; empty where none is needed. Never to be shown."""
    return visitor_of(request).secret
