"""The client of both sides: streamed chat completions over one socket each, read as cheaply as can be."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tokenizers import Tokenizer

WEIGHTS = Path(__file__).parents[2] / "examples" / "models" / "tiny"
COUNT = "Count from 1 to 100."
"""The tiny model answers with 392 tokens."""


Message = dict[str, str]


@dataclass
class Stream:
    """One request: when its events came, and how many tokens the server says there were."""

    sent: float = 0.0
    events: list[float] = field(default_factory=list)
    """When each event with something in it had been read, in seconds of the monotonic clock."""
    ended: float = 0.0
    """When it was over."""
    text: str = ""
    tokens: int = 0

    @property
    def first(self) -> float:
        """Seconds until the first token that has text, or until the end of an answer without any."""
        return (self.events[0] if self.events else self.ended) - self.sent


def said(role: str, text: str) -> Message:
    """A message of a conversation."""
    return {"role": role, "content": text}


async def stream(
    base_url: str,
    model: str,
    prompt: str | Sequence[Message],
    tokens: int,
    begun: asyncio.Event | None = None,
) -> Stream:
    """Ask a question, or go on with a conversation, and read to the end. Raises ``RuntimeError`` for anything but a whole
    answer."""
    messages = [said("user", prompt)] if isinstance(prompt, str) else list(prompt)
    place = urlsplit(base_url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port, limit=1 << 20)
    body = json.dumps(
        {
            "model": model,
            "messages": messages,
            "temperature": 0,
            "max_tokens": tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    head = f"POST {place.path}/chat/completions HTTP/1.1\r\nHost: {place.netloc}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    answer = Stream(sent=time.monotonic())
    writer.write(head.encode() + body)
    try:
        await _read(reader, answer, begun or asyncio.Event())
    finally:
        writer.close()
    return answer


async def _read(reader: asyncio.StreamReader, answer: Stream, begun: asyncio.Event) -> None:
    status = await reader.readline()
    if b" 200 " not in status:
        raise RuntimeError(f"{status!r}: {await reader.read(2000)!r}")
    while line := await reader.readline():
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if "error" in event:
            raise RuntimeError(f"the stream ended with {event['error']}")
        if usage := event.get("usage"):
            answer.tokens = usage["completion_tokens"]
        if text := _text(event):
            answer.text += text
            answer.events.append(time.monotonic())
            begun.set()
    answer.ended = time.monotonic()
    if not answer.tokens:
        raise RuntimeError(f"the stream was cut after {len(answer.events)} events")


def _text(event: dict[str, object]) -> str:
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices:
        return ""
    return choices[0]["delta"].get("content") or ""


def long_text(tokens: int) -> str:
    """Text of about so many tokens of the tiny model, and not the same all over."""
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    sentence = "The node {} of the cluster holds a part of the model and answers when it is asked. "
    length = len(tokenizer.encode(sentence.format(500)).ids)
    return "".join(sentence.format(number) for number in range(max(1, tokens // length)))


@dataclass(frozen=True)
class Decoded:
    """Some streams that ran together."""

    streams: tuple[Stream, ...]

    @property
    def tokens(self) -> int:
        return sum(one.tokens for one in self.streams)

    @property
    def seconds(self) -> float:
        """From the first token of any to the last of all."""
        return max(one.events[-1] for one in self.streams) - min(one.events[0] for one in self.streams)

    @property
    def tokens_per_second(self) -> float:
        return (self.tokens - len(self.streams)) / self.seconds


async def together(base_url: str, model: str, streams: int, tokens: int) -> Decoded:
    """So many equal streams at once."""
    requests = [stream(base_url, model, COUNT, tokens) for _ in range(streams)]
    return Decoded(tuple(await asyncio.gather(*requests)))
