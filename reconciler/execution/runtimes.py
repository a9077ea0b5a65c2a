"""Builds and removes the managed runtimes of nodes, and remembers where each is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from reconciler.errors import Refused
from reconciler.state import BuildRuntime, NodeName, PruneRuntimes
from reconciler.state.runtimes import Runtimes, Tidied

AGAIN_SECONDS = 600.0
"""After which a runtime that was in use is looked at again."""
NEWS_SECONDS = 2.0
"""Between two times that progress is told."""
Tell = Callable[[str], None]


class Removed(Protocol):
    """What became of old runtimes."""

    @property
    def removed(self) -> tuple[str, ...]: ...
    @property
    def used(self) -> tuple[str, ...]: ...


async def _no_build(name: NodeName, tell: Tell) -> str:
    raise Refused("NotManaged", f"the runtime of {name} is its owner's")


async def _no_prune(name: NodeName) -> Removed:
    raise Refused("NotManaged", f"the runtime of {name} is its owner's")


def _nothing() -> None:
    """Nobody waits for news."""


@dataclass(slots=True)
class Builder:
    """``wanted``: as ``Runtimes.wanted``; ``on_news`` is called when there is something new to show."""

    wanted: Mapping[str, str] = field(default_factory=dict)
    build_on: Callable[[NodeName, Tell], Awaitable[str]] = _no_build
    """Has the runtime of this version on a node; its name."""
    prune_on: Callable[[NodeName], Awaitable[Removed]] = _no_prune
    clock: Callable[[], float] = float
    on_news: Callable[[], None] = _nothing
    _built: dict[NodeName, str] = field(default_factory=dict)
    _told: dict[NodeName, str] = field(default_factory=dict)
    _tidied: dict[NodeName, Tidied] = field(default_factory=dict)
    _said_at: float = 0.0

    @property
    def known(self) -> Runtimes:
        """As of now."""
        return Runtimes(self.wanted, dict(self._built), dict(self._told), dict(self._tidied))

    async def carry_out(self, step: BuildRuntime | PruneRuntimes) -> str:
        """Do one step; a detail worth telling. Raises ``Refused``, ``Unreachable`` and ``Silent``."""
        match step:
            case BuildRuntime():
                return await self._build(step.node)
            case PruneRuntimes():
                return await self._prune(step.node, step.runtime)

    async def _build(self, name: NodeName) -> str:

        def tell(text: str) -> None:
            self._told[name] = text
            now = self.clock()
            if abs(now - self._said_at) >= NEWS_SECONDS:
                self._said_at = now
                self.on_news()

        try:
            self._built[name] = await self.build_on(name, tell)
        finally:
            self._told.pop(name, None)
        return f"runtime {self._built[name]}"

    async def _prune(self, name: NodeName, key: str) -> str:
        done = await self.prune_on(name)
        again = self.clock() + AGAIN_SECONDS if done.used else None
        self._tidied[name] = Tidied(key, again)
        return f"removed {', '.join(done.removed)}" if done.removed else ""
