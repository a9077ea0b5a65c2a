"""Events of an answer, between the wire and the dialects."""

from __future__ import annotations

import dataclasses
from typing import Literal

from reconciler.wire.generation import Accepted, Delta, Failed, Finished, Prefill, Scored, ToolCall

Event = Accepted | Prefill | Scored | Delta | ToolCall | Finished | Failed
"""An event that a rank sends about one request."""


@dataclasses.dataclass(frozen=True, slots=True)
class Working:
    """From here on a group works on the answer: the first one, or one that continues it."""

    replica: int
    epoch: int
    nodes: tuple[str, ...]
    """The nodes of its ranks, in their order."""


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """From here on no group works on the answer, until the next ``Working``."""

    reason: Literal["group", "turn"]
    """There is no group for it, or others go first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """The group has read a part of the prompt. No event says that it has read all: text follows then."""

    done: int
    """Tokens, of ``total``."""
    total: int


Answer = Accepted | Scored | Delta | ToolCall | Finished
"""The events that a dialect gets: ``Accepted`` first and once, ``Finished`` last, none twice except tokens of a
prompt."""

Report = Working | Waiting | Reading
"""The progress of an answer. A dialect gets it if ``Parsed.reports`` asks for it, also before ``Accepted``."""

Part = Answer | Report

Piece = tuple[int, Part]
"""The index of a choice, and a part of the answer."""
