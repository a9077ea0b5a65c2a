"""Turns the events of a rank into the items of an answer, and into the events about them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reconciler.gateway.events import Part, Reading, Waiting, Working
from reconciler.wire.generation import Accepted, CallPart, Delta, Finished, Scored, TokenLogprobs, ToolCall

from .output_items import BROKEN, DONE, Call, Event, Item, Message, Reasoning
from .request import ResponseRequest


class Output:
    """The items so far. At most one of them is being written. Another kind of text, or another call, ends it."""

    def __init__(self, request: ResponseRequest, new_id: Callable[[], str]) -> None:
        self._request = request
        self._new_id = new_id
        self._told = 0
        """Items that were announced to the client."""
        self._open: Item | None = None
        self._ended: list[Mapping[str, Any]] = []
        self._call = -1
        """The index of the last call."""
        self._blank = ""
        """White space that may turn out to stand between two calls, where nobody wants to read it."""
        self._blank_before_call = ""
        self._unplaced: list[TokenLogprobs] = []
        """Of tokens without text so far."""
        self._reasoning = _ReasoningTokens()
        self._calls = 0
        self._messages = 0
        self.finished: Finished | None = None

    @property
    def items(self) -> list[Mapping[str, Any]]:
        """Return the items, including the unfinished one."""
        return self._ended if self._open is None else [*self._ended, self._open.shaped(BROKEN)]

    @property
    def reasoning_tokens(self) -> int:
        """Return how many tokens of the answer are reasoning."""
        return self._reasoning.count

    def nothing(self) -> Event | None:
        """Return an event that adds nothing to the unfinished item; None if there is none."""
        return self._open.more("") if self._open is not None else None

    def take(self, answer: Part) -> Iterator[Event]:
        """Take the next part of the answer. The caller must read all events."""
        match answer:
            case Delta():
                yield from self._delta(answer)
            case ToolCall():
                if answer.index > self._call:  # a continued answer repeats its earlier calls
                    part = CallPart(answer.index, answer.name, "call_" + self._new_id(), answer.arguments)
                    yield from self._part(part)
            case Finished():
                yield from self._finish(answer)
            case Accepted() | Scored() | Working() | Waiting() | Reading():
                return

    def _delta(self, delta: Delta) -> Iterator[Event]:
        self._reasoning.take(delta)
        self._unplaced.extend(delta.logprobs)
        if delta.reasoning:
            self._unplaced.clear()
            yield from self._reason(delta.reasoning)
        # The text comes before a call that begins in this delta, and after a call that continues in it.
        begins = bool(delta.calls and delta.calls[0].name) and not any(p.withdrawn for p in delta.calls)
        if begins:
            yield from self._say(delta.text)
        for part in delta.calls:
            yield from self._part(part)
        if not begins:
            yield from self._say(delta.text)

    def _reason(self, text: str) -> Iterator[Event]:
        if not isinstance(self._open, Reasoning):
            request = self._request
            yield from self._begin(
                Reasoning("rs_" + self._new_id(), self._told, request.summarized, request.sealed)
            )
        assert self._open is not None
        yield self._open.more(text)

    def _say(self, text: str) -> Iterator[Event]:
        if not text:
            return
        if not isinstance(self._open, Message):
            self._blank += text
            if not self._blank.strip():
                return
            text, self._blank = self._blank, ""
            yield from self._begin_message()
        yield self._write(text)

    def _write(self, text: str) -> Event:
        assert isinstance(self._open, Message)
        self._open.likelihood(self._unplaced)
        self._unplaced = []
        return self._open.more(text)

    def _begin_message(self) -> Iterator[Event]:
        self._messages += 1
        yield from self._begin(Message("msg_" + self._new_id(), self._told))

    def _part(self, part: CallPart) -> Iterator[Event]:
        self._unplaced.clear()
        if part.withdrawn:
            if isinstance(self._open, Call):
                self._calls -= 1
                self._blank = self._blank_before_call
                yield from self._drop()
            return
        if part.name:
            self._call = part.index
            self._calls += 1
            self._blank_before_call, self._blank = self._blank, ""
            name, namespace = self._request.tools.named(part.name)
            yield from self._begin(Call("fc_" + self._new_id(), self._told, part.id, name, namespace))
        if part.arguments:
            assert self._open is not None
            yield self._open.more(part.arguments)

    def _begin(self, item: Item) -> Iterator[Event]:
        yield from self._end(DONE)
        self._open = item
        self._told += 1
        yield from item.begin()

    def _end(self, status: str) -> Iterator[Event]:
        if self._open is not None:
            item, self._open = self._open, None
            self._ended.append(item.shaped(status))
            yield from item.end(status)

    def _drop(self) -> Iterator[Event]:
        """End a call that turned out to be none. The client of a stream has seen it; the answer does not have it."""
        assert self._open is not None
        item, self._open = self._open, None
        yield from item.end(BROKEN)

    def _finish(self, finished: Finished) -> Iterator[Event]:
        cut = finished.reason == "length"
        if self._blank and not self._calls:
            blank, self._blank = self._blank, ""
            yield from self._begin_message()
            yield self._write(blank)
        if not cut and not self._messages and not self._calls:
            yield from self._begin_message()
        yield from self._end(BROKEN if cut else DONE)
        self.finished = finished


class _ReasoningTokens:
    """Counts tokens. A token without text, such as markup or a part of a character, belongs to the next part."""

    def __init__(self) -> None:
        self.count = 0
        self._open = 0

    def take(self, delta: Delta) -> None:
        self._open += len(delta.tokens)
        if delta.text or delta.calls:
            self._open = 0
        elif delta.reasoning:
            self.count += self._open
            self._open = 0
