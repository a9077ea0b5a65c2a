"""One request in the access log: its client, its path, sizes, times, and its end. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson
from starlette.types import Scope

from reconciler.gateway.errors import ApiError
from reconciler.gateway.routing.runs import Runs

SCOPE_KEY = "entry"
"""The key of a request's ``Entry`` in its scope, if there is a log."""
NAME_CHARACTERS = 256
"""The most characters of a path or of a model's name: clients make them up."""


@dataclasses.dataclass(slots=True)
class Entry:
    """One request. Each part of the gateway fills in the fields that it knows."""

    at: float
    """The time when it came, in seconds since the Unix epoch."""
    method: str
    path: str
    request: str = ""
    """The id in ``x-request-id``, as the incident log has it."""
    client: str = ""
    """The name of the key, or the address."""
    status: int = 0
    """0: it ended without an answer."""
    model: str = ""
    runs: Runs | None = None
    """The generation of the answer; None for other requests."""
    error: str = ""
    """The code of the error that ended it."""
    received: int = 0
    """Bytes of the body."""
    sent: int = 0
    """Bytes of the answer's body."""
    passed: Callable[[bytes], None] | None = None
    """Notes a part of the answer's body."""

    def line(self, first_byte: float | None, seconds: float) -> bytes:
        """Return the line, once the request is over. Times are in seconds from its beginning."""
        fields: dict[str, Any] = {
            "time": stamp(self.at),
            "request": self.request,
            "client": self.client,
            "method": self.method,
            "path": self.path[:NAME_CHARACTERS],
            "status": self.status,
            "received": self.received,
            "sent": self.sent,
            "first_byte": _rounded(first_byte),
            "seconds": _rounded(seconds),
        }
        if self.runs is not None:
            tally = self.runs.tally()
            fields |= {
                "model": self.model,
                "prompt_tokens": tally.prompt,
                "cached_tokens": tally.cached,
                "completion_tokens": tally.completion,
                "first_token": _rounded(tally.first_token),
                "end": self.error or tally.end,
                "groups": [f"{replica}/{epoch}" for replica, epoch in tally.groups],
            }
        elif self.error:
            fields["end"] = self.error
        return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def note_runs(scope: Scope, model: str, runs: Runs) -> None:
    entry: Entry | None = scope.get(SCOPE_KEY)
    if entry is not None:
        entry.model, entry.runs = model[:NAME_CHARACTERS], runs


def noting(scope: Scope) -> Callable[[bytes], None] | None:
    """Return the function that notes parts of an answer that skip ``send``; None without a log."""
    entry: Entry | None = scope.get(SCOPE_KEY)
    return entry.passed if entry is not None else None


def note_error(scope: Scope, error: ApiError) -> None:
    entry: Entry | None = scope.get(SCOPE_KEY)
    if entry is not None:
        entry.error = error.code or error.kind


def stamp(at: float) -> str:
    """Return a time in the format of the product's other logs: RFC 3339 in UTC, with milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
