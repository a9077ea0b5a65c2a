"""Stretches of answers as a group sends them, by short names, and whole answers that are made of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from random import Random

from reconciler.gateway.events import Answer, Part, Reading, Waiting, Working
from reconciler.wire.generation import (
    Accepted,
    CallPart,
    Delta,
    Finished,
    Likely,
    Replaced,
    Scored,
    TokenLogprobs,
    ToolCall,
)


def token(text: str | bytes, *likely: str, logprob: float = -0.5) -> TokenLogprobs:
    """A token with its log-probability; bytes are a part of a character."""
    written = text.encode() if isinstance(text, str) else text
    shown = text if isinstance(text, str) else "\ufffd"
    others = tuple(Likely(9, each, -1.0, tuple(each.encode())) for each in likely)
    return TokenLogprobs(Likely(7, shown, logprob, tuple(written)), others)


UNKNOWN = TokenLogprobs(
    Likely(8, "<end>", -0.25, None), (Likely(8, "<end>", -0.25, None), Likely(3, "z", -2.0, (122,)))
)


def delta(
    text: str = "",
    reasoning: str = "",
    *calls: CallPart,
    tokens: int = 1,
    logprobs: Sequence[TokenLogprobs] = (),
) -> Delta:
    return Delta("", tuple(range(50, 50 + tokens)), text, reasoning, calls, tuple(logprobs))


def begun(index: int, name: str = "f", arguments: str = "") -> CallPart:
    return CallPart(index, name, f"call{index}", arguments)


STRETCHES: Mapping[str, Sequence[Part]] = {
    "text": [delta("Hello"), delta(" wörld", tokens=2)],
    "blank": [delta(" "), delta("\n\n")],
    "blank-text": [delta("\n"), delta("\nword ")],
    "nothing": [delta(), delta("", tokens=0)],
    "reasoning": [delta("", "hm"), delta("", " so", tokens=3)],
    "blank-reasoning": [delta("", " ")],
    "both": [delta("word", "hm")],
    "markup-reasoning": [delta(), delta("", "hm", tokens=2), delta(tokens=4)],
    "call": [delta("", "", begun(0)), delta("", "", CallPart(0, arguments='{"a":')), delta("", "", CallPart(0, arguments="1}"))],
    "call-at-once": [delta("", "", begun(1, "g", '{"b":2}'))],
    "two-at-once": [delta("", "", begun(2, "f", "{}"), begun(3, "g", '{"c":3}'))],
    "call-split": [delta("", "", begun(4), CallPart(4, arguments='{"x":'), CallPart(4, arguments="0}"))],
    "call-after-text": [delta("so: ", "", begun(5)), delta("", "", CallPart(5, arguments="{}"))],
    "text-after-call": [delta("", "", begun(6)), delta("done", "", CallPart(6, arguments="{}"))],
    "call-empty": [delta("", "", begun(7))],
    "withdrawn": [delta("", "", begun(8)), delta("", "", CallPart(8, arguments="{")), delta("<bad>", "", CallPart(8, withdrawn=True))],
    "withdrawn-bare": [delta("", "", begun(9)), delta("<bad>", "", CallPart(9, withdrawn=True))],
    "withdrawn-at-once": [delta("<bad>", "", begun(10), CallPart(10, arguments="{"), CallPart(10, withdrawn=True))],
    "withdrawn-next": [
        delta("", "", begun(11)), delta("", "", CallPart(11, arguments="{")),
        delta("<bad>", "", CallPart(11, withdrawn=True), begun(12, "g", "{}")),
    ],
    "end-and-next": [delta("", "", begun(13)), delta("", "", CallPart(13, arguments="{}"), begun(14, "g", '{"d":4}'))],
    "broken": [delta("", "", begun(15, "f", "[1]")), delta("", "", begun(16, "f", '{"a"'))],
    "older-call": [ToolCall("", 0, "f", '{"a":1}')],
    "older-call-again": [ToolCall("", 0, "f", '{"a":1}'), ToolCall("", 1, "g", "{}"), ToolCall("", 0, "f", '{"a":1}')],
    "scores": [delta("ab", tokens=2, logprobs=[token("a", "a", "b"), token("b", "c")])],
    "scores-only": [delta("", tokens=1, logprobs=[token("a")])],
    "scores-parts": [delta("", logprobs=[token(b"\xf0\x9f")]), delta("🦙", logprobs=[token(b"\xa6\x99", "x")])],
    "scores-unknown": [delta("x", logprobs=[token("x", "y"), UNKNOWN], tokens=2)],
    "scores-reasoning": [delta("", "hm", logprobs=[token("hm")]), delta("x", logprobs=[token("x")])],
    "scores-call": [delta("", "", begun(17, "f", "{}"), logprobs=[token("call")]), delta("x")],
    "prompt-scores": [Scored("", 0, (token("p"), token("q", "r"))), Scored("", 2, (token("s"),)), Scored("", 1, (token("t"), token("u")))],
    "working": [Working(0, 3, ("a", "b"))],
    "waiting": [Waiting("turn"), Waiting("group")],
    "reading": [Reading(5, 10), Reading(8, 10)],
    "surrogate": [delta("\ud83e"), delta("", "\ud83e", begun(18, "f", '{"a":"\ud83e"}'))],
}  # fmt: skip
REPORTS = ("working", "waiting", "reading")
ENDS: Mapping[str, Finished] = {
    "stop": Finished("", "stop", 3, 7),
    "cached": Finished("", "stop", 3, 7, 2),
    "length": Finished("", "length", 3, 20),
    "short": Finished("", "length", 3, 19),
    "long": Finished("", "length", 3, 21),
    "calls": Finished("", "tool_calls", 3, 7, 1),
    "word": Finished("", "stop", 3, 7, stop="so"),
    "call-word": Finished("", "tool_calls", 3, 7, stop="so"),
    "repeated": Finished("", "stop", 3, 7, repeated=True),
}
BEGINNING = Accepted("", (1, 2, 3), "prompt", replaced=(Replaced("images", 2),))


@dataclasses.dataclass(frozen=True)
class Case:
    """An answer by a name that says of what it is made."""

    name: str
    parts: Sequence[Part]
    end: Finished

    @property
    def answers(self) -> Sequence[Answer]:
        """Without reports, which only chat completions get."""
        parts = [part for part in self.parts if not isinstance(part, Working | Waiting | Reading)]
        return [BEGINNING, *parts, self.end]

    @property
    def all(self) -> Sequence[Part]:
        return [BEGINNING, *self.parts, self.end]


def case(names: Sequence[str], end: str) -> Case:
    """One answer; the calls of each stretch have indexes of their own."""
    return Case(" ".join([*names, end]), [part for name in names for part in STRETCHES[name]], ENDS[end])


def single() -> list[Case]:
    return (
        [case((name,), "stop") for name in STRETCHES]
        + [case(("text",), end) for end in ENDS]
        + [case((), "stop")]
    )


def several(number: int) -> list[Case]:
    """Answers of two stretches, then of any number."""
    rng, found = Random("answers"), []
    names = list(STRETCHES)
    for at, first in enumerate(names):
        found += [case((first, names[(at + step) % len(names)]), "stop") for step in (1, 9, 22)]
    found += [case(("reasoning", name), "length") for name in names]
    found += [case(rng.sample(names, rng.randint(3, 7)), rng.choice(list(ENDS))) for _ in range(number)]
    return found
