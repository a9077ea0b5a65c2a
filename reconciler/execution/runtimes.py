"""Builds and removes the managed runtimes of nodes, and remembers where each is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from reconciler.remote.machines import Machines
from reconciler.state import NodeName
from reconciler.state.machine.runtimes import Runtimes, Tidied

AGAIN_SECONDS = 600.0
"""Time until the next look at a runtime that was in use."""
NEWS_SECONDS = 2.0
"""Time between two reports of progress."""


@dataclass(slots=True)
class Builder:
    """``clock`` gives seconds since the Unix epoch; ``on_news`` is called when there is new progress to show."""

    machines: Machines
    clock: Callable[[], float]
    on_news: Callable[[], None] = lambda: None
    _built: dict[NodeName, str] = field(default_factory=dict)
    _progress: dict[NodeName, str] = field(default_factory=dict)
    _tidied: dict[NodeName, Tidied] = field(default_factory=dict)
    _reported_at: float = 0.0

    @property
    def known(self) -> Runtimes:
        return Runtimes(self.machines.runtimes, dict(self._built), dict(self._progress), dict(self._tidied))

    async def build(self, name: NodeName) -> str:
        """Put the managed runtime on a node, and return a detail worth reporting. Raises as
        ``Machines.build_runtime``."""

        def tell(text: str) -> None:
            self._progress[name] = text
            now = self.clock()
            if abs(now - self._reported_at) >= NEWS_SECONDS:
                self._reported_at = now
                self.on_news()

        try:
            self._built[name] = await self.machines.build_runtime(name, tell)
        finally:
            self._progress.pop(name, None)
        return f"runtime {self._built[name]}"

    async def prune(self, name: NodeName, key: str) -> str:
        """Remove old runtimes of a node that has ``key`` now, and return a detail worth reporting. Raises as
        ``build``."""
        done = await self.machines.prune_runtimes(name)
        again = self.clock() + AGAIN_SECONDS if done.used else None
        self._tidied[name] = Tidied(key, again)
        return f"removed {', '.join(done.removed)}" if done.removed else ""
