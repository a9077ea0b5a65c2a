"""Points: every effect of the product, numbered in the order in which they come; and what is made of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

CRASH_BEFORE = "crash-before"
"""The controller ends right before the effect."""
CRASH_AFTER = "crash-after"
LOST = "timeout-not-done"
"""No answer comes, and nothing was done."""
UNANSWERED = "timeout-done"
"""No answer comes, and it was done."""
ERROR = "error"
"""It is refused: the disk is full."""
STALE = "stale"
"""What is observed next on that node is from before the effect."""
DIE_BEFORE = "agent-dies-before"
DIE_AFTER = "agent-dies-after"

REQUEST = (CRASH_BEFORE, CRASH_AFTER, LOST, UNANSWERED, ERROR, STALE)
START = (CRASH_BEFORE, CRASH_AFTER, LOST, UNANSWERED, ERROR)
ASK = (LOST, ERROR)
WRITE = (CRASH_BEFORE, CRASH_AFTER, ERROR)
"""Of the store and of the routes: the disk answers at once."""
AGENT = (DIE_BEFORE, DIE_AFTER, ERROR)
SIGNAL = (DIE_BEFORE, DIE_AFTER)
BOOKKEEPING = ("store: put_incidents",)
"""An incident is over only when it has not come back for a while."""


class Points:
    """``plan`` names the kind of fault at some points; ``chooser`` is asked at all others."""

    def __init__(
        self,
        plan: Mapping[int, str] | None = None,
        chooser: Callable[[int, str, tuple[str, ...]], str | None] | None = None,
    ) -> None:
        self._plan = dict(plan or {})
        self._chooser = chooser
        self.count = 0
        self.steps: list[str] = []
        """Labels, but for the bookkeeping that goes on in peace."""
        self.open = True
        """Whether faults may happen: not any more once the world is left in peace."""
        self.hit: list[tuple[int, str, str]] = []
        """Point, kind and label of each fault that happened."""

    def pass_by(self, label: str, kinds: tuple[str, ...]) -> str | None:
        """The next effect is about to be had: the kind of fault that befalls it, if one does."""
        self.count += 1
        if label not in BOOKKEEPING:
            self.steps.append(label)
        if not self.open:
            return None
        kind = self._plan.get(self.count)
        if kind is None and self._chooser is not None:
            kind = self._chooser(self.count, label, kinds)
        if kind is None or kind not in kinds:
            return None
        self.hit.append((self.count, kind, label))
        return kind
