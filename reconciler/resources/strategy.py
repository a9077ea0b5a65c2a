"""The strategy that replaces the groups of a deployment when its spec changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, StringConstraints, WithJsonSchema, field_validator

from .base import Seconds, Strict

_PERCENT = re.compile(r"^(100|[1-9]?[0-9])%$")
COUNT_MAX = 64


def _count(value: Any) -> Any:
    if type(value) is int and 0 <= value <= COUNT_MAX:
        return value
    if isinstance(value, str) and _PERCENT.match(value):
        return value
    raise ValueError(f'expected a whole number from 0 to {COUNT_MAX}, or a percentage such as "25%"')


Count = Annotated[
    int | str,
    BeforeValidator(_count),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": COUNT_MAX},
                {"type": "string", "pattern": _PERCENT.pattern},
            ]
        }
    ),
]
"""A number of replicas, or a percentage of those that the deployment asks for."""


def of_replicas(count: int | str, replicas: int, up: bool) -> int:
    """Return a count or percentage as a number of replicas. ``up``: round a percentage up."""
    if isinstance(count, int):
        return count
    share = int(count[:-1]) * replicas
    return -(-share // 100) if up else share // 100


def _time(value: str) -> str:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        raise ValueError('expected a time such as "2026-11-25T09:30:00Z"') from None
    return value


NONE = (0, "0%")


class Canary(Strict):
    """Replicas that are changed first, and have to serve for a while before the others follow."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "steps": 'use "replicas" and "serveFor"',
        "weight": 'use "replicas", which also takes a percentage',
        **dict.fromkeys(("pause", "duration", "for"), 'use "serveFor"'),
    }

    replicas: Count = 1
    """Number or percentage of the replicas that are changed first. A percentage is rounded up."""
    serve_for: Seconds = 600.0
    """Time for which each of them must have served before the others are changed."""
    resumed_at: Annotated[str, StringConstraints(max_length=64), AfterValidator(_time)] | None = None
    """Replicas that were changed before this time need not serve any longer. `reconciler rollout resume` sets it to the
    current time."""


class Strategy(Strict):
    """The replacement of groups when the spec changes. A change of the strategy itself restarts nothing."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "type": "groups are always replaced one after the other; all at once: maxUnavailable: 100%",
        "rollingUpdate": 'write its fields directly under "strategy"',
        **dict.fromkeys(("minReadySeconds", "stagger", "minHealthyTime"), 'use "pause"'),
        "partition": 'use "canary"',
        "maxParallel": 'use "maxUnavailable"',
        "autoRevert": "a change that does not come up is always taken back",
        **dict.fromkeys(
            ("progressDeadlineSeconds", "progressDeadline"), 'use "progressDeadline" under "health"'
        ),
    }

    max_surge: Count = 0
    """Most extra replicas while others are changed: a number, or a percentage, which is rounded up. If memory allows,
    an extra replica serves with the new spec before another is taken out of service, and ends after the change. If not,
    only `maxUnavailable` counts."""
    max_unavailable: Count = 1
    """Most replicas that may be out of service at a time: a number, or a percentage, which is rounded down and is at
    least one. Replicas that are out of service for another reason count too. With one replica, a change takes it out of
    service, unless an extra one serves meanwhile. 0 needs a `maxSurge`: then a change waits where there is no room for an
    extra replica."""
    pause: Seconds = 0.0
    """Time for which a changed replica must have served before the next one is changed."""
    order: Literal["highest-first", "lowest-first"] = "highest-first"
    """Order in which serving replicas are changed, by their numbers. Replicas that do not serve come before all
    others."""
    canary: Canary | None = None
    """Replicas that are changed first. Unset: all replicas follow one another."""

    @field_validator("max_unavailable")
    @classmethod
    def _something_gives(cls, value: int | str, info: Any) -> int | str:
        if value in NONE and info.data.get("max_surge") in NONE:
            raise ValueError(
                "expected at least one: with 0 nothing could ever be changed, unless maxSurge allows an extra replica"
            )
        return value

    def extra(self, replicas: int) -> int:
        """Return how many extra replicas there may be: none for a deployment without replicas."""
        return of_replicas(self.max_surge, replicas, up=True) if replicas else 0

    def least(self, replicas: int) -> int:
        """Return the least number of replicas that serve during a change."""
        allowed = of_replicas(self.max_unavailable, replicas, up=False)
        return max(0, replicas - (allowed if self.max_unavailable in NONE else max(1, allowed)))
