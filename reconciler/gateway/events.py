"""Events of an answer, between the wire and the dialects."""

from __future__ import annotations

import dataclasses
from typing import Literal

from reconciler.wire.generation import Accepted, Delta, Failed, Finished, Prefill, Scored, ToolCall

Event = Accepted | Prefill | Scored | Delta | ToolCall | Finished | Failed
"""What a rank sends about one request."""


@dataclasses.dataclass(frozen=True, slots=True)
class Working:
    """From here on a group works on the answer: the first one, or one that continues it."""

    replica: int
    epoch: int
    nodes: tuple[str, ...]
    """Where its ranks are, in their order."""


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """From here on no group works on the answer, until the next ``Working``."""

    reason: Literal["group", "turn"]
    """There is no group that could, or others go first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """The group reads the prompt, and has read a part of it. That it has read all of it is not told: then comes text."""

    done: int
    """Tokens, of ``total``."""
    total: int


Answer = Accepted | Scored | Delta | ToolCall | Finished
"""What a dialect gets of it: ``Accepted`` first and once, ``Finished`` last, nothing twice but tokens of a prompt."""

Report = Working | Waiting | Reading
"""How an answer fares: a dialect gets that too where ``Parsed.reports`` asks for it, also before ``Accepted``."""

Part = Answer | Report

Piece = tuple[int, Part]
"""The index of a choice, and a part of the answer."""
