"""Schemas of tools that are drawn to cost time: ``python -m tests.runner.forms.hostile_schemas COUNT`` has each compiled, and
prints for each whether calls can be held to it, or the path of what cannot."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

from llguidance import LLMatcher, LLParserLimits

from reconciler.runner.forms.matching import LIMITS, compiling_thread
from reconciler.runner.forms.schemas import Inexpressible
from reconciler.runner.markup.families import FAMILIES
from reconciler.wire.form import Form

from .walks import Vocabulary, function, grammar

ATOMS = ["a", "b", "[ab]", "[^a]", ".", r"\d", r"\w", r"\s", "\u00e9", "(?:)", "1"]
ODD = [
    r"\1",
    "(?=a)",
    "(?<!b)",
    r"\p{L}",
    r"\P{N}",
    r"\b",
    "(?i)",
    "^",
    "$",
    "(",
    "[",
    "*",
    "(?P<n>a)",
    "(?>a+)",
    "\\",
]
TIMES = ["*", "+", "?", "{2}", "{1,3}", "*?", "+?"]
MANY_TIMES = [*TIMES, "{1,1000}", "{0,65535}", "{1,100000}", "{99999999999}", "{5,2}", "{,9}"]

SIZES = [
    (2_000_000, 3000, 0),
    (100_000, 3900, 0),
    (1000, 3000, 0),
    (0, 3900, 0),
    (0, 20, 3900),
    (0, 1, 1900),
    (0, 1, 9000),
]
"""Characters of a definition, arguments, and definitions that lead to one another."""
LINKS: list[Callable[[str, int], dict[str, Any]]] = [
    lambda to, at: {"$ref": to},
    lambda to, at: {"type": "array", "items": {"$ref": to}, "minItems": at % 3},
    lambda to, at: {"type": "object", "properties": {"k": {"$ref": to}}, "required": ["k"]},
    lambda to, at: {"anyOf": [{"$ref": to}, {"type": "null"}]},
]


def pattern_of(drawn: random.Random, depth: int, nested: bool = True) -> str:
    """A regular expression; unless ``nested``, one that any engine can match quickly and that means the same to all."""
    kind = drawn.random()
    if not depth or kind < 0.2:
        return drawn.choice(ODD) if nested and drawn.random() < 0.05 else drawn.choice(ATOMS)
    if kind < 0.5:
        return "".join(pattern_of(drawn, depth - 1, nested) for _ in range(drawn.randrange(1, 4)))
    if kind < 0.7:
        return f"(?:{'|'.join(pattern_of(drawn, depth - 1, nested) for _ in range(drawn.randrange(2, 5)))})"
    if not nested:
        return drawn.choice(ATOMS) + drawn.choice(TIMES[:5])
    return f"({pattern_of(drawn, depth - 1)}){drawn.choice(MANY_TIMES)}"


def schema_of(drawn: random.Random, depth: int = 3) -> dict[str, Any]:
    """The parameters of a tool."""
    if depth == 3 and drawn.random() < 0.2:
        return _repeated(drawn)
    return {
        "type": "object",
        "properties": {f"p{at}": _value(drawn, depth) for at in range(drawn.choice([1, 1, 2, 3, 9]))},
        "required": ["p0"],
    }


def _repeated(drawn: random.Random) -> dict[str, Any]:
    """Much of the same: arguments, definitions beside each of them, and definitions that lead to one another."""
    size, count, chain = drawn.choice(SIZES)
    kind: dict[str, Any] = drawn.choice([{"type": "integer"}, {"type": "string"}])
    bound = "minimum" if kind["type"] == "integer" else "minLength"
    names = [f"p{at}" for at in range(count)]
    links = {f"d{at}": drawn.choice(LINKS)(f"#/$defs/d{at + 1}", at) for at in range(chain)}
    first = {"p0": {"$ref": "#/$defs/d0"}} if chain else {}
    return {
        "type": "object",
        "properties": {name: {**kind, bound: at} for at, name in enumerate(names)} | first,
        "required": drawn.choice([names, names[:1], names[::2]]),
        "$defs": {**links, f"d{chain}": {"type": "string", "description": "x" * size}},
    }


def _value(drawn: random.Random, depth: int) -> dict[str, Any]:
    kind = drawn.random()
    if depth and kind < 0.15:
        return schema_of(drawn, depth - 1)
    if depth and kind < 0.25:
        return {
            "type": "array",
            "items": _value(drawn, depth - 1),
            "maxItems": drawn.choice([2, 1000, 10**9]),
        }
    text: dict[str, Any] = {"type": "string"}
    if drawn.random() < 0.9:
        text["pattern"] = drawn.choice(["^{}$", "{}"]).format(pattern_of(drawn, 5))
    if drawn.random() < 0.7:
        longest = drawn.choice([5, 50, 2000])
        text["enum"] = [
            drawn.choice(["a", "ab", "a1 ", "\u00e9"]) * drawn.randrange(longest) + drawn.choice(["", "!"])
            for _ in range(drawn.choice([1, 3, 100]) if longest < 2000 else 3)
        ]
    if drawn.random() < 0.2:
        text["maxLength"] = drawn.choice([0, 9, 10**6, 10**12])
    return text


def outcome(drawn: random.Random, vocabulary: Vocabulary) -> str:
    known = drawn.choice(FAMILIES).family
    tools = (function("f", schema_of(drawn)),)
    try:
        written = grammar(Form(calls_required=True), known, vocabulary, tools)
    except Inexpressible as refused:
        return refused.path
    made = LLMatcher(vocabulary.matching, written, log_level=0, limits=LLParserLimits(**LIMITS))
    made.compute_bitmask()
    return "tools[0].function.parameters: " + made.get_error()[:60] if made.is_error() else "held"


if __name__ == "__main__":
    plain = Vocabulary(())
    with compiling_thread() as thread:
        for seed in range(int(sys.argv[1])):
            found = thread.submit(outcome, random.Random(seed), plain).result()
            print(found.replace("\n", " "), flush=True)
