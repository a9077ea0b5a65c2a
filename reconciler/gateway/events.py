"""What travels from a rank to a client, between the wire and the dialects."""

from __future__ import annotations

from reconciler.wire.generation import Accepted, Delta, Failed, Finished, Prefill, ToolCall

Event = Accepted | Prefill | Delta | ToolCall | Finished | Failed
"""What a link hears of one request."""

Answer = Accepted | Delta | ToolCall | Finished
"""What a dialect sees of it: ``Accepted`` first and once, ``Finished`` last, nothing twice."""

Said = tuple[int, Answer]
"""The index of a choice, and what it says."""
