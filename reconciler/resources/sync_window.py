"""The kind SyncWindow: times in which changes of manifests come into force, or do not.

``admission/windows.py`` applies them to changes.
"""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from .base import NAMES, Manifest, Seconds, Strict
from .schedules import Cron, TimeZone, next_begin
from .verbs import WINDOWED

SECONDS_MIN = 60.0
BEGINNINGS_MAX = 200
"""Most beginnings to follow, each of which may begin before the one before it ends."""


def _long_enough(seconds: float) -> float:
    if seconds < SECONDS_MIN:
        raise ValueError("expected a duration of at least 1m: schedules have minutes")
    return seconds


if TYPE_CHECKING:
    _Windowed = str
else:
    _Windowed = Literal[WINDOWED]
_Patterns = Annotated[tuple[Annotated[str, NAMES.field()], ...], Field(max_length=256)]


class SyncWindowSpec(Strict):
    """Times and objects for which changes come into force (`allow`) or wait (`deny`)."""

    kind: Literal["allow", "deny"]
    """`deny`: within the window, changes wait. `allow`: changes wait while no `allow` window for the object is open.
    `deny` wins."""
    schedule: Cron
    """When the window begins: the five fields of cron, in the time of `timeZone`."""
    duration: Annotated[Seconds, AfterValidator(_long_enough)]
    """Length of the window, at least `1m`. Elapsed time counts, also when clocks change meanwhile."""
    time_zone: TimeZone = "UTC"
    """The IANA name of the time zone of `schedule`."""
    deployments: _Patterns = ()
    """Deployments that the window is for, by name; `*` and `?` stand for other characters. Changes of the Models that
    they use count too."""
    nodes: _Patterns = ()
    """Nodes that the window is for, by name, likewise."""
    selector: dict[str, str] = Field(default_factory=dict)
    """Labels: the window is also for the deployments and nodes that have them all. Without `deployments`, `nodes` and
    `selector`, it is for everything."""
    operations: tuple[_Windowed, ...] = ()
    """Operations on its objects that are refused while it keeps changes out. By default none; `stop` is never
    refused."""

    @property
    def everything(self) -> bool:
        """Return whether it is for all objects of all kinds."""
        return not (self.deployments or self.nodes or self.selector)

    def names(self, manifest: Manifest) -> bool:
        """Return whether it is for an object: by its name, by its labels, or because it is for everything."""
        if self.everything:
            return True
        patterns = {"ModelDeployment": self.deployments, "Node": self.nodes}.get(manifest.kind)
        if patterns is None:
            return False
        labels = manifest.metadata.labels
        labelled = bool(self.selector) and all(
            labels.get(key) == value for key, value in self.selector.items()
        )
        return labelled or any(fnmatchcase(manifest.metadata.name, pattern) for pattern in patterns)

    def next_begin(self, after: float) -> float:
        """Return when it begins next, later than ``after``, in seconds since the Unix epoch; infinite if never."""
        return next_begin(self.schedule, self.time_zone, after)

    def is_open(self, now: float) -> bool:
        """Return whether the window is open at ``now``."""
        return self.next_begin(now - self.duration) <= now

    def end(self, now: float) -> float | None:
        """Return when it ends; None if it is not open, infinity if it begins again and again before that.

        At most ``BEGINNINGS_MAX`` beginnings are followed: a window that begins every minute for two is always open.
        """
        if not self.is_open(now):
            return None
        begun = self.next_begin(now - self.duration)
        return _last_end(self.schedule, self.time_zone, self.duration, begun)


@lru_cache(maxsize=256)
def _last_end(schedule: str, time_zone: str, duration: float, begun: float) -> float:
    """Return when an open window ends, which may begin again before that; infinity if it always does."""
    spec = SyncWindowSpec.model_construct(
        kind="deny", schedule=schedule, time_zone=time_zone, duration=duration
    )
    for _ in range(BEGINNINGS_MAX):
        later = spec.next_begin(begun)
        if later > begun + duration:
            return begun + duration
        begun = later
    return math.inf


class SyncWindow(Manifest):
    """Times in which changes of manifests come into force, or wait."""

    kind: Literal["SyncWindow"]
    spec: SyncWindowSpec
