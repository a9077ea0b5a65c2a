"""A request of a key that runs."""

from __future__ import annotations

from reconciler.gateway.errors import ApiError
from reconciler.gateway.keys.usage import Usage


class Running:
    """A request whose tokens grow, and which nobody ends."""

    def __init__(self) -> None:
        self.so_far = Usage()

    def usage(self, answers: int) -> Usage:
        return self.so_far

    def end(self, error: ApiError) -> None:
        raise AssertionError("nobody ends it")
