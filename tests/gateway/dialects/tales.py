"""Answers as a rank sends them, made up: any order of text, reasoning and calls, cut into any deltas."""

from __future__ import annotations

import dataclasses
import json
from random import Random

from reconciler.gateway.events import Answer
from reconciler.wire.generation import Accepted, CallPart, Delta, Finished, ToolCall

WORDS = (
    "",
    "a",
    " ",
    "\n\n",
    "Rome ",
    "naïve 🦙",
    '"quoted" \\',
    "data: [DONE]\n\n",
    "event: error",
    "\u2028",
)
NAMES = ("look", "get_weather", "Read")
VALUES = ("", "Zoë", 5, None, True, ["x"], {"a": {"b": "🦙"}}, '"}{', "\n")
BROKEN = ('{"at": ', "{", '{"a":1,', "")
PROMPT_MAX = 40


@dataclasses.dataclass
class Tale:
    """An answer in the making, and what it says in the end."""

    rng: Random
    events: list[Answer] = dataclasses.field(default_factory=list)
    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, object]] = dataclasses.field(default_factory=list)
    """Name and arguments of those that are not withdrawn."""
    begun: int = 0
    tokens: int = 0

    @property
    def finished(self) -> Finished:
        """The last event."""
        last = self.events[-1]
        assert isinstance(last, Finished)
        return last

    def say(self, text: str = "", reasoning: str = "", *calls: CallPart) -> None:
        count = self.rng.randint(1, 3)
        tokens = tuple(range(self.tokens, self.tokens + count))
        self.tokens += count
        self.text += text
        self.reasoning += reasoning
        self.events.append(Delta("", tokens, text, reasoning, calls))

    def speak(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            self.say(self.rng.choice(WORDS))

    def reason(self) -> None:
        for _ in range(self.rng.randint(1, 3)):
            self.say("", self.rng.choice(WORDS))
        if self.rng.random() < 0.3:
            self.say(self.rng.choice(WORDS), self.rng.choice(WORDS))

    def call(self) -> None:
        """A call in parts; the first may come with text before it, the last with text after it."""
        name, arguments = self._called()
        written = json.dumps(arguments)
        parts = [CallPart(self.begun, name, f"call_{self.begun}"), *self._cut(written)]
        self.begun += 1
        self.say(self.rng.choice(("", "", "so: ")), "", parts[0])
        for part in parts[1:-1]:
            self.say("", "", part)
        self.say(self.rng.choice(("", "", "done")), "", parts[-1])

    def call_at_once(self) -> None:
        """A call in one delta."""
        name, arguments = self._called()
        part = CallPart(self.begun, name, f"call_{self.begun}", json.dumps(arguments))
        self.begun += 1
        self.say("", "", part)

    def call_as_before(self) -> None:
        """A call as ranks of an earlier version send it."""
        name, arguments = self._called()
        self.events.append(ToolCall("", self.begun, name, json.dumps(arguments)))
        self.begun += 1

    def withdraw(self) -> None:
        """What looks like a call and is none."""
        first = CallPart(self.begun, self.rng.choice(NAMES), f"call_{self.begun}")
        more = CallPart(self.begun, arguments=self.rng.choice(BROKEN))
        last = CallPart(self.begun, withdrawn=True)
        self.begun += 1
        if self.rng.random() < 0.3:
            self.say("<broken>", "", first, more, last)
            return
        self.say("", "", first)
        self.say("", "", more)
        self.say("<broken>", "", last)

    def finish(self, stops: tuple[str, ...], tokens_max: int) -> None:
        prompt = self.rng.randint(1, PROMPT_MAX)
        self.events.insert(0, Accepted("", tuple(range(prompt))))
        reason = "tool_calls" if self.calls else self.rng.choice(("stop", "length"))
        stop = self.rng.choice(stops) if stops and reason == "stop" and self.rng.random() < 0.5 else None
        count = tokens_max if reason == "length" and self.rng.random() < 0.5 else self.tokens
        self.events.append(Finished("", reason, prompt, count, self.rng.randint(0, prompt - 1), stop=stop))

    def _called(self) -> tuple[str, dict[str, object]]:
        name = self.rng.choice(NAMES)
        arguments: dict[str, object] = {
            f"k{number}": self.rng.choice(VALUES) for number in range(self.rng.randint(0, 3))
        }
        self.calls.append((name, arguments))
        return name, arguments

    def _cut(self, text: str) -> list[CallPart]:
        cuts = sorted(self.rng.sample(range(1, len(text)), self.rng.randint(1, min(3, len(text) - 1))))
        ends = [*cuts, len(text)]
        return [
            CallPart(self.begun, arguments=text[start:end])
            for start, end in zip([0, *cuts], ends, strict=True)
        ]


def told(rng: Random, with_calls: bool = True, stops: tuple[str, ...] = (), tokens_max: int = 1000) -> Tale:
    """Make one up."""
    tale = Tale(rng)
    kinds = [tale.speak, tale.reason, tale.speak]
    if with_calls:
        kinds += [tale.call, tale.call_at_once, tale.call_as_before, tale.withdraw]
    for _ in range(rng.randint(0, 6)):
        rng.choice(kinds)()
    tale.finish(stops, tokens_max)
    return tale
