"""What a client of the official SDK gets for one request, streamed or in one piece, so that it can be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import openai
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionChunk

Piece = Callable[[], None]
"""Called for each piece of a streamed answer that has some of it."""


@dataclass(slots=True)
class Answer:
    """One answer, or as much of it as came before ``error``."""

    text: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Name and arguments of each tool call."""
    finish: str | None = None
    logprobs: list[tuple[str, float]] = field(default_factory=list)
    """The text of each token, with its log-probability."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    error: str = ""

    @property
    def said(self) -> tuple[str, list[tuple[str, str]], str | None]:
        """What was answered, and why it ended there."""
        return self.text, self.calls, self.finish

    @property
    def used(self) -> tuple[int, int]:
        """Tokens of the prompt and of the answer."""
        return self.prompt_tokens, self.completion_tokens

    def take(self, chunk: ChatCompletionChunk) -> bool:
        """Add a piece. Return whether it has some of the answer."""
        if chunk.usage:
            self.count(chunk.usage)
        found = False
        for choice in chunk.choices:
            self.text += choice.delta.content or ""
            for call in choice.delta.tool_calls or ():
                self._take_call(call)
            self._take_logprobs(choice)
            self.finish = choice.finish_reason or self.finish
            found = found or bool(choice.delta.content or choice.delta.tool_calls)
        return found

    def _take_call(self, call: Any) -> None:
        if call.index == len(self.calls):
            self.calls.append(("", ""))
        name, arguments = self.calls[call.index]
        self.calls[call.index] = (
            name + (call.function.name or ""),
            arguments + (call.function.arguments or ""),
        )

    def _take_logprobs(self, choice: Any) -> None:
        if choice.logprobs is not None:
            self.logprobs += [(one.token, one.logprob) for one in choice.logprobs.content or ()]

    def take_whole(self, choice: Any) -> None:
        """Take an answer that came in one piece."""
        self.text = choice.message.content or ""
        self.calls = [
            (call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()
        ]
        self._take_logprobs(choice)
        self.finish = choice.finish_reason

    def count(self, usage: CompletionUsage) -> None:
        """Take what was counted."""
        details = usage.prompt_tokens_details
        self.prompt_tokens, self.completion_tokens = usage.prompt_tokens, usage.completion_tokens
        self.cached_tokens = (details.cached_tokens or 0) if details else 0


async def stream(sdk: openai.AsyncOpenAI, body: Mapping[str, Any], piece: Piece = lambda: None) -> Answer:
    """Ask for a stream and read it to its end."""
    answer = Answer()
    try:
        chunks = await sdk.chat.completions.create(
            **body, stream=True, stream_options={"include_usage": True}
        )
        async for chunk in chunks:
            if answer.take(chunk):
                piece()
    except openai.APIError as error:
        answer.error = f"{type(error).__name__}: {error.message}"
    return answer


async def whole(sdk: openai.AsyncOpenAI, body: Mapping[str, Any]) -> Answer:
    """Ask for an answer in one piece."""
    answer = Answer()
    try:
        done = await sdk.chat.completions.create(**body)
    except openai.APIError as error:
        answer.error = f"{type(error).__name__}: {error.message}"
    else:
        answer.take_whole(done.choices[0])
        answer.count(done.usage)
    return answer
