"""The input and output of every act, and the common parts of acts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reconciler.errors import Invalid
from reconciler.sandbox.world import changes
from reconciler.sandbox.world.state import World


@dataclass(frozen=True, slots=True)
class Moment:
    """The further inputs of a change."""

    now: float
    boot_id: str
    """Id for a boot that begins now."""


@dataclass(frozen=True, slots=True)
class Result:
    """The next world, and a message."""

    world: World
    text: str
    kills: str = ""
    """Machine whose ranks are killed."""


Act = Callable[[World, Sequence[str], Moment, bool], Result]
"""A function of the world, the words after the command, and whether to undo it."""


def flag(name: str, on: str, off: str) -> Act:
    """Return an act that sets or clears a field of ``Faults``."""

    def act(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
        return Result(
            changes.fault(world, words[0], **{name: not undo}), f"{words[0]}: {off if undo else on}"
        )

    return act


def number(words: Sequence[str], otherwise: float) -> float:
    if not words:
        return otherwise
    try:
        return float(words[0])
    except ValueError:
        raise Invalid(f"expected a number, got {words[0]!r}") from None
