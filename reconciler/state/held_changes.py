"""Changes of single objects that sync windows keep out."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.errors import few_names
from reconciler.resources.operation import written_moment

from .identity import ObjectKey

OBJECTS_SHOWN = 4


@dataclass(frozen=True, slots=True)
class HeldChange:
    """A change of one object that windows keep out."""

    object: ObjectKey
    windows: tuple[str, ...]
    """The names of the windows that keep it out now; at least one."""
    until: float | None
    """Time at which it is let in, in seconds since the Unix epoch; None if no such time is near."""

    @property
    def end(self) -> str:
        return f" until {written_moment(self.until)}" if self.until is not None else ""

    @property
    def named(self) -> str:
        return f"sync window{'s' if len(self.windows) > 1 else ''} {' and '.join(self.windows)}"

    @property
    def command(self) -> str:
        """Return the command that lets it in now."""
        return f"reconciler override {' '.join(self.windows)} --reason WHY"

    @property
    def text(self) -> str:
        """Return the reason for the wait and the remedy, for people."""
        return f"its change is held by {self.named}{self.end}; to apply it now: {self.command}"


@dataclass(frozen=True, slots=True)
class HeldChanges:
    """The changes of the newest revision that windows keep out."""

    revision: str
    changes: tuple[HeldChange, ...]
    """The changes, in the order of kinds and names."""

    @property
    def lines(self) -> tuple[str, ...]:
        """Return one line for all changes that the same windows keep out until the same time, for people."""
        groups: dict[tuple[tuple[str, ...], float | None], list[HeldChange]] = {}
        for change in self.changes:
            groups.setdefault((change.windows, change.until), []).append(change)
        return tuple(
            f"{_named(group)} held by {group[0].named}{group[0].end}; to apply now: {group[0].command}"
            for group in groups.values()
        )

    @property
    def text(self) -> str:
        return "; ".join(self.lines)


def _named(group: list[HeldChange]) -> str:
    names = few_names([str(change.object) for change in group], OBJECTS_SHOWN)
    return f"{names} {'is' if len(group) == 1 else 'are'}"
