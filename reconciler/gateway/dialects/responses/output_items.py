"""The items of an answer, and the events about each item while it is written. Pure.

The fields and their order are those of OpenAI's published API, and so is the order of the events. An item is added,
then its part. Text follows in deltas. Then text, part and item are done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.gateway.dialects.openai.logprobs import text_logprobs
from reconciler.wire.generation import TokenLogprobs

from .items import seal

Event = tuple[str, Mapping[str, Any]]
"""The type of an event and its fields, without ``type`` and ``sequence_number``, which all events have."""

DONE, BROKEN, OPEN = "completed", "incomplete", "in_progress"
"""Values of ``status``."""


class Item(ABC):
    """An item of an answer."""

    def __init__(self, id: str, index: int) -> None:
        """``index`` is its place among the items that were announced to the client."""
        self.index = index
        self._id = id
        self._at = {"item_id": id, "output_index": index}
        self._text: list[str] = []

    @property
    def text(self) -> str:
        """Return the text so far."""
        return "".join(self._text)

    def begin(self) -> Iterator[Event]:
        """Announce its beginning."""
        yield "response.output_item.added", {"output_index": self.index, "item": self.shaped(OPEN)}

    @abstractmethod
    def more(self, text: str) -> Event:
        """Add text, and announce it."""

    @abstractmethod
    def shaped(self, status: str) -> Mapping[str, Any]:
        """Return the item in the form of JSON."""

    def end(self, status: str) -> Iterator[Event]:
        """Announce its end."""
        yield "response.output_item.done", {"output_index": self.index, "item": self.shaped(status)}


class Message(Item):
    """Text for the client."""

    def __init__(self, id: str, index: int) -> None:
        super().__init__(id, index)
        self._at = {**self._at, "content_index": 0}
        self._logprobs: list[TokenLogprobs] = []
        self._new: Sequence[TokenLogprobs] = ()

    def begin(self) -> Iterator[Event]:
        yield from super().begin()
        yield "response.content_part.added", {**self._at, "part": self._part("", ())}

    def likelihood(self, tokens: Sequence[TokenLogprobs]) -> None:
        """Note the log-probabilities of the tokens of the text that is added next."""
        self._new = tokens
        self._logprobs.extend(tokens)

    def more(self, text: str) -> Event:
        self._text.append(text)
        new, self._new = text_logprobs(self._new), ()
        return "response.output_text.delta", {**self._at, "delta": text, "logprobs": new}

    def end(self, status: str) -> Iterator[Event]:
        text, logprobs = self.text, text_logprobs(self._logprobs)
        yield "response.output_text.done", {**self._at, "text": text, "logprobs": logprobs}
        yield "response.content_part.done", {**self._at, "part": self._part(text, self._logprobs)}
        yield from super().end(status)

    def _part(self, text: str, logprobs: Sequence[TokenLogprobs]) -> Mapping[str, Any]:
        return {
            "type": "output_text",
            "annotations": [],
            "logprobs": text_logprobs(logprobs),
            "text": text,
        }

    def shaped(self, status: str) -> Mapping[str, Any]:
        content = [] if status == OPEN else [self._part(self.text, self._logprobs)]
        return {
            "id": self._id,
            "type": "message",
            "status": status,
            "content": content,
            "role": "assistant",
        }


class Reasoning(Item):
    """Reasoning, as it is or, if the client shows only summaries, as a summary of itself."""

    def __init__(self, id: str, index: int, summarized: bool, sealed: bool) -> None:
        super().__init__(id, index)
        self._summarized = summarized
        self._sealed = sealed
        self._at = {**self._at, "summary_index" if summarized else "content_index": 0}
        self._name = "response.reasoning_summary_text" if summarized else "response.reasoning_text"
        self._part_name = "response.reasoning_summary_part" if summarized else "response.content_part"

    def begin(self) -> Iterator[Event]:
        yield from super().begin()
        yield f"{self._part_name}.added", {**self._at, "part": self._part("")}

    def more(self, text: str) -> Event:
        self._text.append(text)
        return f"{self._name}.delta", {**self._at, "delta": text}

    def end(self, status: str) -> Iterator[Event]:
        text = self.text
        yield f"{self._name}.done", {**self._at, "text": text}
        yield f"{self._part_name}.done", {**self._at, "part": self._part(text)}
        yield from super().end(status)

    def _part(self, text: str) -> Mapping[str, Any]:
        return {"type": "summary_text" if self._summarized else "reasoning_text", "text": text}

    def shaped(self, status: str) -> Mapping[str, Any]:
        parts = [] if status == OPEN else [self._part(self.text)]
        item: dict[str, Any] = {"id": self._id, "type": "reasoning", "status": status}
        item["summary"] = parts if self._summarized else []
        if not self._summarized:
            item["content"] = parts
        if self._sealed:
            item["encrypted_content"] = None if status == OPEN else seal(self.text)
        return item


class Call(Item):
    """A call of a function."""

    def __init__(self, id: str, index: int, call_id: str, name: str, namespace: str | None) -> None:
        super().__init__(id, index)
        self._call_id = call_id
        self._name = name
        self._namespace = namespace

    def more(self, text: str) -> Event:
        self._text.append(text)
        return "response.function_call_arguments.delta", {**self._at, "delta": text}

    def end(self, status: str) -> Iterator[Event]:
        if status == DONE:
            yield (
                "response.function_call_arguments.done",
                {**self._at, "name": self._name, "arguments": self.text},
            )
        yield from super().end(status)

    def shaped(self, status: str) -> Mapping[str, Any]:
        space = {} if self._namespace is None else {"namespace": self._namespace}
        return {
            "id": self._id,
            "type": "function_call",
            "status": status,
            "arguments": self.text,
            "call_id": self._call_id,
            "name": self._name,
            **space,
        }
