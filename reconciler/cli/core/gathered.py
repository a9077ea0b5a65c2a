"""Options that several commands have, passed to each as one value."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

Decorator = Callable[[Any], Any]


def gathered(into: str, make: Callable[..., Any], *options: Decorator) -> Decorator:
    """Add options, in the order of the help; the command gets what ``make`` makes of their values, as ``into``."""
    names = tuple(signature(make).parameters)

    def decorate(command: Callable[..., Any]) -> Any:
        @wraps(command)
        def with_one(*arguments: Any, **given: Any) -> Any:
            own = {name: given.pop(name) for name in names if name in given}
            return command(*arguments, **{into: make(**own)}, **given)

        decorated: Any = with_one
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate
