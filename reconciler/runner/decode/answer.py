"""The tokens of one answer as text, reasoning, tool calls and the reason to finish."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from reconciler.runner.model.adapter import FOREIGN_ERRORS, Tokenizer, stop_scanner
from reconciler.wire.generation import Delta, Finished, Generate, ToolCall

Event = Delta | ToolCall | Finished


@dataclasses.dataclass
class _Pending:
    """The content of the next events."""

    tokens: list[int] = dataclasses.field(default_factory=list)
    text: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = dataclasses.field(default_factory=list)


class Answer:
    """Takes tokens, gives events, as ``wire.generation`` says.

    Text is held back while it may turn out to be markup or one of the request's stop strings.
    """

    def __init__(self, generate: Generate, prompt: list[int], tokenizer: Tokenizer) -> None:
        """Continues after ``generate.resume``, whose events were already sent by another rank."""
        self.stopped = False
        """The answer is over: by an end token or one of the request's stop strings."""
        self.request = generate.request
        self._generate = generate
        self._tokenizer = tokenizer
        self._prompt_tokens = len(prompt)
        self._tokens = 0
        self._calls = 0
        self._detokenizer = tokenizer.detokenizer()
        self._stop = stop_scanner(generate.stop)
        literal = generate.prompt is not None or generate.prompt_tokens is not None
        self._markup = stop_scanner(()) if literal else tokenizer.markup(prompt)
        self._tool: str | None = None
        self._reasoning = False
        self._end_token: tuple[int, ...] = ()
        self._pending = _Pending()
        for token in generate.resume:
            if not self.stopped:
                self.take(token)
        # Text was sent with its tokens; a tool call may have been lost in transit, and has an index of its own.
        self._pending = _Pending(calls=self._pending.calls)
        self._text_sent = bool(generate.resume)

    def take(self, token: int) -> None:
        """Take the next token of the answer."""
        self._text_sent = False
        if token in self._tokenizer.end_ids:
            self.stopped = True
            self._end_token = (token,)
            return
        self._tokens += 1
        self._pending.tokens.append(token)
        self._read(self._detokenizer.text(token))

    def events(self) -> list[Event]:
        """Return the new events since the last call."""
        pending, self._pending = self._pending, _Pending()
        events: list[Event] = [*pending.calls]
        if pending.tokens or pending.text or pending.reasoning:
            events.append(
                Delta(self._generate.request, tuple(pending.tokens), pending.text, pending.reasoning)
            )
        return events

    def finish(self, reason: str) -> list[Event]:
        """Return the last events. ``reason`` is ``stop``, ``length`` or ``cancelled``."""
        if reason != "cancelled":
            self._flush_held()
        if reason == "stop" and self._calls:
            reason = "tool_calls"
        last = Finished(self._generate.request, reason, self._prompt_tokens, self._tokens)
        return [*self.events(), last]

    def _flush_held(self) -> None:
        """Emit the held text, together with the token that ended the answer.

        A continued answer with tokens up to there knows that all of its text was sent.
        """
        if not self._stop.over:
            self._read(self._detokenizer.rest())
        if not self._stop.over:
            self._split(self._stop.rest())
        self._place(self._markup.rest())
        self._close_tool("")
        if self._pending.text or self._pending.reasoning:
            self._pending.tokens.extend(self._end_token)
        if self._text_sent:
            self._pending = _Pending(calls=self._pending.calls)

    def _read(self, text: str) -> None:
        self._split("".join(part for _, part in self._stop.segments(text)))
        self.stopped = self.stopped or self._stop.over

    def _split(self, text: str) -> None:
        for state, part in self._markup.segments(text):
            if state == "tool" and self._tool is None:
                self._tool = ""
            elif state != "tool" and self._tool is not None:
                self._close_tool(self._tokenizer.tool_end)
            self._place(part, reasoning=state == "reasoning")
        self._reasoning = state == "reasoning"

    def _place(self, text: str, reasoning: bool | None = None) -> None:
        if self._tool is not None:
            self._tool += text
        elif self._reasoning if reasoning is None else reasoning:
            self._pending.reasoning += text
        else:
            self._pending.text += text

    def _close_tool(self, end: str) -> None:
        """Turn collected markup into tool calls, or back into text when it is none or none was asked for."""
        markup, self._tool = self._tool, None
        if markup is None:
            return
        calls = self._parsed(markup) if self._generate.tools else []
        if not calls:
            self._pending.text += self._tokenizer.tool_start + markup + end
        for name, arguments in calls[: self._calls_left()]:
            self._pending.calls.append(ToolCall(self._generate.request, self._calls, name, arguments))
            self._calls += 1
        if self._calls and self._calls_left() == 0:
            self.stopped = True

    def _calls_left(self) -> int | None:
        most = self._generate.tool_calls_max
        return None if most is None else max(0, most - self._calls)

    def _parsed(self, markup: str) -> list[tuple[str, str]]:
        try:
            return [_call(call) for call in self._tokenizer.parse_tool_calls(markup, self._generate.tools)]
        except (*FOREIGN_ERRORS, MemoryError):  # the latter is how Python's parser refuses deep nesting
            return []  # the model wrote something else than a call: it is text then


def _call(call: Mapping[str, Any]) -> tuple[str, str]:
    """Return name and arguments as JSON text. Raises ``ValueError`` or ``LookupError`` for an invalid call."""
    name, arguments = call["name"], call.get("arguments", {})
    if not isinstance(name, str) or not name:
        raise ValueError("a tool call needs a name")
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    return name, json.dumps(arguments, ensure_ascii=False, allow_nan=False)
