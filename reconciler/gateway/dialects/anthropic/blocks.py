"""Turns the events of an answer into Anthropic's content blocks, one after the other. Pure.

A stream and a whole answer are both made of these steps, so that they say the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from reconciler.gateway.events import Part, Reading, Waiting, Working
from reconciler.wire.generation import Accepted, CallPart, Delta, Finished, Scored, ToolCall

THINKING, TEXT, TOOL_USE, SIGNATURE = "thinking", "text", "tool_use", "signature"
NO_SIGNATURE = "bm90IHNpZ25lZA=="
"""Clients send thinking back only if it has a signature, so it has one; nobody checks it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Begun:
    """A block begins."""

    index: int
    block: dict[str, Any]
    """The block without its content."""


@dataclasses.dataclass(frozen=True, slots=True)
class Grown:
    """The open block has more of something."""

    index: int
    what: str
    """``THINKING``, ``TEXT``, ``SIGNATURE``, or ``TOOL_USE`` for a fragment of JSON."""
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """The open block is over. ``withdrawn``: it turned out to be no call, and its text follows as text."""

    index: int
    withdrawn: bool = False


Step = Begun | Grown | Ended


class Blocks:
    """Turns the events of one answer into steps of its blocks.

    White space alone makes no block: Anthropic refuses it when a client sends it back. A call begins with its first
    argument: clients take one without any for a complete call.
    """

    def __init__(self, call_id: Callable[[], str], shows_thinking: bool) -> None:
        """``call_id`` draws the id of a call that has none. Unless ``shows_thinking``, thinking blocks are empty."""
        self._call_id = call_id
        self._shows_thinking = shows_thinking
        self._index = -1
        self._open = ""
        """The kind of the open block; empty if no block is open."""
        self._call = CallPart(-1)
        """The first part of the call that is being written; its block may not have begun."""
        self._space = ("", "")
        """White space that a block may begin with, and the kind of that block."""
        self._steps: list[Step] = []

    def take(self, answer: Part) -> Sequence[Step]:
        """Return the steps that follow from an event."""
        self._steps = []
        match answer:
            case Delta():
                self._take_delta(answer)
            case ToolCall():
                self._begin_call(CallPart(answer.index, answer.name, self._call_id(), answer.arguments))
            case Finished():
                self._end()
            case Accepted() | Scored() | Working() | Waiting() | Reading():
                pass
        return self._steps

    def _take_delta(self, delta: Delta) -> None:
        """If a step ends a call and has text, the text comes after that call and before the next one."""
        if delta.reasoning:
            self._say(THINKING, delta.reasoning)
        for part in delta.calls:
            if part.index == self._call.index and not part.name:
                self._continue(part)
        if delta.text:
            self._say(TEXT, delta.text)
        begun = [part for part in delta.calls if part.name]
        withdrawn = {part.index for part in delta.calls if part.withdrawn}
        for part in begun:
            if part.index not in withdrawn:
                fragments = [other.arguments for other in delta.calls if other.index == part.index]
                self._begin_call(dataclasses.replace(part, arguments="".join(fragments)))

    def _say(self, kind: str, text: str) -> None:
        if self._open != kind:
            before, held = self._space
            text = held + text if before == kind else text
            if not text.strip():
                self._space = (kind, text)
                return
            empty: dict[str, Any] = {"signature": ""} if kind == THINKING else {"citations": []}
            self._begin(kind, {"type": kind, kind: "", **empty})
        if self._shows_thinking or kind != THINKING:
            self._steps.append(Grown(self._index, kind, text))

    def _begin_call(self, part: CallPart) -> None:
        if self._open == TOOL_USE:
            self._end()
        self._call = part
        self._continue(part)

    def _continue(self, part: CallPart) -> None:
        if part.arguments:
            if self._open != TOOL_USE:
                call = self._call
                block = {"type": TOOL_USE, "id": call.id or self._call_id(), "name": call.name, "input": {}}
                self._begin(TOOL_USE, {**block, "caller": {"type": "direct"}})
            self._steps.append(Grown(self._index, TOOL_USE, part.arguments))
        if part.withdrawn:
            self._call = CallPart(-1)
            if self._open == TOOL_USE:
                self._end(withdrawn=True)

    def _begin(self, kind: str, block: dict[str, Any]) -> None:
        self._end()
        self._index += 1
        self._open = kind
        self._space = ("", "")
        self._steps.append(Begun(self._index, block))

    def _end(self, withdrawn: bool = False) -> None:
        if self._open == THINKING:
            self._steps.append(Grown(self._index, SIGNATURE, NO_SIGNATURE))
        if self._open:
            self._steps.append(Ended(self._index, withdrawn))
        self._open = ""
