"""What agents say, drawn from a random generator, and nothing else: no clock, no socket."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

CONTEXT = 4096
"""Tokens, what the tiny model has positions for."""
LENGTH_MAX = 2400
"""Tokens of a conversation that is not gone on with."""
CALLS_LENGTH_MAX = 400
"""The same of one in which tools are called: the tiny model calls none after much text."""
PASTED_WORDS = (150, 350)
"""A word is two to three tokens."""
ANSWER_TOKENS = (8, 60)
LEAVES = 0.04
"""After a turn, an agent begins another conversation so often."""
CANCELS = 0.12
STREAMS = 0.75
KINDS = {"ask": 45, "call": 25, "paste": 8, "draw": 14, "long": 8}
"""Of turns, with their weights: a question; one that a tool answers; a long text; an answer that is drawn, and
penalized; a long answer."""

QUESTIONS = (
    "What is reconciler?", "What is a node?", "What is a rank?", "What is a group?", "What is an epoch?",
    "Who are you?", "Hello", "What happens when a rank dies?", "How do I deploy a change?",
    "What is a replica?", "What is the gateway?", "What does the controller do?", "What does the agent do?",
    "What is JACCL?", "Tell me about the sea.", "What is the ring backend?", "Thank you",
)  # fmt: skip
LONG_ANSWERS = ("Count from 1 to 100.", "Recite the alphabet four times.", "Tell me a story.")
WORDS = (
    "def", "class", "return", "import", "value", "node", "rank", "group", "epoch", "token", "step", "cache", "prefix",
    "shard", "layer", "weight", "queue", "socket", "frame", "byte", "read", "write", "open", "close", "start", "stop",
    "wait", "plan", "act", "store", "event", "path", "name", "size", "count",
)  # fmt: skip


def tool(name: str, description: str, parameter: str) -> dict[str, Any]:
    """One with a parameter that is a string."""
    parameters = {"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = (
    tool("reboot_node", "Reboot a node", "node"),
    tool("read_file", "Read a file", "path"),
    tool("search_docs", "Search for something.", "query"),
)
CALLS = ("Please reboot node studio-{}.", "Read the file mini-{}.", "Search for lake-{}.")


@dataclass(frozen=True)
class Project:
    """What all conversations about one thing begin with."""

    system: str
    tools: Sequence[dict[str, Any]] = ()
    length_max: int = LENGTH_MAX


def projects() -> list[Project]:
    """Short and long system prompts, with and without tools; the same ones in every run."""
    rng = random.Random(17)
    return [
        Project("You are a helpful agent. Be brief."),
        Project("You look after machines.", TOOLS[:1], CALLS_LENGTH_MAX),
        Project("You look things up.", TOOLS, CALLS_LENGTH_MAX),
        Project("You review code. " + prose(rng, 120)),
        Project("You write code. " + prose(rng, 250), TOOLS),
        Project("You look after machines. " + prose(rng, 350), TOOLS[:1]),
    ]


def prose(rng: random.Random, words: int) -> str:
    """So many words."""
    return " ".join(rng.choice(WORDS) for _ in range(words))


@dataclass(frozen=True)
class Request:
    """The next request of a conversation."""

    body: dict[str, Any]
    streamed: bool
    cancelled_after: int | None = None
    """Pieces of the answer after which the client goes away; 0: before the first. None: it stays."""

    @property
    def is_greedy(self) -> bool:
        """Whether the same request has the same answer at any time, without a seed."""
        return bool(self.body["temperature"] == 0)


@dataclass
class Conversation:
    """One agent's, from its system prompt on."""

    rng: random.Random
    project: Project
    messages: list[dict[str, Any]] = field(default_factory=list)
    tokens: int = 0
    """Of prompt and answer in the last turn."""
    _calls: int = 0

    def __post_init__(self) -> None:
        self.messages.append({"role": "system", "content": self.project.system})

    @property
    def is_over(self) -> bool:
        """Whether the agent begins another one. Draws."""
        return self.tokens > self.project.length_max or self.rng.random() < LEAVES

    def next(self, model: str) -> Request:
        """Add what the agent says next, unless its last message has no answer yet."""
        rng = self.rng
        kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
        if self.messages[-1]["role"] in ("system", "assistant"):
            self.messages.append({"role": "user", "content": self._content(kind)})
        tokens = 200 if kind == "long" else rng.randint(*ANSWER_TOKENS)
        body: dict[str, Any] = {
            "model": model,
            "messages": list(self.messages),
            "temperature": 0,
            "max_tokens": tokens,
        }
        if self.project.tools:
            body["tools"] = list(self.project.tools)
        if kind == "draw":
            body |= self._drawn()
        cancelled = rng.choice((0, 0, 1, 3, 10)) if rng.random() < CANCELS else None
        streamed = cancelled is not None or rng.random() < STREAMS
        return Request(body, streamed, cancelled)

    def _content(self, kind: str) -> str:
        rng = self.rng
        match kind:
            case "call" if self.project.tools:
                return CALLS[rng.randrange(len(self.project.tools))].format(rng.randrange(100))
            case "paste":
                return prose(rng, rng.randint(*PASTED_WORDS)) + "\n" + rng.choice(QUESTIONS)
            case "long":
                return rng.choice(LONG_ANSWERS)
            case _:
                return rng.choice(QUESTIONS)

    def _drawn(self) -> dict[str, Any]:
        rng = self.rng
        drawn: dict[str, Any] = {"temperature": rng.choice((0.3, 0.7, 1.0)), "seed": rng.randrange(1 << 31)}
        drawn |= rng.choice(
            (
                {},
                {"frequency_penalty": 0.4, "presence_penalty": 0.3},
                {"extra_body": {"repetition_penalty": 1.15, "top_k": 20}},
                {"logprobs": True, "top_logprobs": 3},
            )
        )
        return drawn

    def answered(self, text: str, calls: Sequence[tuple[str, str]], tokens: int) -> None:
        """Take an answer; of each call, the result comes at once."""
        self.tokens = tokens
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{self._calls + at}",
                    "type": "function",
                    "function": {"name": name, "arguments": arguments},
                }
                for at, (name, arguments) in enumerate(calls)
            ]
        self.messages.append(message)
        for _ in calls:
            self.messages.append({"role": "tool", "tool_call_id": f"call_{self._calls}", "content": "ready"})
            self._calls += 1
