"""Events of an answer, between the wire and the dialects."""

from __future__ import annotations

from reconciler.wire.generation import Accepted, Delta, Failed, Finished, Prefill, ToolCall

Event = Accepted | Prefill | Delta | ToolCall | Finished | Failed
"""What a rank sends about one request."""

Answer = Accepted | Delta | ToolCall | Finished
"""What a dialect gets of it: ``Accepted`` first and once, ``Finished`` last, nothing twice."""

Piece = tuple[int, Answer]
"""The index of a choice, and a part of the answer."""
