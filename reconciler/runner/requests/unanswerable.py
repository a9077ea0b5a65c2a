"""Reasons why a request cannot be answered."""

from __future__ import annotations

from reconciler.wire.generation import Failed


class Unanswerable(Exception):
    def __init__(self, code: str, text: str, parameter: str | None = None) -> None:
        super().__init__(text)
        self._fields = (code, text, parameter)

    def failed(self, request: str) -> Failed:
        return Failed(request, *self._fields)


def invalid(text: str, parameter: str) -> Unanswerable:
    """Return the error for a request that is wrong on every rank."""
    return Unanswerable("invalid_request", text, parameter)
